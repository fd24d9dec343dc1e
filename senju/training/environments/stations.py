"""Where tasks are done: the contract, and doing them here, one after another."""

import math
import select
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence

from senju.training.environments.tasks import Result, Task
from senju.usercode import ChildReport, ending_forked_child

Work = Callable[[Task], Result]


def readable(descriptors: Sequence[int], seconds: float | None) -> bool:
    """Wait until one of them can be read, or has been closed by the other end; say whether one can."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if seconds is None else math.ceil(1000 * seconds)))


class Station(ABC):
    """Takes tasks and gives results back, in whatever order they are finished."""

    events: list[str]  # what went wrong and was healed, in words
    needs_states = False  # whether agents' states must be written down, for who takes another's place

    @property
    @abstractmethod
    def room(self) -> int:
        """How many more tasks could begin now."""

    @abstractmethod
    def give(self, task: Task) -> None:
        """Take a task, to be done as soon as possible."""

    def sources(self) -> list[int]:
        """Descriptors that can be read when there may be something to take."""
        return []

    def deadline(self) -> float | None:
        """When to look again at the latest, as `time.monotonic` counts."""
        return None

    @property
    def has_work_here(self) -> bool:
        """Whether `take` itself would do a task."""
        return False

    @abstractmethod
    def take(self) -> list[Result]:
        """What has been finished."""

    @abstractmethod
    def excuse(self, seconds: float) -> None:
        """Nobody has listened for so long: that is no fault of those who waited."""

    @abstractmethod
    def close(self) -> None:
        """End everything; may be called twice."""


class Here(Station):
    """Tasks are done by whoever asks for results, in the order in which they came."""

    def __init__(self, work: Work, track: str) -> None:
        self._work, self._track = work, track
        self._tasks: deque[Task] = deque()
        self._child = ChildReport()
        self.events = []

    @property
    def room(self) -> int:
        """One at a time."""
        return 0 if self._tasks else 1

    def give(self, task: Task) -> None:
        """Put it behind the others."""
        self._tasks.append(task)

    @property
    def has_work_here(self) -> bool:
        """Whether there is a task."""
        return bool(self._tasks)

    def take(self) -> list[Result]:
        """Do the next task."""
        if not self._tasks:
            return []
        with ending_forked_child(self._child.write):
            result = self._work(self._tasks.popleft())
        self._child.raise_written()
        return [result._replace(track=self._track)]

    def excuse(self, seconds: float) -> None:
        """Nobody waits here."""

    def close(self) -> None:
        """Nothing runs when nobody asks."""
