"""The trainer: collect, learn, publish; measure and save at intervals."""

import logging
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from senju.algorithms import ALGORITHMS
from senju.algorithms.learner import LearnerSetup, LearnerState
from senju.backends import BACKENDS
from senju.collect.shard import ShardState
from senju.collect.slots import Rollout
from senju.games.rows import CLOCK
from senju.machine import available_cores
from senju.memory import keep_freed_memory
from senju.timing import StageClock
from senju.training.checkpoint import Checkpoint
from senju.training.evaluation import MatchResult, play_match
from senju.training.interrupt import StopRequest
from senju.training.metrics import MetricsWriter
from senju.training.opponents import make_player
from senju.training.plot import strength_svg
from senju.training.run import Run

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Progress:
    """Where a run stands after an update."""

    update: int
    total_updates: int
    steps: int
    steps_per_second: float
    seconds_left: float
    metrics: dict[str, float]
    stages: dict[str, float]  # seconds of each stage so far in this session


class Listener:
    """Told what happens while training; every method may be left as it is."""

    def on_start(self, run: Run, update: int) -> None:
        """Training begins after `update` updates."""

    def on_update(self, progress: Progress) -> None:
        """An update is done."""

    def on_evaluation(self, update: int, result: MatchResult) -> None:
        """A match against one opponent is over."""

    def on_checkpoint(self, name: str) -> None:
        """The whole system was saved."""


class Trainer:
    """Trains one run, from its newest checkpoint or from nothing, to its total_steps."""

    def __init__(self, run: Run, listener: Listener | None = None, checkpoint: str | None = None) -> None:
        self.run, self.config = run, run.config
        self.listener = listener or Listener()
        self.total_updates = self.config.total_updates
        self.update, self.seconds = 0, 0.0
        self._clock = StageClock()
        self._stages: dict[str, float] = {}
        setup = LearnerSetup(self.config.seed, self.total_updates, torch.device(self.config.device))
        algorithm = self.config.algorithm
        self.learner = ALGORITHMS.get(algorithm["name"])(
            run.new_model(), ALGORITHMS.configure(algorithm), setup
        )
        backend = self.config.backend
        self.backend = BACKENDS.get(backend["name"])(BACKENDS.configure(backend))
        self._checkpoint = checkpoint

    def train(self, stop: StopRequest | None = None, max_updates: int | None = None) -> bool:
        """Train until done, or until asked to stop; return whether the run is finished.

        `max_updates` bounds the updates of this call. However it ends, what was learned is saved.
        """
        stop = stop or StopRequest()
        threads = torch.get_num_threads()
        torch.set_num_threads(self.config.threads or available_cores())
        keep_freed_memory()
        try:
            with self._clock.stage("start"):
                self.backend.start(self.config.plan)
                self._resume()
            writer = MetricsWriter(self.run.path, after_update=self.update)
            try:
                return self._loop(stop, writer, max_updates)
            finally:
                writer.close()
        finally:
            self.backend.close()
            torch.set_num_threads(threads)

    def _loop(self, stop: StopRequest, writer: MetricsWriter, max_updates: int | None) -> bool:
        config = self.config
        last = (
            self.total_updates if max_updates is None else min(self.update + max_updates, self.total_updates)
        )
        self.listener.on_start(self.run, self.update)
        self._began, self._first = monotonic(), self.update
        saved = self.update
        while self.update < last and not stop.is_set:
            self._one_update(writer)
            is_last = self.update == self.total_updates
            interval = config.evaluation.interval
            if is_last or (interval and self.update % interval == 0):
                self._evaluate(writer, is_last, stop)
            if self.update % config.checkpoint.interval == 0:
                self._save()
                saved = self.update
        if saved != self.update:
            self._save()
        return self.update >= self.total_updates

    def _one_update(self, writer: MetricsWriter) -> None:
        rollouts = self.backend.collect()
        metrics = self.learner.update(rollouts) | _describe_games(rollouts)
        with self._clock.stage("publish"):
            self.backend.publish(self.learner.weights(), self.learner.version)
        self.update += 1
        stages = self._take_stages()
        progress = self._progress(metrics)
        record = {
            "kind": "update",
            "update": self.update,
            "steps": progress.steps,
            "seconds": round(self.seconds + monotonic() - self._began, 3),
            **metrics,
            "stages": {name: round(seconds, 6) for name, seconds in stages.items()},
        }
        with self._clock.stage("metrics"):
            writer.write(record, {f"train/{name}": value for name, value in metrics.items()})
        self.listener.on_update(progress)

    def _take_stages(self) -> dict[str, float]:
        stages = {**self.backend.take_timings(), **self.learner.take_timings(), **self._clock.take()}
        for name, seconds in stages.items():
            self._stages[name] = self._stages.get(name, 0.0) + seconds
        return stages

    def _progress(self, metrics: dict[str, float]) -> Progress:
        done = self.update - self._first
        pace = (monotonic() - self._began) / done
        batch = self.config.decisions_per_update
        working = sum(seconds for name, seconds in self._stages.items() if name not in ("start", "match"))
        return Progress(
            update=self.update,
            total_updates=self.total_updates,
            steps=self.update * batch,
            steps_per_second=done * batch / working,
            seconds_left=pace * (self.total_updates - self.update),
            metrics=metrics,
            stages=dict(self._stages),
        )

    def _evaluate(self, writer: MetricsWriter, is_last: bool, stop: StopRequest) -> None:
        """Play each opponent; its random numbers are its own, so that training does not notice."""
        settings, game = self.config.evaluation, self.run.game
        opponents = settings.opponents + (settings.final_opponents if is_last else ())
        with self._clock.stage("match"):
            agent = self.run.agent_from(self.learner.state().tensors, self.update)
            for description in opponents:
                if stop.is_set:
                    break
                result = play_match(
                    game,
                    agent.player(),
                    make_player(game, description),
                    settings.games,
                    seed=self.config.seed,
                )
                record = {"kind": "evaluation", "update": self.update, **result.as_dict()}
                record["steps"] = self.update * self.config.decisions_per_update
                writer.write(record, {f"strength/{description}": result.score})
                self.listener.on_evaluation(self.update, result)
            self.run.write("strength.svg", strength_svg(self.run.evaluations))

    def _save(self) -> None:
        with self._clock.stage("checkpoint"):
            state = self.learner.state()
            tensors = {f"learner.{name}": tensor for name, tensor in state.tensors.items()}
            for index, shard in enumerate(self.backend.snapshot()):
                tensors[f"shard.{index}.states"] = _as_bytes(shard.states)
                tensors[f"shard.{index}.clock"] = _as_bytes(shard.clock)
            content: dict[str, Any] = {
                "update": self.update,
                "seconds": self.seconds + monotonic() - self._began,
                "game": self.config.game,
                "model": self.config.model,
                "learner": state.numbers,
            }
            keep = self.config.checkpoint.keep
            path = self.run.checkpoints.save(self.update, Checkpoint(tensors, content), keep)
        self.listener.on_checkpoint(path.name)

    def _resume(self) -> None:
        """Take up the newest checkpoint, if there is one; publish the weights either way."""
        self.run.checkpoints.remove_unfinished()
        if self._checkpoint or self.run.checkpoints.all():
            folder = self.run.checkpoints
            path = folder.named(self._checkpoint) if self._checkpoint else folder.latest()
            self._restore(self.run.load(path))
            folder.set_aside_after(path)
            logger.info("resumed from %s", path.name)
        self.backend.publish(self.learner.weights(), self.learner.version)

    def _restore(self, checkpoint: Checkpoint) -> None:
        state, tensors = checkpoint.state, checkpoint.tensors
        self.update, self.seconds = state["update"], state["seconds"]
        self.learner.load_state(
            LearnerState(
                {
                    name.removeprefix("learner."): t
                    for name, t in tensors.items()
                    if name.startswith("learner.")
                },
                state["learner"],
            )
        )
        game, num_shards = self.run.game, self.config.plan.num_shards
        self.backend.restore(
            [
                ShardState(
                    _from_bytes(tensors[f"shard.{index}.states"], game.state_dtype),
                    _from_bytes(tensors[f"shard.{index}.clock"], CLOCK),
                )
                for index in range(num_shards)
            ]
        )


def _describe_games(rollouts: list[Rollout]) -> dict[str, float]:
    """What happened in the games of a batch."""
    ended = np.stack([rollout.data.terminated | rollout.data.truncated for rollout in rollouts])
    rewards = np.stack([rollout.data.rewards for rollout in rollouts])
    count = int(ended.sum())
    first = rewards[..., 0][ended]
    return {
        "games_finished": float(count),
        "steps_per_game": ended.size / count if count else 0.0,
        "first_seat_mean_reward": float(first.mean()) if count else 0.0,
    }


def _as_bytes(array: NDArray[np.void]) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array).view(np.uint8).copy())


def _from_bytes(tensor: torch.Tensor, dtype: np.dtype[np.void]) -> NDArray[np.void]:
    return tensor.numpy().view(dtype)
