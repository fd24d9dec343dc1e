"""A run: a folder with the resolved config, checkpoints and metrics, and the agents in it."""

import fcntl
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from senju.algorithms.independent import SeatSettings
from senju.collect.exploration import Acting
from senju.config import validated
from senju.errors import CheckpointError, ConfigError, RunFolderError
from senju.files import (
    describe_os_error,
    encoded,
    make_folder,
    replace_durably,
)
from senju.games import GAMES, make_game
from senju.games.game import Game
from senju.models import Model, make_model
from senju.models.weights import WeightBlock, Weights
from senju.opponents.ratings import Rating, fit_ratings
from senju.training.agent import Agent
from senju.training.blobs import BlobStore
from senju.training.checkpoint import (
    Checkpoint,
    load_checkpoint,
    other_checkpoints,
    read_state,
)
from senju.training.run_config import RunConfig, dump_config, load_config
from senju.training.run_folder import CHECKPOINTS, CONFIG, RunFolder
from senju.training.saved_state import require_state, taken_up
from senju.training.seats import demands_of
from senju.trust import is_trusting, require_trust


class Run(RunFolder):
    """A training run on disk. `Run(path)` opens one; `Run.create` starts a folder for one.

    A run that names code outside of senju and of installed packages is refused with a TrustError, unless
    it was trained on this machine with that code; `trust=True` loads it all the same.
    """

    def __init__(self, path: str | os.PathLike[str], trust: bool = False) -> None:
        super().__init__(path)
        self.trust = is_trusting(trust)
        self.config = load_config(self.path / CONFIG, self.trust)

    @classmethod
    def create(cls, path: Path, config: RunConfig) -> "Run":
        """Make the folder of a new run; an existing one is never written over."""
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            hint = f"go on with --resume {path}" if (path / CONFIG).exists() else "it holds something else"
            raise RunFolderError(f"{path} exists already; {hint}, or choose another --run") from None
        except OSError as error:
            raise RunFolderError(f"cannot make the run folder {path}: {describe_os_error(error)}") from error
        try:
            (path / CHECKPOINTS).mkdir()
            replace_durably(path / CONFIG, encoded(dump_config(config)))
        except OSError as error:
            shutil.rmtree(path, ignore_errors=True)
            raise RunFolderError(f"cannot make the run folder {path}: {describe_os_error(error)}") from error
        return cls(path, trust=True)  # what it names, the user named

    def save_config(self, config: RunConfig) -> None:
        """Replace the run's settings, as a resume with other limits does."""
        self.write(CONFIG, dump_config(config))
        self.config = config

    def write(self, name: str, content: str | bytes) -> None:
        """Replace a file of the run whole."""
        path = self.path / name
        try:
            make_folder(path.parent, self.path)
            data = encoded(content) if isinstance(content, str) else content
            replace_durably(path, data, self.path)
        except OSError as error:
            raise RunFolderError(f"cannot write {path}: {describe_os_error(error)}") from error

    @cached_property
    def game(self) -> Game:
        """The run's game."""
        return make_game(**self.config.game)

    @property
    def agents(self) -> list[Agent]:
        """The agents of the newest checkpoint: one for each seat, or the only one."""
        return self.agents_at()

    def agents_at(self, checkpoint: str | None = None) -> list[Agent]:
        """Those of a checkpoint by name or update; agent i sits in seat i, where each has its own."""
        if not self.config.is_independent:
            return [self.agent_at(checkpoint)]
        path = self.checkpoints.latest() if checkpoint is None else self.checkpoints.named(checkpoint)
        saved = self.load(path, ("game", "model", "seats"))
        agents = []
        for seat, model in zip(self.config.seat_settings, self.new_models(), strict=True):
            with taken_up(path):
                model.load_state_dict(_with_prefix(saved.tensors, f"learner.{seat.seat}.model."))
            agents.append(self._agent_in(seat, model, saved.state["update"]))
        return agents

    def agents_of(self, weights: Sequence[Weights], update: int) -> list[Agent]:
        """Agents with copies of published weights, a block for each seat."""
        agents = []
        for seat, model, block in zip(self.config.seat_settings, self.new_models(), weights, strict=True):
            WeightBlock(model).write(block)
            agents.append(self._agent_in(seat, model, update))
        return agents

    def _agent_in(self, seat: SeatSettings, model: Model, update: int) -> Agent:
        acting = Acting(**demands_of(seat.algorithm).acting)
        return Agent(self.game, model, f"{self.path.name}@{update} {seat.name}", acting, seat.model)

    @property
    def agent(self) -> Agent:
        """The agent of the newest checkpoint."""
        return self.agent_at()

    def require_one_agent(self) -> None:
        """Refuse a run that has an agent in each seat, where one is to play for itself."""
        if self.config.is_independent:
            raise ConfigError(
                f"{self.path} holds no single agent: each of its {self.game.num_seats} seats has its own, "
                "and they play together; `run.agents` lists them, `senju evaluate` measures them"
            )

    def agent_at(self, checkpoint: str | None = None) -> Agent:
        """The agent of a checkpoint by name or update, or of the newest; or a snapshot in the run's pool."""
        self.require_one_agent()
        if (
            checkpoint is not None
            and not self.checkpoints.has(checkpoint)
            and re.fullmatch("[0-9]{1,18}", checkpoint)
        ):
            snapshots = self.snapshots
            if int(checkpoint) in snapshots:
                return self._agent_of_snapshot(int(checkpoint), snapshots[int(checkpoint)])
        path = self.checkpoints.latest() if checkpoint is None else self.checkpoints.named(checkpoint)
        saved = self.load(path)
        learner = {name.removeprefix("learner."): tensor for name, tensor in saved.tensors.items()}
        with taken_up(path):
            return self.agent_from(learner, saved.state["update"])

    def agent_from(self, learner_tensors: Mapping[str, Tensor], update: int) -> Agent:
        """An agent with a copy of a learner's weights."""
        model = self.new_model()
        model.load_state_dict(_with_prefix(learner_tensors, "model."))
        return self._new_agent(model, update)

    def _new_agent(self, model: Model, update: int) -> Agent:
        acting = Acting(**self.config.demands.acting)
        return Agent(self.game, model, f"{self.path.name}@{update}", acting, self.config.model)

    def _agent_of_snapshot(self, update: int, blob: str) -> Agent:
        model = self.new_model()
        WeightBlock(model).write(BlobStore(self.checkpoints.blobs).read_weights(blob))
        return self._new_agent(model, update)

    @property
    def snapshots(self) -> dict[int, str]:
        """The past selves that the newest checkpoint keeps in its pool: blobs of weights, by update."""
        state = self._newest_state()
        weights = state.get("opponents_weights", {})
        return {
            m["update"]: weights[str(m["number"])] for m in _members(state) if m["update"] >= 0 <= m["place"]
        }

    @property
    def training_ratings(self) -> list[Rating]:
        """The pool's members and the newest agent, rated by the games of training; empty without a pool."""
        state = self._newest_state()
        members = _members(state)
        if not members:
            return []
        names = {member["number"]: member["name"] for member in members}
        if all(member["update"] != state["update"] for member in members):
            names[state["pool"]["next"]] = f"update {state['update']}"  # its games since the last snapshot
        results = {(first, second): counts for first, second, *counts in state["pool"]["results"]}
        return list(fit_ratings(names, results))

    def _newest_state(self) -> dict[str, Any]:
        if not self.checkpoints.all():
            return {}
        path = self.checkpoints.latest()
        state = read_state(path)
        require_state(path, state)
        return state

    def new_model(self) -> Model:
        """The run's network with its initial weights."""
        return new_model(self.game, self.config)

    def new_models(self) -> list[Model]:
        """The initial networks of all agents: one for each seat, or the only one."""
        return new_models(self.game, self.config)

    def load(self, path: Path, parts: Sequence[str] = ("game", "model")) -> Checkpoint:
        """A checkpoint of this run, verified to be of the same game and network, or more parts."""
        checkpoint = load_checkpoint(path)
        require_state(path, checkpoint.state)
        require_trust(path, checkpoint.state, self.trust)
        for part, expected in self.identity(parts).items():
            saved = self._completed(part, checkpoint.state)
            if saved != expected:
                raise CheckpointError(
                    f"{path} is of the {part} {_show(saved)}, the run is of {_show(expected)}; "
                    f"{other_checkpoints(path)}"
                )
        return checkpoint

    def identity(self, parts: Sequence[str]) -> dict[str, Any]:
        """The settings of some parts, as a checkpoint keeps them."""
        settings = self.config.model_dump(mode="json")
        return {part: settings[part] for part in parts}

    def _completed(self, part: str, saved: Mapping[str, Any]) -> Any:
        """A part's saved settings, with today's defaults for what an older senju did not know."""
        settings = self.config.model_dump(mode="json")
        del settings[part]
        try:
            filled = validated(RunConfig, settings | {part: saved[part]} if part in saved else settings)
        except ConfigError:
            return saved.get(part, {})
        return filled.model_dump(mode="json")[part]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training this run meanwhile; the lock dies with the process."""
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


def new_model(game: Game, config: RunConfig) -> Model:
    """The network that a run with this config starts from."""
    return make_model(config.model, game.observation_shape, game.num_actions, config.seed)


def new_models(game: Game, config: RunConfig) -> list[Model]:
    """The networks that a run starts from: one for each seat, or the only one."""
    if not config.is_independent:
        return [new_model(game, config)]
    shape, actions = game.observation_shape, game.num_actions
    return [make_model(seat.model, shape, actions, seat.seed) for seat in config.seat_settings]


def _with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): tensor for n, tensor in tensors.items() if n.startswith(prefix)}


def _members(state: dict[str, Any]) -> list[dict[str, Any]]:
    members: list[dict[str, Any]] = (state.get("pool") or {}).get("members", [])
    return members


def _show(part: Any) -> str:
    if not isinstance(part, dict):
        return repr(part)
    options = ", ".join(f"{key}={value}" for key, value in part.items() if key != "name")
    if "name" not in part:
        return options or "none"
    return f"{part['name']!r}" + (f" ({options})" if options else "")
