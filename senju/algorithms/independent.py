"""Independent agents: a learner for every seat, each with its own network, memory and schedule.

Nothing is shared. Who is trained after which turn is decided here; how the learners are run, one after
another, stacked or in processes, is a `Way`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from senju.algorithms.learner import Learner, LearnerState
from senju.collect.slots import NO_CLOCK, Ring, Rollout
from senju.config import Settings
from senju.games.game import SeatView
from senju.machine import math_threads
from senju.models.weights import Weights

_PATIENCE = 5.0  # seconds that a learner may take at least before nobody waits for it


@dataclass(frozen=True)
class SeatSettings:
    """Who learns in a seat, and when: plain data, so that it can be sent anywhere."""

    seat: int
    model: Settings
    algorithm: Settings
    seed: int
    total_updates: int  # what its schedules run over
    device: str = "cpu"
    train_every: int = 1  # turns
    order: int = 0  # smaller ones are trained first
    learns: bool = True

    @property
    def name(self) -> str:
        """As people read it."""
        return f"agent {self.seat}"


class Task(NamedTuple):
    """Train one agent."""

    seat: int
    turns: tuple[int, ...]  # new since its last training, oldest first
    shards: tuple[tuple[int, ...], ...]  # that were played in each of those turns
    attention: float = 1.0  # how much more than usual it is to learn
    number: int = 0  # of its trainings, those left out because it was busy included; 0: the next

    def brief(self, learner: Learner) -> None:
        """Tell a learner what is special this time. Its schedules count the trainings left out as well."""
        learner.attention = self.attention
        if self.number:
            learner.version = self.number - 1


class Learned(NamedTuple):
    """An agent was trained. Times are of `time.monotonic`."""

    seat: int
    metrics: dict[str, float]
    began: float
    ended: float


class Incident(NamedTuple):
    """Something a person may want to know of: a learner lost or replaced, …"""

    kind: str
    message: str


class LearnerStatus(NamedTuple):
    """A process, or a thread, in which agents learn."""

    number: int
    state: str  # starting, waiting, learning
    agents: tuple[int, ...]
    trainings: int  # finished since the start
    restarts: int
    memory_bytes: int  # of its process; 0 for a thread
    pid: int | None  # None for a thread


def rollouts_of(ring: Ring, task: Task) -> list[Rollout]:
    """What an agent is to learn from; learners look at shard, turn and data alone."""
    return [
        Rollout(shard, 0, ring.slot(shard, turn), NO_CLOCK, turn)
        for turn, shards in zip(task.turns, task.shards, strict=True)
        for shard in shards
    ]


class Way(ABC):
    """How the agents' learners are run.

    way.attach(rings, view)
    learned = way.learn(tasks)
    """

    @abstractmethod
    def attach(self, rings: Sequence[Ring], view: SeatView) -> None:
        """Learn from these from now on; ring i is agent i's alone."""

    @abstractmethod
    def learn(self, tasks: Sequence[Task]) -> list[Learned]:
        """Train these agents.

        Returns when all are trained, in the tasks' order; a free-running way returns at once, with
        those that have finished since the last call.
        """

    def is_busy(self, seat: int) -> bool:
        """Whether an agent is being trained meanwhile."""
        return False

    def finish(self, seats: Sequence[int] | None = None, seconds: float | None = None) -> list[Learned]:
        """Wait for these (None: all) that are being trained meanwhile, for so long at most.

        Returns those that have finished since the last call.
        """
        return []

    @abstractmethod
    def weights(self, seat: int) -> Weights:
        """An agent's weights to publish."""

    @abstractmethod
    def epsilon(self, seat: int) -> float:
        """The share of random moves an agent is to make with the weights of now."""

    @abstractmethod
    def state(self, seat: int) -> LearnerState:
        """All an agent's learner needs to go on."""

    @abstractmethod
    def load_state(self, seat: int, state: LearnerState) -> None:
        """Let an agent go on from a saved state; what lies in its ring belongs to it."""

    @abstractmethod
    def take_timings(self) -> dict[str, float]:
        """Seconds spent in each stage of learning since the last call."""

    def take_incidents(self) -> list[Incident]:
        """What happened since the last call that a person may want to know."""
        return []

    def status(self) -> tuple[LearnerStatus, ...]:
        """Those who learn beside the run, now; may be asked from another thread."""
        return ()

    def close(self) -> None:  # noqa: B027  # most have nothing to stop
        """Stop, and leave nothing behind; may be called twice."""


class OneByOne(Way):
    """One agent after another, in this process. It is the oracle."""

    def __init__(self, learners: Sequence[Learner]) -> None:
        self.learners = list(learners)
        self._rings: Sequence[Ring] = ()

    def attach(self, rings: Sequence[Ring], view: SeatView) -> None:
        """Each learner gets its own ring."""
        self._rings = rings
        for learner, ring in zip(self.learners, rings, strict=True):
            learner.attach(ring, view)

    def learn(self, tasks: Sequence[Task]) -> list[Learned]:
        """Train them in the tasks' order."""
        with math_threads(1):  # as learner processes have: small batches round differently with more
            return [self.train(task) for task in tasks]

    def train(self, task: Task) -> Learned:
        """Train one agent."""
        began, learner = monotonic(), self.learners[task.seat]
        task.brief(learner)
        metrics = learner.update(rollouts_of(self._rings[task.seat], task))
        return Learned(task.seat, metrics, began, monotonic())

    def weights(self, seat: int) -> Weights:
        """The learner's."""
        return self.learners[seat].weights()

    def epsilon(self, seat: int) -> float:
        """The learner's."""
        return self.learners[seat].epsilon

    def state(self, seat: int) -> LearnerState:
        """The learner's."""
        return self.learners[seat].state()

    def load_state(self, seat: int, state: LearnerState) -> None:
        """The learner's."""
        self.learners[seat].load_state(state)

    def take_timings(self) -> dict[str, float]:
        """Of all learners together."""
        return summed([learner.take_timings() for learner in self.learners])


def summed(timings: Sequence[dict[str, float]]) -> dict[str, float]:
    """Seconds per stage, added up."""
    total: dict[str, float] = {}
    for each in timings:
        for stage, seconds in each.items():
            total[stage] = total.get(stage, 0.0) + seconds
    return total


class Attention:
    """Who is to learn more: the agent whose reward or loss moves most.

    Fast and slow running means of both are compared. The mean over all agents is 1, so that the work
    stays the same and only goes to others.
    """

    FAST, SLOW, LEAST = 0.5, 0.1, 0.5

    def __init__(self, num_seats: int) -> None:
        self._means = np.zeros((num_seats, 2, 2))  # [seat, reward or loss, fast or slow]
        self._counts = np.zeros((num_seats, 2), np.int64)

    def see(self, seat: int, reward: float | None = None, loss: float | None = None) -> None:
        """Note an agent's newest reward or loss."""
        for kind, value in enumerate((reward, loss)):
            if value is None:
                continue
            means = self._means[seat, kind]
            rates = np.array([self.FAST, self.SLOW])
            means += value - means if not self._counts[seat, kind] else rates * (value - means)
            self._counts[seat, kind] += 1

    def shares(self) -> list[float]:
        """How much each agent is to learn; 1 on average."""
        fast, slow = self._means[..., 0], self._means[..., 1]
        scale = np.abs(slow) + 1e-3 * np.abs(slow).max(axis=0) + 1e-12
        moves = (np.abs(fast - slow) / scale).sum(axis=1)
        if not moves.any():
            return [1.0] * len(moves)
        shares = self.LEAST + (1.0 - self.LEAST) * moves / moves.mean()
        return [float(share) for share in shares]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"means": self._means.tolist(), "counts": self._counts.tolist()}

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from what `as_dict` gave."""
        self._means[:], self._counts[:] = saved["means"], saved["counts"]


class Independent(Learner):
    """All agents of a world, as one learner to whoever collects: their weights are published together."""

    def __init__(
        self,
        seats: Sequence[SeatSettings],
        way: Way,
        attention: Literal["equal", "adaptive"] = "equal",
        turns_ahead: int = 1,
    ) -> None:
        """Where the way is free-running, collecting is at most `turns_ahead` turns ahead of a learner."""
        self.seats, self.way, self.version = list(seats), way, 0
        self._turns_ahead = turns_ahead
        self._ordered = [-1] * len(self.seats)  # the turn after which each was last ordered to train
        self._in_vain = [-1] * len(self.seats)  # the order of each that was waited for too long
        self._longest = 0.0  # seconds of a training
        self._is_adaptive = attention == "adaptive"
        self._attention = Attention(len(self.seats))
        self._new: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in self.seats]
        self._rings: Sequence[Ring] = ()
        self._learned: list[Learned] = []

    def attach_all(self, rings: Sequence[Ring], view: SeatView) -> None:
        """Learn from these rings, one for each agent."""
        self._rings = rings
        self.way.attach(rings, view)

    @property
    def epsilons(self) -> tuple[float, ...]:
        """Each agent's share of random moves."""
        return tuple(self.way.epsilon(seat.seat) for seat in self.seats)

    def update(self, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Train those whose time has come, each from what it has seen since the last time."""
        turn, shards = rollouts[0].turn, tuple(rollout.shard for rollout in rollouts)
        rewards = self._rewards(rollouts)
        for seat in self.seats:
            self._attention.see(seat.seat, reward=rewards[seat.seat])
            self._new[seat.seat].append((turn, shards))
            del self._new[seat.seat][: -self._rings[seat.seat].shape.kept]
        learned = self._wait_for_the_slowest(turn) + self.way.learn(self._tasks(turn))
        self.version += 1
        seats = range(len(self.seats))
        lags = {f"agent_{i}/lag": float(self._lag(i, turn)) for i in seats if self.way.is_busy(i)}
        return self._describe(learned) | {f"agent_{i}/reward": rewards[i] for i in seats} | lags

    def _lag(self, seat: int, turn: int) -> int:
        """How many turns ago a training was ordered that is not finished yet."""
        return turn - self._ordered[seat] if self.way.is_busy(seat) else 0

    def _wait_for_the_slowest(self, turn: int) -> list[Learned]:
        """Where collecting is as far ahead of a learner as it may be, wait for it.

        Not for one that takes far longer than any did: it hangs, and the others go on without it.
        """
        late = [
            seat.seat
            for seat in self.seats
            if self._lag(seat.seat, turn) >= self._turns_ahead
            and self._in_vain[seat.seat] != self._ordered[seat.seat]
        ]
        if not late:
            return []
        learned = self.way.finish(late, max(_PATIENCE, 3.0 * self._longest))
        for seat in late:
            if self.way.is_busy(seat):
                self._in_vain[seat] = self._ordered[seat]
        return learned

    def _rewards(self, rollouts: Sequence[Rollout]) -> list[float]:
        """What each agent got per step of a game."""
        steps = sum(rollout.data.terminated.size for rollout in rollouts)
        sums = [
            sum(float(rollout.slots[seat.seat].rewards.sum(dtype=np.float64)) for rollout in rollouts)
            for seat in self.seats
        ]
        return [total / steps for total in sums]

    def _tasks(self, turn: int) -> list[Task]:
        """Who is to be trained now, in order."""
        shares = self._attention.shares() if self._is_adaptive else [1.0] * len(self.seats)
        due = [
            seat
            for seat in self.seats
            if seat.learns and (turn + 1) % seat.train_every == 0 and not self.way.is_busy(seat.seat)
        ]
        due.sort(key=lambda seat: (seat.order, -shares[seat.seat], seat.seat))
        tasks = []
        for seat in due:
            turns, shards = zip(*self._new[seat.seat], strict=True)
            self._ordered[seat.seat] = turn
            number = (turn + 1) // seat.train_every
            tasks.append(Task(seat.seat, turns, shards, shares[seat.seat], number))
            self._new[seat.seat] = []
        return tasks

    def _describe(self, learned: Sequence[Learned]) -> dict[str, float]:
        """Each agent's metrics, and of each their mean."""
        self._learned += learned
        self._longest = max([self._longest, *(each.ended - each.began for each in learned)])
        metrics: dict[str, float] = {}
        all_of: dict[str, list[float]] = {}
        for each in learned:
            loss = each.metrics.get("loss", each.metrics.get("value_loss"))  # a policy's own says little
            self._attention.see(each.seat, loss=loss)
            for name, value in each.metrics.items():
                metrics[f"agent_{each.seat}/{name}"] = value
                all_of.setdefault(name, []).append(value)
        return {name: float(np.mean(values)) for name, values in all_of.items()} | metrics

    def first_new_turn(self, seat: int, turn: int) -> int:
        """The oldest turn that an agent has yet to learn from; `turn` where there is none."""
        return self._new[seat][0][0] if self._new[seat] else turn

    def finish(self) -> dict[str, float]:
        """Wait for the last training, where it goes on by itself."""
        return self._describe(self.way.finish())

    def take_learned(self) -> list[Learned]:
        """Who was trained since the last call."""
        learned, self._learned = self._learned, []
        return learned

    def weights(self) -> Weights:
        """All agents' weights, one after another."""
        return np.concatenate([self.way.weights(seat.seat) for seat in self.seats])

    def state(self) -> LearnerState:
        """Every agent's state, and what each has yet to learn from."""
        tensors: dict[str, torch.Tensor] = {}
        numbers = []
        for seat in self.seats:
            state = self.way.state(seat.seat)
            tensors |= {f"{seat.seat}.{name}": tensor for name, tensor in state.tensors.items()}
            numbers.append(state.numbers)
        return LearnerState(
            tensors,
            {
                "version": self.version,
                "agents": numbers,
                "new": self._new,
                "attention": self._attention.as_dict(),
            },
        )

    def load_state(self, state: LearnerState) -> None:
        """Let every agent go on."""
        self.version = state.count("version")
        self._attention.load(state.numbers["attention"])
        self._new = [[(turn, tuple(shards)) for turn, shards in new] for new in state.numbers["new"]]
        for seat, numbers in zip(self.seats, state.numbers["agents"], strict=True):
            prefix = f"{seat.seat}."
            own = {n.removeprefix(prefix): t for n, t in state.tensors.items() if n.startswith(prefix)}
            self.way.load_state(seat.seat, LearnerState(own, numbers))

    def take_timings(self) -> dict[str, float]:
        """Seconds per stage since the last call."""
        return self.way.take_timings()

    def close(self) -> None:
        """Stop the way the learners are run."""
        self.way.close()
