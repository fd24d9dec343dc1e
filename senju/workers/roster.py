"""Which workers a team should have. Uses no threads and files.

The thread of the team reports starts and ends (`add`, `remove`, `give_up`), and asks what to do next:
`departures`, `next_missing`, `overdue`.
"""

from collections.abc import Collection
from time import monotonic

from senju.errors import ConfigError
from senju.workers.records import Journal, Worker, WorkerOutput, WorkerState, WorkerStats
from senju.workers.role import Limits, Role, TaskQueue, TeamStatus, WorkerHandle, WorkerStatus

_LEAVE_SECONDS = 5.0  # for a worker to leave
_FAILED_STARTS = 5  # in a row, before the team gives up on a worker


class Roster:
    """The running workers by index, and those that are missing, superfluous or overdue."""

    def __init__(self, role: Role, queue: TaskQueue, limits: Limits, journal: Journal) -> None:
        self.wanted = self.restarts = 0
        self.workers: dict[int, Worker] = {}
        self.is_closing = False
        self.check_seconds = max(0.02, min(limits.task_timeout, limits.start_timeout, _LEAVE_SECONDS) / 8)
        self.role, self.queue, self.limits, self.journal = role, queue, limits, journal
        self._deadlines = {
            WorkerState.STARTING: limits.start_timeout,
            WorkerState.BUSY: limits.task_timeout,
            WorkerState.LEAVING: _LEAVE_SECONDS,
        }
        self._checked_at = 0.0  # when `overdue` last checked the workers
        self._stats: dict[int, WorkerStats] = {}
        self._given_up: set[int] = set()  # indices for which no worker can be started
        self._are_all_paused = False
        self._available: tuple[list[Worker], list[int]] | None = None
        self._is_settled = False  # whether no worker must be started or leave

    # commands of the team's owner

    def resize(self, num_workers: int) -> None:
        """Set the number of workers; superfluous ones leave after their task."""
        self.wanted = num_workers
        self._given_up.clear()
        for index, stats in list(self._stats.items()):
            stats.failed_starts = 0
            if index >= num_workers and index in self.workers:
                self.workers[index].must_leave = True
            elif index >= num_workers:
                del self._stats[index]
        self.on_change()

    def set_paused(self, indices: Collection[int] | None, is_paused: bool) -> None:
        """Pause or resume these workers; None: all, and those that start later."""
        for index in self._known(indices):
            self._stats[index].is_paused = is_paused
        if indices is None:
            self._are_all_paused = is_paused
        self.on_change()

    def reset(self, indices: Collection[int] | None) -> None:
        """Replace these workers (None: all), each after its task."""
        for index in self._known(indices):
            if index in self.workers:
                self.workers[index].must_leave = True
        self.on_change()

    def _known(self, indices: Collection[int] | None) -> Collection[int]:
        unknown = sorted(set(indices or ()) - set(self._stats))
        if unknown:
            raise ConfigError(f"there is no worker {unknown[0]}; workers are {sorted(self._stats)}")
        return self._stats if indices is None else indices

    def close(self) -> None:
        """Let all workers leave, busy or not."""
        self.is_closing = True
        self.on_change()

    def on_change(self) -> None:
        """Forget cached decisions: a worker started or ended, or a command changed what workers may do."""
        self._available, self._is_settled = None, False

    # what the team's thread does next

    def available(self) -> tuple[list[Worker], list[int]]:
        """The workers that may get tasks, and their indices."""
        if self._available is None:
            workers = [worker for _, worker in sorted(self.workers.items()) if worker.can_work]
            self._available = workers, [worker.index for worker in workers]
        return self._available

    def departures(self) -> list[Worker]:
        """Workers that must leave now: idle ones, or all if the team closes."""
        may_skip = self._is_settled and not self.is_closing  # `close` may come while a worker is started
        if may_skip and not self.limits.is_on_demand:
            return []
        leaving = [worker for worker in self.workers.values() if self._must_leave_now(worker)]
        for worker in leaving:
            worker.must_leave = True
            self.on_change()
        return leaving

    def _must_leave_now(self, worker: Worker) -> bool:
        if self.is_closing:
            return worker.state is not WorkerState.LEAVING
        return worker.state is WorkerState.WAITING and (worker.must_leave or self._has_no_work())

    def _is_over(self) -> bool:
        """Whether no worker is needed any more: after a failure the team can only be closed."""
        return self.is_closing or self.journal.failure is not None

    def _has_no_work(self) -> bool:
        return self.limits.is_on_demand and not self.queue.count_waiting()

    def next_missing(self) -> int | None:
        """The index of a worker that must be started, or None."""
        if self._is_settled and not self.limits.is_on_demand:
            return None
        for index in range(self.wanted):
            if self._is_missing(index):
                return index
        self._is_settled = True
        return None

    def _is_missing(self, index: int) -> bool:
        if self._is_over() or index in self.workers or index in self._given_up:
            return False
        if self.limits.is_on_demand and not self._is_in_demand(index):
            return False
        failed_starts = self._find_stats(index).failed_starts
        if failed_starts >= _FAILED_STARTS:
            self.give_up(index, f"{self.name(index)} ended {failed_starts} times before it was ready")
        return failed_starts < _FAILED_STARTS

    def _is_in_demand(self, index: int) -> bool:
        """Whether more tasks wait than workers are free, and one of them is for this worker."""
        num_free = sum(not worker.tasks for worker in self.workers.values())
        has_task = self.queue.is_waiting_for(index, range(self.wanted))
        return has_task and self.queue.count_waiting() > num_free

    def needs_fallback(self) -> bool:
        """Whether no worker can be started, so that a thread must do the tasks."""
        is_needed = not self.workers and not self._is_over() and not self._has_no_work()
        return is_needed and self.role.can_run_in_thread

    def is_quiet(self) -> bool:
        """Whether no worker has a deadline."""
        return all(worker.state is WorkerState.WAITING for worker in self.workers.values())

    def overdue(self, now: float) -> list[Worker]:
        """Workers that gave no sign of life until their deadline.

        A gap longer than the interval of checks means that the team itself stood still (a suspended
        program, a sleeping machine). Such a gap does not count.
        """
        if now - self._checked_at < self.check_seconds / 2:
            return []
        gap, self._checked_at = min(now - self._checked_at, 2 * self.check_seconds), now
        return [
            worker
            for worker in self.workers.values()
            if worker.state is not WorkerState.WAITING
            and worker.check(self.role.heartbeat(worker.index), gap) >= self._deadlines[worker.state]
        ]

    # what happened

    def add(self, index: int, handle: WorkerHandle) -> Worker:
        """A worker was started."""
        name = self.name(index)
        output = WorkerOutput(handle.output, name) if handle.output is not None else None
        worker = Worker(index, name, handle, self._find_stats(index), output)
        worker.must_leave = index >= self.wanted  # `resize` may have been called meanwhile
        self.workers[index] = worker
        self.on_change()
        return worker

    def _find_stats(self, index: int) -> WorkerStats:
        return self._stats.setdefault(index, WorkerStats(is_paused=self._are_all_paused))

    def remove(self, worker: Worker) -> None:
        """A worker has ended."""
        del self.workers[worker.index]
        if worker.index >= self.wanted:
            self._stats.pop(worker.index, None)
        if worker.state is not WorkerState.LEAVING:
            worker.stats.restarts += 1
            self.restarts += 1
            was_starting = worker.state is WorkerState.STARTING
            worker.stats.failed_starts = worker.stats.failed_starts + 1 if was_starting else 0
        self.on_change()

    def give_up(self, index: int, reason: str) -> None:
        """Go on with fewer workers; without any, this process does the work."""
        self._stats.pop(index, None)
        if index >= self.wanted:  # `resize` was called meanwhile
            return
        self._given_up.add(index)
        if self.role.on_given_up(index, reason):
            return
        left, name = self.wanted - len(self._given_up), self.role.worker_name
        kind, how = f"fewer_{name}s", f"with {left} of {self.wanted} {name}s"
        if not left:
            kind, how = "sequential", "in this process, one task after another"
        self.journal.add_event(kind, f"{reason}; going on {how}")

    # the state

    def name(self, index: int) -> str:
        """A worker in messages."""
        return f"{self.role.worker_name} {index}"

    def is_ready(self) -> bool:
        """Whether each worker has started or was given up."""
        if self.limits.is_on_demand:
            return True
        is_full = bool(self.workers) and len(self.workers) >= self.wanted - len(self._given_up)
        return is_full and all(worker.state is not WorkerState.STARTING for worker in self.workers.values())

    def status(self) -> TeamStatus:
        """The workers now, without the memory that they take."""
        workers = [self._worker_status(index, self._stats[index]) for index in sorted(self._stats)]
        return TeamStatus(self.wanted, tuple(workers), self.restarts)

    def _worker_status(self, index: int, stats: WorkerStats) -> WorkerStatus:
        worker = self.workers.get(index)
        state = worker.state if worker else WorkerState.STARTING
        shown = self.role.activity if state is WorkerState.BUSY else state.value
        return WorkerStatus(
            index=index,
            state="paused" if stats.is_paused and state is WorkerState.WAITING else shown,
            pid=worker.handle.pid if worker else None,
            task=worker.task if worker else None,
            num_finished=stats.num_finished,
            restarts=stats.restarts,
            busy_share=stats.busy_seconds / max(monotonic() - stats.began, 1e-9),
            memory_bytes=0,
        )
