"""Settings of the facade for people with their own loop, and what they mean on each backend."""

import os
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from torch import nn

from senju.arguments import as_path
from senju.backends import BACKENDS
from senju.backends.backend import Backend
from senju.config import MOST_SECONDS, Part, Settings, read_yaml, shown, validated
from senju.errors import ConfigError
from senju.machine import available_cores
from senju.registry import Registry
from senju.trust import require_trust


class SettingWarning(UserWarning):
    """A setting has no effect on the backend that was chosen."""


def _named(part: Any) -> Any:
    """A word stands for the part it names."""
    return {"name": part} if isinstance(part, str) else part


def _backend_part(part: Any) -> Any:
    named = _named(part)
    if isinstance(named, Mapping) and "name" not in named:
        raise ConfigError(f"backend: no name given; known are {', '.join(BACKENDS.names())}")
    return named


class ParallelConfig(Part):
    """Settings of a ParallelManager."""

    num_workers: int = Field(
        0, ge=0, le=4096, description="Workers, each with games of its own; 0: one per core."
    )
    games_per_worker: int = Field(
        64, ge=1, le=2**20, description="Games of each worker, evaluated as one batch."
    )
    max_game_length: int = Field(
        0, ge=0, le=2**31, description="Steps after which a game is cut (truncated); 0: never."
    )
    resign_below: float = Field(
        0.0, ge=0, le=1, description="A mover gives up where its value is below minus this; 0: never."
    )
    resign_exempt: float = Field(
        0.1, ge=0, le=1, description="Share of the games that are played to the end all the same."
    )
    experience_batch_size: int = Field(
        2048, ge=1, le=2**26, description="Decisions a worker hands over at once; fewer where seats sit out."
    )
    model_sync_interval: int = Field(
        1, ge=1, le=2**31, description="`sync_model_to_workers` sends the weights with every n-th call."
    )
    worker_reset_interval: int = Field(
        0, ge=0, le=2**31, description="Batches after which a worker is replaced by a fresh one; 0: never."
    )
    timeout: float | None = Field(
        None,
        ge=0,
        le=MOST_SECONDS,
        description="Seconds after which `collect_experiences` returns with less, if not told; none: waits.",
    )
    queue_maxsize: int = Field(
        1,
        ge=1,
        le=65,
        description="Batches a worker keeps, the last you took included; 1: it plays on when you collect.",
    )
    use_shared_memory: bool = Field(
        True, description="Hand over by shared memory; processes know no other way."
    )
    compression_enabled: bool = Field(
        False, description="Compress what travels between machines; nothing does on these backends."
    )
    backend: Annotated[Settings, BeforeValidator(_backend_part)] = Field(
        {"name": "processes"},
        description="Where games are played: processes, threads, serial; with settings of its own.",
    )
    discount: float = Field(1.0, gt=0, le=1, description="Of returns, per decision of a seat (gamma).")
    trace: float = Field(0.95, ge=0, le=1, description="Mixes short and long returns (lambda); 1: long ones.")


def resolved(config: ParallelConfig | Mapping[str, Any] | str | os.PathLike[str] | None) -> ParallelConfig:
    """The settings, with as many workers as there are cores where none are named."""
    if isinstance(config, (str, os.PathLike)):
        file, config = config, read_yaml(as_path("config", config))
        require_trust(file, config)
    if config is None or isinstance(config, Mapping):
        config = validated(ParallelConfig, config or {})
    if not isinstance(config, ParallelConfig):
        raise ConfigError(
            f"config={shown(config)}: expected settings, a ParallelConfig or a YAML file's path"
        )
    return config.model_copy(update={"num_workers": config.num_workers or available_cores()})


def settings_of(registry: Registry[Any], part: Any) -> Settings:
    """A game or a model as plain settings that can be sent anywhere."""
    settings = _named(part)
    if isinstance(settings, Mapping) and "name" in settings:
        config = registry.configure(settings)
        return {"name": settings["name"], **config.model_dump(mode="json")}
    hint = "workers make their own, and what has no name cannot be made there"
    if isinstance(part, type):
        hint = f"for this class {f'{part.__module__}:{part.__qualname__}'!r}"
    elif isinstance(part, nn.Module):
        hint = "workers make their own by name; send them the weights with sync_model_to_workers(model)"
    raise ConfigError(
        f"{registry.kind}={shown(part)}: expected a name ({', '.join(registry.names())}), "
        f"settings with a name, or 'package.module:Class'; {hint}"
    )


def steps_of(config: ParallelConfig, num_acting: int) -> int:
    """Steps of every game in one batch of a worker."""
    size, step = config.experience_batch_size, config.games_per_worker * num_acting
    if size % step:
        lower = size // step * step
        fits = " or ".join(str(n) for n in (lower, lower + step) if n)
        at_once = f" × {num_acting} acting at once" if num_acting > 1 else ""
        raise ConfigError(
            f"experience_batch_size={size} does not divide into steps of {step} decisions "
            f"({config.games_per_worker} games per worker{at_once}); try {fits}"
        )
    return size // step


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
    """The settings that do nothing on the chosen backend, each with its reason."""
    name = config.backend["name"]
    can_reset = "reset_interval" in BACKENDS.config_class(name).model_fields
    reasons = {
        f"worker_reset_interval={config.worker_reset_interval}": (
            config.worker_reset_interval and not can_reset,
            f"the {name} backend has no workers to replace",
        ),
        f"queue_maxsize={config.queue_maxsize}": (
            config.queue_maxsize > 1 and name == "serial",
            "the serial backend plays only while it is asked, so nothing queues",
        ),
        "use_shared_memory=False": (
            not config.use_shared_memory and name == "processes",
            "processes hand everything over in shared memory, and in no other way",
        ),
        "compression_enabled=True": (
            config.compression_enabled,
            f"on the {name} backend nothing travels between machines",
        ),
    }
    return [f"{setting} has no effect: {reason}" for setting, (applies, reason) in reasons.items() if applies]
