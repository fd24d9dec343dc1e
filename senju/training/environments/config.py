"""Settings of a run of a user's own world, read from whatever kind of configuration the user has."""

import copy
import importlib
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, Field

from senju.config import MOST_SECONDS, Part, Settings, validated
from senju.errors import ConfigError
from senju.training.environments.block import Block
from senju.training.environments.putting_back import put_into
from senju.training.environments.writing_down import attributes, is_opaque, write_down

_SENDABLE = (type(None), bool, int, float, str, bytes, np.ndarray, np.generic)


class ParallelOptions(Part):
    """`config.parallel`: how a user's own world is run."""

    enabled: bool = Field(True, description="Use workers and learners; false: do everything here, in turn.")
    parallel_actions: bool = Field(True, description="Play the copies of the world in workers; false: here.")
    parallel_training: bool = Field(True, description="Train the agents side by side; false: in turn.")
    async_learning: bool = Field(False, description="Play on while agents train; results vary by timing.")
    train_interval: int = Field(1, ge=1, description="Epochs between an agent's trainings.")
    num_workers: int | None = Field(None, ge=1, description="Workers that play; none: one for each core.")
    use_threads: bool = Field(False, description="Threads of this process instead of processes.")
    copies: int = Field(4, ge=1, le=4096, description="Worlds played in each epoch; decides the result.")
    num_learners: int | None = Field(
        None, ge=1, description="Learners; none: as many as keep all cores busy."
    )
    train_steps: int = Field(1, ge=1, description="Calls of train_step at each training.")
    train_after: Literal["epoch", "episode"] = Field(
        "epoch", description="Train once all copies' episodes are in memory, or after each of them."
    )
    fresh_worlds: bool = Field(
        True, description="Begin each episode in a world as if new; false: trust reset() and memory.clear()."
    )
    epochs_ahead: int = Field(2, ge=1, description="Epochs that playing may be ahead, with async_learning.")
    seed: int = Field(0, ge=0, lt=2**63, description="Of all random numbers; also read from config.seed.")
    timeout: float = Field(
        300.0, gt=0, le=MOST_SECONDS, description="Seconds for an episode or a lesson; then it hangs."
    )
    start_timeout: float = Field(
        180.0, gt=0, le=MOST_SECONDS, description="Seconds for a process to get ready."
    )


class Experiment(Part):
    """`config.experiment`: how long to run."""

    epochs: int = Field(ge=1, description="Epochs of every copy of the world.")
    max_turns: int = Field(ge=1, description="Turns of an epoch, at most.")


class RunSettings(Part):
    """What senju reads of a configuration."""

    experiment: Experiment
    parallel: ParallelOptions = ParallelOptions()
    epsilon_decay: float | None = Field(
        None, description="config.model.epsilon_decay: given to model.epsilon_decay() after each epoch."
    )


def read_settings(config: Any) -> RunSettings:
    """What is needed of a dictionary, an object, or anything with the same parts."""
    parallel, experiment = (_section(config, name) for name in ("parallel", "experiment"))
    for owner in (config, part_of(config, "experiment")):
        if "seed" not in parallel and (seed := part_of(owner, "seed")) is not None:
            parallel["seed"] = seed
    decay = part_of(part_of(config, "model"), "epsilon_decay")
    found = {
        "experiment": validated(Experiment, _known(experiment, Experiment), "experiment"),
        "parallel": validated(ParallelOptions, parallel, "parallel"),
        "epsilon_decay": decay if isinstance(decay, (int, float)) else None,
    }
    return validated(RunSettings, found, "config")


def _section(config: Any, name: str) -> Settings:
    part = part_of(config, name)
    if isinstance(part, (str, int, float, list, tuple)):
        raise ConfigError(f"config.{name}={part!r}: expected a part with settings of its own")
    return as_settings(part)


def _known(settings: Settings, part: type[Part]) -> Settings:
    """Without what is the user's own business."""
    return {name: settings[name] for name in part.model_fields if name in settings}


def part_of(config: Any, name: str) -> Any:
    """A part of a configuration; None where there is none."""
    if isinstance(config, Mapping):
        return config.get(name)
    return getattr(config, name, None)


def as_settings(part: Any) -> Settings:
    """A part of a configuration as plain settings."""
    if part is None:
        return {}
    if isinstance(part, BaseModel):
        return part.model_dump()
    if isinstance(part, Mapping):
        return {str(name): part[name] for name in part}
    if isinstance(part, type):
        return {name: value for name, value in vars(part).items() if not name.startswith("_")}
    return dict(attributes(part))


class WorldConfig:
    """The user's configuration as factories get it: a copy for each world, here and in other processes."""

    def __init__(self, config: Any) -> None:
        self._config = _without_classes(config)

    def copy(self) -> Any:
        """The configuration for one more world."""
        return copy.deepcopy(self._config)

    def packed(self) -> tuple[str, Block]:
        """Its kind, and what it says, for another process."""
        if type(self._config).__module__.partition(".")[0] == "omegaconf":
            omega = importlib.import_module("omegaconf").OmegaConf
            return "omegaconf", write_down(omega.to_container(self._config, resolve=True))
        for name, value in _unsendable(self._config, "config"):
            raise ConfigError(
                f"{name} is {value!r}, which cannot be sent to other processes; use plain values, or set "
                "parallel.use_threads or parallel.enabled=false"
            )
        return "plain", write_down(self._config)

    @classmethod
    def unpacked(cls, kind: str, block: Block) -> "WorldConfig":
        """What another process packed."""
        content = put_into(None, block)
        if kind == "omegaconf":
            content = importlib.import_module("omegaconf").OmegaConf.create(content)
        return cls(content)


def _without_classes(config: Any) -> Any:
    """Classes that serve as namespaces, as plain ones: a class cannot be copied."""
    if isinstance(config, type):
        return SimpleNamespace(
            **{name: _without_classes(value) for name, value in as_settings(config).items()}
        )
    return config


def _unsendable(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, _SENDABLE):
        return
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _unsendable(item, f"{name}.{key}")
    elif isinstance(value, (list, tuple, set)):
        for number, item in enumerate(value):
            yield from _unsendable(item, f"{name}[{number}]")
    elif is_opaque(value):
        yield name, value
    elif hasattr(value, "__dict__"):
        for key, item in attributes(value):
            yield from _unsendable(item, f"{name}.{key}")
