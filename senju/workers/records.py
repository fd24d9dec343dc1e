"""What a team records: its workers, what they printed, and what happened."""

import logging
import os
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from time import monotonic
from typing import Any, NamedTuple

from senju.errors import SenjuError
from senju.events import Event, new_event
from senju.workers.role import Activity, Report, WorkerHandle

logger = logging.getLogger(__name__)

_MOST_ACTIVITIES = 50_000  # kept for the timeline until the next report
_TAIL = 4_000  # characters of what a worker printed
PIPE_BYTES = 65_536  # a pipe's capacity, and so the most that a dead worker can have left in it


class WorkerOutput:
    """Reads what a worker process prints: logs it line by line, and keeps the end for messages."""

    def __init__(self, descriptor: int, worker_name: str) -> None:
        self.descriptor, self._worker_name = descriptor, worker_name
        self.is_open = True
        self._tail = ""

    def read(self) -> str:
        """Read and log one chunk, so that a worker that prints much does not delay the others."""
        try:
            data = os.read(self.descriptor, PIPE_BYTES)
        except BlockingIOError:
            return ""
        self.is_open = bool(data)
        text = data.decode(errors="replace")
        self._tail = (self._tail + text)[-_TAIL:]
        for line in text.splitlines():
            logger.info("%s: %s", self._worker_name, line)
        return text

    def __str__(self) -> str:
        """The end of the output, to be appended to a message."""
        return f"; it printed:\n{self._tail.rstrip()}" if self._tail.strip() else ""


class WorkerState(Enum):
    """What a worker is doing."""

    STARTING = "starting"
    WAITING = "waiting"
    BUSY = "busy"
    LEAVING = "leaving"


@dataclass
class WorkerStats:
    """Statistics of a worker index; they outlive its workers."""

    restarts: int = 0
    num_finished: int = 0
    busy_seconds: float = 0.0
    began: float = field(default_factory=monotonic)
    is_paused: bool = False
    failed_starts: int = 0  # workers in a row that ended before they were ready


@dataclass(eq=False)
class Worker:
    """A running worker. Its replacement is a new `Worker` with the same index and stats."""

    index: int
    name: str  # in messages
    handle: WorkerHandle
    stats: WorkerStats
    output: WorkerOutput | None = None
    state: WorkerState = WorkerState.STARTING
    tasks: deque[Any] = field(default_factory=deque)  # the first is being executed, the others wait behind it
    must_leave: bool = False  # after its tasks
    num_finished: int = 0
    heartbeat: float | None = None  # at the last check; None: not checked in this state
    silent_seconds: float = 0.0
    lacks_memory: bool = False
    scratchpad: dict[str, Any] = field(default_factory=dict)  # the role's

    @property
    def task(self) -> Any:
        """The task being executed, or None."""
        return self.tasks[0] if self.tasks else None

    @property
    def can_work(self) -> bool:
        """Whether it may get tasks."""
        is_ready = self.state is WorkerState.WAITING or self.state is WorkerState.BUSY
        return is_ready and not self.must_leave and not self.stats.is_paused

    def enter(self, state: WorkerState) -> None:
        """Change the state; its deadline starts again."""
        self.state, self.heartbeat = state, None

    def begin_task(self, task: Any) -> None:
        """Append a task to the worker's tasks."""
        self.tasks.append(task)
        if self.state is WorkerState.WAITING:
            self.enter(WorkerState.BUSY)

    def end_task(self, number: int) -> Any:
        """Remove and return the current task; None if it is not the one with this number."""
        is_current = bool(self.tasks) and self.tasks[0].number == number
        task = self.tasks.popleft() if is_current else None
        if self.state is WorkerState.BUSY:
            self.enter(WorkerState.BUSY if self.tasks else WorkerState.WAITING)
        return task

    def check(self, heartbeat: float, gap: float) -> float:
        """Seconds without a sign of life, `gap` seconds after the last check."""
        is_silent = heartbeat == self.heartbeat
        self.heartbeat, self.silent_seconds = heartbeat, self.silent_seconds + gap if is_silent else 0.0
        return self.silent_seconds


class Note(NamedTuple):
    """Values that a worker sent while it worked."""

    worker: int
    task: Any  # None before its first task
    values: Any


class Journal:
    """Collects activities, events, notes and the first failure until the team's owner takes them."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None  # `Team.wait_for` raises it
        self.has_news = False  # whether to wake waiting callers
        self.activities: deque[Activity] = deque(maxlen=_MOST_ACTIVITIES)
        self._events: list[Event] = []
        self._notes: list[Note] = []

    def add_event(
        self, kind: str, message: str, worker: int | None = None, level: int = logging.WARNING
    ) -> None:
        """Log an event and keep it for the report."""
        logger.log(level, "%s", message)
        self._events.append(new_event(kind, message, worker))
        self.has_news = True

    def add_note(self, worker: int, task: Any, values: Any) -> None:
        """Keep values that a worker sent."""
        self._notes.append(Note(worker, task, values))
        self.has_news = True

    def fail(self, error: BaseException) -> None:
        """Let callers that wait for results raise this error; only the first one counts."""
        if isinstance(error, SenjuError):
            error.__traceback__ = None
        self.failure = self.failure or error
        self.has_news = True

    def take_report(self) -> Report:
        """Activities and events since the last report."""
        report = Report({}, list(self.activities), self._events)
        self._events = []
        self.activities.clear()
        return report

    def take_notes(self) -> list[Note]:
        """Notes since the last call."""
        taken, self._notes = self._notes, []
        return taken
