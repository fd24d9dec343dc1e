"""A run's folder, read without loading any of the classes that its settings name."""

import os
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from pydantic import ConfigDict

from senju.arguments import as_path
from senju.backends.reproduction import FAILED_SHARDS
from senju.config import Part, Settings, read_yaml, validated
from senju.errors import RunFolderError
from senju.files import UNFINISHED, describe_os_error, find_link, link_error
from senju.games import GAMES, make_game
from senju.training.checkpoint import CheckpointFolder
from senju.training.metrics import METRICS, TENSORBOARD, Record, records_of
from senju.training.monitor import EVENTS, PICTURE, TRACE
from senju.training.run_config import CollectConfig, RunConfig
from senju.training.run_socket import SOCKET

CONFIG, CHECKPOINTS = "config.yaml", "checkpoints"
STRENGTH, REWARDS, FILMS, ARENA = "strength.svg", "rewards.svg", "episodes", "arena"
_PICTURES = (TRACE, PICTURE, STRENGTH, REWARDS, FILMS)
_WRITTEN = (CONFIG, METRICS, CHECKPOINTS, TENSORBOARD, EVENTS, ARENA, FAILED_SHARDS, SOCKET, *_PICTURES)


class Outline(Part):
    """Of a run's settings, those that can be read without what they name."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    game: Settings
    collect: CollectConfig = CollectConfig()
    total_steps: int = RunConfig.model_fields["total_steps"].default

    @property
    def is_independent(self) -> bool:
        """Whether every seat has an agent of its own."""
        return self.collect.seating == "independent"

    def total_updates(self, metrics: list[Record]) -> int | None:
        """Updates until total_steps are reached; None where neither the game nor a record tells."""
        num_acting = self._num_acting(metrics)
        if num_acting is None:
            return None
        return -(-self.total_steps // (self.collect.num_games * self.collect.rollout_steps * num_acting))

    def _num_acting(self, metrics: list[Record]) -> int | None:
        """Seats that act at once: the game's, if it is senju's, or as the first update counted them."""
        name = self.game.get("name")
        if isinstance(name, str) and name in GAMES:
            return make_game(**self.game).num_acting
        if not metrics:
            return None
        first = metrics[0]
        moves = first["update"] * self.collect.num_games * self.collect.rollout_steps
        if self.collect.whole_games:  # rows rest after their games
            moves = first["steps_per_game"] * first["games_finished"]
        return round(first["steps"] / moves) if moves else None


class RunFolder:
    """What a run's folder tells without running any code that the run names."""

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
        """Some of its settings."""
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
        """One record per measuring of the agents, in order, where each seat has one of its own."""
        return records_of("episodes", self.path / METRICS)


def refuse_links(folder: Path, names: Iterable[str]) -> None:
    """Refuse links in a folder where senju writes: what they point to may be anybody's."""
    link = find_link(folder, names)
    if link is not None:
        raise RunFolderError(f"cannot use {folder}: {describe_os_error(link_error(link))}: {link}")
