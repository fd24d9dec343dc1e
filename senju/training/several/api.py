"""`senju.train_several`: several agents side by side, from Python."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from senju.arguments import as_path, is_whole, require_listener
from senju.backends.script import refuse_unguarded
from senju.config import Settings, shown
from senju.errors import ConfigError, WorkerError
from senju.training.interrupt import stop_on_signals
from senju.training.run import Run
from senju.training.several.folder import create_agents, resume_agents
from senju.training.several.group import GroupListener, Trainee, seat_agents, train_agents
from senju.trust import trusting


def train_several(
    game: str | Settings | None = None,
    *,
    agents: int | None = None,
    devices: Sequence[str] = (),
    preset: str | None = None,
    workers: int | None = None,
    run: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    max_updates: int | None = None,
    listener: GroupListener | None = None,
    trust: bool = False,
    **settings: Any,
) -> list[Run]:
    """Train `agents` independent runs side by side and return them.

    Their seeds count up from the seed given, `devices` are dealt out in turn, and the cores are shared out.
    All else is as for `senju.train`; `workers` and `max_updates` are each agent's. The runs are agent_1,
    agent_2, … in the folder `run`; `resume` goes on with those of such a folder that are not finished. Where
    agents fail, the others are trained to their end, and then WorkerError says which failed and why.
    """
    refuse_unguarded()
    require_listener(listener, GroupListener)
    if max_updates is not None and not is_whole(max_updates, 1):
        raise ConfigError(f"max_updates={shown(max_updates)}: expected 1 or more, or None for all")
    if isinstance(game, dict):
        game, settings = None, {**settings, "game": game}
    folder = as_path("run", run) if run is not None else None
    resumed = as_path("resume", resume) if resume is not None else None
    if not isinstance(devices, list | tuple) or not all(isinstance(device, str) for device in devices):
        raise ConfigError(f"devices={shown(devices)}: expected a list of names, like cpu or cuda:0")
    with trusting(trust):
        runs = prepare_several(game, agents, devices, folder, resumed, settings, workers, preset)
    trainees = seat_agents(runs)
    with stop_on_signals() as stop:
        train_agents(trainees, stop, listener, max_updates)
    if stop.is_set:
        raise KeyboardInterrupt(f"stopped; go on with resume={str(runs[0].path.parent)!r}")
    failed = [trainee for trainee in trainees if trainee.state == "failed"]
    if failed:
        raise WorkerError("; ".join(map(describe_failure, failed)))
    return runs


def prepare_several(
    game: str | None,
    num_agents: int | None,
    devices: Sequence[str],
    run: Path | None,
    resume: Path | None,
    settings: Settings,
    workers: int | None = None,
    preset: str | None = None,
) -> list[Run]:
    """The runs to train: new ones in the folder `run`, or those of the folder to resume."""
    if resume is None:
        if num_agents is None:
            raise ConfigError("say how many agents to train")
        return create_agents(
            num_agents, devices, game=game, folder=run, settings=settings, workers=workers, preset=preset
        )
    for name, given in (("run", run), ("preset", preset)):
        if given is not None:
            raise ConfigError(
                f"{name}={str(given)!r} is for new agents; those of {resume} have theirs already"
            )
    changes = {**settings, "device": list(devices)} if devices else settings
    return resume_agents(resume, num_agents, game=game, changes=changes, workers=workers)


def describe_failure(trainee: Trainee) -> str:
    """Which agent failed, why, and the last of what it printed."""
    printed = "".join(f"\n    {line}" for line in trainee.last_lines)
    return f"{trainee.name} failed: {trainee.why}{printed}"
