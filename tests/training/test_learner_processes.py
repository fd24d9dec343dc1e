"""Learners in processes: whatever happens to them, and whenever, the bytes are those of one by one.

They are killed, hang, raise, print, are replaced and are made fewer.
"""

import contextlib
import logging
import os
import random
import re
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from senju.algorithms.learner_runner import LearnerStatus, SequentialLearners
from senju.errors import ModelError, WorkerError
from senju.training import learner_processes
from senju.training.learner_processes import LearnerProcesses
from senju.workers import process
from senju.workers.process import ProcessExecutor, ProcessHandle
from senju.workers.role import Role
from tests.backends.common import is_alive, wait_until
from tests.training.learner_worlds import (
    DQN,
    PPO,
    PRIORITISED,
    World,
    agents,
    in_processes,
    learn_together,
    pids_of,
    require_equal,
    wait_for_pids,
    world_of,
)
from tests.training.trap_models import DAWDLING_SECONDS, order, was_sprung

pytestmark = pytest.mark.slow

ALL = (DQN, PPO, PRIORITISED, PPO)
TRAPPED_PPO, TRAPPED_DQN = 1, 2
PATIENCE = 5.0  # seconds; the first training of a process takes one, and this machine may be busy


class Team(NamedTuple):
    """Two processes, with two agents each of which one can go wrong, and the oracle beside them."""

    world: World
    runner: LearnerProcesses
    oracle: SequentialLearners
    folders: dict[int, Path]

    def learn(self) -> None:
        learn_together(self.world, self.runner, self.oracle, num_turns=1)
        require_equal(self.runner, self.oracle, self.world.seats)

    def kinds(self) -> list[str]:
        return [event.kind for event in self.runner.take_events()]

    def wait_until_ready(self) -> list[LearnerStatus]:
        """Both processes, when they are ready; a test before may have lost one."""
        found: list[LearnerStatus] = []

        def are_ready() -> bool:
            found[:] = self.runner.status()
            return [learner.state for learner in found] == ["waiting", "waiting"]

        wait_until(are_ready)
        return found


@pytest.fixture(scope="module")
def shared_team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    folders = {seat: tmp_path_factory.mktemp("traps") for seat in (TRAPPED_PPO, TRAPPED_DQN)}
    with (
        world_of(agents(*ALL, traps=folders)) as world,
        in_processes(world, num_processes=2, learner_timeout=PATIENCE) as runner,
    ):
        yield Team(world, runner, world.oracle(), folders)


@pytest.fixture
def team(shared_team: Team) -> Iterator[Team]:
    """The shared team: agents and oracle have had the same trainings, however many."""
    shared_team.runner.take_events()
    yield shared_team
    shared_team.runner.is_free_running = False


def test_one_process_learns_as_one_by_one() -> None:
    with world_of(agents(*ALL)) as world, in_processes(world, num_processes=1) as runner:
        oracle = world.oracle()
        learn_together(world, runner, oracle, num_turns=5)
        require_equal(runner, oracle, world.seats)
        assert len(pids_of(runner)) == 1
        assert runner.take_events() == []


def test_where_one_of_four_processes_cannot_start_three_learn_as_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = ProcessExecutor.start

    def start_all_but_one(executor: ProcessExecutor, role: Role, index: int) -> ProcessHandle:
        if index == 2:
            raise OSError("Too many open files")
        return start(executor, role, index)

    monkeypatch.setattr(ProcessExecutor, "start", start_all_but_one)
    with world_of(agents(*ALL)) as world, in_processes(world, num_processes=4) as runner:
        oracle = world.oracle()
        learn_together(world, runner, oracle, num_turns=5)
        require_equal(runner, oracle, world.seats)
        assert len(wait_for_pids(runner, 3)) == 3
        assert [learner.number for learner in runner.status()] == [0, 1, 3]
        assert sorted(seat for learner in runner.status() for seat in learner.agents) == [0, 1, 2, 3]
        (event,) = runner.take_events()
        assert event.kind == "fewer_learners"
        assert "learner 2" in event.message
        assert "Too many open files" in event.message


def test_agents_that_learn_are_shared_out_evenly_whichever_they_are() -> None:
    seats = [replace(seat, learns=seat.seat % 2 == 0) for seat in agents(PPO, PPO, PPO, PPO)]
    with world_of(seats) as world, in_processes(world, num_processes=2) as runner:
        oracle = world.oracle()
        wait_for_pids(runner, 2)
        assert [learner.agents for learner in runner.status()] == [(0,), (2,)]
        world.play()
        tasks = [world.task(0), world.task(2)]
        runner.learn(tasks)
        oracle.learn(tasks)
        require_equal(runner, oracle, seats)


def test_training_that_takes_longer_than_the_timeout_goes_on_while_it_takes_steps(team: Team) -> None:
    order(team.folders[TRAPPED_PPO], "dawdle", times=4)
    assert 4 * DAWDLING_SECONDS > PATIENCE
    team.learn()
    assert was_sprung(team.folders[TRAPPED_PPO])
    assert team.kinds() == []


def test_process_that_cannot_get_ready_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_processes, "importable_seats", lambda _: ([], "/nowhere/script.py"))
    with world_of(agents(PPO)) as world, in_processes(world, 1) as runner:
        world.play()
        with pytest.raises(WorkerError, match=r"agent 0 \(seat 0\)\) .*FileNotFoundError"):
            runner.learn(world.tasks())


def test_process_killed_before_it_is_ready_or_while_it_waits_is_replaced(team: Team) -> None:
    for pid in wait_for_pids(team.runner, 2):
        os.kill(pid, signal.SIGKILL)
    team.learn()
    assert team.kinds() == ["learner_lost"] * 2
    before = team.wait_until_ready()
    os.kill(before[0].pid or 0, signal.SIGKILL)
    team.learn()
    assert team.kinds() == ["learner_lost"]
    after = team.wait_until_ready()
    assert [learner.agents for learner in after] == [(0, 2), (1, 3)]
    assert [new.restarts - old.restarts for old, new in zip(before, after, strict=True)] == [1, 0]
    assert sum(new.trainings - old.trainings for old, new in zip(before, after, strict=True)) == 4
    assert all(learner.memory_bytes > 2**20 for learner in after)


@pytest.mark.parametrize(("seat", "where"), [(TRAPPED_PPO, "step"), (TRAPPED_DQN, "sending")])
def test_process_killed_in_a_training_is_replaced_and_the_same_bytes_come_out(
    team: Team, seat: int, where: str
) -> None:
    """Also after its end, before it was reported: it is not trained twice."""
    order(team.folders[seat], "kill", where)
    team.learn()
    assert was_sprung(team.folders[seat])
    (event,) = team.runner.take_events()
    assert event.kind == "learner_lost"
    assert f"of agent {seat} (seat {seat}), turn " in event.message
    assert "SIGKILL" in event.message
    team.learn()


def test_processes_killed_at_random_moments_change_nothing(team: Team) -> None:
    chance, left = random.Random(), [2]

    def kill_some() -> None:
        while left[0]:
            time.sleep(chance.uniform(0.0, 0.5))
            with contextlib.suppress(ProcessLookupError):  # it is being replaced
                if pids := pids_of(team.runner):
                    os.kill(chance.choice(pids), signal.SIGKILL)
                    left[0] -= 1

    killer = threading.Thread(target=kill_some)
    killer.start()
    while left[0]:
        team.learn()
    killer.join()
    team.learn()
    assert "learner_lost" in team.kinds()


def test_hung_learner_is_replaced_while_the_others_go_on(team: Team) -> None:
    team.learn()
    team.wait_until_ready()
    runner, world, hung, others = (
        team.runner,
        team.world,
        TRAPPED_DQN,
        (1, 3),
    )  # these have a process of their own
    order(team.folders[hung], "hang")
    runner.is_free_running = True
    world.play()
    expected = {each.seat: each.metrics for each in team.oracle.learn(world.tasks())}
    learned = runner.learn(world.tasks())
    wait_until(lambda: was_sprung(team.folders[hung]) and not any(map(runner.is_busy, others)))
    learned += runner.learn([])
    assert runner.is_busy(hung)
    assert {each.seat for each in learned} >= set(others)
    assert runner.take_events() == [], "no learner was late yet"
    before, is_trained = runner.state_for_saving(hung)  # without asking
    assert not is_trained
    assert before.numbers["version"] == team.oracle.learners[hung].version - 1
    learned += runner.finish()
    assert {each.seat: each.metrics for each in learned} == expected
    require_equal(runner, team.oracle, world.seats)
    assert runner.state_for_saving(hung)[1]
    (event,) = runner.take_events()
    assert event.kind == "learner_hung"
    (seconds,) = re.findall(r"for (\d+\.\d) s", event.message)
    assert PATIENCE <= float(seconds) < 2 * PATIENCE
    assert "trap_models.py" in event.message, "where it was"
    trained = {each.seat: each.began for each in learned}
    assert trained[0] < trained[hung], (
        "the hung learner comes last, so that the run does not wait for it twice"
    )


def test_output_of_a_learner_is_logged_and_delays_no_training(
    team: Team, caplog: pytest.LogCaptureFixture
) -> None:
    order(team.folders[TRAPPED_PPO], "print")
    with caplog.at_level(logging.INFO):
        team.learn()
        assert was_sprung(team.folders[TRAPPED_PPO])
        wait_until(lambda: len(re.findall(r"learner \d: x", caplog.text)) >= 300)


def test_process_that_the_system_killed_for_memory_leads_to_fewer(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.learn()
    team.wait_until_ready()
    monkeypatch.setattr(process, "count_memory_kills", lambda: 2**62)
    lost, kept = pids_of(team.runner)
    os.kill(lost, signal.SIGKILL)
    team.learn()
    (event,) = team.runner.take_events()
    assert event.kind == "fewer_learners"
    assert "out of memory" in event.message
    assert pids_of(team.runner) == [kept]


def test_senju_error_in_a_process_stops_the_run(team: Team) -> None:
    """The last test of the team, which is behind the oracle afterwards."""
    team.learn()
    order(team.folders[TRAPPED_PPO], "diverge")
    team.world.play()
    pid = next(iter(pids_of(team.runner)))
    expected = r"diverged.*learner \d, training \d+ of agent 1 \(seat 1\), turn \d+"
    with pytest.raises(ModelError, match=expected):
        team.runner.learn([team.world.task(TRAPPED_PPO)])
    assert is_alive(pid)
