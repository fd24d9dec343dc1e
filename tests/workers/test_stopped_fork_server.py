"""A fork server that stops answering causes a short delay: the run continues, answers and can be ended."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from senju.backends.backend import Backend
from senju.workers import fork_server
from senju.workers.team import Team
from tests.backends.common import (
    PLAN,
    gather_events,
    is_alive,
    oracle,
    pid_of,
    play,
    started,
    wait_for_workers,
    wait_until,
    workers_of,
)

pytestmark = pytest.mark.slow

TURNS = 4


@pytest.fixture
def team(monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    """Two workers, from a fork server of their own that has stopped."""
    monkeypatch.setattr(fork_server, "_shared", fork_server._Shared())
    monkeypatch.setattr(fork_server, "_ANSWER_SECONDS", 0.5)
    with started(PLAN, "processes", num_workers=2) as backend:
        wait_for_workers(backend, 2)
        psutil.Process(fork_server_pid()).suspend()
        yield backend


def fork_server_pid() -> int:
    assert fork_server._shared.server is not None
    return fork_server._shared.server._process.pid


def kill_a_worker(backend: Backend) -> None:
    pid = pid_of(backend, 0)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: pid_of(backend, 0) not in (None, pid))


DISTURBANCES: dict[str, Callable[[Backend], None]] = {
    "a worker is killed": kill_a_worker,
    "fewer workers are wanted": lambda backend: backend.team.resize(1),
    "more workers are wanted": lambda backend: backend.team.resize(3),
    "workers are replaced": lambda backend: backend.team.reset(),
}


@pytest.mark.parametrize("disturb", DISTURBANCES.values(), ids=DISTURBANCES)
def test_run_goes_on_without_a_fork_server_that_has_stopped(
    team: Backend, disturb: Callable[[Backend], None]
) -> None:
    stopped = fork_server_pid()
    found = play(team, PLAN, 2)
    disturb(team)
    assert found + play(team, PLAN, TURNS, first=2) == oracle(PLAN, TURNS)
    wait_until(lambda: len(workers_of(team)) == team.team.status().wanted_workers)
    wait_until(lambda: not is_alive(stopped))


def test_fork_server_that_has_stopped_is_replaced(team: Backend) -> None:
    stopped = fork_server_pid()
    kill_a_worker(team)
    wait_for_workers(team, 2)
    kill_a_worker(team)
    assert fork_server_pid() != stopped
    assert len(gather_events(team, "worker_lost")) == 2


def test_workers_end_though_the_fork_server_has_stopped(team: Backend) -> None:
    stopped, pids = fork_server_pid(), [pid_of(team, index) for index in range(2)]
    team.close()
    assert not [pid for pid in (stopped, *pids) if is_alive(pid)]


def test_status_answers_while_a_worker_is_being_started(
    team: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The team waits for the fork server without holding the lock that `status` needs."""
    asked: list[bool] = []
    start = fork_server.ForkServer.start

    def look_first(self: fork_server.ForkServer, *arguments: object) -> fork_server.ForkedProcess:
        assert isinstance(team.team, Team)
        asked.append(team.team.changed._is_owned())  # type: ignore[attr-defined]  # by the thread that starts workers
        return start(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(fork_server.ForkServer, "start", look_first)
    team.team.resize(3)
    wait_until(lambda: len(workers_of(team)) == 3)
    wait_until(lambda: bool(asked))
    assert not any(asked)


def test_child_that_a_lost_fork_server_started_does_not_share_a_connection(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The server forks, and is lost before it answers: that process must end, another takes its part."""
    monkeypatch.setattr(fork_server, "_shared", fork_server._Shared())
    answer = fork_server.ForkServer._answer

    def lose_answer(self: fork_server.ForkServer) -> object:
        answer(self)
        raise EOFError("the fork server is lost")

    monkeypatch.setattr(fork_server.ForkServer, "_answer", lose_answer)
    others = living_children()  # the fork server of the other tests
    with started(PLAN, "processes", num_workers=2) as backend:
        assert play(backend, PLAN, 2) == oracle(PLAN, 2)
        pids = {worker.pid for worker in workers_of(backend)}
        wait_until(lambda: living_children() - others <= pids)


def living_children() -> set[int]:
    return {child.pid for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE}
