"""The function or class that makes a user's world, here and, by its name, in other processes."""

from collections.abc import Callable
from typing import Any

from senju.config import shown
from senju.environments.contract import is_required, signature_of
from senju.errors import ConfigError
from senju.registry import import_named
from senju.workers.script import find_importable

_CONFIG_NAMES = ("config", "cfg", "conf", "settings")
_COPY_NAMES = ("copy", "copy_index", "world_index", "env_index", "index", "rank")
Factory = Callable[..., Any]


class WorldFactory:
    """Makes worlds; the factory gets config, seed or copy if its parameters are called so."""

    def __init__(self, factory: Factory | str) -> None:
        self._name = factory if isinstance(factory, str) else None
        found = import_named("factory", factory) if isinstance(factory, str) else factory
        if not callable(found):
            raise ConfigError(
                f"factory={shown(factory)}: expected a function or class that makes a world, or "
                "'package.module:name'"
            )
        self._make: Factory = found
        signature = signature_of(found)
        self._parameters = dict(signature.parameters) if signature is not None else {}

    @property
    def tells_copies_apart(self) -> bool:
        """Whether it asks which copy it makes, or for a seed."""
        return not set(self._parameters).isdisjoint({*_COPY_NAMES, "seed"})

    def make(self, config: Any, seed: int, copy: int) -> Any:
        """Make a new world."""
        offered = dict.fromkeys(_CONFIG_NAMES, config) | dict.fromkeys(_COPY_NAMES, copy) | {"seed": seed}
        given = {name: offered[name] for name in self._parameters if name in offered}
        unknown = [p.name for p in self._parameters.values() if is_required(p) and p.name not in given]
        if len(unknown) == 1 and not set(given) & set(_CONFIG_NAMES):
            given[unknown.pop()] = config
        if unknown:
            raise ConfigError(
                f"the factory asks for {', '.join(unknown)}, which it cannot get; it may take config, "
                "seed and copy (the number of the world's copy), or nothing"
            )
        return self._make(**given)

    def importable(self) -> tuple[str, str | None]:
        """The name by which another process finds it, and the script it must import first, if any."""
        module = getattr(self._make, "__module__", None)
        name = getattr(self._make, "__qualname__", None)
        if self._name is None and (not module or not name or not name.isidentifier()):
            raise ConfigError(
                f"other processes cannot import the factory {name or self._make!r}; define it at the top of "
                "a module, or set parallel.use_threads or parallel.enabled=false"
            )
        return find_importable(self._name or f"{module}:{name}", "factory")
