"""Times the stages of a loop in place, with one clock read per stage."""

from collections.abc import Iterator, Mapping
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
        """Start timing; the time since the last lap is not counted."""
        self._last = perf_counter()

    def lap(self, stage: str) -> None:
        """Add the time since the last lap (or start) to `stage`."""
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


def add_seconds(total: dict[str, float], more: Mapping[str, float]) -> None:
    """Add the seconds of each stage."""
    for stage, seconds in more.items():
        total[stage] = total.get(stage, 0.0) + seconds
