"""The role of workers that train independent agents: one task is one training of one agent."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from senju.algorithms import ALGORITHMS
from senju.algorithms.gradient_learner import GradientLearner
from senju.algorithms.learner import Learner
from senju.algorithms.learner_runner import LearnerSettings, TrainingResult, TrainingTask, rollouts_of
from senju.algorithms.optimising import load_optimizers
from senju.collect.slots import Ring
from senju.errors import WorkerError
from senju.games.game import SeatView
from senju.models import MODELS
from senju.registry import Registry
from senju.runs.seats import new_learner
from senju.timing import StageClock
from senju.training.learner_memory import AgentBytes, LearnerMemory, TrainingReport, find_ring, map_ring
from senju.workers.role import Handler, Payload, Role, Start
from senju.workers.script import find_importable
from senju.workers.shared_memory import map_shared
from senju.workers.tasks import Assignment

preload = load_optimizers  # called by the fork server


class Training(NamedTuple):
    """Train an agent for the n-th time."""

    number: int
    task: TrainingTask


class SharedAgents(NamedTuple):
    """The agents and their memory, as each learner process sees them."""

    seats: Sequence[LearnerSettings]
    view: SeatView
    rings: Sequence[Ring]
    memory: LearnerMemory
    is_free_running: bool  # collecting does not wait for learners

    def new_learner(self, seat: int) -> Learner:
        """An agent's learner at its start; its replay is in its ring."""
        learner = new_learner(self.seats[seat], self.view)
        learner.is_free_running = self.is_free_running
        learner.attach(self.rings[seat], self.view)
        return learner


@dataclass(frozen=True)
class LearnerRole(Role):
    """Trains agents from their rings, into their shared memory. Any learner can train any agent."""

    worker_name = "learner"
    activity = "learning"
    repeats = "It is trained again from its last complete state."
    new_handler = "senju.training.learner_role:new_learner_handler"

    agents: SharedAgents
    first_seats: Mapping[int, Sequence[int]]  # by worker: the agents that it trains first
    descriptors: Sequence[int]  # shared memory of the rings, and of states and weights
    sockets: Sequence[str]

    def start_payload(self, index: int) -> Payload:
        """Settings, and where everything lies in shared memory."""
        seats, _ = importable_seats(self.agents.seats)
        view = asdict(self.agents.view)
        view["observation_dtype"] = np.dtype(self.agents.view.observation_dtype).str
        rings = [find_ring(ring) for ring in self.agents.rings]
        sizes, is_free_running = self.agents.memory.sizes, self.agents.is_free_running
        return Payload([seats, view, rings, sizes, is_free_running, self.first_seats.get(index, ())])

    def local_handler(self, start: Start) -> "LearnerHandler":
        return LearnerHandler(self.agents, start.index)

    def heartbeat(self, index: int) -> float:
        return float(self.agents.memory.heartbeats[index])

    def task_payload(self, task: Assignment, worker: dict[str, Any]) -> Payload:
        return Payload(task.task)

    def result(self, task: Assignment, payload: Payload) -> TrainingReport:
        return TrainingReport.of_json(payload.values)

    def describe(self, task: Assignment) -> str:
        """Agent, training and turns."""
        training: Training = task.task
        turns, name = training.task.turns, self._name(training.task.seat)
        when = f"turn {turns[0]}" if len(turns) == 1 else f"turns {turns[0]} to {turns[-1]}"
        return f"training {training.number} of {name}, {when}"

    def _name(self, seat: int) -> str:
        return f"{self.agents.seats[seat].name} (seat {seat})"

    def describe_worker(self, index: int) -> str:
        """The agents that it trains first."""
        return ", ".join(map(self._name, self.first_seats.get(index, ())))

    def on_exhausted(self, task: Assignment, cause: str, attempts: int) -> str:
        """Stop the run."""
        raise WorkerError(
            f"{self.describe(task)} failed {attempts} times in a row; the last time: {cause.rstrip()}\n"
            "Resume the run to go on from its last checkpoint."
        )


def importable_seats(seats: Sequence[LearnerSettings]) -> tuple[list[dict[str, Any]], str | None]:
    """Seats with names that another process can import, and the script it must import first, if any."""
    found = [asdict(seat) for seat in seats]
    scripts: list[str | None] = []
    registries: dict[str, Registry[Any]] = {"model": MODELS, "algorithm": ALGORITHMS}
    for seat in found:
        for kind, registry in registries.items():
            name, script = find_importable(registry.importable_name(seat[kind]["name"]), kind)
            seat[kind]["name"] = name
            scripts.append(script)
    return found, next(filter(None, scripts), None)


class HeartbeatClock(StageClock):
    """Every lap is a heartbeat in shared memory, so that a long training is not taken for a hang."""

    def __init__(self, heartbeats: NDArray[np.float64], index: int) -> None:
        super().__init__()
        self._heartbeats, self._index = heartbeats, index

    def lap(self, stage: str) -> None:
        super().lap(stage)
        self._heartbeats[self._index] += 1.0


class LearnerHandler(Handler):
    """Builds learners when they are needed, from the state in shared memory.

    So any worker can train any agent. A learner that failed during a training is dropped; the next one
    continues from the last complete state.
    """

    def __init__(self, agents: SharedAgents, index: int, first_seats: Sequence[int] = ()) -> None:
        """Build the learners of `first_seats` now, so that their first training takes no longer."""
        self._agents, self._clock = agents, HeartbeatClock(agents.memory.heartbeats, index)
        self._stamps: dict[int, int] = {}  # of the states that the learners are in
        self._learners = {seat: self._restore(seat) for seat in first_seats}

    def execute(self, task: Payload) -> Payload:
        """Train an agent, unless a worker has done so already and was lost before it reported."""
        number, (seat, turns, shards, *others) = task.values
        training = TrainingTask(seat, tuple(turns), tuple(map(tuple, shards)), *others)
        shared = self._agents.memory.states[seat]
        learner = self._learners.pop(seat, None)  # if training raises, it stays removed
        if learner is None or self._stamps[seat] != shared.stamp:
            learner = self._restore(seat)
        if shared.version == number:
            report = shared.load().report
            assert report is not None
        else:
            report = self._learn(learner, training)
            shared.save(number, learner.state(), report)
        self._agents.memory.weights[seat].write(learner.weights(), number)
        self._learners[seat], self._stamps[seat] = learner, shared.stamp
        return Payload(report)

    def _restore(self, seat: int) -> Learner:
        learner, saved = self._agents.new_learner(seat), self._agents.memory.states[seat].load()
        learner.load_state(saved.state)
        if isinstance(learner, GradientLearner):
            learner.clock = self._clock
        self._stamps[seat] = saved.stamp
        return learner

    def _learn(self, learner: Learner, task: TrainingTask) -> TrainingReport:
        began = monotonic()
        task.apply(learner)
        metrics = learner.update(rollouts_of(self._agents.rings[task.seat], task))
        trained = TrainingResult(task.seat, metrics, began, monotonic())
        return TrainingReport(trained, learner.epsilon, learner.take_timings())


def new_learner_handler(start: Start) -> LearnerHandler:
    """Make the handler in a worker process."""
    described, viewed, locations, sizes, is_free_running, first_seats = start.payload.values
    seats = [LearnerSettings(**seat) for seat in described]
    view = SeatView(**viewed | {"observation_shape": tuple(viewed["observation_shape"])})
    ring_memory, state_memory = (map_shared(file, os.fstat(file).st_size) for file in start.descriptors)
    rings = [map_ring(location, view, ring_memory) for location in locations]
    memory = LearnerMemory([AgentBytes(*size) for size in sizes], state_memory)
    agents = SharedAgents(seats, view, rings, memory, is_free_running)
    return LearnerHandler(agents, start.index, first_seats)
