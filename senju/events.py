"""What happened in a run that a person may want to know: a worker was lost, replaced, …"""

from time import time
from typing import NamedTuple


class Event(NamedTuple):
    """One such thing."""

    kind: str
    message: str
    worker: int | None
    time: float  # of `time.time`


def new_event(kind: str, message: str, worker: int | None = None) -> Event:
    """An event of this moment."""
    return Event(kind, message, worker, time())
