"""One `go` command: the position to search, the time for it, and when the answer may be sent."""

import math
from threading import Event
from typing import Final

from senju.usi.clock import plan
from senju.usi.options import EngineConfig
from senju.usi.protocol import GoLimits
from senju.usi.situation import Situation

DECIDED_SHARE: Final = 0.4  # of the time so far; a best move that is unchanged for longer is decided


class SearchRequest:
    """A requested search: controlled by the reading thread, executed by the thinking thread."""

    def __init__(
        self, situation: Situation, limits: GoLimits, config: EngineConfig, game_number: int, now: float
    ) -> None:
        self.situation, self.limits, self.config, self.game_number = situation, limits, config, game_number
        self.is_answered = self.is_stopping = False  # stopping: the other side asked for the answer
        # set when the answer may be sent; with `infinite` or `ponder`, when it is asked for
        self.due = Event()
        costs = {"overhead": config.move_overhead, "margin": config.byoyomi_margin}
        self._budget = plan(limits, situation.position.side, situation.ply, **costs)
        self._clock_started: float | None = None  # None while pondering, and with `infinite`
        self._started = self._best_since = now
        self._best, self._depth = -1, 0
        if not limits.is_ponder:
            self.start_clock(now)

    def start_clock(self, now: float) -> None:
        """Count the time from now on: the search began, or the expected move was played."""
        if not self.limits.is_infinite:
            self._clock_started = now
            self.due.set()

    @property
    def is_pondering(self) -> bool:
        """Whether the search waits for `ponderhit`."""
        return self.limits.is_ponder and not self.due.is_set()

    @property
    def is_for_play(self) -> bool:
        """Whether the answer is a move of the game, not the end of pondering or of an analysis."""
        return self._clock_started is not None

    @property
    def seconds(self) -> float:
        """How long the search may take; infinite while no clock runs."""
        return self._budget.usual / 1000 if self.is_for_play else math.inf

    def stop(self) -> None:
        """Ask for the answer at once."""
        self.is_stopping = True
        self.due.set()

    def node_limit(self, usual: int) -> int:
        """New nodes to search, 0 for no limit; `usual` where nothing else would end the search."""
        has_clock = self._budget.longest < math.inf
        is_ended_otherwise = has_clock or self.limits.is_infinite or self.limits.depth
        return self.limits.nodes or self.config.nodes or (0 if is_ended_otherwise else usual)

    def note(self, best: int, depth: int, now: float) -> None:
        """Record the progress of the search."""
        if best != self._best:
            self._best, self._best_since = best, now
        self._depth = depth

    def is_over(self, now: float, expected: float = 0.0) -> bool:
        """Whether to stop before the next batch, which would take `expected` seconds."""
        if self.is_stopping or self._clock_started is None:
            return self.is_stopping
        if self.limits.depth is not None and self._depth >= self.limits.depth:
            return True
        is_decided = now - self._best_since >= DECIDED_SHARE * (now - self._started)
        return self._budget.is_spent(now + expected - self._clock_started, is_decided)
