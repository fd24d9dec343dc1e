"""Ratings with uncertainty, from the scores of all pairs.

The model is Bradley and Terry's (1952): A scores 1 / (1 + 10^((B - A) / 400)) against B. All ratings are
fitted at once, as the most likely ones given all results and a wide Gaussian prior. Rating systems that
update game by game (Elo, Glicko, OpenSkill) would be worse here, since saved agents do not change:

- Order does not matter: the same counts give the same ratings, in any order of reports, so a run that was
  resumed and one that was not agree, and so do any numbers of workers.
- Uncertainty is joint: the covariance knows that two players are rated by the same third one, so that the
  difference of two ratings may be much more certain than either of them.
- Cycles do not shift it: where A beats B, B beats C and C beats A, all three stay equal, however often
  they play; sequential updates favour the latest winner.

Deviations come from the curvature at the fitted point. They are too wide rather than too narrow where
many games are drawn, since a draw counts as half a win and half a loss, and rough for a player who only
won or only lost: the results then only say that the difference is large.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from senju.errors import ConfigError
from senju.opponents.score import Score

ELO = 400.0 / math.log(10.0)  # points of one unit of log-odds
PRIOR_DEVIATION = 700.0  # points; wide: a few games outweigh it
ORIGIN = "random"  # this player's rating is 0, if it takes part
_CLOSE_ENOUGH = 1e-10  # log-odds
_MAX_STEPS = 100  # Newton's method takes about ten
_MAX_STEP = 2.0  # log-odds; the curvature is a good approximation only near its point


@dataclass(frozen=True)
class Rating:
    """The strength of a player in points: 400 more are odds of ten to one."""

    name: str
    mean: float
    deviation: float  # one standard deviation, relative to the player or mean at 0
    games: int


class Ratings(tuple[Rating, ...]):
    """Ratings in the order of the names, and how they depend on each other."""

    covariance: NDArray[np.float64]  # [player, player], points squared

    def difference(self, first: int, second: int) -> tuple[float, float]:
        """The rating of the first minus that of the second, and its standard deviation."""
        cov = self.covariance
        variance = cov[first, first] + cov[second, second] - 2.0 * cov[first, second]
        mean = self[first].mean - self[second].mean
        return mean, math.sqrt(max(float(variance), 0.0))

    def probability_stronger(self, first: int, second: int) -> float:
        """The probability that the first is stronger than the second."""
        mean, deviation = self.difference(first, second)
        if deviation == 0.0:
            return 0.5
        return 0.5 * math.erfc(-mean / (deviation * math.sqrt(2.0)))


def expected_score(points_ahead: float) -> float:
    """The expected score of a player whose rating is higher by this number of points.

    >>> round(expected_score(400), 3)
    0.909
    """
    return 0.5 + 0.5 * math.tanh(0.5 * points_ahead / ELO)


def fit_ratings(
    names: Sequence[str] | Mapping[int, str],
    results: Mapping[tuple[int, int], Score],
    prior_deviation: float = PRIOR_DEVIATION,
) -> Ratings:
    """Rate the named players by wins, draws and losses of the first of each pair against the second.

    Numbers in `results` are indices into `names`, or its keys. Players without a name are fitted too, but not
    listed: games against them still inform the ratings of the others. `random` has the rating 0; where it
    is not among the names, their mean is 0.

    >>> [round(rating.mean) for rating in fit_ratings(["random", "agent"], {(1, 0): Score(90, 0, 10)})]
    [0, 380]
    """
    named = dict(names) if isinstance(names, Mapping) else dict(enumerate(names))
    numbers = [*named, *sorted({number for pair in results for number in pair} - set(named))]
    scores = _score_matrix(numbers, results)
    strengths, covariance = _fit(scores, (prior_deviation / ELO) ** 2)
    relative = _relative_to_origin(list(named.values()))
    size = len(named)
    means = ELO * relative @ strengths[:size]
    covariance = ELO**2 * relative @ covariance[:size, :size] @ relative.T
    deviations = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    games = np.rint((scores + scores.T).sum(axis=1)).astype(np.int64)
    rows = zip(named.values(), means.tolist(), deviations.tolist(), games.tolist(), strict=False)
    ratings = Ratings(Rating(*row) for row in rows)
    ratings.covariance = covariance
    return ratings


def _score_matrix(numbers: Sequence[int], results: Mapping[tuple[int, int], Score]) -> NDArray[np.float64]:
    """[player, other]: points of the player against the other."""
    indices = {number: index for index, number in enumerate(numbers)}
    scores = np.zeros((len(numbers), len(numbers)))
    for (first, second), score in results.items():
        if first == second or min(score) < 0:
            raise ConfigError(
                f"results of {first} against {second}: {score}; "
                "expected counts from 0 on, of two different players"
            )
        scores[indices[first], indices[second]] += score.points
        scores[indices[second], indices[first]] += score.of_second().points
    return scores


def _fit(scores: NDArray[np.float64], variance: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The most likely log-odds and their covariance, by Newton's method.

    The logarithm of the posterior is concave; steps are shortened to where its quadratic approximation is
    good, and halved until the logarithm grows.
    """
    games = scores + scores.T
    strengths = np.zeros(len(scores))
    height = _log_posterior(strengths, scores, variance)
    for _ in range(_MAX_STEPS):
        expected = 0.5 + 0.5 * np.tanh(0.5 * (strengths[:, None] - strengths))
        gradient = (scores - games * expected).sum(axis=1) - strengths / variance
        step = np.linalg.solve(_curvature(expected, games, variance), gradient)
        longest = float(np.abs(step).max(initial=0.0))
        step *= min(1.0, _MAX_STEP / longest) if longest else 1.0
        reached = _log_posterior(strengths + step, scores, variance)
        while reached < height and longest > _CLOSE_ENOUGH:
            step, longest = step / 2, longest / 2
            reached = _log_posterior(strengths + step, scores, variance)
        if longest <= _CLOSE_ENOUGH:
            break
        strengths, height = strengths + step, reached
    expected = 0.5 + 0.5 * np.tanh(0.5 * (strengths[:, None] - strengths))
    return strengths, np.linalg.inv(_curvature(expected, games, variance)).astype(np.float64)


def _log_posterior(strengths: NDArray[np.float64], scores: NDArray[np.float64], variance: float) -> float:
    ahead = strengths[:, None] - strengths
    return float(-(scores * np.logaddexp(0.0, -ahead)).sum() - 0.5 * (strengths**2).sum() / variance)


def _curvature(
    expected: NDArray[np.float64], games: NDArray[np.float64], variance: float
) -> NDArray[np.float64]:
    """The negative Hessian of the logarithm of the posterior."""
    information = games * expected * (1.0 - expected)
    return np.diag(information.sum(axis=1) + 1.0 / variance) - information


def _relative_to_origin(names: Sequence[str]) -> NDArray[np.float64]:
    """The matrix that turns strengths into ratings relative to `ORIGIN`, or else to their mean."""
    size = len(names)
    if ORIGIN in names:
        origin = np.zeros(size)
        origin[list(names).index(ORIGIN)] = 1.0
    else:
        origin = np.full(size, 1.0 / max(size, 1))
    return np.eye(size) - origin
