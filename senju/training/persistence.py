"""Persistence of a run: what a checkpoint saves of the training loop, and how it is restored."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from senju.algorithms.learner import LearnerState
from senju.collect.shard import ShardState, new_shard_state
from senju.cuda import versions_of
from senju.errors import CheckpointError
from senju.evaluation.opponents import FixedOpponent, specs_as_dicts
from senju.models import make_model
from senju.models.weights import WeightBlock, Weights
from senju.opponents.opponent_players import OpponentSpec
from senju.opponents.pool import OpponentPool
from senju.runs.blobs import BlobStore
from senju.runs.checkpoint import Checkpoint
from senju.runs.ring_saving import RingSaver
from senju.runs.run import Run, with_prefix
from senju.runs.run_socket import SOCKET
from senju.runs.saved_state import restoring_from
from senju.training.loop import Loop

logger = logging.getLogger(__name__)

# a checkpoint with other values belongs to another run
DECIDING_PARTS = (
    *("game", "model", "algorithm", "collect", "opponents"),
    *("seats", "attention", "parallel.train_interval", "seed"),
)


class RunPersistence:
    """A run's training loop: saves it, and restores it from the newest or from a named checkpoint."""

    def __init__(self, run: Run, checkpoint: str | None = None) -> None:
        self.run, self.config = run, run.config
        self._named = checkpoint
        self._store = BlobStore(run.checkpoints.blobs)
        self._savers: dict[int, RingSaver] = {}  # by the seat whose policy learns from it
        self._blobs: dict[int, str] = {}  # of opponents' weights, by the opponent's number
        self._versions = versions_of(self.config.device)  # with which the run began
        self.changed_versions = ""  # a sentence, if a resumed run began with others
        here = run.path.resolve()
        plan = self.config.plan.model_copy(update={"folder": str(here), "sockets": (str(here / SOCKET),)})
        self.loop = Loop(self.config, run.game, fixed=self._saved_fixed(), plan=plan)

    def _find(self) -> Path | None:
        folder = self.run.checkpoints
        if self._named:
            return folder.named(self._named)
        return folder.latest() if folder.all() else None

    def _saved_fixed(self) -> list[FixedOpponent] | None:
        """Fixed opponents as they were when the run began, even if their own runs have changed."""
        path = self._find() if self.config.has_opponents else None
        if path is None:
            return None
        state = self.run.load(path, DECIDING_PARTS).state
        weights = self._read_weights(state)
        with restoring_from(path):
            return [
                self._saved_opponent(OpponentSpec(**spec), weights.get(number))
                for number, spec in enumerate(state["fixed"], start=1)
            ]

    def _saved_opponent(self, spec: OpponentSpec, weights: Weights | None) -> FixedOpponent:
        """A fixed opponent; its model is built here, so that an error names the checkpoint."""
        if spec.model is not None:
            game = self.run.game
            model = make_model(spec.model, game.observation_shape, game.num_actions, seed=0)
            if weights is None:
                raise ValueError(f"the weights of {spec.description} are missing")
            WeightBlock(model).write(weights)
        return FixedOpponent(spec, weights)

    def _read_weights(self, state: dict[str, Any]) -> dict[int, Weights]:
        self._blobs = {int(number): name for number, name in state.get("opponents_weights", {}).items()}
        return {number: self._store.read_weights(name) for number, name in self._blobs.items()}

    def note_turn(self, update: int) -> None:
        """Begin to save an update's rollouts, if the next checkpoint needs them."""
        interval = self.config.checkpoint.interval
        next_save = min(-(-update // interval) * interval, self.config.total_updates)
        for seat, saver in self._savers.items():
            policy = self.loop.plan.policies[seat]
            if policy.keeps_final and next_save - update < policy.kept_turns:
                saver.note(update - 1)

    def _new_savers(self) -> dict[int, RingSaver]:
        """A saver for each ring that later updates learn from: a replay, or rollouts not yet learned from."""
        savers, loop = {}, self.loop
        for seat, (ring, policy) in enumerate(zip(loop.backend.rings, loop.plan.policies, strict=True)):
            if policy.keeps_final or policy.kept_turns > 1:
                prefix = f"seat_{seat}_" if loop.learner.has_agents else ""
                savers[seat] = RingSaver(ring, self._store, prefix, keeps_all=not policy.keeps_final)
        return savers

    def save(self, counters: dict[str, Any]) -> Path:
        """Write a checkpoint."""
        loop, update = self.loop, counters["update"]
        state = loop.learner.state()
        tensors = {f"learner.{name}": tensor for name, tensor in state.tensors.items()}
        for index, shard in enumerate(loop.backend.snapshot()):
            for name, array in shard._asdict().items():
                tensors[f"shard.{index}.{name}"] = _as_bytes(array)
        content = {**counters, "learner": state.numbers, **self.run.identity(DECIDING_PARTS)}
        if self._versions:
            content["versions"] = self._versions
        turns: list[str] = []
        for seat, saver in self._savers.items():
            turns += saver.finish(self._first_turn(seat, update), update - 1)
        content["turns"] = turns
        if loop.pool is not None:
            self._save_weights(loop.pool)
            tensors["pool.totals"] = torch.from_numpy(loop.pool.totals.copy())
            content["pool"] = loop.pool.as_dict()
            content["fixed"] = specs_as_dicts(loop.fixed)
            content["opponents_weights"] = {str(number): name for number, name in self._blobs.items()}
        blobs = (*turns, *self._blobs.values())
        keep = self.config.checkpoint.keep
        return self.run.checkpoints.save(update, Checkpoint(tensors, content, blobs), keep)

    def _save_weights(self, pool: OpponentPool) -> None:
        """Write the weights of opponents that joined the pool since the last checkpoint."""
        self._blobs = {
            number: self._blobs.get(number)
            or self._store.write(f"opponent_{number:06d}", {"weights": self.loop.weights_of(number)})
            for number in (o.number for o in pool.opponents if o.weight_index >= 0)
        }

    def restore(self) -> dict[str, Any] | None:
        """Restore a checkpoint into the started loop, if the run has one, and return its counters."""
        self.run.checkpoints.remove_unfinished()
        self._savers = self._new_savers()
        path = self._find()
        if path is None:
            return None
        checkpoint = self.run.load(path, DECIDING_PARTS)
        with restoring_from(path):
            self._restore_state(checkpoint.state, checkpoint.tensors)
        self._compare_versions(checkpoint.state.get("versions"))
        self.run.checkpoints.set_aside_after(path)
        logger.info("resumed from %s", path.name)
        return checkpoint.state

    def _restore_state(self, state: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        loop = self.loop
        turns = {seat: saver.load(state["turns"]) for seat, saver in self._savers.items()}
        loop.learner.load_state(LearnerState(with_prefix(tensors, "learner."), state["learner"]))
        for seat, found in turns.items():
            missing = set(range(self._first_turn(seat, state["update"]), state["update"])).difference(found)
            if missing:
                raise CheckpointError(
                    f"rollouts of {len(missing)} updates are missing, the first {min(missing)}"
                )
        if loop.pool is not None:
            weights = self._read_weights(state)
            own = {number: weights[number] for number in weights if number > len(loop.fixed)}
            loop.pool.load(state["pool"], own, tensors["pool.totals"].numpy())
        states = [self._read_shard(tensors, index) for index in range(loop.plan.num_shards)]
        loop.backend.restore(states, turn=state["update"])

    def _compare_versions(self, began_with: Any) -> None:
        """Keep what the run began with, and say where this machine differs from it."""
        if not self._versions:  # on the CPU
            return
        if not isinstance(began_with, dict) or not began_with:
            self.changed_versions = (
                "the run began with a version of senju that did not record its GPU; its results may differ "
                "from those of an uninterrupted run"
            )
            return
        now, self._versions = self._versions, began_with
        differences = [
            f"{name} {began_with.get(name)} is now {now.get(name)}"
            for name in sorted({*began_with, *now})
            if began_with.get(name) != now.get(name)
        ]
        if differences:
            self.changed_versions = (
                f"the run began on another GPU or version: {', '.join(differences)}; its results may differ "
                "from those of an uninterrupted run"
            )

    def _first_turn(self, seat: int, update: int) -> int:
        """The oldest turn in a policy's ring that a checkpoint after this update needs."""
        policy = self.loop.plan.policies[seat]
        first = max(0, update - policy.kept_turns)
        return first if policy.keeps_final else max(first, self.loop.learner.first_new_turn(seat, update))

    def _read_shard(self, tensors: dict[str, torch.Tensor], index: int) -> ShardState:
        """A shard's saved state; without `seated`, the learner sits in every seat."""
        state = new_shard_state(self.run.game, self.loop.plan.games_per_shard)
        for name, array in state._asdict().items():
            key = f"shard.{index}.{name}"
            if key in tensors or name != "seated":
                array[:] = tensors[key].numpy().view(array.dtype).reshape(array.shape)
        return state

    def close(self) -> None:
        """Wait for background writes and stop their threads."""
        for saver in self._savers.values():
            saver.close()


def _as_bytes(array: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array).view(np.uint8).reshape(-1).copy())
