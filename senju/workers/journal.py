"""What happened to a team, for reports, for the log, and for callers that wait."""

import logging
from collections import deque
from typing import Any, NamedTuple

from senju.errors import SenjuError
from senju.workers.role import Activity, Event, Report, new_event

logger = logging.getLogger(__name__)

_MOST_ACTIVITIES = 50_000  # kept for the timeline until the next report


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
