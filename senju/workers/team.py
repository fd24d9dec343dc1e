"""The team: keeps workers of one role busy, and replaces those that die or hang.

Read on in `role.py` (contracts), `roster.py` and `dispatcher.py` (decisions), `team_thread.py` (which carries
them out) and `records.py` (what the team records).
"""

import contextlib
import copy
import dataclasses
import signal
import threading
import weakref
from collections.abc import Callable, Collection, Iterator
from typing import ParamSpec, TypeVar

from senju.errors import ConfigError, ControlError, SenjuError
from senju.machine import private_bytes
from senju.workers.channel import WorkerFailure, failed
from senju.workers.records import Note
from senju.workers.role import Report, TeamControl, TeamStatus, WorkerHandle
from senju.workers.team_thread import TeamThread

P = ParamSpec("P")
T = TypeVar("T")


class Team(TeamThread, TeamControl):
    """Workers of one role, their tasks, and what happened to them.

    team = Team(role, queue, executor, limits)
    team.start(num_workers)
    team.open()
    with team.changed:
        queue.put(task)
        team.open()
        team.wait_for(queue.is_due)
    team.close()

    The team's thread refers to role, queue and executor, so none of them may refer to the team's owner: an
    owner that is dropped without `close` could never be garbage-collected. Wrap its methods in `weakly`.
    """

    is_interrupted = False  # whether Ctrl-C waits for the end of a block `uninterrupted`

    @property
    def wanted(self) -> int:
        """How many workers there should be."""
        return self._roster.wanted

    def start(self, num_workers: int, is_waiting: bool = True) -> None:
        """Start this number of workers, and wait until each is ready or given up."""
        self._roster.resize(num_workers)
        self._thread.start()
        with self.changed:
            self.wait_for(lambda: not is_waiting or self._roster.is_ready())

    def open(self) -> None:
        """Begin tasks from now on."""
        with self._waking():
            self._dispatcher.is_open = True
            self._dispatch()  # here, because the team's thread takes a moment to wake

    @contextlib.contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """Delay Ctrl-C until the end of a block; meanwhile it ends `wait_for`.

        Otherwise it could strike between two steps that belong together. Only the main thread is interrupted.
        """
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or signal.getsignal(signal.SIGINT) is None:
            yield
            return
        before = signal.signal(signal.SIGINT, lambda number, frame: self._interrupt())
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
            was_interrupted, self.is_interrupted = self.is_interrupted, False
            if was_interrupted:
                signal.raise_signal(signal.SIGINT)

    def _interrupt(self) -> None:
        self.is_interrupted = self._journal.has_news = True
        if not self._over.is_set():
            self._wake()

    @contextlib.contextmanager
    def _waking(self) -> Iterator[None]:
        """Hold the lock, then wake the thread, which may be waiting without a timeout."""
        with self.changed:
            self.require_running()
            yield
            self._wake()

    def drain(self) -> None:
        """Begin no task until the next `open`, and wait for the running ones."""
        with self.changed:
            self._dispatcher.is_open = False
            self.wait_for(lambda: self._queue.count_running() == 0)

    def wait_for(self, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait, under the lock, until a condition holds; raise the team's failure, if there is one."""
        is_main = threading.current_thread() is threading.main_thread()
        self.changed.wait_for(
            lambda: self.has_failed or (is_main and self.is_interrupted) or condition(), timeout
        )
        failure = self._journal.failure
        if failure is not None:
            # a copy: a traceback refers to the owner, which then would never be garbage-collected
            error = copy.copy(failure)
            if not isinstance(failure, SenjuError):
                error.__cause__ = failure  # an error of the team itself: its traceback says where
            raise error
        self.require_running()
        return condition()

    def fail(self, error: BaseException, where: str) -> None:
        """Let `wait_for` raise an error of this process like one of a worker; call it from any thread."""
        failure = WorkerFailure(*failed(error).values).as_error(where)
        with self.changed:
            self._journal.fail(failure)
            self.changed.notify_all()

    @property
    def has_failed(self) -> bool:
        """Whether `wait_for` would raise."""
        return self._journal.failure is not None or self._roster.is_closing

    def require_running(self) -> None:
        """Raise ControlError if the team was closed."""
        if self._roster.is_closing:
            raise ControlError("the workers were stopped; they cannot be started again")

    def pause(self, workers: Collection[int] | None = None) -> None:
        with self._waking():
            self._roster.set_paused(workers, True)

    def resume(self, workers: Collection[int] | None = None) -> None:
        with self._waking():
            self._roster.set_paused(workers, False)

    def reset(self, workers: Collection[int] | None = None) -> None:
        with self._waking():
            self._roster.reset(workers)

    def resize(self, num_workers: int) -> None:
        if num_workers < 1:
            raise ConfigError(f"num_workers={num_workers}: expected 1 or more")
        with self._waking():
            self._roster.resize(self.affordable(num_workers))

    def affordable(self, wanted: int) -> int:
        """As many workers as there are tasks and memory for, at least 1."""
        wanted = self._role.useful_workers(wanted)
        count = max(1, self._executor.affordable(wanted, len(self._roster.workers)))
        if count < wanted:
            name = self._role.worker_name
            self._journal.add_event(f"fewer_{name}s", f"there is memory for {count} of {wanted} {name}s")
        return count

    def handles(self) -> dict[int, WorkerHandle]:
        """The running workers by index."""
        with self.changed:
            return {index: worker.handle for index, worker in self._roster.workers.items()}

    def status(self) -> TeamStatus:
        with self.changed:
            status = self._roster.status()
        workers = [
            dataclasses.replace(worker, memory_bytes=private_bytes(worker.pid) if worker.pid else 0)
            for worker in status.workers
        ]
        return dataclasses.replace(status, workers=tuple(workers))

    def report(self) -> Report:
        with self.changed:
            return self._journal.take_report()

    def take_notes(self) -> list[Note]:
        """The notes that workers sent since the last call; to be called under the lock."""
        return self._journal.take_notes()

    def close(self) -> None:
        """End all workers and the thread; may be called twice, also by several threads or after Ctrl-C."""
        with self.changed:
            if not self._over.is_set():
                self._roster.close()
                self.changed.notify_all()
                self._wake()
        if self._thread.ident is not None:
            self._over.wait()  # `join` alone returns at once if an earlier call of it was interrupted
            self._thread.join()
        self._over.set()
        with self.changed:
            self._close_files()
        self._executor.close()


def weakly(method: Callable[P, T]) -> Callable[P, T]:
    """A method that keeps no strong reference to its object."""
    reference = weakref.WeakMethod(method)

    def call(*given: P.args, **named: P.kwargs) -> T:
        found = reference()
        if found is None:
            raise ControlError("the owner of the team was dropped without close()")
        return found(*given, **named)

    return call
