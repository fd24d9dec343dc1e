"""Rings of agents without games: made-up rollouts, the same every time, and learners to compare."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from senju.algorithms.learner_runner import (
    LearnerRunner,
    LearnerSettings,
    SequentialLearners,
    TrainingResult,
    TrainingTask,
)
from senju.collect.slots import Ring, RingShape
from senju.games.game import SeatView
from senju.runs.seats import new_learner
from senju.training.learner_processes import LearnerProcesses
from senju.workers.shared_memory import ArrayAllocator, map_shared, open_anonymous
from tests.backends.common import new_plan, wait_until
from tests.training import trap_models

VIEW = SeatView("made_up", num_actions=3, observation_shape=(4,), observation_dtype=np.uint8)
NUM_SHARDS, NUM_STEPS, NUM_ROWS = 2, 6, 4
KEPT = {"dqn": 3, "ppo": 2}
PLAN = new_plan({"name": "-"}, {"name": "-"}, 1, NUM_SHARDS, NUM_ROWS, NUM_STEPS, is_shared=True)

DQN = {"name": "dqn", "batch_size": 8, "learning_starts": 8, "target_interval": 3, "replay_size": 100}
PRIORITISED = {**DQN, "prioritised": True, "n_step": 3, "double": False}
PPO = {"name": "ppo", "minibatch_size": 16, "epochs": 2}
MLP = {"name": "mlp", "hidden": [8]}


def agents(*algorithms: dict[str, Any], traps: dict[int, Path] | None = None) -> list[LearnerSettings]:
    """One agent for each algorithm; those with a trap have the network that can go wrong."""
    models = {
        seat: {"name": trap_models.NAME, "folder": str(folder), "spared": os.getpid(), "seat": seat}
        for seat, folder in (traps or {}).items()
    }
    return [
        LearnerSettings(seat, models.get(seat, MLP), algorithm, seed=10 + seat, total_updates=20)
        for seat, algorithm in enumerate(algorithms)
    ]


class World:
    """Rings in anonymous shared memory, written turn by turn; ring i is made up from (turn, i) alone."""

    def __init__(self, seats: Sequence[LearnerSettings]) -> None:
        self.seats, self.turn = list(seats), 0
        counter = ArrayAllocator(None)
        self._lay_out(counter)
        self.memory = open_anonymous(counter.num_bytes)
        self.rings = self._lay_out(ArrayAllocator(map_shared(self.memory, counter.num_bytes)))

    def _lay_out(self, allocate: Any) -> list[Ring]:
        shapes = [
            RingShape(
                NUM_SHARDS, NUM_STEPS, NUM_ROWS, KEPT[seat.algorithm["name"]], keeps_final=True, transient=2
            )
            for seat in self.seats
        ]
        return [Ring(VIEW, shape, allocate) for shape in shapes]

    def play(self) -> None:
        """Write the next turn of every shard into every ring."""
        for seat, ring in enumerate(self.rings):
            for shard in range(NUM_SHARDS):
                random = np.random.default_rng([self.turn, shard, seat])
                slot = ring.slot(shard, self.turn)
                ring.open(shard, self.turn)
                for column in (slot.observation, slot.actions):
                    column[:] = random.integers(0, 3, column.shape)
                slot.legal[:] = 0b111
                for empty in (slot.seats, slot.explored, slot.truncated, slot.seated, slot.final_legal):
                    empty.fill(0)
                slot.final_at.fill(-1)
                slot.terminated[:] = random.random(slot.terminated.shape) < 0.2
                slot.log_probs.fill(-np.log(3.0))
                for column in (slot.rewards, slot.values, slot.bootstrap):
                    column[:] = random.normal(size=column.shape)
                ring.complete(shard, self.turn)
        self.turn += 1

    def task(self, seat: int, num_turns: int = 1, attention: float = 1.0) -> TrainingTask:
        """Train an agent on the newest turns."""
        turns = tuple(range(self.turn - num_turns, self.turn))
        return TrainingTask(seat, turns, (tuple(range(NUM_SHARDS)),) * num_turns, attention)

    def tasks(self) -> list[TrainingTask]:
        """Train all agents on the newest turn, the last ones first."""
        return [self.task(seat) for seat in reversed(range(len(self.seats)))]

    def oracle(self) -> SequentialLearners:
        """The same learners in this process, one after another, attached to the same rings."""
        runner = SequentialLearners([new_learner(seat, VIEW) for seat in self.seats])
        runner.attach(self.rings, VIEW)
        return runner

    def close(self) -> None:
        os.close(self.memory)


@contextmanager
def world_of(seats: Sequence[LearnerSettings]) -> Iterator[World]:
    world = World(seats)
    try:
        yield world
    finally:
        world.close()


@contextmanager
def in_processes(
    world: World, num_processes: int | None = None, **settings: Any
) -> Iterator[LearnerProcesses]:
    """Learners in processes, attached to a world's rings."""
    runner = LearnerProcesses(world.seats, num_processes, **settings)
    try:
        runner.share(PLAN, world.memory)
        runner.attach(world.rings, VIEW)
        yield runner
    finally:
        runner.close()


def pids_of(runner: LearnerRunner) -> list[int]:
    """The processes that there are now."""
    return [learner.pid for learner in runner.status() if learner.pid is not None]


def wait_for_pids(runner: LearnerRunner, number: int) -> list[int]:
    """So many processes, which are waited for: the team starts them meanwhile."""
    found: list[int] = []

    def are_there() -> bool:
        found[:] = pids_of(runner)
        return len(found) == number

    wait_until(are_there)
    return found


def all_of(runner: LearnerRunner, seat: int) -> tuple[bytes, float, dict[str, bytes], dict[str, Any]]:
    """Everything there is to know of an agent, to the last bit."""
    state = runner.state(seat)
    tensors = {name: tensor.cpu().numpy().tobytes() for name, tensor in sorted(state.tensors.items())}
    return runner.weights(seat).tobytes(), runner.epsilon(seat), tensors, state.numbers


def require_equal(runner: LearnerRunner, oracle: LearnerRunner, seats: Sequence[LearnerSettings]) -> None:
    for seat in seats:
        assert all_of(runner, seat.seat) == all_of(oracle, seat.seat), seat.name


def metrics_of(learned: Sequence[TrainingResult]) -> list[tuple[int, dict[str, float]]]:
    """Seats and metrics of trainings, without their times."""
    return [(each.seat, each.metrics) for each in learned]


def learn_together(world: World, runner: LearnerRunner, oracle: LearnerRunner, num_turns: int) -> None:
    """Play and learn with both runners, and compare their metrics."""
    for _ in range(num_turns):
        world.play()
        tasks = world.tasks()
        assert metrics_of(runner.learn(tasks)) == metrics_of(oracle.learn(tasks))
