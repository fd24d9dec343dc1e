"""A queue of tasks that callers put in; results come out in the order in which they are finished."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from senju.workers.role import TaskQueue

Prefer = Callable[[Any, Sequence[int]], int]


class Assignment(NamedTuple):
    """A task on its way to a worker."""

    number: int
    task: Any


@dataclass(eq=False)
class _Entry:
    task: Any
    failures: int = 0


class Tasks(TaskQueue):
    """First in, first out. `prefer(task, workers)` names the worker that should do a task.

    >>> tasks = Tasks()
    >>> tasks.put("a")
    >>> assignment = tasks.begin(0, [0])
    >>> tasks.finish(assignment, 5), tasks.take()
    (True, [('a', 5)])
    """

    def __init__(self, prefer: Prefer | None = None) -> None:
        self._prefer = prefer
        self._waiting: deque[_Entry] = deque()
        self._running: dict[int, _Entry] = {}
        self._number = 0
        self._finished: list[tuple[Any, Any]] = []

    def put(self, task: Any) -> None:
        """Add a task; to be called under the team's lock."""
        self._waiting.append(_Entry(task))

    def take(self) -> list[tuple[Any, Any]]:
        """Finished tasks with their results since the last call; to be called under the team's lock."""
        taken, self._finished = self._finished, []
        return taken

    def is_due(self) -> bool:
        return bool(self._finished)

    def pending(self) -> list[Any]:
        """Tasks that are waiting or running."""
        return [entry.task for entry in (*self._running.values(), *self._waiting)]

    def begin(self, worker: int, workers: Sequence[int]) -> Assignment | None:
        entry = self._find(worker, workers)
        if entry is None:
            return None
        self._waiting.remove(entry)
        self._number += 1
        self._running[self._number] = entry
        return Assignment(self._number, entry.task)

    def _find(self, worker: int, workers: Sequence[int]) -> _Entry | None:
        for entry in self._waiting:
            if self._prefer is None or self._prefer(entry.task, workers) == worker:
                return entry
        return None

    def is_waiting_for(self, worker: int, workers: Sequence[int]) -> bool:
        return self._find(worker, workers) is not None

    def count_waiting(self) -> int:
        return len(self._waiting)

    def count_running(self) -> int:
        return len(self._running)

    def finish(self, task: Assignment, result: Any) -> bool:
        entry = self._running.pop(task.number, None)
        if entry is not None:
            self._finished.append((entry.task, result))
        return entry is not None

    def lose(self, task: Assignment, is_its_fault: bool = True) -> int:
        """Queue the task again, behind the others: they need not wait for one that fails."""
        entry = self._running.pop(task.number, None)
        if entry is None:
            return 0
        entry.failures += is_its_fault
        self._waiting.append(entry)
        return entry.failures

    def abandon(self, task: Assignment) -> None:
        self._waiting = deque(entry for entry in self._waiting if entry.task is not task.task)
