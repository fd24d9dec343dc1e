"""Time control: how long to think about a move, and when to stop.

All times are milliseconds, as in the protocol. Two costs are subtracted from the clock: the overhead, which
every move loses in transit, and the margin, which absorbs a delay on a busy machine.
"""

import math
from collections import deque
from statistics import median
from typing import Final, NamedTuple

from senju.usi.protocol import GoLimits

USUAL_MOVES: Final = 40  # a move usually takes 1/40 of the main time
FEWEST_MOVES: Final = 20  # own moves that the clock must still last for, even late in a game
LONGEST_PART: Final = 8  # an undecided search takes at most 1/8 of the main time
LONGEST_GAME: Final = 512  # plies that a sudden-death clock must last for
INCREMENT_SHARE: Final = 0.9  # of the increment is used at once; the rest accumulates


class Budget(NamedTuple):
    """Milliseconds that a move may take, counted from the start of the clock."""

    usual: float
    longest: float  # while the best move still changes

    def is_spent(self, seconds: float, is_decided: bool) -> bool:
        """Whether a search has used its time after this many seconds."""
        return 1000 * seconds >= (self.usual if is_decided else self.longest)


UNLIMITED: Final = Budget(math.inf, math.inf)


def plan(limits: GoLimits, side: int, ply: int, *, overhead: int, margin: int) -> Budget:
    """The time budget for a move: never more than the time left, minus overhead or margin.

    A clock without increments lasts for a game of 512 plies even if every move loses the whole
    overhead: that much is reserved for each move to come, and only a part of the rest is used.
    """
    unused = max(overhead, margin)
    if limits.movetime is not None:
        time = float(max(limits.movetime - unused, 0))
        return Budget(time, time)
    left, increment, byoyomi = limits.times[side], limits.increments[side], limits.byoyomi
    if left is None and not increment and not byoyomi:
        return UNLIMITED
    left = left or 0
    # Programs differ in when they add the increment. We assume after the move, except where the
    # clock would otherwise be empty: there it must have been added before.
    most = max(left + byoyomi - unused, 0) if left + byoyomi else max(increment - unused, 0)
    free, renewed = _free_time(left, increment, byoyomi, ply, overhead)
    usual = free / USUAL_MOVES + renewed
    longest = free / LONGEST_PART + renewed
    return Budget(min(usual, most), min(longest, most))


def _free_time(left: int, increment: int, byoyomi: int, ply: int, overhead: int) -> tuple[float, float]:
    """The time to share among all moves to come, and the time that each move gets in addition."""
    if byoyomi:
        return left, byoyomi  # the main time may run out: byoyomi is renewed with every move
    gain = increment - overhead
    if gain >= 0:
        return left, INCREMENT_SHARE * gain
    moves_left = max((LONGEST_GAME - ply + 1) // 2, FEWEST_MOVES)
    return max(left + gain * moves_left, 0), 0.0


FADING: Final = 0.9  # weight of a slow batch, per batch since then
REMEMBERED: Final = 15  # batches, across moves


class Pace:
    """Predicts how long the next batch of a search takes, from the batches before it.

    Within a move the slowest batch counts, and fades. Of earlier moves only the median counts: otherwise
    one delay on a busy machine would cost time in all moves after it.
    """

    def __init__(self) -> None:
        self._slow = 0.0
        self._recent: deque[float] = deque(maxlen=REMEMBERED)
        self._is_tried = True  # whether a batch was searched since `begin`

    def begin(self) -> None:
        """Start a new move."""
        if not self._is_tried and self._recent:
            self._recent.popleft()  # so that a too slow prediction is forgotten in the end
        self._slow, self._is_tried = 0.0, False

    def note(self, seconds: float) -> None:
        """Record the duration of a batch."""
        self._recent.append(seconds)
        self._slow, self._is_tried = max(FADING * self._slow, seconds), True

    @property
    def expected(self) -> float:
        """Seconds that the next batch may take."""
        return max(self._slow, median(self._recent) if self._recent else 0.0)
