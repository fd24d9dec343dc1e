"""Settings of a run of a user's own world, read from a configuration of any kind."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, Field

from senju.config import MOST_SECONDS, Part, Settings, validated
from senju.environments.objects import attributes_of
from senju.errors import ConfigError
from senju.runs.parallel_options import ParallelOptions


class WorldOptions(ParallelOptions):
    """`config.parallel`: how a user's own world is run."""

    epochs_ahead: int = Field(2, ge=1, description="Epochs that playing may be ahead, with async_learning.")
    copies: int = Field(4, ge=1, le=4096, description="Worlds played in each epoch; decides the result.")
    train_steps: int = Field(1, ge=1, description="Calls of train_step at each training.")
    train_after: Literal["epoch", "episode"] = Field(
        "epoch", description="Train once all copies' episodes are in memory, or after each of them."
    )
    fresh_worlds: bool = Field(
        True, description="Begin each episode in a world as if new; false: trust reset() and memory.clear()."
    )
    seed: int = Field(
        0, ge=0, lt=2**63, description="Seed of random numbers; also config.seed or config.experiment.seed."
    )
    timeout: float = Field(
        300.0,
        gt=0,
        le=MOST_SECONDS,
        description="Seconds after which an episode or a training counts as hung.",
    )
    start_timeout: float = Field(
        180.0, gt=0, le=MOST_SECONDS, description="Seconds for a process to get ready."
    )


class Experiment(Part):
    """`config.experiment`: how long to run."""

    epochs: int = Field(ge=1, description="Epochs of every copy of the world.")
    max_turns: int = Field(ge=1, description="Turns of an epoch, at most.")


class RunSettings(Part):
    """The settings that senju reads from the user's configuration."""

    experiment: Experiment
    parallel: WorldOptions = WorldOptions()
    epsilon_decay: float | None = Field(
        None, description="config.model.epsilon_decay: given to model.epsilon_decay() after each epoch."
    )


def read_settings(config: Any) -> RunSettings:
    """The settings in a dictionary, an object, or anything else that has the same parts."""
    parallel, experiment = (as_settings(part_of(config, name), name) for name in ("parallel", "experiment"))
    for owner in (config, part_of(config, "experiment")):
        if "seed" not in parallel and (seed := part_of(owner, "seed")) is not None:
            parallel["seed"] = seed
    # the part may also hold the user's own settings
    known = {name: experiment[name] for name in Experiment.model_fields if name in experiment}
    decay = part_of(part_of(config, "model"), "epsilon_decay")
    epsilon_decay = decay if isinstance(decay, (int, float)) else None
    found = {"experiment": known, "parallel": parallel, "epsilon_decay": epsilon_decay}
    return validated(RunSettings, found)


def part_of(config: Any, name: str) -> Any:
    """A part of a configuration, or None."""
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)


def as_settings(part: Any, name: str) -> Settings:
    """A part's settings by name; `name` is for error messages."""
    if isinstance(part, (str, int, float, list, tuple)):
        raise ConfigError(f"config.{name}={part!r}: expected a part with settings of its own")
    if part is None:
        return {}
    if isinstance(part, BaseModel):
        return part.model_dump()
    if isinstance(part, Mapping):
        return {str(key): part[key] for key in part}
    if isinstance(part, type):
        return {key: value for key, value in vars(part).items() if not key.startswith("_")}
    return attributes_of(part)
