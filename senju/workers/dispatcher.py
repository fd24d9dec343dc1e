"""Which worker does which task, and which task is to blame for a failure. Uses no threads and files."""

import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

from senju.errors import SenjuError, WorkerError
from senju.workers.channel import WorkerFailure
from senju.workers.records import Worker, WorkerState
from senju.workers.role import Activity, Payload, WorkerEnding
from senju.workers.roster import Roster


class Dispatcher:
    """Gives tasks to the workers of a roster, and takes results, failures and the tasks of lost workers."""

    def __init__(self, roster: Roster, has_prefetch: bool = False) -> None:
        self.is_open = False  # whether tasks may begin
        self._roster, self._has_prefetch = roster, has_prefetch
        self._role, self._queue, self._limits = roster.role, roster.queue, roster.limits
        self._journal = roster.journal
        self._kills: Counter[str] = Counter()  # workers killed while they had a task

    def assignments(self) -> Iterator[tuple[Worker, Any]]:
        """Begin a task for each free worker and, while enough tasks wait, a second one for busy workers.

        The second one hides the time that messages take. The last tasks go to the workers that are free
        first, because no two tasks take equally long.
        """
        queue = self._queue
        if not self.is_open or self._roster.is_closing:
            return
        workers, indices = self._roster.available()
        for worker in workers:
            if not worker.tasks and (task := queue.begin(worker.index, indices)) is not None:
                worker.begin_task(task)
                yield worker, task
        for worker in workers if self._has_prefetch else ():
            if queue.count_waiting() <= len(workers):
                return
            if len(worker.tasks) == 1 and (task := queue.begin(worker.index, indices)) is not None:
                worker.begin_task(task)
                yield worker, task

    def on_ready(self, worker: Worker) -> None:
        """A worker waits for its first task."""
        worker.stats.failed_starts = 0
        if worker.state is WorkerState.STARTING:
            worker.enter(WorkerState.WAITING)
        self._roster.on_change()
        self._journal.has_news = True

    def on_done(self, worker: Worker, number: int, began: float, ended: float, payload: Payload) -> None:
        """A worker has finished a task."""
        task = worker.end_task(number)
        if task is None or self._role.is_counted(task):
            worker.num_finished += 1
            worker.stats.num_finished += 1
        worker.stats.busy_seconds += ended - began
        if worker.must_leave or 0 < self._limits.reset_interval <= worker.num_finished:
            worker.must_leave = True
            self._roster.on_change()
        if task is None:
            return
        if self._kills:
            self._kills.pop(self._role.describe(task), None)
        self._journal.activities.append(Activity(worker.index, task, began, ended))
        self._queue.finish(task, self._role.result(task, payload))
        if self._queue.is_due() or not self.is_open:
            self._journal.has_news = True

    def on_failed(self, worker: Worker, number: int, failure: WorkerFailure) -> None:
        """A worker raised an exception, in a task or when it started."""
        task = worker.end_task(number)
        self._roster.on_change()
        if task is None and failure.error == "MemoryError":
            worker.lacks_memory = True  # when it ends, `on_end` goes on with fewer workers
            return
        if task is None:
            self._journal.fail(failure.as_error(f"{self._describe(worker)} could not start"))
            return
        where = f"{worker.name}, {self._role.describe(task)}"
        if failure.is_senju_error:  # a retry would raise it again; the serial backend raises the same
            self._journal.fail(failure.as_error(where))
        else:
            self._retry(worker, task, f"{where}: {failure}", "failed")

    def on_end(self, worker: Worker, ending: WorkerEnding, kind: str = "lost") -> None:
        """A worker has ended, asked to or not. Other workers take over its tasks."""
        self._journal.has_news = True
        task, was_leaving = worker.task, worker.state is WorkerState.LEAVING
        for waiting in list(worker.tasks)[1:]:  # it had not begun these
            self._queue.lose(waiting, is_its_fault=False)
        worker.tasks.clear()
        self._roster.remove(worker)
        if was_leaving:
            return
        if (worker.lacks_memory or ending.lacks_memory) and self._roster.workers:
            if task is not None:
                self._queue.lose(task, is_its_fault=False)
            reason = f"{self._describe(worker)} ran out of memory: it {ending.how}{ending.detail}"
            self._roster.give_up(worker.index, reason)
            return
        cause = self._describe_end(worker, task, ending)
        if task is None:
            message = f"{cause.rstrip()}\nAnother worker replaces it."
            self._journal.add_event(f"{self._role.worker_name}_{kind}", message, worker.index)
        else:
            self._retry(
                worker, task, cause, kind, not (ending.was_killed and self._may_be_killed_from_outside(task))
            )

    def on_hung_thread(self, worker: Worker, ending: WorkerEnding) -> None:
        """A worker that cannot be killed gave no sign of life: the team cannot go on."""
        cause = self._describe_end(worker, worker.task, ending)
        self._journal.fail(WorkerError(f"{cause.rstrip()}\nA thread cannot be replaced; a process can."))
        worker.must_leave = True
        self._roster.on_change()

    def _may_be_killed_from_outside(self, task: Any) -> bool:
        """Whether another program may have killed the worker; after many kills the task is blamed."""
        what = self._role.describe(task)
        self._kills[what] += 1
        return self._kills[what] % self._limits.kills_per_failure != 0

    def _retry(self, worker: Worker, task: Any, cause: str, kind: str, is_its_fault: bool = True) -> None:
        """Queue a task again, or drop it after too many failures."""
        failures = self._queue.lose(task, is_its_fault)
        if not is_its_fault or failures < self._limits.attempts:
            message = f"{cause.rstrip()}\n{self._role.repeats}"
            self._journal.add_event(f"{self._role.worker_name}_{kind}", message, worker.index)
            return
        self._queue.abandon(task)
        try:
            message = self._role.on_exhausted(task, cause, self._limits.attempts)
            if message:
                self._journal.add_event("set_aside", message, worker.index, logging.ERROR)
        except SenjuError as error:
            self._journal.fail(error)

    def _describe(self, worker: Worker) -> str:
        details = [f"process {worker.handle.pid}"] if worker.handle.pid else []
        if more := self._role.describe_worker(worker.index):
            details.append(more)
        return worker.name + (f" ({'; '.join(details)})" if details else "")

    def _describe_end(self, worker: Worker, task: Any, ending: WorkerEnding) -> str:
        doing = f" during {self._role.describe(task)}" if task is not None else ""
        if worker.state is WorkerState.STARTING:
            doing = " while it started"
        return f"{self._describe(worker)} {ending.how}{doing}{ending.detail}"
