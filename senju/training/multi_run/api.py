"""`senju.train_several`: several agents side by side, from Python."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from senju.arguments import as_path
from senju.config import Settings, shown
from senju.errors import ConfigError, WorkerError
from senju.runs.interrupt import stop_on_signals
from senju.runs.run import Run
from senju.training.api import checked_arguments, prepare
from senju.training.multi_run.folder import create_agents, open_agents
from senju.training.multi_run.group import GroupListener, Trainee, seat_agents, train_agents
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

    Their seeds count up from the given seed, each takes the next of the `devices`, and they share the cores.
    Everything else is as for `senju.train`; `workers` and `max_updates` are those of each agent. The runs are
    agent_1, agent_2, … in the folder `run`; `resume` continues the unfinished runs of such a folder. If
    agents fail, the others are trained to their end, and then WorkerError says which failed and why.
    """
    game, settings = checked_arguments(game, settings, max_updates, listener, GroupListener)
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
    runs = open_agents(resume)
    if num_agents not in (None, len(runs)):
        raise ConfigError(f"agents={num_agents}, but {resume} holds {len(runs)}; leave it out to resume them")
    changes = {**settings, "device": list(devices)} if devices else settings
    return [prepare(game, None, each.path, None, changes, workers) for each in runs]


def describe_failure(trainee: Trainee) -> str:
    """The name of a failed agent, the reason, and the last lines it printed."""
    printed = "".join(f"\n    {line}" for line in trainee.last_lines)
    return f"{trainee.name} failed: {trainee.why}{printed}"
