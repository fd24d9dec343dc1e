"""Where the time goes: every stage is timed in place, one clock read per stage."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter


class StageClock:
    """Seconds spent in each named stage.

    >>> clock = StageClock()
    >>> clock.start(); clock.lap("play")
    >>> list(clock.take())
    ['play']
    """

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._last = perf_counter()

    def start(self) -> None:
        """Begin timing; what passed since the last lap belongs to no stage."""
        self._last = perf_counter()

    def lap(self, stage: str) -> None:
        """The time since the last lap (or start) was spent in `stage`."""
        now = perf_counter()
        self._seconds[stage] = self._seconds.get(stage, 0.0) + now - self._last
        self._last = now

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a block as one stage."""
        self.start()
        yield
        self.lap(name)

    def take(self) -> dict[str, float]:
        """Seconds of each stage since the last `take`."""
        taken, self._seconds = self._seconds, {}
        return taken
