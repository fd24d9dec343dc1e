"""The thread of a team: waits for workers' messages and ends, and carries out the decisions.

All waiting is one `select`, so the thread notices a death when the system closes the worker's channel.
"""

import contextlib
import errno
import logging
import os
import selectors
import threading
from collections.abc import Callable
from functools import partial
from time import monotonic

from senju.errors import WorkerError
from senju.workers.channel import Kind, Message, WorkerFailure
from senju.workers.conditions import SafeCondition
from senju.workers.dispatcher import Dispatcher
from senju.workers.records import Journal, Worker, WorkerState
from senju.workers.role import Executor, Limits, Payload, Role, TaskQueue, WorkerEnding
from senju.workers.roster import Roster
from senju.workers.thread import ThreadExecutor

logger = logging.getLogger(__name__)


class TeamThread:
    """Starts, listens to and stops workers. All state changes under the lock of `changed`."""

    def __init__(
        self,
        role: Role,
        queue: TaskQueue,
        executor: Executor,
        limits: Limits,
        changed: threading.Condition | None = None,
        has_prefetch: bool = False,
    ) -> None:
        """Callers can wait for several teams that share a condition `changed`.

        With `has_prefetch`, a busy worker has a second task waiting.
        """
        self.changed = changed or SafeCondition()
        self._role, self._queue, self._executor = role, queue, executor
        self._journal = Journal()
        self._roster = Roster(role, queue, limits, self._journal)
        self._dispatcher = Dispatcher(self._roster, has_prefetch)
        self._selector = selectors.DefaultSelector()  # of everything that the thread waits for
        wake_out, self._wake_in = os.pipe()
        os.set_blocking(self._wake_in, False)
        self._selector.register(wake_out, selectors.EVENT_READ, partial(os.read, wake_out, 4096))
        self._files = [wake_out, self._wake_in]
        self._is_dropped = self._may_close_files = False
        self._over = threading.Event()  # set when the thread has ended all workers
        self._thread = threading.Thread(target=self._run, name=f"senju {role.worker_name} team", daemon=True)

    def _run(self) -> None:
        roster = self._roster
        try:
            events: list[Callable[[], object]] = []
            while True:
                with self.changed:
                    missing = self._handle(events)
                self._start_missing(missing)
                if roster.is_closing and not roster.workers:
                    break
                ready = self._selector.select(None if roster.is_quiet() else roster.check_seconds)
                events = [key.data for key, _ in ready]
        except BaseException as error:  # noqa: BLE001  # `Team.wait_for` raises it
            with self.changed:
                self._journal.fail(error)
                self.changed.notify_all()
            for worker in list(roster.workers.values()):
                self._end(worker)
                roster.remove(worker)
        finally:
            self._over.set()
        self._executor.close()
        if self._may_close_files:
            self._close_files()

    # The garbage collector calls `drop` in any thread and at any time, so these methods take no lock.

    def drop(self, files: list[int]) -> None:
        """End all workers, without waiting, because the owner was dropped; then `files` are closed too."""
        self._files += files
        self._is_dropped = True
        self._wake()
        self._may_close_files = True  # after `_wake`, which needs one of them
        if self._over.is_set():
            self._close_files()

    def _wake(self) -> None:
        """Wake the thread, so that it sees what has changed."""
        with contextlib.suppress(BlockingIOError):  # the pipe is full, so the thread will wake
            os.write(self._wake_in, b".")

    def _close_files(self) -> None:
        """Close all files, except those that another thread is closing."""
        self._selector.close()
        with contextlib.suppress(IndexError):
            while True:
                os.close(self._files.pop())

    def _handle(self, events: list[Callable[[], object]]) -> int | None:
        """React to events; return the index of a worker that must be started."""
        for handle_event in events:
            handle_event()
        if self._is_dropped and not self._roster.is_closing:
            self._roster.close()
        for worker in self._roster.overdue(monotonic()):
            self._on_overdue(worker)
        for worker in self._roster.departures():
            self._dismiss(worker)
        self._dispatch()
        missing = self._roster.next_missing()
        if self._journal.has_news:
            self._journal.has_news = False
            self.changed.notify_all()
        return missing

    def _dispatch(self) -> None:
        """Send tasks to workers that are free; to be called under the lock, from any thread."""
        for worker, task in self._dispatcher.assignments():
            payload = self._role.task_payload(task, worker.scratchpad)
            self._send(worker, Message(Kind.TASK, task.number, *payload))

    def _send(self, worker: Worker, message: Message) -> None:
        try:
            worker.handle.channel.send(message)
        except (ConnectionError, BlockingIOError):  # its end or its silence comes next, which says more
            logger.debug("%s takes no message", worker.name)
        except OSError as error:
            self._fail(f"{worker.name} could not be sent a message", error)

    def _fail(self, what: str, error: OSError) -> None:
        """End the team because of an error of this process, as when it has too many open files."""
        why = f"{what}: {error.strerror}. This process may need a higher limit (ulimit -a)."
        self._journal.fail(WorkerError(why))

    def _start_missing(self, index: int | None) -> None:
        """Start workers. That may take seconds, so other threads can take the lock meanwhile."""
        while index is not None:
            try:
                handle = self._executor.start(self._role, index)
            except (OSError, MemoryError) as error:
                with self.changed:
                    self._roster.give_up(index, f"{self._roster.name(index)} cannot be started: {error}")
                    index = self._roster.next_missing()
                    self.changed.notify_all()
            else:
                with self.changed:
                    self._watch(self._roster.add(index, handle))
                    index = self._roster.next_missing()
        if not self._roster.workers:
            with self.changed:
                if self._roster.needs_fallback():
                    self._watch(self._roster.add(0, ThreadExecutor().start(self._role, 0)))

    def _watch(self, worker: Worker) -> None:
        handle, read = worker.handle, selectors.EVENT_READ
        self._selector.register(handle.channel, read, partial(self._attend, worker, self._receive))
        if handle.output is not None:
            self._selector.register(handle.output, read, partial(self._attend, worker, self._read_output))

    def _attend(self, worker: Worker, handle_event: Callable[[Worker], None]) -> None:
        """Handle an event, unless an earlier event of the same `select` has removed the worker."""
        if self._roster.workers.get(worker.index) is worker:
            handle_event(worker)

    def _receive(self, worker: Worker) -> None:
        message, is_broken = None, False
        try:
            message = worker.handle.channel.receive()
        except OSError as error:
            is_broken = error.errno == errno.EBADMSG
            if error.errno == errno.EMFILE:
                self._fail(f"a message of {worker.name} could not be received", error)
        if message is None:
            ending = self._end(worker)._replace(detail=str(worker.output or ""))
            if is_broken:  # for example, the user's code wrote into the channel; `_end` killed the worker
                how = f"sent bytes that are not a message, and {ending.how}"
                ending = ending._replace(how=how, was_killed=False)
            self._dispatcher.on_end(worker, ending)
        elif message.kind == Kind.DONE:
            began, ended, values = message.values
            payload = Payload(values, message.blocks)
            self._dispatcher.on_done(worker, message.number, began, ended, payload)
        elif message.kind == Kind.FAILED:
            self._dispatcher.on_failed(worker, message.number, WorkerFailure(*message.values))
        elif message.kind == Kind.NOTE:
            self._journal.add_note(worker.index, worker.task, message.values)
        else:
            assert message.kind == Kind.READY
            self._dispatcher.on_ready(worker)

    def _read_output(self, worker: Worker) -> None:
        output = worker.output
        assert output is not None
        text = output.read()
        if not output.is_open and output.descriptor in self._selector.get_map():
            self._selector.unregister(output.descriptor)
        if text and self._role.keeps_output:
            self._journal.add_note(worker.index, worker.task, {"output": text})

    def _dismiss(self, worker: Worker) -> None:
        """Let a worker leave; a busy one at once."""
        if worker.state is not WorkerState.WAITING and worker.handle.can_be_killed:
            worker.handle.kill()
        else:
            self._send(worker, Message(Kind.STOP))
        worker.enter(WorkerState.LEAVING)

    def _on_overdue(self, worker: Worker) -> None:
        """Replace a worker that hangs."""
        if worker.state is WorkerState.LEAVING:
            self._dispatcher.on_end(worker, self._end(worker))
            return
        stack = worker.handle.stack().rstrip()
        detail = f"; its stack:\n{stack}\n" if stack else ""
        ending = WorkerEnding(f"gave no sign of life for {worker.silent_seconds:.1f} s", detail=detail)
        if worker.handle.can_be_killed:
            self._end(worker)
            self._dispatcher.on_end(worker, ending, kind="hung")
        else:
            self._dispatcher.on_hung_thread(worker, ending)
            self._dismiss(worker)  # so that it ends when it responds again

    def _end(self, worker: Worker) -> WorkerEnding:
        """End a worker and release what belongs to it."""
        handle = worker.handle
        handle.kill()
        ending = handle.wait()
        if handle.output is not None:
            self._read_output(worker)
            if handle.output in self._selector.get_map():
                self._selector.unregister(handle.output)
        self._selector.unregister(handle.channel)
        handle.close()
        return ending
