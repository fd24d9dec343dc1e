"""Ratings against hand-worked numbers, and against players whose strength is known."""

import math
from itertools import combinations

import numpy as np
import pytest

from senju.errors import ConfigError
from senju.opponents.ratings import ELO, PRIOR_DEVIATION, Rating, expected_score, fit_ratings
from senju.opponents.score import Score

NO_PRIOR = 1e7  # points: so wide that it says nothing


def test_two_players_have_the_closed_form() -> None:
    """Odds of 3:1 are 400 log10(3) points; the variance of the log-odds is 1 / (n p q)."""
    ratings = fit_ratings(["a", "b"], {(0, 1): Score(30, 0, 10)}, NO_PRIOR)
    mean, deviation = ratings.difference(0, 1)
    assert mean == pytest.approx(400 * math.log10(3), rel=1e-6)
    assert deviation == pytest.approx(ELO / math.sqrt(40 * 0.75 * 0.25), rel=1e-6)
    assert expected_score(ratings.difference(0, 1)[0]) == pytest.approx(0.75)
    assert [rating.mean for rating in ratings] == pytest.approx([mean / 2, -mean / 2])
    assert [rating.games for rating in ratings] == [40, 40]


def test_prior_holds_where_its_pull_equals_that_of_the_games() -> None:
    """At the top: points made beyond those expected = half the difference / variance, in log-odds."""
    ratings = fit_ratings(["a", "b"], {(0, 1): Score(8, 0, 0)})
    difference = ratings.difference(0, 1)[0] / ELO
    beyond = 8 - 8 * expected_score(ratings.difference(0, 1)[0])
    assert beyond == pytest.approx(difference / 2 / (PRIOR_DEVIATION / ELO) ** 2)


def test_chain_of_three_adds_up() -> None:
    """A and C never met: their difference is the sum of two, and so is its variance."""
    ratings = fit_ratings(["a", "b", "c"], {(0, 1): Score(3, 0, 1), (2, 1): Score(1, 0, 3)}, NO_PRIOR)
    step, spread = ratings.difference(0, 1)
    assert step == pytest.approx(400 * math.log10(3), rel=1e-5)
    assert ratings.difference(0, 2) == pytest.approx((2 * step, math.sqrt(2) * spread), rel=1e-5)


def test_draws_count_half_to_each() -> None:
    assert list(fit_ratings(["a", "b"], {(0, 1): Score(1, 2, 0)})) == list(
        fit_ratings(["a", "b"], {(0, 1): Score(2, 0, 1)})
    )


def test_cycle_leaves_all_equal_however_often_they_play() -> None:
    beats = {(0, 1): Score(90, 0, 10), (1, 2): Score(90, 0, 10), (2, 0): Score(90, 0, 10)}
    assert [rating.mean for rating in fit_ratings("abc", beats)] == pytest.approx([0, 0, 0], abs=1e-6)


def test_order_of_results_and_of_the_two_in_a_pair_does_not_matter() -> None:
    results = {(0, 1): Score(5, 1, 2), (0, 2): Score(7, 0, 1), (1, 2): Score(4, 4, 4)}
    turned = {(2, 1): Score(4, 4, 4), (2, 0): Score(1, 0, 7), (1, 0): Score(2, 1, 5)}
    assert list(fit_ratings("abc", results)) == list(fit_ratings("abc", turned))


def test_random_is_the_origin_where_it_takes_part_and_else_the_mean() -> None:
    results = {(0, 1): Score(6, 0, 2), (1, 2): Score(6, 0, 2)}
    anchored = fit_ratings(["a", "b", "random"], results)
    centred = fit_ratings(["a", "b", "c"], results)
    assert (anchored[2].mean, anchored[2].deviation) == (0, 0)
    assert sum(rating.mean for rating in centred) == pytest.approx(0, abs=1e-9)
    for pair in combinations(range(3), 2):  # what is compared does not change with the origin
        assert anchored.difference(*pair) == pytest.approx(centred.difference(*pair))


def test_player_that_only_wins_or_only_loses_stays_finite_and_uncertain() -> None:
    results = {(0, 1): Score(100_000, 0, 0), (1, 2): Score(5, 0, 5), (2, 3): Score(1, 0, 0)}
    ratings = fit_ratings("abcd", results)
    assert all(math.isfinite(rating.mean) and math.isfinite(rating.deviation) for rating in ratings)
    assert ratings[0].mean == max(rating.mean for rating in ratings)
    assert ratings[0].deviation > ratings[1].deviation
    assert ratings.probability_stronger(0, 1) > 0.99


def test_strangers_are_as_uncertain_as_the_prior() -> None:
    ratings = fit_ratings("ab", {})
    assert ratings.difference(0, 1) == pytest.approx((0, math.sqrt(2) * PRIOR_DEVIATION))
    assert ratings.probability_stronger(0, 1) == 0.5


def test_probability_of_being_stronger_follows_the_joint_deviation() -> None:
    """Both are uncertain relative to the third, which they seldom met, and certain relative to each other."""
    results = {(0, 1): Score(600, 0, 400), (0, 2): Score(1, 0, 1), (1, 2): Score(1, 0, 1)}
    ratings = fit_ratings(["a", "b", "random"], results)
    mean, deviation = ratings.difference(0, 1)
    assert deviation < min(ratings[0].deviation, ratings[1].deviation) / 5
    assert ratings.probability_stronger(0, 1) == pytest.approx(0.5 * math.erfc(-mean / deviation / 2**0.5))
    assert ratings.probability_stronger(0, 1) + ratings.probability_stronger(1, 0) == pytest.approx(1)


def test_true_strengths_lie_within_the_intervals() -> None:
    random = np.random.default_rng(1)
    inside = []
    for _ in range(20):
        true = random.normal(0, 250, 12)
        results = {}
        for first, second in combinations(range(12), 2):
            wins = int(random.binomial(40, expected_score(true[first] - true[second])))
            results[first, second] = Score(wins, 0, 40 - wins)
        ratings = fit_ratings([str(number) for number in range(12)], results)
        for rating, strength in zip(ratings, true - true.mean(), strict=True):
            inside.append(abs(rating.mean - strength) < 1.96 * rating.deviation)
    assert 0.91 < np.mean(inside) < 0.99  # of 240, around 95 %


def test_a_hundred_members_of_a_pool_are_fitted_to_the_top() -> None:
    """The gradient vanishes: what each scored is what the ratings expect, but for the prior's pull."""
    random = np.random.default_rng(2)
    results = {
        (first, second): Score(*random.integers(0, 9, 3).tolist())
        for first, second in combinations(range(100), 2)
        if random.random() < 0.2
    }
    ratings = fit_ratings([f"update {number}" for number in range(100)], results)
    surplus = np.zeros(100)
    for (first, second), (wins, draws, losses, *_) in results.items():
        games = wins + draws + losses
        beyond = wins + draws / 2 - games * expected_score(ratings.difference(first, second)[0])
        surplus[first] += beyond
        surplus[second] -= beyond
    pull = np.array([rating.mean for rating in ratings]) / ELO / (PRIOR_DEVIATION / ELO) ** 2
    assert surplus == pytest.approx(pull, abs=1e-6)


def test_those_without_a_name_take_part_and_are_not_listed() -> None:
    """A pool's numbers count up; 4 has left it, and is all that connects 7 and 9."""
    results = {(9, 4): Score(30, 0, 10), (7, 4): Score(10, 0, 30)}
    ratings = fit_ratings({9: "new", 7: "old"}, results, NO_PRIOR)
    assert [rating.name for rating in ratings] == ["new", "old"]
    assert ratings.difference(0, 1)[0] == pytest.approx(800 * math.log10(3), rel=1e-5)


def test_no_player_and_one_player_can_be_rated() -> None:
    assert list(fit_ratings([], {})) == []
    assert list(fit_ratings(["a"], {})) == [Rating("a", 0, 0, 0)]


@pytest.mark.parametrize("results", [{(0, 0): Score(1, 0, 0)}, {(0, 1): Score(1, -1, 0)}])
def test_impossible_results_are_refused(results: dict[tuple[int, int], Score]) -> None:
    with pytest.raises(ConfigError, match="two different players"):
        fit_ratings("ab", results)
