"""Nothing left behind: no process, no shared memory, no file descriptor, however it ends."""

import gc
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

import senju
from senju.backends.backend import Backend
from senju.errors import WorkerError
from senju.workers.process import ProcessExecutor, ProcessHandle
from senju.workers.role import Role
from tests.backends.common import (
    PLAN,
    children_of_this_process,
    contents,
    is_alive,
    new_backend,
    oracle,
    pid_of,
    started,
    wait_until,
    workers_of,
)
from tests.backends.trap_games import order, trap_plan
from tests.workers.self_describing import SelfDescribing

ROOT = Path(senju.__file__).parent.parent
NOTICED_WITHIN = 2.0  # seconds, in which workers find out that they are alone


def open_files() -> dict[str, str]:
    """What this process has open, by number."""
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:  # the listing's own
            continue
    return found


def shared_blocks() -> list[str]:
    """Anonymous shared memory of senju that this process has mapped."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in maps if "memfd:senju" in line]


@contextmanager
def nothing_is_left() -> Iterator[None]:
    gc.collect()
    files, processes, names = open_files(), children_of_this_process(), set(os.listdir("/dev/shm"))
    assert shared_blocks() == []
    yield
    gc.collect()
    assert children_of_this_process() <= processes
    assert open_files() == files
    assert set(os.listdir("/dev/shm")) == names
    assert shared_blocks() == []


@pytest.mark.slow
def test_the_checks_see_what_there_is_to_see() -> None:
    with pytest.raises(AssertionError), nothing_is_left():
        left = os.open("/dev/null", os.O_RDONLY)
    os.close(left)
    sleeper = subprocess.Popen(["sleep", "100"])
    assert sleeper.pid in children_of_this_process()
    sleeper.kill()
    sleeper.wait()


def end_while_playing(backend: Backend) -> None:
    order(trap_plan(folder_of(backend)), "wait", shard=1, at=1)
    backend.collect(timeout=0.02)
    assert "playing" in {worker.state for worker in workers_of(backend)}


def end_by_an_error_between(backend: Backend) -> None:
    backend.collect()
    raise ZeroDivisionError


def end_by_an_error_in_a_worker(backend: Backend) -> None:
    order(trap_plan(folder_of(backend)), "raise", shard=1, at=1, always=True)
    with pytest.raises(WorkerError):
        backend.collect()
    raise ZeroDivisionError


def folder_of(backend: Backend) -> Path:
    return Path(backend._plan.folder)  # type: ignore[attr-defined]  # of every pool


ENDS = [end_while_playing, end_by_an_error_between, end_by_an_error_in_a_worker]


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_nothing_is_left_of_a_backend(tmp_path: Path, end: Callable[[Backend], None]) -> None:
    plan, settings = trap_plan(tmp_path), {"num_workers": 1, "shard_attempts": 1, "failing_shard": "stop"}
    with nothing_is_left():
        try:
            with started(plan, "processes", **settings) as backend:
                assert shared_blocks()
                pid = pid_of(backend, 0)
                end(backend)
        except ZeroDivisionError:
            pass
        assert not is_alive(pid)
        del backend


@pytest.mark.slow
def test_nothing_is_left_of_a_start_that_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """By Ctrl-C, while it waits for a worker that will not get ready."""
    backend = new_backend("processes", num_workers=2)
    start = ProcessExecutor.start

    def start_and_interrupt(self: ProcessExecutor, role: Role, index: int) -> ProcessHandle:
        handle = start(self, role, index)
        if index == 1:
            assert handle.pid is not None
            os.kill(handle.pid, signal.SIGSTOP)
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        return handle

    monkeypatch.setattr(ProcessExecutor, "start", start_and_interrupt)
    with nothing_is_left():
        with pytest.raises(KeyboardInterrupt):
            backend.start(PLAN)
        backend.close()
        del backend


@pytest.mark.slow
def test_nothing_is_left_of_a_backend_that_is_dropped_after_its_end() -> None:
    """Neither does its memory wait until garbage is next collected: it may be large."""
    with nothing_is_left():
        gc.disable()
        with started(PLAN, "processes", num_workers=1) as backend:
            rollouts = backend.collect()
            pid = pid_of(backend, 0)
            backend.close()  # and once more after this
        assert contents(rollouts) == oracle(PLAN, 1)[0], "what was collected stays valid"
        del backend, rollouts
        assert shared_blocks() == []
        gc.enable()
        assert not is_alive(pid)


@pytest.fixture
def room_for_files() -> Iterator[Callable[[int], None]]:
    """Lets this process open only so many files more."""
    highest = max(map(int, open_files()))
    fillers = [os.open("/dev/null", os.O_RDONLY)]
    while fillers[-1] < highest:  # numbers that are free between others
        fillers.append(os.open("/dev/null", os.O_RDONLY))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)

    def limit(room: int) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(fillers) + 1 + room, before[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
    for number in fillers:
        os.close(number)


@pytest.mark.parametrize("room", range(9))
def test_worker_that_cannot_be_started_leaves_no_file_open(
    room_for_files: Callable[[int], None], room: int
) -> None:
    """Whichever of the files that a worker needs is one too many."""
    files = open_files()
    room_for_files(room)
    with pytest.raises(OSError, match="Too many open files"):
        ProcessHandle(SelfDescribing(), 0, {})
    room_for_files(100)
    assert open_files() == files


@pytest.mark.slow
def test_many_losses_leave_no_file_open_and_no_process(tmp_path: Path) -> None:
    plan = trap_plan(tmp_path)
    with started(plan, "processes", num_workers=1) as backend:
        backend.collect()
        files, processes = len(open_files()), len(children_of_this_process())
        for _ in range(2):
            pid = pid_of(backend, 0)
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda pid=pid: pid_of(backend, 0) != pid)  # type: ignore[misc]
        backend.collect()
        assert (len(open_files()), len(children_of_this_process())) == (files, processes)


SCRIPT = """
import socket, sys, time
from pathlib import Path
from senju.backends.parallel import ParallelBackendConfig, Processes
from tests.backends.common import changed
from tests.backends.trap_games import order, trap_plan

if __name__ == "__main__":
    folder, then = Path(sys.argv[1]), sys.argv[2]
    plan = changed(trap_plan(folder), sockets=(str(folder / "socket"),))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "socket"))
    listener.listen()
    backend = Processes(ParallelBackendConfig(num_workers=2, worker_timeout=0.5))
    if then == "start":
        print("starting", flush=True)
    backend.start(plan)
    backend.collect()
    if then == "hang":
        order(plan, "hang_in_c", shard=1, at=5)
        backend.collect(timeout=0.1)
    print(*[worker.pid for worker in backend.status().workers], flush=True)
    if then == "sleep":
        time.sleep(3600)
    while True:
        backend.collect()
"""


def run_script(folder: Path, then: str) -> "subprocess.Popen[str]":
    script = folder / "script.py"
    script.write_text(SCRIPT)
    return subprocess.Popen(
        [sys.executable, str(script), str(folder), then],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def heard_pids(process: "subprocess.Popen[str]") -> list[int]:
    assert process.stdout is not None
    return [int(word) for word in process.stdout.readline().split()]


END_OF_A_SCRIPT = {
    "Ctrl-C while it plays": ("play", signal.SIGINT),
    "SIGTERM while it sleeps": ("sleep", signal.SIGTERM),
    "kill -9 while it plays": ("play", signal.SIGKILL),
}


@pytest.mark.slow
@pytest.mark.parametrize(("then", "number"), END_OF_A_SCRIPT.values(), ids=END_OF_A_SCRIPT)
def test_workers_end_with_a_script_that_ends(tmp_path: Path, then: str, number: int) -> None:
    with run_script(tmp_path, then) as process:
        pids = heard_pids(process)
        assert len(pids) == 2
        assert all(map(is_alive, pids))
        os.killpg(process.pid, number)  # as a terminal does: to all of its group
        process.wait(timeout=60)
        wait_until(lambda: not any(map(is_alive, pids)), seconds=NOTICED_WITHIN)
    assert not (tmp_path / "socket").exists(), "workers remove what would mislead others"


@pytest.mark.slow
@pytest.mark.parametrize("num_processes", [1, 3])  # the fork server, which is loading, and its first workers
def test_workers_that_are_starting_end_with_a_script_that_is_killed(
    tmp_path: Path, num_processes: int
) -> None:
    with run_script(tmp_path, "start") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "starting\n"
        workers: list[psutil.Process] = []

        def have_begun() -> bool:
            workers[:] = psutil.Process(process.pid).children(recursive=True)
            return len(workers) == num_processes

        wait_until(have_begun)
        process.kill()
        process.wait(timeout=60)
        wait_until(lambda: not any(is_alive(w.pid) for w in workers), seconds=NOTICED_WITHIN)


@pytest.mark.slow
def test_worker_that_hangs_with_pythons_lock_ends_by_its_own_guard(tmp_path: Path) -> None:
    """No process is left to kill it, and no Python code of its own can run."""
    with run_script(tmp_path, "hang") as process:
        pids = heard_pids(process)
        wait_until((tmp_path / "sprung").exists)
        process.kill()
        process.wait(timeout=60)
        wait_until(lambda: sum(map(is_alive, pids)) <= 1, seconds=NOTICED_WITHIN)
        wait_until(lambda: not any(map(is_alive, pids)), seconds=10)
