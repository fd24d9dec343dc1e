"""`senju.train`: one call that trains a game and returns the run."""

import os
from datetime import datetime
from pathlib import Path
from typing import Any

from senju.config import Settings, merged, validated
from senju.errors import ConfigError
from senju.training.interrupt import StopRequest, stop_on_signals
from senju.training.run import Run
from senju.training.run_config import RunConfig, resolve_config
from senju.training.trainer import Listener, Trainer

CHANGEABLE_ON_RESUME = ("total_steps", "evaluation", "checkpoint", "threads")


def train(
    game: str | None = None,
    *,
    run: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    checkpoint: str | None = None,
    max_updates: int | None = None,
    listener: Listener | None = None,
    **settings: Any,
) -> Run:
    """Train an agent and return its run, with `run.agent`, `run.metrics` and `run.path`.

    `settings` are those of a run's config: `total_steps=100_000`, `model={"name": "resnet"}`,
    `algorithm={"epochs": 2}`. `resume` takes an existing run's folder and goes on from its newest
    checkpoint, or from the one named. `max_updates` stops early; the run can be resumed.
    Ctrl-C finishes the step, saves, and raises KeyboardInterrupt.
    """
    prepared = prepare_resume(Path(resume), game, settings) if resume else prepare_run(game, run, settings)
    with stop_on_signals() as stop:
        train_run(prepared, stop, listener, checkpoint, max_updates)
    if stop.is_set:
        raise KeyboardInterrupt(f"stopped; go on with resume={str(prepared.path)!r}")
    return prepared


def train_run(
    run: Run,
    stop: StopRequest,
    listener: Listener | None = None,
    checkpoint: str | None = None,
    max_updates: int | None = None,
) -> bool:
    """Train a prepared run; return whether it reached its total_steps."""
    return Trainer(run, listener, checkpoint).train(stop, max_updates)


def prepare_run(game: str | None, folder: str | os.PathLike[str] | None, *layers: Settings) -> Run:
    """A new run's folder, made only after its settings are found good."""
    config = resolve_config(game, *layers)
    name = config.game["name"].rpartition(":")[2]
    path = Path(folder) if folder else Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    return Run.create(path, config)


def prepare_resume(path: Path, game: str | None, *layers: Settings) -> Run:
    """An existing run, with the few settings changed that may change."""
    run = Run(path)
    if game:
        run.require_game(game)
    changes = merged(*layers)
    fixed = sorted(set(changes) - set(CHANGEABLE_ON_RESUME))
    if fixed:
        raise ConfigError(
            f"{', '.join(fixed)} cannot change on resume, since the result would be another; "
            f"what can: {', '.join(CHANGEABLE_ON_RESUME)}"
        )
    if changes:
        run.save_config(validated(RunConfig, merged(run.config.model_dump(mode="json"), changes)))
    return run
