"""One worker as the supervisor sees it: how to reach it, and what it is doing."""

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any

from senju.backends.messages import Broken
from senju.backends.schedule import Task


class Hand(ABC):
    """A worker's thread or process."""

    connection: "Connection[Any, Any]"
    pid: int | None = None
    output: int | None = None  # descriptor of what it prints, where it has an output of its own
    can_be_killed = True
    was_killed = False  # known after its end: whether a signal ended it that others send
    lacks_memory = False  # known after its end: whether the system killed it for lack of memory

    @abstractmethod
    def kill(self) -> None:
        """End it at once, if it can be."""

    @abstractmethod
    def wait(self) -> str:
        """Wait for its end and say how it ended."""

    @abstractmethod
    def where(self) -> str:
        """What it is executing now, as a traceback; empty where it cannot tell."""

    @abstractmethod
    def close(self) -> None:
        """Give back what belongs to it here."""


class State(Enum):
    """What a member is doing."""

    STARTING = "starting"
    WAITING = "waiting"
    PLAYING = "playing"
    LEAVING = "leaving"


@dataclass(eq=False)
class Member:
    """A worker with its bookkeeping; a replacement is a new member in the same place."""

    index: int
    hand: Hand
    state: State = State.STARTING
    tasks: deque[Task] = field(default_factory=deque)  # the first is being played, the rest wait with it
    must_go: bool = False  # after the rollout under way
    rollouts: int = 0
    beat: float = -1.0
    still_seconds: float = 0.0  # without a sign of life
    looked_at: float = field(default_factory=monotonic)
    lacks_memory: bool = False
    said: str = ""  # the end of what it printed
    broken: list[Broken] = field(default_factory=list)  # opponents that failed in the rollout under way

    @property
    def task(self) -> Task | None:
        """What it plays."""
        return self.tasks[0] if self.tasks else None

    def enter(self, state: State) -> None:
        """Begin something else."""
        self.state = state
        self.still_seconds, self.looked_at = 0.0, monotonic()

    def look(self, beat: float, longest_gap: float) -> float:
        """Seconds without a sign of life.

        A gap longer than the supervisor's own rhythm means that the supervisor stood still (a
        suspended program, a machine asleep); that is not held against the worker.
        """
        now = monotonic()
        gap, self.looked_at = min(now - self.looked_at, longest_gap), now
        if beat != self.beat:
            self.beat, self.still_seconds = beat, 0.0
        else:
            self.still_seconds += gap
        return self.still_seconds


@dataclass
class Place:
    """What outlives the members in one place."""

    restarts: int = 0
    rollouts: int = 0
    busy_seconds: float = 0.0
    began: float = field(default_factory=monotonic)
    is_paused: bool = False
    vain_starts: int = 0  # members in a row that ended before they were ready
