"""The score of one player against another: the only record of finished games, from pools to tournaments."""

import math
from typing import NamedTuple

Z95 = 1.959963984540054  # standard normal quantile of a 95 % interval


class Interval(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float

    @property
    def excludes_half(self) -> bool:
        """Whether a score with this interval is clearly a win or clearly a loss."""
        return not self.low <= 0.5 <= self.high


class Score(NamedTuple):
    """Finished games, counted from the first player's side.

    >>> Score(wins=3, draws=2, losses=5).mean
    0.4
    """

    wins: int = 0
    draws: int = 0
    losses: int = 0
    wins_moving_first: int = 0
    losses_moving_first: int = 0

    @property
    def games(self) -> int:
        """Games played."""
        return self.wins + self.draws + self.losses

    @property
    def points(self) -> float:
        """One for each win, a half for each draw."""
        return self.wins + 0.5 * self.draws

    @property
    def mean(self) -> float:
        """Points per game; 0.5 before the first game."""
        return self.points / self.games if self.games else 0.5

    @property
    def interval(self) -> Interval:
        """95 % interval of the mean."""
        return wilson_interval(self.mean, self.games)

    def plus(self, other: "Score") -> "Score":
        """The games of both records."""
        return Score(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def of_second(self) -> "Score":
        """The same games from the second player's side."""
        wins, losses = self.losses - self.losses_moving_first, self.wins - self.wins_moving_first
        return Score(self.losses, self.draws, self.wins, wins, losses)


NO_GAMES = Score()


def wilson_interval(score: float, games: float) -> Interval:
    """Wilson's interval for a share of `games` (Wilson 1927); draws may count as halves.

    >>> [round(bound, 3) for bound in wilson_interval(0.97, 100)]
    [0.915, 0.99]
    """
    if games == 0:
        return Interval(0.0, 1.0)
    spread = Z95 * math.sqrt(score * (1 - score) / games + Z95**2 / (4 * games**2))
    centre, scale = score + Z95**2 / (2 * games), 1 + Z95**2 / games
    low, high = (centre - spread) / scale, (centre + spread) / scale
    return Interval(max(0.0, min(score, low)), min(1.0, max(score, high)))  # rounding may miss 0 and 1
