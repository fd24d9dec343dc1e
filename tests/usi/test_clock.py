"""Time management, as arithmetic."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senju.usi.clock import LONGEST_GAME, REMEMBERED, Budget, Pace, plan
from senju.usi.protocol import GoLimits

COSTS = {"overhead": 30, "margin": 100}
MILLISECONDS = st.integers(0, 10**7)
PLIES = st.integers(0, 2 * LONGEST_GAME)
ANY_COSTS = st.fixed_dictionaries({"overhead": st.integers(0, 2000), "margin": st.integers(0, 2000)})


def limits(left: int | None = None, increment: int = 0, byoyomi: int = 0) -> GoLimits:
    """Clocks of Black; White has other ones, which must not matter."""
    return GoLimits(times=(left, 12_345), increments=(increment, 77), byoyomi=byoyomi)


def test_without_a_clock_there_is_no_limit() -> None:
    assert plan(GoLimits(), 0, 0, **COSTS) == Budget(math.inf, math.inf)
    assert plan(GoLimits(nodes=5, is_infinite=True), 1, 0, **COSTS) == Budget(math.inf, math.inf)


def test_each_side_looks_at_its_own_clock() -> None:
    given = GoLimits(times=(60_000, 6_000_000))
    assert plan(given, 1, 0, **COSTS).usual > 50 * plan(given, 0, 0, **COSTS).usual


def test_byoyomi_alone_is_used_but_for_the_margin() -> None:
    assert plan(limits(0, byoyomi=5000), 0, 0, **COSTS) == Budget(4900, 4900)
    assert plan(GoLimits(byoyomi=5000), 0, 0, **COSTS) == Budget(4900, 4900)


def test_main_time_is_added_to_byoyomi() -> None:
    assert plan(limits(600_000, byoyomi=10_000), 0, 0, **COSTS) == Budget(25_000, 85_000)


def test_move_time_is_used_but_for_the_margin() -> None:
    assert plan(GoLimits(movetime=1000), 1, 0, **COSTS) == Budget(900, 900)
    assert plan(GoLimits(movetime=1000), 1, 0, overhead=500, margin=100) == Budget(500, 500)


def test_increment_is_mostly_used_at_once() -> None:
    assert plan(limits(40_000, increment=10_030), 0, 0, **COSTS) == Budget(10_000, 14_000)


def test_increment_does_not_let_the_time_run_out() -> None:
    assert plan(limits(500, increment=10_000), 0, 0, **COSTS) == Budget(400, 400)


def test_empty_clock_uses_an_increment_that_was_added_already() -> None:
    assert plan(limits(0, increment=10_000), 0, 0, **COSTS).longest == pytest.approx(0.9 * 9970)


def test_hopeless_clock_gives_no_time() -> None:
    for clock in (limits(0), limits(20), limits(0, increment=50), limits(0, byoyomi=100)):
        assert plan(clock, 0, 0, **COSTS).longest == 0


@given(MILLISECONDS, MILLISECONDS, MILLISECONDS, PLIES, ANY_COSTS)
def test_never_more_than_what_is_left_less_overhead_and_margin(
    left: int, increment: int, byoyomi: int, ply: int, costs: dict[str, int]
) -> None:
    budget = plan(limits(left, increment, byoyomi), 0, ply, **costs)
    assert 0 <= budget.usual <= budget.longest
    there_is = left + byoyomi or increment
    assert budget.longest <= max(there_is - max(costs.values()), 0)


@given(MILLISECONDS, MILLISECONDS, PLIES, st.integers(0, 10**6))
def test_more_time_never_means_less_thought(left: int, byoyomi: int, ply: int, more: int) -> None:
    one, other = (plan(limits(time, byoyomi=byoyomi), 0, ply, **COSTS) for time in (left, left + more))
    assert one.usual <= other.usual
    assert one.longest <= other.longest


def play_down(left: float, increment: int, lags: list[int], is_slow: bool) -> list[float]:
    """A side's clock after each move of a game of 512 plies, where moves lose `lags` on their way in turn."""
    clocks = []
    for ply in range(0, LONGEST_GAME, 2):
        budget = plan(limits(math.floor(left), increment), 0, ply, **COSTS)
        left -= (budget.longest if is_slow else budget.usual) + lags[ply // 2 % len(lags)]
        clocks.append(left)
        left += increment
    return clocks


LAGS = st.lists(st.integers(0, 30), min_size=1, max_size=8)


@given(st.integers(256 * 30, 10**7), LAGS, st.booleans())
def test_sudden_death_lasts_for_the_longest_game(left: int, lags: list[int], is_slow: bool) -> None:
    assert min(play_down(left, 0, lags, is_slow)) >= -1  # the protocol rounds clocks down


@given(st.integers(256 * 30, 10**7), st.integers(1, 10**5), LAGS, st.booleans())
def test_increments_last_for_it_too(left: int, increment: int, lags: list[int], is_slow: bool) -> None:
    assert min(play_down(left, increment, lags, is_slow)) >= -1


@given(st.integers(60_000, 10**7))
def test_sudden_death_is_used_up_rather_than_saved(left: int) -> None:
    assert play_down(left, 0, [0], False)[-1] < left / 5


def batches_within(budget: Budget, pace: Pace, now: float, seconds: float) -> list[float]:
    """The end times of a search's batches of so many seconds each, on a clock that started at 0."""
    ends: list[float] = []
    while not budget.is_spent(now + pace.expected, is_decided=True):
        now += seconds
        ends.append(now)
        pace.note(seconds)
    return ends


def test_no_batch_starts_that_would_end_too_late() -> None:
    ends = batches_within(Budget(1000, 1000), Pace(), 0.0, 0.3)
    assert ends == pytest.approx([0.3, 0.6, 0.9])


def test_undecided_search_takes_longer() -> None:
    budget = Budget(1000, 3000)
    assert not budget.is_spent(1.5, is_decided=False)
    assert budget.is_spent(1.6, is_decided=True)
    assert budget.is_spent(3.0, is_decided=False)


def test_slow_batch_counts_for_a_while() -> None:
    pace = Pace()
    pace.note(0.4)
    assert pace.expected == 0.4
    for _ in range(30):
        pace.note(0.01)
    assert 0.01 <= pace.expected < 0.02


def test_first_batch_of_a_move_is_expected_to_take_as_long_as_those_before() -> None:
    pace = Pace()
    for _ in range(3):
        pace.begin()
        pace.note(0.16)
    pace.begin()
    assert pace.expected == 0.16
    # 300 ms of byoyomi: a batch fits into what is left after 30 ms, none after 60
    budget = plan(GoLimits(byoyomi=300), 0, 0, **COSTS)
    assert batches_within(budget, pace, 0.03, 0.16) == [0.19]
    pace.begin()
    assert batches_within(budget, pace, 0.06, 0.16) == []


def test_machine_that_was_held_up_once_costs_no_other_move() -> None:
    pace = Pace()
    for seconds in [0.01] * 5 + [3.0]:
        pace.note(seconds)
    assert pace.expected == 3.0
    pace.begin()
    assert pace.expected == 0.01


def test_pace_that_allows_no_batch_is_forgotten_in_time() -> None:
    pace = Pace()
    for _ in range(100):
        pace.note(3.0)
    for _ in range(REMEMBERED + 1):
        pace.begin()
    assert pace.expected == 0.0
