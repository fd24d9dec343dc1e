"""Learners in this process, for when no other can be had: orders, reports, states and failures."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from senju.algorithms.independent import Task
from senju.errors import ModelError, WorkerError
from senju.training.learners import LearnerProcesses, processes
from tests.training.learners.trap_models import order
from tests.training.learners.worlds import (
    DQN,
    NUM_SHARDS,
    PPO,
    PRIORITISED,
    World,
    agents,
    all_of,
    in_processes,
    learn_together,
    pids_of,
    require_equal,
    world_of,
)

ALL = (DQN, PPO, PRIORITISED, PPO)


@pytest.fixture
def world() -> Iterator[World]:
    with world_of(agents(*ALL)) as world:
        yield world


@pytest.fixture
def way(world: World) -> Iterator[LearnerProcesses]:
    with in_processes(world, num_processes=0) as way:
        yield way


def test_learning_is_equal_to_one_by_one(world: World, way: LearnerProcesses) -> None:
    oracle = world.oracle()
    require_equal(way, oracle, world.seats)
    learn_together(world, way, oracle, num_turns=6)
    require_equal(way, oracle, world.seats)


def test_several_turns_and_attention_travel(world: World, way: LearnerProcesses) -> None:
    oracle = world.oracle()
    for _ in range(3):
        world.play()
        world.play()
        tasks = [world.task(2, 2, 1.5), world.task(1, 2, 0.5), world.task(0, 1)]
        assert [each.seat for each in way.learn(tasks)] == [2, 1, 0]
        oracle.learn(tasks)
    require_equal(way, oracle, world.seats)


def test_training_one_agent_moves_no_byte_of_the_others(world: World, way: LearnerProcesses) -> None:
    world.play()
    way.learn(world.tasks())
    before = [all_of(way, seat) for seat in range(4)]
    world.play()
    way.learn([world.task(2)])
    after = [all_of(way, seat) for seat in range(4)]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, True, False, True]


def test_loaded_state_is_taken_up_with_the_next_training(world: World, way: LearnerProcesses) -> None:
    """What it replays is found in the ring, which has gone on by then."""
    with in_processes(world, num_processes=0) as other:
        learn_together(world, way, other, num_turns=4)
        other.learn(world.tasks())  # once more, so that it is elsewhere
        for seat in range(4):
            other.load_state(seat, way.state(seat))
        require_equal(other, way, world.seats)
        learn_together(world, other, way, num_turns=2)
        require_equal(other, way, world.seats)


def test_state_can_be_read_after_the_end(world: World) -> None:
    with in_processes(world, num_processes=0) as way:
        world.play()
        way.learn(world.tasks())
        before = [all_of(way, seat) for seat in range(4)]
    way.close()
    assert [all_of(way, seat) for seat in range(4)] == before


def test_free_running_learners_are_waited_for_at_the_end(world: World) -> None:
    with in_processes(world, num_processes=0, is_free_running=True) as way:
        world.play()
        learned = way.learn(world.tasks())
        learned += way.finish()
        assert sorted(each.seat for each in learned) == [0, 1, 2, 3]
        assert not any(way.is_busy(seat) for seat in range(4))
        assert way.finish() == []
        assert all(way.state(seat).numbers["version"] == 1 for seat in range(4))


def test_time_waited_is_shared_out_by_what_the_learners_did(world: World, way: LearnerProcesses) -> None:
    assert way.take_timings() == {}
    world.play()
    way.learn(world.tasks())
    timings = way.take_timings()
    assert {"forward", "backward", "optimise", "store", "advantages"} <= set(timings)
    assert all(seconds >= 0 for seconds in timings.values())
    assert way.take_timings() == {}


def test_lack_of_memory_leads_to_one_by_one_and_is_said(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(processes, "memory_available", lambda: 2**20)
    oracle = world.oracle()
    with caplog.at_level(logging.WARNING), in_processes(world, num_processes=3) as way:
        assert "the agents learn one by one, in this process: there is no memory for more" in caplog.text
        assert pids_of(way) == []
        learn_together(world, way, oracle, num_turns=1)
        require_equal(way, oracle, world.seats)


def test_agents_that_do_not_learn_have_their_weights_all_the_same() -> None:
    seats = [seat.__class__(**{**vars(seat), "learns": False}) for seat in agents(PPO, DQN)]
    with world_of(seats) as world, in_processes(world) as way:
        assert pids_of(way) == []
        require_equal(way, world.oracle(), seats)
        assert way.learn([]) == []


@pytest.fixture
def trapped(tmp_path: Path) -> Iterator[World]:
    """The second agent's network can go wrong, here too."""
    seats = agents(DQN, PPO, traps={1: tmp_path})
    seats[1].model["spared"] = 0
    with world_of(seats) as world:
        yield world


def test_senju_error_names_agent_turn_and_process_and_brings_its_traceback(
    trapped: World, tmp_path: Path
) -> None:
    with in_processes(trapped, num_processes=0) as way:
        for _ in range(4):
            trapped.play()
        order(tmp_path, "diverge")
        with pytest.raises(ModelError) as raised:
            way.learn([trapped.task(0), trapped.task(1, num_turns=2)])
    expected = "has diverged (agent 1 (seat 1), training 1, turns 2 to 3, in learner process 0 (agent 0"
    assert expected in str(raised.value)
    assert "trap_models.py" in "".join(raised.value.__notes__)


def test_other_errors_are_tried_again_from_the_last_complete_state(trapped: World, tmp_path: Path) -> None:
    oracle = trapped.oracle()
    with in_processes(trapped, num_processes=0) as way:
        learn_together(trapped, way, oracle, num_turns=1)
        trapped.play()
        expected = oracle.learn(trapped.tasks())
        order(tmp_path, "raise", times=2)
        learned = way.learn(trapped.tasks())
        assert [each.metrics for each in learned] == [each.metrics for each in expected]
        require_equal(way, oracle, trapped.seats)
        kinds = [incident.kind for incident in way.take_incidents()]
        assert kinds == ["learner_failed"] * 2
        assert way.take_incidents() == []


def test_training_that_always_fails_is_given_up(trapped: World, tmp_path: Path) -> None:
    trapped.play()
    order(tmp_path, "raise", times=100)
    with (
        in_processes(trapped, num_processes=0, attempts=2) as way,
        pytest.raises(WorkerError) as raised,
    ):
        way.learn(trapped.tasks())
    assert str(raised.value).startswith("agent 1 (seat 1), training 1, turn 0: failed 2 times in a row")
    assert "RuntimeError: the trap is sprung" in str(raised.value)


def test_task_of_no_known_turn_is_refused_by_the_learner_and_named(
    world: World, way: LearnerProcesses
) -> None:
    world.play()
    missing = Task(0, (7,), (tuple(range(NUM_SHARDS)),))
    with pytest.raises(WorkerError, match=r"turn 7: expected its place .* \(agent 0 \(seat 0\), training 1"):
        way.learn([missing])
