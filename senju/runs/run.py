"""A run: a folder with the resolved config, checkpoints and metrics, and its agents."""

import fcntl
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, reduce
from operator import getitem
from pathlib import Path
from typing import Any

from torch import Tensor

from senju.config import validated
from senju.errors import CheckpointError, ConfigError, RunFolderError
from senju.files import encoded, replace_durably
from senju.games import GAMES, make_game
from senju.games.game import Game
from senju.models import Model, make_model
from senju.models.weights import WeightBlock, Weights
from senju.opponents.ratings import Rating, fit_ratings
from senju.opponents.score import Score
from senju.runs.agent import Agent
from senju.runs.blobs import BlobStore
from senju.runs.checkpoint import Checkpoint, load_checkpoint, other_checkpoints, read_content
from senju.runs.run_config import RunConfig, dump_config, load_config
from senju.runs.run_folder import CHECKPOINTS, CONFIG, RunFolder, new_folder, write_file
from senju.runs.saved_state import require_state, restoring_from
from senju.runs.seats import demands_of
from senju.trust import is_trusting, require_trust


class Run(RunFolder):
    """A training run on disk. `Run(path)` opens one; `Run.create` starts a folder for one.

    A run that names code outside of senju and of installed packages is refused with a TrustError, unless
    it was trained on this machine with that code; `trust=True` loads it anyway.
    """

    def __init__(self, path: str | os.PathLike[str], trust: bool = False) -> None:
        super().__init__(path)
        self.trust = is_trusting(trust)
        self.config = load_config(self.path / CONFIG, self.trust)

    @classmethod
    def create(cls, path: Path, config: RunConfig) -> "Run":
        """Make the folder of a new run; an existing one is never overwritten."""
        with new_folder(path):
            (path / CHECKPOINTS).mkdir()
            replace_durably(path / CONFIG, encoded(dump_config(config)))
        return cls(path, trust=True)  # the user named the code that it names

    def save_config(self, config: RunConfig) -> None:
        """Replace the run's settings, as a resume with other limits does."""
        self.write(CONFIG, dump_config(config))
        self.config = config

    def write(self, name: str, content: str | bytes) -> None:
        """Replace a file of the run whole."""
        write_file(self.path, name, content)

    @cached_property
    def game(self) -> Game:
        """The run's game."""
        return make_game(**self.config.game)

    @property
    def agents(self) -> list[Agent]:
        """The agents of the newest checkpoint: one for each seat, or the only one."""
        return self.agents_at()

    @property
    def agent(self) -> Agent:
        """The agent of the newest checkpoint."""
        return self.agent_at()

    def agent_at(self, checkpoint: str | None = None) -> Agent:
        """The agent of a checkpoint by name or update, or of the newest; or a snapshot in the run's pool."""
        if self.config.is_independent:
            raise ConfigError(
                f"{self.path} holds no single agent: each of its {self.game.num_seats} seats has its own, "
                "and they play together; `run.agents` lists them, `senju evaluate` measures them"
            )
        return self.agents_at(checkpoint)[0]

    def agents_at(self, checkpoint: str | None = None) -> list[Agent]:
        """The agents of a checkpoint or snapshot: agent i of seat i, or the only one."""
        if checkpoint is not None and self.checkpoints.find(checkpoint) is None:
            snapshots = self.snapshots if re.fullmatch("[0-9]{1,18}", checkpoint) else {}
            if snapshots and int(checkpoint) in snapshots:
                weights = BlobStore(self.checkpoints.blobs).read_weights(snapshots[int(checkpoint)])
                return self.agents_of([weights], int(checkpoint))
        path = self.checkpoints.latest() if checkpoint is None else self.checkpoints.named(checkpoint)
        saved = self.load(path, ("game", "model", "seats"))
        with restoring_from(path):
            models = new_models(self.game, self.config)
            for seat, model in enumerate(models):
                model.load_state_dict(with_prefix(saved.tensors, f"learner.{seat}.model."))
        return self._new_agents(models, saved.state["update"])

    def agents_of(self, weights: Sequence[Weights], update: int) -> list[Agent]:
        """Agents with copies of published weights, a block for each."""
        models = new_models(self.game, self.config)
        for model, block in zip(models, weights, strict=True):
            WeightBlock(model).write(block)
        return self._new_agents(models, update)

    def _new_agents(self, models: Sequence[Model], update: int) -> list[Agent]:
        agents = []
        for learner, model in zip(self.config.learner_settings, models, strict=True):
            acting = demands_of(learner.algorithm).acting
            name = f"{self.path.name}@{update}" + (f" {learner.name}" if self.config.is_independent else "")
            agents.append(Agent(self.game, model, name, acting, learner.model))
        return agents

    @property
    def snapshots(self) -> dict[int, str]:
        """The snapshots in the newest checkpoint's pool: blobs of weights, by update."""
        state, opponents = self._newest_pool()
        kept = [opponent for opponent in opponents if opponent["update"] >= 0 <= opponent["weight_index"]]
        return {opponent["update"]: state["opponents_weights"][str(opponent["number"])] for opponent in kept}

    @property
    def training_ratings(self) -> list[Rating]:
        """Ratings of the pool's opponents and the newest agent, from training games; empty without a pool."""
        state, opponents = self._newest_pool()
        if not opponents:
            return []
        names = {opponent["number"]: opponent["name"] for opponent in opponents}
        if all(opponent["update"] != state["update"] for opponent in opponents):
            names[state["pool"]["next"]] = f"update {state['update']}"  # its games since the last snapshot
        results = {(first, second): Score(*counts) for first, second, *counts in state["pool"]["results"]}
        return list(fit_ratings(names, results))

    def _newest_pool(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The state of the newest checkpoint, and the opponents in its pool; empty if there are none."""
        if not self.checkpoints.all():
            return {}, []
        path = self.checkpoints.latest()
        state = read_content(path).state
        require_state(path, state)
        return state, (state.get("pool") or {"opponents": []})["opponents"]

    def load(self, path: Path, parts: Sequence[str] = ("game", "model")) -> Checkpoint:
        """A checkpoint of this run; refused where the settings of these parts differ from the run's."""
        checkpoint = load_checkpoint(path)
        require_state(path, checkpoint.state)
        require_trust(path, checkpoint.state, self.trust)
        for part, expected in self.identity(parts).items():
            saved = self._completed(part, checkpoint.state.get(part, expected))
            if saved != expected:
                raise CheckpointError(
                    f"{path} is of the {part} {_show(saved)}, the run is of {_show(expected)}; "
                    f"{other_checkpoints(path)}"
                )
        return checkpoint

    def identity(self, parts: Sequence[str]) -> dict[str, Any]:
        """The settings of some parts, or single ones like `parallel.train_interval`, for a checkpoint."""
        settings = self.config.model_dump(mode="json")
        return {part: reduce(getitem, part.split("."), settings) for part in parts}

    def _completed(self, part: str, saved: Any) -> Any:
        """A part's saved settings, with defaults for settings that are newer than the checkpoint."""
        if not isinstance(saved, dict):
            return saved
        try:
            filled = validated(RunConfig, self.config.model_dump(mode="json") | {part: saved})
        except ConfigError:
            return saved
        return filled.model_dump(mode="json")[part]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the run, so that no other process trains it; the lock ends with the process."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise RunFolderError(f"{self.path} is being trained by another process") from None
        finally:
            os.close(folder)

    def require_game(self, name: str) -> None:
        """Refuse to play another game with this run's agent."""
        GAMES.get(name)
        if self.config.game["name"] != name:
            raise RunFolderError(f"{self.path} is a run of {self.config.game['name']}, not of {name}")


def new_models(game: Game, config: RunConfig) -> list[Model]:
    """The networks that a run starts from: one for each seat, or the only one."""
    shape, actions = game.observation_shape, game.num_actions
    return [make_model(one.model, shape, actions, one.seed) for one in config.learner_settings]


def with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin with a prefix, named without it."""
    return {n.removeprefix(prefix): tensor for n, tensor in tensors.items() if n.startswith(prefix)}


def _show(part: Any) -> str:
    if not isinstance(part, dict):
        return repr(part)
    options = ", ".join(f"{key}={value}" for key, value in part.items() if key != "name")
    if "name" not in part:
        return options or "none"
    return f"{part['name']!r}" + (f" ({options})" if options else "")
