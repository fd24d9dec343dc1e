"""A run's folder, read without running any code that the run names."""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from statistics import fmean

from pydantic import ConfigDict

from senju.arguments import as_path
from senju.backends.reproduction import FAILED_SHARDS
from senju.config import Part, Settings, read_yaml, validated
from senju.errors import RunFolderError
from senju.files import (
    UNFINISHED,
    describe_os_error,
    encoded,
    find_link,
    link_error,
    make_folder,
    replace_durably,
)
from senju.games import GAMES, make_game
from senju.runs.checkpoint import CheckpointFolder
from senju.runs.metrics import METRICS, TENSORBOARD, Record, records_of
from senju.runs.monitor import EVENTS, PICTURE, TRACE, read_events
from senju.runs.run_config import CollectConfig, RunConfig
from senju.runs.run_socket import SOCKET

CONFIG, CHECKPOINTS = "config.yaml", "checkpoints"
STRENGTH, REWARDS, FILMS, ARENA = "strength.svg", "rewards.svg", "episodes", "arena"
_PICTURES = (TRACE, PICTURE, STRENGTH, REWARDS, FILMS)
_WRITTEN = (CONFIG, METRICS, CHECKPOINTS, TENSORBOARD, EVENTS, ARENA, FAILED_SHARDS, SOCKET, *_PICTURES)


class Outline(Part):
    """The settings of a run that name no classes of the user, so that reading them runs no code."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    game: Settings
    collect: CollectConfig = CollectConfig()
    total_steps: int = RunConfig.model_fields["total_steps"].default
    chosen: str = ""

    def total_updates(self, metrics: list[Record]) -> int | None:
        """Updates until total_steps are reached; None if unknown."""
        moves = self.collect.num_games * self.collect.rollout_steps  # in an update, of each seat that acts
        name, num_acting = self.game.get("name"), 0
        if isinstance(name, str) and name in GAMES:
            num_acting = make_game(**self.game).num_acting
        elif metrics:  # a user's game: computed from the steps of the first update
            first = metrics[0]
            played = first["update"] * moves
            if self.collect.whole_games:  # rows rest after their games
                played = first["steps_per_game"] * first["games_finished"]
            num_acting = round(first["steps"] / played) if played else 0
        return -(-self.total_steps // (moves * num_acting)) if num_acting else None


class RunFolder:
    """The files of a run; opening it runs no code that the run names."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = as_path("run", path)
        if not (self.path / CONFIG).is_file():
            one = self.path / "agent_1"
            hint = f"; it holds several agents: name one, like {one}" if (one / CONFIG).is_file() else ""
            raise RunFolderError(f"{self.path} is not a run: there is no {CONFIG} in it{hint}")
        refuse_links(self.path, (*_WRITTEN, *(f"{UNFINISHED}{name}" for name in _WRITTEN)))
        self.checkpoints = CheckpointFolder(self.path / CHECKPOINTS)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    @cached_property
    def outline(self) -> Outline:
        """The settings that can be read without running code."""
        return validated(Outline, read_yaml(self.path / CONFIG))

    @property
    def metrics(self) -> list[Record]:
        """One record per update, in order."""
        return records_of("update", self.path / METRICS)

    @property
    def evaluations(self) -> list[Record]:
        """One record per evaluation against one opponent, in order."""
        return records_of("evaluation", self.path / METRICS)

    @property
    def episodes(self) -> list[Record]:
        """One record per evaluation of a world's agents in whole episodes, in order."""
        return records_of("episodes", self.path / METRICS)

    def summary(self, first_event: int = 0) -> Record:
        """How far the run got: its newest metrics and evaluations, and what failed since that event."""
        metrics, evaluations, events = self.metrics, self.evaluations, read_events(self.path)[first_event:]
        newest, last = metrics[-1] if metrics else {}, evaluations[-1]["update"] if evaluations else None
        return {
            "run": str(self.path),
            "update": newest.get("update", 0),
            "steps": newest.get("steps", 0),
            "seconds": newest.get("seconds", 0.0),
            "metrics": newest,
            "evaluations": [record for record in evaluations if record["update"] == last],
            "episodes": self.episodes[-1:],
            "set_aside": sum(event["kind"] == "set_aside" for event in events),
            "chosen": self.outline.chosen,
            "learners_replaced": sum(event["kind"].startswith("learner_") for event in events),
            **_gpu_summary(metrics),
        }


def _gpu_summary(metrics: Iterable[Record]) -> Record:
    """The mean busy share and the most memory of the run's GPU; empty where it was not measured."""
    samples = [record["engine"] for record in metrics if "gpu_busy" in record.get("engine", ())]
    if not samples:
        return {}
    return {
        "gpu_busy": fmean(sample["gpu_busy"] for sample in samples),
        "gpu_memory": max(sample["gpu_memory"] for sample in samples),
        "gpu_memory_total": samples[-1]["gpu_memory_total"],
    }


@contextmanager
def new_folder(path: Path) -> Iterator[None]:
    """Make the folder of a new run, or of several; an error inside the block removes it again.

    An existing one is never overwritten.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        path.mkdir(parents=True)
        try:
            yield
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            with suppress(OSError):  # another program has put something there
                for parent in missing[1:]:
                    parent.rmdir()
            raise
    except FileExistsError:
        is_known = (path / CONFIG).exists() or any(path.glob(f"agent_*/{CONFIG}"))
        hint = f"go on with --resume {path}" if is_known else "it holds something else"
        raise RunFolderError(f"{path} exists already; {hint}, or choose another --run") from None
    except OSError as error:
        raise RunFolderError(f"cannot make the run folder {path}: {describe_os_error(error)}") from error


def write_file(folder: Path, name: str, content: str | bytes) -> None:
    """Replace a file in the folder of a run, or of several, whole."""
    path = folder / name
    try:
        make_folder(path.parent, folder)
        replace_durably(path, encoded(content) if isinstance(content, str) else content, folder)
    except OSError as error:
        raise RunFolderError(f"cannot write {path}: {describe_os_error(error)}") from error


def refuse_links(folder: Path, names: Iterable[str]) -> None:
    """Refuse links in a folder where senju writes: they may point to files of others."""
    link = find_link(folder, names)
    if link is not None:
        raise RunFolderError(f"cannot use {folder}: {describe_os_error(link_error(link))}: {link}")
