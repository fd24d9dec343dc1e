"""One `go`: what to think about, how long, and when the answer may be given."""

import math
from threading import Event
from typing import Final

from senju.usi.clock import Alarm, Costs, plan
from senju.usi.options import EngineConfig
from senju.usi.protocol import Limits
from senju.usi.situation import Situation

DECIDED_SHARE: Final = 0.4  # of the time so far: a best move that has stood for so long is decided on


class Task:
    """A search asked for: steered by the thread that reads, worked on by the one that thinks."""

    def __init__(
        self, situation: Situation, limits: Limits, config: EngineConfig, game_number: int, now: float
    ) -> None:
        self.situation, self.limits, self.config, self.game_number = situation, limits, config, game_number
        self.is_answered = False
        self._stop, self._due = Event(), Event()
        costs = Costs(config.move_overhead, config.byoyomi_margin)
        self._budget = plan(limits, situation.position.side, situation.ply, costs)
        self._alarm: Alarm | None = None
        self._started = self._best_since = now
        self._best, self._depth = -1, 0
        if not limits.is_ponder:
            self._start_clock(now)

    def _start_clock(self, now: float) -> None:
        if not self.limits.is_infinite:
            self._alarm = Alarm(self._budget, now)
            self._due.set()

    @property
    def is_stopping(self) -> bool:
        """Whether the answer has been asked for."""
        return self._stop.is_set()

    @property
    def is_due(self) -> bool:
        """Whether an answer may be given: with `infinite` or `ponder`, not before it is asked for."""
        return self._due.is_set()

    @property
    def is_pondering(self) -> bool:
        """Whether the search waits to be told that the expected move was played."""
        return self.limits.is_ponder and not self.is_due

    @property
    def is_for_play(self) -> bool:
        """Whether the answer is a move of a game, not only asked for to end pondering or an analysis."""
        return self._alarm is not None

    @property
    def is_clocked(self) -> bool:
        """Whether a clock ends the search, or will."""
        return self._budget.longest < math.inf

    @property
    def seconds(self) -> float:
        """How long the search may take, unless it is asked to end or waits for a hit."""
        return math.inf if self._alarm is None else self._budget.usual / 1000

    def stop(self) -> None:
        """Ask for the answer at once."""
        self._stop.set()
        self._due.set()

    def hit(self, now: float) -> None:
        """The expected move was played: the clock starts."""
        if self.is_pondering:
            self._start_clock(now)

    def node_limit(self, usual: int) -> int:
        """New nodes to search, 0 for any number; `usual` where nothing else would end the search."""
        is_ended_otherwise = self.is_clocked or self.limits.is_infinite or self.limits.depth
        return self.limits.nodes or self.config.nodes or (0 if is_ended_otherwise else usual)

    def note(self, best: int, depth: int, now: float) -> None:
        """Take notice of how far the search has come."""
        if best != self._best:
            self._best, self._best_since = best, now
        self._depth = depth

    def is_over(self, now: float, expected: float = 0.0) -> bool:
        """Whether the search is to end; asked between two batches, the next of `expected` seconds."""
        alarm = self._alarm
        if self.is_stopping or alarm is None:
            return self.is_stopping
        if self.limits.depth is not None and self._depth >= self.limits.depth:
            return True
        is_decided = now - self._best_since >= DECIDED_SHARE * (now - self._started)
        return alarm.is_over(now, is_decided, expected)

    def wait_until_due(self) -> None:
        """Wait until an answer may be given."""
        self._due.wait()
