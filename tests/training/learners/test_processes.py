"""Learners in processes: whatever happens to them, and whenever, the bytes are those of one by one.

They are killed, hang, raise, print, are replaced and are made fewer.
"""

import contextlib
import logging
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from senju.algorithms.independent import OneByOne
from senju.backends.processes import hand
from senju.backends.processes.hand import ChildHand
from senju.errors import ModelError, WorkerError
from senju.training.learners import LearnerProcesses, processes
from tests.backends.common import is_alive, wait_until
from tests.training.learners.trap_models import order, was_sprung
from tests.training.learners.worlds import (
    DQN,
    PPO,
    PRIORITISED,
    World,
    agents,
    in_processes,
    learn_together,
    pids_of,
    require_equal,
    world_of,
)

pytestmark = pytest.mark.slow

ALL = (DQN, PPO, PRIORITISED, PPO)
TRAPPED_PPO, TRAPPED_DQN = 1, 2
PATIENCE = 5.0  # seconds; the first training of a process takes one, and this machine may be busy


class Team(NamedTuple):
    """Two processes, with two agents each of which one can go wrong, and the oracle beside them."""

    world: World
    way: LearnerProcesses
    oracle: OneByOne
    folders: dict[int, Path]

    def learn(self) -> None:
        learn_together(self.world, self.way, self.oracle, num_turns=1)
        require_equal(self.way, self.oracle, self.world.seats)

    def kinds(self) -> list[str]:
        return [incident.kind for incident in self.way.take_incidents()]


@pytest.fixture(scope="module")
def shared_team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    folders = {seat: tmp_path_factory.mktemp("traps") for seat in (TRAPPED_PPO, TRAPPED_DQN)}
    with (
        world_of(agents(*ALL, traps=folders)) as world,
        in_processes(world, num_processes=2, learner_timeout=PATIENCE) as way,
    ):
        yield Team(world, way, world.oracle(), folders)


@pytest.fixture
def team(shared_team: Team) -> Iterator[Team]:
    """Where they stand does not matter: they always stand where the oracle does."""
    shared_team.way.take_incidents()
    yield shared_team
    shared_team.way.is_free_running = False


def test_one_process_learns_as_one_by_one() -> None:
    with world_of(agents(*ALL)) as world, in_processes(world, num_processes=1) as way:
        oracle = world.oracle()
        learn_together(world, way, oracle, num_turns=5)
        require_equal(way, oracle, world.seats)
        assert len(pids_of(way)) == 1
        assert way.take_incidents() == []


def test_where_one_of_four_processes_cannot_be_had_three_learn_as_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hire = processes.hire_process

    def hire_all_but_one(index: int, *rest: Any) -> ChildHand:
        if index == 2:
            raise OSError("Too many open files")
        return hire(index, *rest)

    monkeypatch.setattr(processes, "hire_process", hire_all_but_one)
    with world_of(agents(*ALL)) as world, in_processes(world, num_processes=4) as way:
        (incident,) = way.take_incidents()
        assert incident.kind == "fewer_learners"
        assert incident.message.startswith(
            "learner process 2 cannot be started: Too many open files; going on"
        )
        oracle = world.oracle()
        learn_together(world, way, oracle, num_turns=5)
        require_equal(way, oracle, world.seats)
        assert len(pids_of(way)) == 3
        assert way.take_incidents() == []


def test_process_that_cannot_get_ready_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    told = b'{"seats": [], "script": "/nowhere/script.py", "worker_timeout": 60}'
    monkeypatch.setattr(processes, "describe_start", lambda *_: told)
    with world_of(agents(PPO)) as world, in_processes(world, 1) as way:
        world.play()
        with pytest.raises(WorkerError, match=r"agent 0 \(seat 0\)\) could not get ready: FileNotFoundError"):
            way.learn(world.tasks())


def test_process_killed_before_it_is_ready_or_while_it_waits_is_replaced(team: Team) -> None:
    for pid in pids_of(team.way):
        os.kill(pid, signal.SIGKILL)
    team.learn()
    assert team.kinds() == ["learner_lost"] * 2
    before = team.way.status()
    os.kill(before[0].pid or 0, signal.SIGKILL)
    team.learn()
    assert team.kinds() == ["learner_lost"]
    after = team.way.status()
    assert [learner.agents for learner in after] == [(0, 2), (1, 3)]
    assert [new.restarts - old.restarts for old, new in zip(before, after, strict=True)] == [1, 0]
    assert [new.trainings - old.trainings for old, new in zip(before, after, strict=True)] == [2, 2]
    assert [learner.state for learner in after] == ["waiting", "waiting"]
    assert all(learner.memory_bytes > 2**20 for learner in after)


@pytest.mark.parametrize(("seat", "where"), [(TRAPPED_PPO, "step"), (TRAPPED_DQN, "sending")])
def test_process_killed_in_a_training_is_replaced_and_the_same_bytes_come_out(
    team: Team, seat: int, where: str
) -> None:
    """Also after its end, when nobody was told: it is not trained twice."""
    order(team.folders[seat], "kill", where)
    team.learn()
    assert was_sprung(team.folders[seat])
    (incident,) = team.way.take_incidents()
    assert incident.kind == "learner_lost"
    assert f"while it trained agent {seat} (seat {seat}), training " in incident.message
    assert "SIGKILL" in incident.message
    team.learn()


def test_processes_killed_at_random_moments_change_nothing(team: Team) -> None:
    chance, left = random.Random(), [2]

    def kill_some() -> None:
        while left[0]:
            time.sleep(chance.uniform(0.0, 0.5))
            with contextlib.suppress(ProcessLookupError):  # it is being replaced
                os.kill(chance.choice(pids_of(team.way)), signal.SIGKILL)
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
    way, world, hung, others = team.way, team.world, TRAPPED_DQN, (1, 3)  # these have a process of their own
    order(team.folders[hung], "hang")
    way.is_free_running = True
    world.play()
    expected = {each.seat: each.metrics for each in team.oracle.learn(world.tasks())}
    learned = way.learn(world.tasks())
    wait_until(lambda: not any(map(way.is_busy, others)))
    learned += way.learn([])
    assert was_sprung(team.folders[hung])
    assert way.is_busy(hung)
    assert {each.seat for each in learned} >= set(others)
    assert way.take_incidents() == [], "nobody was late yet"
    before = way.state(hung)  # without asking
    assert before.numbers["version"] == team.oracle.learners[hung].version - 1
    learned += way.finish()
    assert {each.seat: each.metrics for each in learned} == expected
    require_equal(way, team.oracle, world.seats)
    (incident,) = way.take_incidents()
    assert incident.kind == "learner_hung"
    assert f"gave no answer for {PATIENCE:.0f}" in incident.message
    assert "trap_models.py" in incident.message, "where it was"
    trained = {each.seat: each.began for each in learned}
    assert trained[0] < trained[hung], "what hung comes last, so that nobody waits for it twice"


def test_what_a_learner_prints_is_logged_and_delays_nobody(
    team: Team, caplog: pytest.LogCaptureFixture
) -> None:
    order(team.folders[TRAPPED_PPO], "print")
    with caplog.at_level(logging.INFO):
        team.learn()
        assert was_sprung(team.folders[TRAPPED_PPO])
        team.way.is_free_running = True  # then it is heard when it is asked for
        wait_until(lambda: team.way.is_busy(1) or caplog.text.count("learner process 1: x") >= 300)


def test_process_that_the_system_killed_for_memory_leads_to_fewer(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.learn()
    monkeypatch.setattr(hand, "count_memory_kills", lambda: 2**62)
    lost, kept = pids_of(team.way)
    os.kill(lost, signal.SIGKILL)
    team.learn()
    (incident,) = team.way.take_incidents()
    assert incident.kind == "fewer_learners"
    assert "the system was out of memory" in incident.message
    assert pids_of(team.way) == [kept]


def test_senju_error_in_a_process_stops_the_run(team: Team) -> None:
    """The last test of the team, which is behind the oracle afterwards."""
    team.learn()
    order(team.folders[TRAPPED_PPO], "diverge")
    team.world.play()
    pid = next(iter(pids_of(team.way)))
    with pytest.raises(ModelError, match=r"has diverged \(agent 1 \(seat 1\), training \d+, turn") as raised:
        team.way.learn([team.world.task(TRAPPED_PPO)])
    assert "process " in str(raised.value)
    assert is_alive(pid)
