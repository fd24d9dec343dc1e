"""Learners in a thread, for when no process can be had: trainings, reports, states and failures."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from senju.algorithms.learner_runner import TrainingTask
from senju.errors import ModelError, WorkerError
from senju.training.learner_processes import LearnerProcesses
from senju.workers import process
from tests.facts import assert_mentions, mentions
from tests.training.learner_worlds import (
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
from tests.training.trap_models import order

ALL = (DQN, PPO, PRIORITISED, PPO)


@pytest.fixture
def world() -> Iterator[World]:
    with world_of(agents(*ALL)) as world:
        yield world


@pytest.fixture
def runner(world: World) -> Iterator[LearnerProcesses]:
    with in_processes(world, num_processes=0) as runner:
        yield runner


def test_learning_is_equal_to_one_by_one(world: World, runner: LearnerProcesses) -> None:
    oracle = world.oracle()
    require_equal(runner, oracle, world.seats)
    learn_together(world, runner, oracle, num_turns=6)
    require_equal(runner, oracle, world.seats)


def test_several_turns_and_attention_travel(world: World, runner: LearnerProcesses) -> None:
    oracle = world.oracle()
    for _ in range(3):
        world.play()
        world.play()
        tasks = [world.task(2, 2, 1.5), world.task(1, 2, 0.5), world.task(0, 1)]
        assert [each.seat for each in runner.learn(tasks)] == [2, 1, 0]
        oracle.learn(tasks)
    require_equal(runner, oracle, world.seats)


def test_training_one_agent_moves_no_byte_of_the_others(world: World, runner: LearnerProcesses) -> None:
    world.play()
    runner.learn(world.tasks())
    before = [all_of(runner, seat) for seat in range(4)]
    world.play()
    runner.learn([world.task(2)])
    after = [all_of(runner, seat) for seat in range(4)]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, True, False, True]


def test_loaded_state_is_taken_up_with_the_next_training(world: World, runner: LearnerProcesses) -> None:
    """What it replays is found in the ring, which has gone on by then."""
    with in_processes(world, num_processes=0) as other:
        learn_together(world, runner, other, num_turns=4)
        other.learn(world.tasks())  # once more, so that it is elsewhere
        for seat in range(4):
            other.load_state(seat, runner.state(seat))
        require_equal(other, runner, world.seats)
        learn_together(world, other, runner, num_turns=2)
        require_equal(other, runner, world.seats)


def test_state_can_be_read_after_the_end(world: World) -> None:
    with in_processes(world, num_processes=0) as runner:
        world.play()
        runner.learn(world.tasks())
        before = [all_of(runner, seat) for seat in range(4)]
    runner.close()
    assert [all_of(runner, seat) for seat in range(4)] == before


def test_free_running_learners_are_waited_for_at_the_end(world: World) -> None:
    with in_processes(world, num_processes=0, is_free_running=True) as runner:
        world.play()
        learned = runner.learn(world.tasks())
        learned += runner.finish()
        assert sorted(each.seat for each in learned) == [0, 1, 2, 3]
        assert not any(runner.is_busy(seat) for seat in range(4))
        assert runner.finish() == []
        assert all(runner.state(seat).numbers["version"] == 1 for seat in range(4))


def test_time_waited_is_shared_out_by_what_the_learners_did(world: World, runner: LearnerProcesses) -> None:
    assert runner.take_timings() == {}
    world.play()
    runner.learn(world.tasks())
    timings = runner.take_timings()
    assert {"forward", "backward", "optimise", "store", "advantages"} <= set(timings)
    assert all(seconds >= 0 for seconds in timings.values())
    assert runner.take_timings() == {}


@pytest.mark.slow
def test_lack_of_memory_leads_to_fewer_processes_and_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "WORKER_BYTES", 2**60)
    oracle = world.oracle()
    with in_processes(world, num_processes=3) as runner:
        learn_together(world, runner, oracle, num_turns=1)
        require_equal(runner, oracle, world.seats)
        assert len(pids_of(runner)) == 1
        [event] = runner.take_events()
        assert event.kind == "fewer_learners"
        assert_mentions(event.message, "1 of 3")


def test_agents_that_do_not_learn_have_their_weights_all_the_same() -> None:
    seats = [seat.__class__(**{**vars(seat), "learns": False}) for seat in agents(PPO, DQN)]
    with world_of(seats) as world, in_processes(world) as runner:
        assert pids_of(runner) == []
        require_equal(runner, world.oracle(), seats)
        assert runner.learn([]) == []


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
    with in_processes(trapped, num_processes=0) as runner:
        for _ in range(4):
            trapped.play()
        order(tmp_path, "diverge")
        with pytest.raises(ModelError) as raised:
            runner.learn([trapped.task(0), trapped.task(1, num_turns=2)])
    for expected in ("has diverged", "learner 0", "training 1 of agent 1 (seat 1)", "turns 2 to 3"):
        assert expected in str(raised.value)
    assert "trap_models.py" in "".join(raised.value.__notes__)


def test_other_errors_are_tried_again_from_the_last_complete_state(trapped: World, tmp_path: Path) -> None:
    oracle = trapped.oracle()
    with in_processes(trapped, num_processes=0) as runner:
        learn_together(trapped, runner, oracle, num_turns=1)
        trapped.play()
        expected = oracle.learn(trapped.tasks())
        order(tmp_path, "raise", times=2)
        learned = runner.learn(trapped.tasks())
        assert [each.metrics for each in learned] == [each.metrics for each in expected]
        require_equal(runner, oracle, trapped.seats)
        kinds = [event.kind for event in runner.take_events()]
        assert kinds == ["learner_failed"] * 2
        assert runner.take_events() == []


def test_training_that_always_fails_is_given_up(trapped: World, tmp_path: Path) -> None:
    trapped.play()
    order(tmp_path, "raise", times=100)
    with (
        in_processes(trapped, num_processes=0, attempts=2) as runner,
        pytest.raises(WorkerError) as raised,
    ):
        runner.learn(trapped.tasks())
    facts = ("training 1", "agent 1", "seat 1", "turn 0", "2 times", "RuntimeError: the trap is sprung")
    assert_mentions(str(raised.value), facts)


def test_task_of_no_known_turn_is_refused_by_the_learner_and_named(
    world: World, runner: LearnerProcesses
) -> None:
    world.play()
    missing = TrainingTask(0, (7,), (tuple(range(NUM_SHARDS)),))
    with pytest.raises(WorkerError, match=mentions("turn 7", "training 1", "agent 0", "seat 0")):
        runner.learn([missing])
