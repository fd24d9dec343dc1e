"""`senju.train_several`: several agents side by side; their folder holds agent_1, …, each an ordinary run."""

import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from senju.arguments import as_path, is_whole
from senju.backends.measuring import Announce
from senju.config import Settings, merged, shown
from senju.errors import ConfigError, RunFolderError, WorkerError
from senju.evaluation.opponents import with_opponents
from senju.runs.interrupt import stop_on_signals
from senju.runs.run import Run
from senju.runs.run_config import RunConfig, chosen_settings, resolve_config
from senju.runs.run_folder import ARENA, CONFIG, new_folder, refuse_links
from senju.training.api import checked_arguments, free_folder, prepare
from senju.training.multi_run.comparison import COMPARISON
from senju.training.multi_run.group import GroupListener, Trainee, new_trainees, train_agents
from senju.training.multi_run.shares import deal_out, on_cores, share_out, usable_cores
from senju.training.persistence import DECIDING_PARTS
from senju.trust import trusting

logger = logging.getLogger(__name__)

MAX_AGENTS = 256
_NAME = re.compile(r"agent_([1-9][0-9]*)")


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
    trainees = new_trainees(runs)
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
    announce: Announce = logger.info,
) -> list[Run]:
    """The runs to train: those of the folder to resume, or new ones in the folder `run`.

    Of new ones seeds count up, devices take turns, and threads fit each agent's cores. Their folder is made
    after the settings of all of them are found valid.
    """
    if resume is not None:
        for name, given in (("run", run), ("preset", preset)):
            if given is not None:
                raise ConfigError(
                    f"{name}={str(given)!r} is for new agents; those of {resume} have theirs already"
                )
        changes = {**settings, "device": list(devices)} if devices else settings
        return [
            prepare(game, None, each.path, None, changes, workers) for each in open_agents(resume, num_agents)
        ]
    if num_agents is None:
        raise ConfigError("say how many agents to train: agents=N")
    if not is_whole(num_agents, 1, MAX_AGENTS):
        raise ConfigError(f"agents={shown(num_agents)}: expected 1 to {MAX_AGENTS}")
    settings = with_opponents(settings)
    first = resolve_config(
        game,
        settings,
        {"device": devices[0]} if devices else {},
        variant=preset,
        announce=announce,
        num_runs=num_agents,
    )
    settings = merged(settings, chosen_settings(first))  # measured once, for all
    own = [
        merged(settings, {"seed": first.seed + index, "device": device})
        for index, device in enumerate(deal_out(devices or [first.device], num_agents))
    ]
    for each in own:
        _require_importable(resolve_config(game, each, variant=preset))
    folder = run or free_folder(first)
    runs: list[Run] = []
    with new_folder(folder):
        for each, cores in zip(own, share_out(usable_cores(), num_agents), strict=True):
            path = folder / f"agent_{len(runs) + 1}"
            with on_cores(cores):  # they decide its number of threads
                runs.append(prepare(game, path, None, None, each, workers, preset))
    return runs


def describe_failure(trainee: Trainee) -> str:
    """The name of a failed agent, the reason, and the last lines it printed."""
    printed = "".join(f"\n    {line}" for line in trainee.last_lines)
    return f"{trainee.name} failed: {trainee.why}{printed}"


def is_of_several(folder: Path) -> bool:
    """Whether a folder holds agents instead of being a run itself."""
    return not (folder / CONFIG).exists() and bool(_agent_folders(folder))


def open_agents(folder: Path, num_agents: int | None = None) -> list[Run]:
    """All runs of a folder; an error if one is missing, they differ in kind, or their number is wrong."""
    found = _agent_folders(folder)
    if not found:
        raise RunFolderError(f"{folder} holds no agents: there is no agent_1 in it")
    for number in range(1, max(found) + 1):
        if number not in found:
            raise RunFolderError(
                f"{folder / f'agent_{number}'} is missing: it was moved, or the start was cut short; "
                "each of the others can be resumed alone"
            )
    refuse_links(folder, (*(found[number].name for number in found), ARENA, COMPARISON))
    runs = [Run(found[number]) for number in sorted(found)]
    kinds = [run.identity([part for part in DECIDING_PARTS if part != "seed"]) for run in runs]
    for run, kind in zip(runs, kinds, strict=True):
        different = sorted(part for part in kind if kind[part] != kinds[0][part])
        if different:
            raise RunFolderError(
                f"{runs[0].path} and {run.path} differ in {', '.join(different)}: they do not belong "
                "together; resume each of them alone"
            )
    if num_agents not in (None, len(runs)):
        raise ConfigError(f"agents={num_agents}, but {folder} holds {len(runs)}; leave it out to resume them")
    return runs


def _agent_folders(folder: Path) -> dict[int, Path]:
    """Folders of agents by number."""
    matches = ((_NAME.fullmatch(path.parent.name), path.parent) for path in folder.glob(f"agent_*/{CONFIG}"))
    return {int(match[1]): path for match, path in matches if match}


def _require_importable(config: RunConfig) -> None:
    """Refuse classes of the user's script, which other processes cannot find."""
    parts = [(kind, getattr(config, kind)["name"]) for kind in ("game", "model", "algorithm")]
    for kind, name in (*parts, *(("opponent", name) for name in config.opponents.fixed)):
        if name.startswith("__main__:"):
            raise ConfigError(
                f"{kind} {name!r} is defined in the script that runs, where the agents' processes cannot "
                "find it; put it into a module"
            )
