"""How the learners of a group run: the contract, and the reference, which trains one agent after another."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

from senju.algorithms.learner import Learner, LearnerState
from senju.collect.slots import NO_CLOCK, Ring, Rollout
from senju.config import Settings
from senju.cuda import Kernels
from senju.events import Event
from senju.games.game import Game, SeatView
from senju.machine import math_threads
from senju.models.weights import Weights
from senju.timing import add_seconds


@dataclass(frozen=True)
class LearnerSettings:
    """A learner and its schedule, as plain data that can be sent anywhere."""

    seat: int  # 0 in self-play, where one learner trains all seats
    model: Settings
    algorithm: Settings
    seed: int
    total_updates: int  # the length of its schedules
    device: str = "cpu"
    kernels: Kernels = "repeatable"  # of gradient steps on a GPU
    train_every: int = 1  # turns
    train_order: int = 0  # smaller ones are trained first
    learns: bool = True

    @property
    def name(self) -> str:
        """The agent's name in messages and tables."""
        return f"agent {self.seat}"


class TrainingTask(NamedTuple):
    """Train one agent."""

    seat: int
    turns: tuple[int, ...]  # new since its last training, oldest first
    shards: tuple[tuple[int, ...], ...]  # played in each of those turns
    training_share: float = 1.0  # factor on its gradient steps or epochs
    number: int = 0  # of its trainings, including those skipped because it was busy; 0: the next

    def apply(self, learner: Learner) -> None:
        """Set a learner up for this training. Its schedules count skipped trainings as well."""
        learner.training_share = self.training_share
        if self.number:
            learner.version = self.number - 1


class TrainingResult(NamedTuple):
    """The result of a training. Times are of `time.monotonic`."""

    seat: int
    metrics: dict[str, float]
    began: float
    ended: float


class LearnerStatus(NamedTuple):
    """A process, or a thread, in which agents learn."""

    number: int
    state: str  # starting, waiting, learning
    agents: tuple[int, ...]
    trainings: int  # finished since the start
    restarts: int
    memory_bytes: int  # of its process; 0 for a thread
    pid: int | None  # None for a thread


def rollouts_of(ring: Ring, task: TrainingTask) -> list[Rollout]:
    """The rollouts of a task; learners use their shard, turn and data."""
    return [
        Rollout(shard, 0, (ring.slot(shard, turn),), NO_CLOCK, turn)
        for turn, shards in zip(task.turns, task.shards, strict=True)
        for shard in shards
    ]


class LearnerRunner(ABC):
    """Runs the learners of a group.

    runner.attach(rings, view)
    trained = runner.learn(tasks)
    """

    @abstractmethod
    def attach(self, rings: Sequence[Ring], view: Game | SeatView) -> None:
        """Learn from these rings from now on; ring i belongs to agent i."""

    @abstractmethod
    def learn(self, tasks: Sequence[TrainingTask]) -> list[TrainingResult]:
        """Train these agents.

        Returns when all are trained, in the tasks' order. A free-running runner returns at once, with the
        trainings that have finished since the last call.
        """

    def is_busy(self, seat: int) -> bool:
        """Whether an agent is being trained in the background."""
        return False

    def finish(
        self, seats: Sequence[int] | None = None, seconds: float | None = None
    ) -> list[TrainingResult]:
        """Wait for background trainings of these agents (None: all), at most for `seconds`.

        Returns the trainings that have finished since the last call.
        """
        return []

    @abstractmethod
    def weights(self, seat: int) -> Weights:
        """An agent's weights to publish."""

    @abstractmethod
    def epsilon(self, seat: int) -> float:
        """The share of random moves that an agent makes with its current weights."""

    @abstractmethod
    def state(self, seat: int) -> LearnerState:
        """The whole state of an agent's learner."""

    def state_for_saving(self, seat: int) -> tuple[LearnerState, bool]:
        """The state, and whether the agent's last task is in it; it may be under way in the background."""
        return self.state(seat), not self.is_busy(seat)

    @abstractmethod
    def load_state(self, seat: int, state: LearnerState) -> None:
        """Continue from a saved state; the agent's ring must have its saved content already."""

    @abstractmethod
    def take_timings(self) -> dict[str, float]:
        """Seconds spent in each stage of learning since the last call."""

    def take_events(self) -> list[Event]:
        """What happened since the last call that a person may want to know."""
        return []

    def status(self) -> tuple[LearnerStatus, ...]:
        """The processes that learn, now; may be called from any thread."""
        return ()

    def close(self) -> None:  # noqa: B027  # most have nothing to stop
        """Stop, and leave nothing behind; may be called twice."""


class SequentialLearners(LearnerRunner):
    """One agent after another, in this process. It is the reference."""

    def __init__(self, learners: Sequence[Learner]) -> None:
        self.learners = list(learners)
        self._rings: Sequence[Ring] = ()

    def attach(self, rings: Sequence[Ring], view: Game | SeatView) -> None:
        self._rings = rings
        for learner, ring in zip(self.learners, rings, strict=True):
            learner.attach(ring, view)

    def learn(self, tasks: Sequence[TrainingTask]) -> list[TrainingResult]:
        """Train in the tasks' order.

        Several learners compute with one thread each, as learner processes do: with more threads small
        batches round differently. A single learner uses all threads it was given.
        """
        with math_threads(1) if len(self.learners) > 1 else nullcontext():
            return [self.train(task) for task in tasks]

    def train(self, task: TrainingTask) -> TrainingResult:
        """Train one agent."""
        began, learner = monotonic(), self.learners[task.seat]
        task.apply(learner)
        metrics = learner.update(rollouts_of(self._rings[task.seat], task))
        return TrainingResult(task.seat, metrics, began, monotonic())

    def weights(self, seat: int) -> Weights:
        return self.learners[seat].weights()

    def epsilon(self, seat: int) -> float:
        return self.learners[seat].epsilon

    def state(self, seat: int) -> LearnerState:
        return self.learners[seat].state()

    def load_state(self, seat: int, state: LearnerState) -> None:
        self.learners[seat].load_state(state)

    def take_timings(self) -> dict[str, float]:
        total: dict[str, float] = {}
        for learner in self.learners:
            add_seconds(total, learner.take_timings())
        return total
