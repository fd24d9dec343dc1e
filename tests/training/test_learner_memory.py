"""Memory that learners share with the run: complete or absent, even if the writer was killed."""

import numpy as np
import pytest
import torch

from senju.algorithms.learner import LearnerState
from senju.algorithms.learner_runner import TrainingResult
from senju.backends import shared_weights
from senju.errors import WorkerError
from senju.training.learner_memory import SharedState, TrainingReport, agent_bytes, find_ring, map_ring
from senju.workers.shared_memory import map_shared
from tests.training.learner_worlds import DQN, NUM_SHARDS, PPO, VIEW, agents, world_of

STATE = LearnerState(
    {"model.weight": torch.arange(6.0).reshape(2, 3), "optimizer.step": torch.tensor(3.0)},
    {"version": 7, "owed": 0.1 + 0.2, "kept": [1, None, "a"]},
)
REPORT = TrainingReport(TrainingResult(1, {"loss": 0.1}, 2.0, 3.5), 0.25, {"forward": 0.125})


def size() -> int:
    return agent_bytes(STATE, np.zeros(24, np.uint8)).state_bytes


def test_state_and_report_are_read_as_they_were_written() -> None:
    shared = SharedState(size(), np.zeros)
    shared.save(7, STATE, REPORT)
    number, state, report, stamp = shared.load()
    assert (number, report, stamp) == (7, REPORT, shared.stamp)
    assert state.numbers == STATE.numbers
    assert {name: tensor.tolist() for name, tensor in state.tensors.items()} == {
        "model.weight": [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]],
        "optimizer.step": 3.0,
    }


def test_stamp_changes_with_every_write_also_of_the_same_number() -> None:
    shared = SharedState(size(), np.zeros)
    stamps = set()
    for _ in range(7):
        shared.save(1, STATE)
        stamps.add(shared.stamp)
    assert len(stamps) == 7


def test_writer_killed_in_the_middle_leaves_the_last_state_and_another_goes_on() -> None:
    shared = SharedState(size(), np.zeros)
    shared.save(1, STATE)
    for number in range(2, 9):
        place = shared_weights._begin_writing(shared._header)
        shared._copies[place, :10] = 99  # and it was killed here
        assert shared.load().number == number - 1
        shared.save(number, LearnerState({}, {"version": number}))
        assert (shared.load().number, shared.load().state.numbers) == (number, {"version": number})


def test_state_that_has_outgrown_its_room_is_refused() -> None:
    shared = SharedState(size(), np.zeros)
    shared.save(1, STATE)
    with pytest.raises(WorkerError, match="learners=sequential"):
        shared.save(2, LearnerState({"table": torch.zeros(2**20)}, {}))
    assert shared.load().number == 1


def test_room_is_enough_once_there_are_moments() -> None:
    weights = {f"model.layers.{i}.weight": torch.zeros(50) for i in range(40)}
    size = agent_bytes(LearnerState(weights, {}), np.zeros(40 * 200, np.uint8))
    moments = {
        f"optimizer.layers.{i}.weight.{kind}": torch.zeros(size)
        for i in range(40)
        for kind, size in (("step", 1), ("exp_avg", 50), ("exp_avg_sq", 50))
    }
    SharedState(size.state_bytes, np.zeros).save(1, LearnerState({**weights, **moments}, {}), REPORT)


def test_ring_is_found_again_in_another_mapping_of_its_memory() -> None:
    with world_of(agents(DQN, PPO)) as world:
        for _ in range(3):
            world.play()
        mapped = map_shared(world.memory, len(world.rings[0].sequence_numbers.base))
        for ring in world.rings:
            other = map_ring(find_ring(ring), VIEW, mapped)
            assert other.shape == ring.shape
            assert other.sequence_numbers.tolist() == ring.sequence_numbers.tolist()
            assert all(map(np.array_equal, other.columns, ring.columns))
            world.play()
            assert other.sequence_numbers.tolist() == ring.sequence_numbers.tolist(), "it is the same memory"
            assert list(other.complete_turns(NUM_SHARDS - 1))[-1] == world.turn - 1
