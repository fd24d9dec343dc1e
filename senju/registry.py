"""Classes by name: built-in, registered by users, or as `package.module:Class`."""

import importlib
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from senju.config import Part, nearest, shown, validated
from senju.errors import ConfigError, UnknownNameError
from senju.trust import module_in, prepare_import

T = TypeVar("T")


class Registry(Generic[T]):
    """Classes of one kind by name; built-in ones are imported on first use."""

    def __init__(self, kind: str, base: type[T], built_in: Mapping[str, str]) -> None:
        self.kind = kind
        self._base = base
        self._paths = dict(built_in)
        self._classes: dict[str, type[T]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._classes or name in self._paths

    def names(self) -> list[str]:
        """All registered names, sorted."""
        return sorted({*self._paths, *self._classes})

    def register(self, name: str, cls: type[T]) -> None:
        """Register a user's class as `name`."""
        if name in self:
            raise ConfigError(f"{self.kind} {name!r} is already registered")
        self._classes[name] = self._of_this_kind(name, cls)

    def get(self, name: str) -> type[T]:
        """The class of that name, or at `package.module:Class`."""
        if not isinstance(name, str):
            name = shown(name)
        if name in self._classes:
            return self._classes[name]
        if name not in self._paths and ":" not in name:
            raise UnknownNameError(f"unknown {self.kind} {name!r}; {nearest(name, self.names())}")
        path = self._paths.get(name, name)
        cls = self._of_this_kind(path, import_named(self.kind, path))
        if name in self._paths:
            self._classes[name] = cls
        return cls

    def importable_name(self, name: str) -> str:
        """A name by which a process that has not registered the class can import it."""
        if name in self._paths or ":" in name:
            return name
        cls = self.get(name)
        if "." in cls.__qualname__:
            raise ConfigError(
                f"{self.kind} {name!r} is {cls.__qualname__}, which other processes cannot import; "
                "define the class at the top of a module"
            )
        return f"{cls.__module__}:{cls.__qualname__}"

    def configure(self, settings: Mapping[str, Any]) -> Part:
        """The settings of the class that they name, validated."""
        options = {key: value for key, value in settings.items() if key != "name"}
        return validated(self.config_class(settings["name"]), options, self.kind)

    def config_class(self, name: str) -> type[Part]:
        """The `Config` of the class of that name."""
        config: type[Part] = self.get(name).Config  # type: ignore[attr-defined]  # the bases have it
        return config

    def _of_this_kind(self, path: str, cls: object) -> type[T]:
        if isinstance(cls, type) and issubclass(cls, self._base):
            return cls
        raise UnknownNameError(f"{self.kind} {path!r} is not a {self._base.__module__}.{self._base.__name__}")


def import_named(kind: str, path: str) -> Any:
    """Import the object at `package.module:name`; `kind` is for error messages."""
    module_name, _, name = path.partition(":")
    if module_in(path) is None:
        raise UnknownNameError(f"{kind} {path!r}: expected a name or package.module:Class")
    prepare_import(module_name)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module exists, but one of its own imports does not
        raise UnknownNameError(f"{kind} {path!r}: no module {module_name!r} to import") from None
    if not hasattr(module, name):
        raise UnknownNameError(f"{kind} {path!r}: no {name!r} in {module_name!r}")
    return getattr(module, name)
