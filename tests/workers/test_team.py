"""The team with a small role: results, order, failures, notes, workers on demand."""

import errno
import os
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psutil
import pytest

from senju.errors import ConfigError, ControlError, WorkerError
from senju.workers.block import Block
from senju.workers.process import ProcessExecutor
from senju.workers.role import Executor, Handler, Limits, Payload, Start
from senju.workers.tasks import Assignment, Tasks
from senju.workers.team import Team
from senju.workers.thread import ThreadExecutor
from tests.backends.common import is_alive, wait_until
from tests.facts import mentions
from tests.workers.one_thread import OneThreadExecutor
from tests.workers.squaring import Squaring

EXECUTORS = {
    "threads": ThreadExecutor,
    "one thread for all workers": OneThreadExecutor,
    "processes": lambda: ProcessExecutor(10.0),
}


@contextmanager
def started(executor: Executor, num_workers: int = 2, **limits: Any) -> Iterator[tuple[Team, Tasks]]:
    tasks = Tasks()
    team = Team(Squaring(), tasks, executor, Limits(**{"task_timeout": 10.0, **limits}))
    with closing(team):
        team.start(num_workers)
        team.open()
        yield team, tasks


def submit(team: Team, tasks: Tasks, *numbers: Any) -> dict[Any, Any]:
    """The results by number."""
    found: dict[Any, Any] = {}
    with team.changed:
        for number in numbers:
            tasks.put(number)
        team.open()
        while len(found) < len(numbers):
            team.wait_for(tasks.is_due)
            found |= {number: result[0] for number, result in tasks.take()}
    return found


@pytest.fixture(params=EXECUTORS)
def executor(request: pytest.FixtureRequest) -> Executor:
    if request.param == "processes":
        request.applymarker(pytest.mark.slow)
    made: Executor = EXECUTORS[request.param]()
    return made


def test_every_task_is_done_once(executor: Executor) -> None:
    with started(executor) as (team, tasks):
        assert submit(team, tasks, *range(20)) == {number: number**2 for number in range(20)}
        assert sum(worker.num_finished for worker in team.status().workers) == 20
        report = team.report()
        assert sorted(activity.task.task for activity in report.activities) == list(range(20))
        assert report.events == []
        assert sorted(note.values for note in team.take_notes()) == sorted(f"begins {n}" for n in range(20))


def test_task_that_fails_as_often_as_it_may_stops_the_team(executor: Executor) -> None:
    with started(executor) as (team, tasks):
        with pytest.raises(WorkerError, match=mentions("the square of raise", "3 times", "RuntimeError")):
            submit(team, tasks, 3, "raise")
        assert [event.kind for event in team.report().events] == ["worker_failed"] * 2


def test_error_of_senju_keeps_its_class(executor: Executor) -> None:
    with started(executor) as (team, tasks), pytest.raises(ConfigError, match="numbers only"):
        submit(team, tasks, "refuse")


def test_second_task_waits_at_busy_workers_while_there_are_plenty() -> None:
    tasks = Tasks()
    team = Team(Squaring(), tasks, OneThreadExecutor(), Limits(10.0), has_prefetch=True)
    with closing(team):
        team.start(3)
        assert submit(team, tasks, *range(50)) == {number: number**2 for number in range(50)}
        assert team.report().events == []


@pytest.mark.slow
def test_task_that_kills_its_workers_is_blamed_and_the_others_are_done() -> None:
    with started(ProcessExecutor(10.0)) as (team, tasks):
        assert submit(team, tasks, 4) == {4: 16}
        with pytest.raises(WorkerError, match=mentions("the square of die", "3 times", "SIGSEGV")):
            submit(team, tasks, "die")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "cause"),
    [("die of a real-time signal", f"signal {signal.SIGRTMIN + 6}"), ("open too many files", "OSError")],
)
def test_cause_of_an_unusual_failure_is_reported(task: str, cause: str) -> None:
    with started(ProcessExecutor(10.0)) as (team, tasks), pytest.raises(WorkerError, match=mentions(cause)):
        submit(team, tasks, task)


@pytest.mark.slow
def test_hung_worker_is_replaced_in_a_process_with_more_than_1024_open_files() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, limits[1]), limits[1]))
    files = [os.dup(0) for _ in range(1100)]
    try:
        with (
            started(ProcessExecutor(60.0), 1, task_timeout=0.5, attempts=1) as (team, tasks),
            pytest.raises(WorkerError, match=mentions("the square of hang", "squaring.py")),
        ):
            submit(team, tasks, "hang")
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_workers_on_demand_start_with_the_first_task_and_leave_after_their_interval() -> None:
    with started(ThreadExecutor(), 2, is_on_demand=True, reset_interval=1) as (team, tasks):
        assert team.handles() == {}
        assert submit(team, tasks, 5, 6, 7) == {5: 25, 6: 36, 7: 49}
        wait_until(lambda: not team.handles())


def test_preferred_worker_does_its_tasks_while_it_is_there() -> None:
    tasks = Tasks(prefer=lambda task, workers: workers[task % len(workers)])
    team = Team(Squaring(), tasks, ThreadExecutor(), Limits(10.0))
    with closing(team):
        team.start(2)
        submit(team, tasks, *range(8))
        assert {(a.worker, a.task.task % 2) for a in team.report().activities} == {(0, 0), (1, 1)}
        team.resize(1)
        assert submit(team, tasks, *range(4)) == {number: number**2 for number in range(4)}


def test_closed_team_raises_instead_of_waiting() -> None:
    with started(ThreadExecutor()) as (team, _):
        team.close()
        team.close()
        for act in (team.pause, team.resume, team.reset, team.open):
            with pytest.raises(ControlError):
                act()


class Gated(Squaring):
    """Tasks wait until the gate is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()

    def local_handler(self, start: Start) -> Handler:
        handler, gate = super().local_handler(start), self.gate

        class GatedHandler(Handler):
            def execute(self, task: Payload) -> Payload:
                gate.wait(60.0)
                return handler.execute(task)

        return GatedHandler()


def test_team_whose_closing_was_interrupted_is_closed_by_the_next_call() -> None:
    open_files = len(os.listdir("/proc/self/fd"))
    role, tasks = Gated(), Tasks()
    team = Team(role, tasks, ThreadExecutor(), Limits(60.0))
    team.start(1)
    with team.changed:
        tasks.put(5)
        team.open()

    def interrupt() -> None:
        wait_until(lambda: team.has_failed)  # because it is closing
        os.kill(os.getpid(), signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        team.close()
    interrupter.join()
    role.gate.set()
    team.close()
    assert team.handles() == {}
    wait_until(lambda: len(os.listdir("/proc/self/fd")) == open_files)  # the worker's thread closes its own


def test_second_thread_that_closes_a_team_waits_too() -> None:
    role, tasks = Gated(), Tasks()
    team = Team(role, tasks, ThreadExecutor(), Limits(60.0))
    team.start(1)
    with team.changed:
        tasks.put(5)
        team.open()
    left: list[int] = []

    def close() -> None:
        team.close()
        left.append(len(team.handles()))

    closers = [threading.Thread(target=close) for _ in range(2)]
    for closer in closers:
        closer.start()
    wait_until(lambda: team.has_failed)
    role.gate.set()
    for closer in closers:
        closer.join()
    assert left == [0, 0]


class Unsendable(Squaring):
    """The system refuses what a message needs."""

    def __init__(self, refused: str) -> None:
        super().__init__()
        self._refused = refused

    def start_payload(self, index: int) -> Payload:
        return self._refusing("start") or super().start_payload(index)

    def task_payload(self, task: Assignment, worker: dict[str, Any]) -> Payload:
        return self._refusing("task") or super().task_payload(task, worker)

    def _refusing(self, what: str) -> Payload | None:
        return Payload(None, [NoRoom(bytearray())]) if what == self._refused else None


class NoRoom(Block):
    def descriptor(self) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.mark.slow
def test_task_that_cannot_be_sent_for_lack_of_files_is_an_error_at_once() -> None:
    tasks = Tasks()
    team = Team(Unsendable("task"), tasks, ProcessExecutor(60.0), Limits(60.0))
    with closing(team):
        team.start(1)
        with pytest.raises(WorkerError, match=mentions("worker 0", "Too many open files", "limit")):
            submit(team, tasks, 5)


@pytest.mark.slow
def test_worker_that_cannot_be_sent_its_start_is_ended_and_given_up() -> None:
    tasks = Tasks()
    team = Team(Unsendable("start"), tasks, ProcessExecutor(60.0), Limits(60.0))
    with closing(team):
        team.start(1)
        assert [(event.kind, "Too many open files" in event.message) for event in team.report().events] == [
            ("sequential", True)
        ]
        assert submit(team, tasks, 5) == {5: 25}
        assert [handle.pid for handle in team.handles().values()] == [None]


def test_no_worker_is_refused() -> None:
    with started(ThreadExecutor()) as (team, _), pytest.raises(ConfigError, match="num_workers=0"):
        team.resize(0)


@pytest.mark.slow
@pytest.mark.parametrize("is_busy", [False, True])
def test_worker_that_is_stopped_while_the_team_closes_is_ended(is_busy: bool) -> None:
    with started(ProcessExecutor(60.0), task_timeout=60.0) as (team, tasks):
        pids = [handle.pid for handle in team.handles().values() if handle.pid is not None]
        for pid in pids:
            psutil.Process(pid).suspend()
        if is_busy:
            with team.changed:
                tasks.put(5)
                team.open()
            wait_until(lambda: "working" in {worker.state for worker in team.status().workers})
        closer = threading.Thread(target=team.close, daemon=True)
        closer.start()
        wait_until(lambda: not closer.is_alive())
    assert len(pids) == 2
    assert not [pid for pid in pids if is_alive(pid)]
