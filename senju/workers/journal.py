"""What happened to a team and what its workers printed: for the log, for reports and for waiting callers."""

import logging
import os
from collections import deque
from typing import Any, NamedTuple

from senju.errors import SenjuError
from senju.workers.role import Activity, Event, Report, new_event

logger = logging.getLogger(__name__)

_MOST_ACTIVITIES = 50_000  # kept for the timeline until the next report
_TAIL = 4_000  # characters of what a worker printed
_PIPE_BYTES = 65_536  # what a pipe holds, and so all that a dead worker may have left there


class Note(NamedTuple):
    """Values that a worker sent while it worked."""

    worker: int
    task: Any  # None before its first task
    values: Any


class Journal:
    """Collects activities, events, notes and the first failure until the team's owner takes them."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None  # raised where results are waited for
        self.has_news = False  # whether waiting callers must look again
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
        report = Report(list(self.activities), self._events)
        self._events = []
        self.activities.clear()
        return report

    def take_notes(self) -> list[Note]:
        """Notes since the last call."""
        taken, self._notes = self._notes, []
        return taken


class WorkerOutput:
    """Reads what a worker process prints: logs it line by line, and keeps the end for messages."""

    def __init__(self, descriptor: int, worker_name: str) -> None:
        self.descriptor, self._worker_name = descriptor, worker_name
        self.is_open = True
        self._tail = ""

    def read(self) -> str:
        """Read and log what has been printed; once, because other workers must be heard too."""
        try:
            data = os.read(self.descriptor, _PIPE_BYTES)
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
