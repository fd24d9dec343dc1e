"""All that a process needs to make a user's world: the factory, the configuration and the settings."""

import importlib
from collections.abc import Callable
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

from senju.config import shown
from senju.environments.config import RunSettings, as_settings
from senju.environments.contract import check_world, is_required, signature_of
from senju.environments.generators import Purpose, seed_of, set_generators
from senju.environments.objects import children_of, is_serialisable, path_text, walk
from senju.environments.serialise import restore, serialise
from senju.errors import ConfigError
from senju.registry import import_named
from senju.workers.role import Payload
from senju.workers.script import find_importable

Factory = Callable[..., Any]


class WorldFactory:
    """Makes worlds; passes config, seed and copy to the factory's parameters of these names."""

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
    def takes_copy_or_seed(self) -> bool:
        """Whether it makes a world for each copy."""
        return "copy" in self._parameters or "seed" in self._parameters

    def make(self, config: Any, seed: int, copy: int) -> Any:
        """Make a new world."""
        offered = {"config": config, "seed": seed, "copy": copy}
        given = {name: offered[name] for name in self._parameters if name in offered}
        unknown = [p.name for p in self._parameters.values() if is_required(p) and p.name not in given]
        if len(unknown) == 1 and "config" not in given:
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


class WorldSource:
    """All that a process needs to make the user's world; each world gets a copy of the configuration."""

    def __init__(self, factory: Factory | str, config: Any, settings: RunSettings) -> None:
        self.factory, self.settings = WorldFactory(factory), settings
        self._config = _without_classes(config)

    def new_world(self, copy: int, purpose: Purpose, *numbers: int) -> Any:
        """A new world, made with random numbers of this purpose; `copy` is passed to the factory."""
        seed = self.settings.parallel.seed
        set_generators(seed, purpose, *numbers)
        return self.factory.make(deepcopy(self._config), seed_of(seed, purpose, *numbers), copy)

    def new_learning_world(self) -> Any:
        """The world whose agents learn: the same one in every process."""
        env = self.new_world(0, Purpose.LEARNING_WORLD)
        check_world(env)
        return env

    def packed(self) -> Payload:
        """The factory's name, the settings and the configuration, for another process."""
        config, kind = self._config, "plain"
        if type(config).__module__.partition(".")[0] == "omegaconf":
            omega = importlib.import_module("omegaconf").OmegaConf
            config, kind = omega.to_container(config, resolve=True), "omegaconf"
        else:
            _refuse_unsendable(config)
        values = [self.factory.importable()[0], kind, self.settings.model_dump(mode="json")]
        return Payload(values, [serialise(config)])

    @classmethod
    def unpacked(cls, payload: Payload) -> "WorldSource":
        """The source that another process packed."""
        name, kind, settings = payload.values
        config = restore(None, payload.blocks[0])
        if kind == "omegaconf":
            config = importlib.import_module("omegaconf").OmegaConf.create(config)
        return cls(name, config, RunSettings(**settings))


def _refuse_unsendable(config: Any) -> None:
    for path, value, kind, children in walk(config, "config"):
        if not is_serialisable(value):
            raise ConfigError(
                f"{path_text(path)} is {value!r}, which cannot be sent to other processes; use plain "
                "values, or set parallel.use_threads or parallel.enabled=false"
            )
        children.extend(children_of(value, kind))


def _without_classes(config: Any) -> Any:
    """Turn classes that serve as namespaces into objects: a class cannot be copied."""
    if not isinstance(config, type):
        return config
    settings = as_settings(config, "class")
    return SimpleNamespace(**{name: _without_classes(value) for name, value in settings.items()})
