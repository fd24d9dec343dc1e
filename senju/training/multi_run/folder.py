"""The folder of several agents: agent_1, agent_2, … in it, each an ordinary run."""

import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from senju.arguments import is_whole
from senju.config import Settings, merged, shown
from senju.errors import ConfigError, RunFolderError
from senju.evaluation.opponents import with_opponents
from senju.files import describe_os_error
from senju.runs.run import Run
from senju.runs.run_config import RunConfig, resolve_config
from senju.runs.run_folder import ARENA, CONFIG, refuse_links
from senju.training.api import free_folder, prepare
from senju.training.multi_run.shares import deal_out, on_cores, share_out, usable_cores

MAX_AGENTS = 256
COMPARISON = "comparison.json"
MAY_DIFFER = {"seed", "device", "threads", "backend", "total_steps", "evaluation", "checkpoint"}
_NAME = re.compile(r"agent_([1-9][0-9]*)")


def is_of_several(folder: Path) -> bool:
    """Whether a folder holds agents instead of being a run itself."""
    return not (folder / CONFIG).exists() and bool(_agent_folders(folder))


def open_agents(folder: Path) -> list[Run]:
    """All runs of a folder; an error if one is missing or they are not of one kind."""
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
    kinds = [run.config.model_dump(mode="json", exclude=MAY_DIFFER) for run in runs]
    for run, kind in zip(runs, kinds, strict=True):
        different = sorted(part for part in kind if kind[part] != kinds[0][part])
        if different:
            raise RunFolderError(
                f"{runs[0].path} and {run.path} differ in {', '.join(different)}: they do not belong "
                "together; resume each of them alone"
            )
    return runs


def _agent_folders(folder: Path) -> dict[int, Path]:
    """Folders of agents by number."""
    matches = ((_NAME.fullmatch(path.parent.name), path.parent) for path in folder.glob(f"agent_*/{CONFIG}"))
    return {int(match[1]): path for match, path in matches if match}


def create_agents(
    num_agents: int,
    devices: Sequence[str] = (),
    *,
    game: str | None,
    folder: Path | None,
    settings: Settings,
    workers: int | None = None,
    preset: str | None = None,
) -> list[Run]:
    """New runs in a new folder: seeds count up, devices take turns, threads fit each agent's cores.

    The folder is made after the settings of all agents are found valid.
    """
    if not is_whole(num_agents, 1, MAX_AGENTS):
        raise ConfigError(f"agents={shown(num_agents)}: expected 1 to {MAX_AGENTS}")
    settings = with_opponents(settings)
    first = resolve_config(game, settings, variant=preset)
    dealt = deal_out(devices or [first.device], num_agents)
    own = [
        merged(settings, {"seed": first.seed + index, "device": device}) for index, device in enumerate(dealt)
    ]
    for each in own:
        _require_importable(resolve_config(game, each, variant=preset))
    folder = folder or free_folder(first)
    made = _make(folder)
    try:
        runs: list[Run] = []
        for each, cores in zip(own, share_out(usable_cores(), num_agents), strict=True):
            path = folder / f"agent_{len(runs) + 1}"
            with on_cores(cores):  # they decide its number of threads
                runs.append(prepare(game, path, None, None, each, workers, preset))
        return runs
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # another program has put something there
            for parent in made[1:]:
                parent.rmdir()
        raise


def _make(folder: Path) -> list[Path]:
    """Make the folder; return it and the folders around it that were missing too."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        is_known = (folder / CONFIG).exists() or is_of_several(folder)
        hint = f"go on with --resume {folder}" if is_known else "it holds something else"
        raise RunFolderError(f"{folder} exists already; {hint}, or choose another --run") from None
    except OSError as error:
        raise RunFolderError(f"cannot make the run folder {folder}: {describe_os_error(error)}") from error
    return missing


def _require_importable(config: RunConfig) -> None:
    """Refuse classes of the user's script, which other processes do not run."""
    parts = [(kind, getattr(config, kind)["name"]) for kind in ("game", "model", "algorithm")]
    for kind, name in (*parts, *(("opponent", name) for name in config.opponents.fixed)):
        if name.startswith("__main__:"):
            raise ConfigError(
                f"{kind} {name!r} is defined in the script that runs, where the agents' processes cannot "
                "find it; put it into a module"
            )


def is_finished(run: Run) -> bool:
    """Whether all updates are trained and evaluated."""
    update = saved_update(run)
    if update < run.config.total_updates:
        return False
    if run.config.is_independent:
        return any(record["update"] == update for record in run.episodes)
    due = {*run.config.evaluation.opponents, *run.config.evaluation.final_opponents}
    played = [record for record in run.evaluations if record["update"] == update]
    return len(played) >= len(due)


def saved_update(run: Run) -> int:
    """The update of its newest checkpoint; 0 if there is none."""
    saved = run.checkpoints.all()
    return int(saved[-1].name.removeprefix("update_")) if saved else 0
