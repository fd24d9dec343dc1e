"""Settings of ParallelManager, and their meaning on each backend."""

import os
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from torch import nn

from senju.arguments import as_path
from senju.backends import BACKENDS
from senju.backends.backend import Backend
from senju.backends.options import GameEndOptions, WorkerOptions
from senju.backends.plan import Plan, PolicyPlan
from senju.config import MOST_SECONDS, Proportion, Settings, read_yaml, shown, validated
from senju.errors import ConfigError
from senju.games import make_game
from senju.registry import Registry
from senju.runs.seats import resolved_part
from senju.trust import require_trust


class SettingWarning(UserWarning):
    """A setting has no effect on the chosen backend."""


def _named(part: Any) -> Any:
    """Settings of a part that may be given by its name alone."""
    return {"name": part} if isinstance(part, str) else part


def _backend_part(part: Any) -> Any:
    named = _named(part)
    if isinstance(named, Mapping) and "name" not in named:
        raise ConfigError(f"backend: no name given; known are {', '.join(BACKENDS.names())}")
    return named


class ParallelConfig(GameEndOptions, WorkerOptions):
    """Settings of a ParallelManager."""

    games_per_worker: int = Field(64, ge=1, le=2**20, description="Games per worker, evaluated as one batch.")
    experience_batch_size: int = Field(
        2048, ge=1, le=2**26, description="Decisions in a worker's batch; fewer where seats sit out."
    )
    model_sync_interval: int = Field(
        1, ge=1, le=2**31, description="`sync_model_to_workers` sends the weights with every n-th call."
    )
    worker_reset_interval: int = Field(
        0, ge=0, le=2**31, description="Batches after which a worker is replaced by a fresh one; 0: never."
    )
    timeout: Annotated[float, Field(ge=0, le=MOST_SECONDS)] | None = Field(
        None, description="Seconds after which `collect_experiences` returns with less; none: it waits."
    )
    queue_maxsize: Annotated[int, Field(ge=1, le=65)] = Field(
        1, description="Batches a worker has, including your last one; 1: it plays when you collect."
    )
    use_shared_memory: bool = Field(True, description="Use shared memory; processes always do.")
    compression_enabled: bool = Field(
        False, description="Compress data between machines; these backends run on one."
    )
    backend: Annotated[Settings, BeforeValidator(_backend_part)] = Field(
        {"name": "processes"},
        description="Where games are played: processes, threads, serial; with settings of its own.",
    )
    gamma: float = Field(1.0, gt=0, le=1, description="Discount of returns, per decision of a seat.")
    gae_lambda: Proportion = Field(0.95, description="Mixes short and long returns; 1: long ones.")


def resolved(config: ParallelConfig | Mapping[str, Any] | str | os.PathLike[str] | None) -> ParallelConfig:
    """The settings, with one worker for each core if no number is given."""
    if isinstance(config, (str, os.PathLike)):
        file, config = config, read_yaml(as_path("config", config))
        require_trust(file, config)
    if config is None or isinstance(config, Mapping):
        config = validated(ParallelConfig, config or {})
    if not isinstance(config, ParallelConfig):
        raise ConfigError(
            f"config={shown(config)}: expected settings, a ParallelConfig or a YAML file's path"
        )
    return config.model_copy(update={"num_workers": config.resolved_workers})


def settings_of(registry: Registry[Any], part: Any) -> Settings:
    """A game or a model as plain settings that can be sent anywhere."""
    settings = _named(part)
    if isinstance(settings, Mapping) and "name" in settings:
        return resolved_part(registry, dict(settings))
    hint = "workers build their own by name"
    if isinstance(part, type):
        hint = f"for this class {f'{part.__module__}:{part.__qualname__}'!r}"
    elif isinstance(part, nn.Module):
        hint = "workers build their own by name; send them the weights with sync_model_to_workers(model)"
    raise ConfigError(
        f"{registry.kind}={shown(part)}: expected a name ({', '.join(registry.names())}), "
        f"settings with a name, or 'package.module:Class'; {hint}"
    )


def new_plan(config: ParallelConfig, game: Settings, model: Settings, seed: int) -> Plan:
    """One shard for each worker; in each batch every game makes the same number of steps."""
    num_acting = make_game(**game).num_acting
    size, step = config.experience_batch_size, config.games_per_worker * num_acting
    if size % step:
        lower = size // step * step
        fits = " or ".join(str(n) for n in (lower, lower + step) if n)
        at_once = f" × {num_acting} acting at once" if num_acting > 1 else ""
        raise ConfigError(
            f"experience_batch_size={size} does not divide into steps of {step} decisions "
            f"({config.games_per_worker} games per worker{at_once}); try {fits}"
        )
    return Plan(
        game=game,
        policies=(PolicyPlan(model=model, seed=seed),),
        seed=seed,
        num_shards=config.num_workers,
        games_per_shard=config.games_per_worker,
        rollout_steps=size // step,
        max_lag=config.queue_maxsize - 1,
        max_game_length=config.max_game_length,
        resignation=config.resignation,
    )


def new_backend(config: ParallelConfig) -> Backend:
    """The backend that the settings ask for."""
    given = config.backend
    if twice := sorted({"num_workers", "reset_interval"} & set(given)):
        raise ConfigError(f"backend.{twice[0]}: set num_workers and worker_reset_interval beside it instead")
    wanted = {"num_workers": config.num_workers, "reset_interval": config.worker_reset_interval}
    known = BACKENDS.config_class(given["name"]).model_fields
    settings = {key: value for key, value in wanted.items() if key in known}
    return BACKENDS.get(given["name"])(BACKENDS.configure({**given, **settings}))


def without_effect(config: ParallelConfig) -> list[str]:
    """The settings that have no effect on the chosen backend, each with the reason."""
    name = config.backend["name"]
    can_reset = "reset_interval" in BACKENDS.config_class(name).model_fields
    reasons = {}
    if config.worker_reset_interval and not can_reset:
        reasons["worker_reset_interval"] = f"the {name} backend has no workers to replace"
    if config.queue_maxsize > 1 and name == "serial":
        reasons["queue_maxsize"] = (
            "the serial backend plays only during collect_experiences, so nothing queues"
        )
    if not config.use_shared_memory and name == "processes":
        reasons["use_shared_memory"] = "processes always use shared memory"
    if config.compression_enabled:
        reasons["compression_enabled"] = f"the {name} backend runs on one machine"
    return [f"{key}={getattr(config, key)} has no effect: {reason}" for key, reason in reasons.items()]
