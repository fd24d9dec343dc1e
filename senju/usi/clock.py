"""Time: how long to think about a move, and when to stop.

All times are milliseconds, as in the protocol. Two things cost time that is not thought: what every
move loses on its way (the overhead), and what a busy machine may take at the worst moment (the margin).
"""

import math
from collections import deque
from statistics import median
from typing import Final, NamedTuple

from senju.usi.protocol import Limits

USUAL_MOVES: Final = 40  # a move gets this part of the main time
FEWEST_MOVES: Final = 20  # own moves that a clock has to last for, however long the game has been
LONGEST_PART: Final = 8  # an undecided search may take this part of the main time, no more
LONGEST_GAME: Final = 512  # plies a sudden-death clock lasts for
INCREMENT_SHARE: Final = 0.9  # of the increment used at once; the rest builds up


class Budget(NamedTuple):
    """How long a move may take, from when the clock started: as a rule, and while the search is undecided."""

    usual: float
    longest: float


UNLIMITED: Final = Budget(math.inf, math.inf)


class Costs(NamedTuple):
    """Time that is lost beside thinking."""

    overhead: int  # by every move, on its way
    margin: int  # left unused at the end of a clock


def plan(limits: Limits, side: int, ply: int, costs: Costs) -> Budget:
    """How long to think with these limits; never longer than what is left, less overhead or margin.

    A clock without increments lasts for a game of 512 plies even if every move loses the whole
    overhead: that much is set aside for each move to come, and only a part of the rest is used.
    """
    unused = max(costs.overhead, costs.margin)
    if limits.movetime is not None:
        time = float(max(limits.movetime - unused, 0))
        return Budget(time, time)
    left, increment, byoyomi = limits.times[side], limits.increments[side], limits.byoyomi
    if left is None and not increment and not byoyomi:
        return UNLIMITED
    left = left or 0
    # An increment is taken as added after the move, since programs differ; where nothing else is
    # left it must have been added before.
    most = max(left + byoyomi - unused, 0) if left + byoyomi else max(increment - unused, 0)
    free, renewed = _free_time(left, increment, byoyomi, ply, costs.overhead)
    usual = free / USUAL_MOVES + renewed
    longest = free / LONGEST_PART + renewed
    return Budget(min(usual, most), min(longest, most))


def _free_time(left: int, increment: int, byoyomi: int, ply: int, overhead: int) -> tuple[float, float]:
    """What may be shared out among the moves to come, and what each move is given anew."""
    if byoyomi:
        return left, byoyomi  # the main time may run out: the byoyomi comes every move
    gain = increment - overhead
    if gain >= 0:
        return left, INCREMENT_SHARE * gain
    moves_left = max((LONGEST_GAME - ply + 1) // 2, FEWEST_MOVES)
    return max(left + gain * moves_left, 0), 0.0


FADING: Final = 0.9  # of what is remembered of a slow batch, by each batch since
REMEMBERED: Final = 15  # batches, from move to move


class Pace:
    """How long the next batch of a search may take, judged by those before it, of earlier moves too.

    Within a move the slowest one counts, and fades. From an earlier move only what was usual counts:
    one that a busy machine held up once would otherwise cost the moves to come.
    """

    def __init__(self) -> None:
        self._slow = 0.0
        self._recent: deque[float] = deque(maxlen=REMEMBERED)
        self._is_tried = True  # there was a batch since `begin`

    def begin(self) -> None:
        """Another move is thought about."""
        if not self._is_tried and self._recent:
            self._recent.popleft()  # by and by a pace that allows no batch at all is tried again
        self._slow, self._is_tried = 0.0, False

    def note(self, seconds: float) -> None:
        """A batch took so long."""
        self._recent.append(seconds)
        self._slow, self._is_tried = max(FADING * self._slow, seconds), True

    @property
    def expected(self) -> float:
        """Seconds that the next batch may take."""
        return max(self._slow, median(self._recent) if self._recent else 0.0)


class Alarm:
    """Tells a search when its time is over; asked between two batches of it."""

    def __init__(self, budget: Budget, started: float) -> None:
        self.budget, self.started = budget, started

    def is_over(self, now: float, is_decided: bool, expected: float) -> bool:
        """Whether to stop at `now`: also where a batch of `expected` seconds would end too late."""
        time = self.budget.usual if is_decided else self.budget.longest
        return 1000 * (now + expected - self.started) >= time
