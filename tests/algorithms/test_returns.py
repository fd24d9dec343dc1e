"""Advantages worked out by hand, then against a slow reading of the definition.

Throughout: a seat's decision k has the value V(k), the reward r(k) of all steps from it up to the
seat's next decision, the surprise d(k) = r(k) + gamma · V(k+1) − V(k), and the advantage
A(k) = d(k) + gamma · gae_lambda · A(k+1).
"""

import itertools
import math
import operator
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from senju.algorithms.returns import Advantages, generalised_advantages
from senju.collect.slots import Slot
from tests.collect.made_slots import self_play_slot, some_rows

ABSENT = -1
UNKNOWN = math.nan


def hand_slot(
    seats: Sequence[int | Sequence[int]],
    values: Sequence[float | Sequence[float]],
    rewards: Sequence[Sequence[float]],
    *,
    terminated: Sequence[int] = (),
    truncated: Sequence[int] = (),
    bootstrap: Mapping[int, Sequence[float]] | None = None,
) -> Slot:
    """One row, step by step; ends and bootstraps by the step's number."""
    num_steps, num_seats = len(seats), len(rewards[0])
    places = np.array(seats, np.int8).reshape(num_steps, 1, -1)
    ends = {name: np.zeros((num_steps, 1), np.bool_) for name in ("terminated", "truncated")}
    ends["terminated"][list(terminated)], ends["truncated"][list(truncated)] = True, True
    after = np.zeros((num_steps, 1, num_seats), np.float32)
    for time, seat_values in (bootstrap or {}).items():
        after[time, 0] = seat_values
    return self_play_slot(
        observation=np.zeros((*places.shape, 1), np.uint8),
        legal=np.ones((*places.shape, 1), np.uint64),
        seats=places,
        actions=np.zeros(places.shape, np.int32),
        log_probs=np.zeros(places.shape, np.float32),
        values=np.array(values, np.float32).reshape(places.shape),
        rewards=np.array(rewards, np.float32).reshape(num_steps, 1, num_seats),
        terminated=ends["terminated"],
        truncated=ends["truncated"],
        bootstrap=after,
    )


def check(estimate: Advantages, slot: Slot, expected: Sequence[float | Sequence[float]]) -> None:
    """All decisions known, with these advantages; the return is value plus advantage."""
    wanted = np.array(expected).reshape(slot.values.shape)
    assert estimate.is_known.all()
    np.testing.assert_allclose(estimate.advantages, wanted, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(estimate.returns, wanted + slot.values, rtol=1e-6, atol=1e-7)


NOTHING = (0.0, 0.0)


@pytest.mark.parametrize(
    ("gae_lambda", "expected"),
    [
        # seat 0: d(0) = 0 + 0.75 − 0.5 = 0.25,  d(2) = −1 + 0 − 0.75 = −1.75
        # seat 1: d(1) = 0 − 0.5 + 0.25 = −0.25,  d(3) = 1 + 0 + 0.5 = 1.5
        (0.0, [0.25, -0.25, -1.75, 1.5]),
        # A(0) = 0.25 − 1.75 = −1.5, which is the result −1 less V(0); A(1) = −0.25 + 1.5 = 1.25
        (1.0, [-1.5, 1.25, -1.75, 1.5]),
        # A(0) = 0.25 − 0.95 · 1.75 = −1.4125; A(1) = −0.25 + 0.95 · 1.5 = 1.175
        (0.95, [-1.4125, 1.175, -1.75, 1.5]),
    ],
)
def test_alternating_turns(gae_lambda: float, expected: list[float]) -> None:
    slot = hand_slot(
        [0, 1, 0, 1], [0.5, -0.25, 0.75, -0.5], [NOTHING, NOTHING, NOTHING, (-1.0, 1.0)], terminated=[3]
    )
    check(generalised_advantages(slot, 1.0, gae_lambda), slot, expected)


@pytest.mark.parametrize(
    ("gae_lambda", "expected"),
    [
        # seat 0 at 0, 1 and 3: d(0) = 0.4 − 0.2 = 0.2, d(1) = −0.6 − 0.4 = −1.0, d(3) = 1 + 0.6 = 1.6
        # seat 1 at 2: d(2) = −1 − 0.1 = −1.1
        (0.0, [0.2, -1.0, -1.1, 1.6]),
        # A(1) = −1 + 1.6 = 0.6, A(0) = 0.2 + 0.6 = 0.8
        (1.0, [0.8, 0.6, -1.1, 1.6]),
        # A(1) = −1 + 0.95 · 1.6 = 0.52, A(0) = 0.2 + 0.95 · 0.52 = 0.694
        (0.95, [0.694, 0.52, -1.1, 1.6]),
    ],
)
def test_seat_that_moves_twice_in_a_row_is_its_own_successor(
    gae_lambda: float, expected: list[float]
) -> None:
    slot = hand_slot(
        [0, 0, 1, 0], [0.2, 0.4, 0.1, -0.6], [NOTHING, NOTHING, NOTHING, (1.0, -1.0)], terminated=[3]
    )
    check(generalised_advantages(slot, 1.0, gae_lambda), slot, expected)


def test_draw_is_worth_nothing_to_both() -> None:
    # with a gae_lambda of 1 the advantage is the result less the value: 0 − V
    slot = hand_slot([0, 1, 0], [0.5, -0.25, 0.75], [NOTHING] * 3, terminated=[2])
    check(generalised_advantages(slot, 1.0, 1.0), slot, [-0.5, 0.25, -0.75])


@pytest.mark.parametrize("gae_lambda", [0.0, 0.95, 1.0])
def test_loss_on_the_opponents_move_is_credited_to_the_losers_last_move(gae_lambda: float) -> None:
    # seat 1 moves at 1 and never again: r(1) = 0 + (−1), so A(1) = −1 − 0.25 = −1.25
    slot = hand_slot([0, 1, 0], [0.0, 0.25, 0.5], [NOTHING, NOTHING, (1.0, -1.0)], terminated=[2])
    estimate = generalised_advantages(slot, 1.0, gae_lambda)
    assert estimate.advantages[1].item() == -1.25
    assert estimate.returns[1].item() == -1.0
    assert estimate.advantages[2].item() == 0.5


def test_seat_that_never_moved_takes_no_part() -> None:
    slot = hand_slot([0, 0], [0.0, 0.0], [NOTHING, (1.0, -1.0)], terminated=[1])
    check(generalised_advantages(slot, 1.0, 1.0), slot, [1.0, 1.0])


@pytest.mark.parametrize(
    ("gae_lambda", "expected"),
    [
        # first game, cut after step 2 where seat 1 was to move, worth 0.5 to it and −0.5 to seat 0:
        #   seat 0: d(0) = 0.3 − 0.1 = 0.2, d(2) = −0.5 − 0.3 = −0.8; seat 1: d(1) = 0.5 − 0.2 = 0.3
        # second game, won by seat 1 at step 4:
        #   seat 0: d(3) = −1 − 0.7 = −1.7; seat 1: d(4) = 1 + 0.6 = 1.6
        (0.0, [0.2, 0.3, -0.8, -1.7, 1.6]),
        # A(0) = 0.2 − 0.8 = −0.6: with the gae_lambda running on into the next game it would be −2.3
        (1.0, [-0.6, 0.3, -0.8, -1.7, 1.6]),
        # A(0) = 0.2 − 0.95 · 0.8 = −0.56
        (0.95, [-0.56, 0.3, -0.8, -1.7, 1.6]),
    ],
)
def test_truncation_in_mid_trace_bootstraps_from_the_truncated_position(
    gae_lambda: float, expected: list[float]
) -> None:
    slot = hand_slot(
        [0, 1, 0, 0, 1],
        [0.1, 0.2, 0.3, 0.7, -0.6],
        [NOTHING, NOTHING, NOTHING, NOTHING, (-1.0, 1.0)],
        truncated=[2],
        terminated=[4],
        bootstrap={2: (-0.5, 0.5)},
    )
    check(generalised_advantages(slot, 1.0, gae_lambda), slot, expected)


@pytest.mark.parametrize("end", ["truncated", "terminated"])
def test_nothing_of_the_next_game_leaks_into_the_one_before(end: str) -> None:
    """Neither a value nor a reward nor a gae_lambda: the second game may be any game at all."""
    rng = np.random.default_rng(0)
    seats = [0, 1, 0, 1, 0, 1]
    results = []
    for _ in range(5):
        second = rng.normal(size=(3, 3))
        slot = hand_slot(
            seats,
            [0.1, 0.2, 0.3, *second[:, 0]],
            [NOTHING, (0.5, -0.5), (1.0, -1.0), *second[:, 1:]],
            bootstrap={2: (0.6, -0.6), 5: (rng.normal(), rng.normal())},
            **{end: [2]},
        )
        results.append(generalised_advantages(slot, 0.9, 0.95).advantages[:3].tobytes())
    assert len(set(results)) == 1


def test_rewards_of_a_truncated_step_count_beside_its_bootstrap() -> None:
    # seat 0: r(0) = 0.25 + 0.5 = 0.75, A(0) = 0.75 + 2 − 1 = 1.75; seat 1: A(1) = 0.125 + 4 − 3 = 1.125
    slot = hand_slot(
        [0, 1], [1.0, 3.0], [(0.25, 9.0), (0.5, 0.125)], truncated=[1], bootstrap={1: (2.0, 4.0)}
    )
    check(generalised_advantages(slot, 1.0, 1.0), slot, [1.75, 1.125])


@pytest.mark.parametrize(
    ("gae_lambda", "expected"),
    [
        # seat 0: r(0) = 1 + 2 = 3, d(0) = 3 + 0.5 · 4 − 1 = 4; r(2) = 5 + 7 = 12, d(2) = 12 − 4 = 8
        # seat 1: r(1) = 20 + 30 = 50, d(1) = 50 + 0.5 · 6 − 2 = 51; d(3) = 40 − 6 = 34
        # what seat 1 gets at step 0, before its first decision, belongs to no decision
        (0.0, [4.0, 51.0, 8.0, 34.0]),
        # A(0) = 4 + 0.5 · 8 = 8; A(1) = 51 + 0.5 · 34 = 68
        (1.0, [8.0, 68.0, 8.0, 34.0]),
        # A(0) = 4 + 0.475 · 8 = 7.8; A(1) = 51 + 0.475 · 34 = 67.15
        (0.95, [7.8, 67.15, 8.0, 34.0]),
    ],
)
def test_general_sum_rewards_and_a_discount_per_decision(gae_lambda: float, expected: list[float]) -> None:
    slot = hand_slot(
        [0, 1, 0, 1],
        [1.0, 2.0, 4.0, 6.0],
        [(1.0, 10.0), (2.0, 20.0), (5.0, 30.0), (7.0, 40.0)],
        terminated=[3],
    )
    check(generalised_advantages(slot, 0.5, gae_lambda), slot, expected)


def test_end_of_the_rollout_bootstraps_both_seats() -> None:
    # seat 0 is to move after step 2 and the position is worth 0.8 to it, −0.8 to seat 1
    # seat 0: d(1) = 0.5 · 0.8 − 0.6 = −0.2
    # seat 1: d(0) = 0.5 · 0.4 − 0.1 = 0.1, d(2) = 0.5 · (−0.8) − 0.4 = −0.8, A(0) = 0.1 − 0.5 · 0.8 = −0.3
    slot = hand_slot([1, 0, 1], [0.1, 0.6, 0.4], [NOTHING] * 3, bootstrap={2: (0.8, -0.8)})
    check(generalised_advantages(slot, 0.5, 1.0), slot, [-0.3, -0.2, -0.8])


def test_unknown_bootstrap_makes_the_last_decision_the_bootstrap_of_those_before() -> None:
    # general sum, seat 1 to move after step 4: what follows seat 0's decision at 4 is not known
    # seat 0: d(2) = 3 + 0.4 − 0.3 = 3.1 and d(0) = 1 + 0.3 − 0.1 = 1.2, A(0) = 1.2 + 3.1 = 4.3
    # seat 1: d(1) = 5 + 0.6 − 0.2 = 5.4, d(3) = 7 + 2 − 0.6 = 8.4, A(1) = 5.4 + 8.4 = 13.8
    slot = hand_slot(
        [0, 1, 0, 1, 0],
        [0.1, 0.2, 0.3, 0.6, 0.4],
        [(1.0, 0.0), (0.0, 5.0), (3.0, 0.0), (0.0, 7.0), (100.0, 0.0)],
        bootstrap={4: (UNKNOWN, 2.0)},
    )
    estimate = generalised_advantages(slot, 1.0, 1.0)
    assert estimate.is_known[:, 0, 0].tolist() == [True, True, True, True, False]
    np.testing.assert_allclose(estimate.advantages[:4, 0, 0], [4.3, 13.8, 3.1, 8.4], rtol=1e-6)
    assert np.isfinite(estimate.advantages).all()
    assert np.isfinite(estimate.returns).all()


def test_unknown_bootstrap_at_a_truncation_ends_with_its_game() -> None:
    # seat 1 moved at 1, the game was cut while seat 0 was to move; the next game is known to its end
    slot = hand_slot(
        [0, 1, 0, 1],
        [0.1, 0.2, 0.3, 0.4],
        [NOTHING, NOTHING, NOTHING, (1.0, 2.0)],
        truncated=[1],
        terminated=[3],
        bootstrap={1: (5.0, UNKNOWN)},
    )
    estimate = generalised_advantages(slot, 1.0, 1.0)
    assert estimate.is_known[:, 0, 0].tolist() == [True, False, True, True]
    # A(0) = 5 − 0.1, A(2) = 1 − 0.3, A(3) = 2 − 0.4
    np.testing.assert_allclose(estimate.advantages[[0, 2, 3], 0, 0], [4.9, 0.7, 1.6], rtol=1e-6)


def test_simultaneous_moves_with_an_absent_seat() -> None:
    # seat 1 is away at steps 1 and 2; what it gets meanwhile belongs to its decision at 0
    # seat 0: d = 1 + 0.2 − 0.1 = 1.1, 2 + 0.3 − 0.2 = 2.1, 3 + 0.4 − 0.3 = 3.1, 4 − 0.4 = 3.6
    # seat 1: r(0) = 10 + 20 + 30 = 60, d(0) = 60 + 0.8 − 0.5 = 60.3, d(3) = 40 − 0.8 = 39.2
    slot = hand_slot(
        [(0, 1), (0, ABSENT), (0, ABSENT), (0, 1)],
        [(0.1, 0.5), (0.2, 77.0), (0.3, 77.0), (0.4, 0.8)],
        [(1.0, 10.0), (2.0, 20.0), (3.0, 30.0), (4.0, 40.0)],
        terminated=[3],
    )
    estimate = generalised_advantages(slot, 1.0, 0.0)
    assert estimate.is_known[:, 0].tolist() == [[True, True], [True, False], [True, False], [True, True]]
    np.testing.assert_allclose(estimate.advantages[:, 0, 0], [1.1, 2.1, 3.1, 3.6], rtol=1e-6)
    np.testing.assert_allclose(estimate.advantages[[0, 3], 0, 1], [60.3, 39.2], rtol=1e-6)
    # with a gae_lambda of 1: A(0) of seat 1 = 60.3 + 39.2 = 99.5 = 10 + 20 + 30 + 40 − 0.5
    whole = generalised_advantages(slot, 1.0, 1.0)
    assert whole.advantages[0, 0, 1] == pytest.approx(99.5, rel=1e-6)


def test_terminated_game_is_worth_nothing_more_whatever_stands_in_its_bootstrap() -> None:
    slot = hand_slot([0, 1], [0.5, 0.25], [NOTHING, (-1.0, 1.0)], terminated=[1])
    expected = generalised_advantages(slot, 0.9, 0.95)
    for rubbish in (7.0, UNKNOWN):
        slot.bootstrap.fill(rubbish)
        estimate = generalised_advantages(slot, 0.9, 0.95)
        assert estimate.advantages.tobytes() == expected.advantages.tobytes()
        assert estimate.is_known.all()


def test_rows_do_not_influence_each_other() -> None:
    slot = random_slot(np.random.default_rng(1), num_steps=20, num_rows=4, num_seats=2, acts_at_once=False)
    together = generalised_advantages(slot, 0.9, 0.95)
    for row in range(4):
        alone = generalised_advantages(some_rows(slot, [row]), 0.9, 0.95)
        for both, one in zip(together, alone, strict=True):
            assert both[:, [row]].tobytes() == one.tobytes()


def random_slot(
    rng: np.random.Generator, num_steps: int, num_rows: int, num_seats: int, acts_at_once: bool
) -> Slot:
    """Any order of seats, any rewards, ends anywhere, and bootstraps that are now and then unknown."""
    num_acting = num_seats if acts_at_once else 1
    shape = (num_steps, num_rows, num_acting)
    if acts_at_once:
        seats = np.where(rng.random(shape) < 0.7, np.arange(num_seats), ABSENT)
    else:
        seats = rng.integers(0, num_seats, shape)
    ends = rng.choice(3, (num_steps, num_rows), p=[0.7, 0.15, 0.15])
    bootstrap = rng.normal(size=(num_steps, num_rows, num_seats))
    bootstrap[rng.random(bootstrap.shape) < 0.25] = UNKNOWN
    return self_play_slot(
        observation=np.zeros((*shape, 1), np.uint8),
        legal=np.ones((*shape, 1), np.uint64),
        seats=seats.astype(np.int8),
        actions=np.zeros(shape, np.int32),
        log_probs=np.zeros(shape, np.float32),
        values=rng.normal(size=shape).astype(np.float32),
        rewards=rng.normal(size=(num_steps, num_rows, num_seats)).astype(np.float32),
        terminated=ends == 1,
        truncated=ends == 2,
        bootstrap=bootstrap.astype(np.float32),
    )


def games_of(slot: Slot, row: int) -> list[range]:
    """The steps of each game of a row; the last one may be cut off by the rollout's end."""
    last = slot.num_steps - 1
    ends = [time for time in range(last) if slot.terminated[time, row] or slot.truncated[time, row]]
    starts = [0, *(end + 1 for end in ends)]
    return [range(start, end + 1) for start, end in zip(starts, [*ends, last], strict=True)]


def slow_advantages(slot: Slot, gamma: float, gae_lambda: float) -> NDArray[np.float64]:
    """The definition read forwards; NaN where a decision cannot be learned from.

    In each game of a row each seat's decisions are listed. A decision's advantage is the sum of the
    surprises from it on, each gamma · gae_lambda times less than the one before.
    """
    advantages = np.full(slot.values.shape, np.nan)
    _, num_rows, num_seats = slot.rewards.shape
    games = [(row, game) for row in range(num_rows) for game in games_of(slot, row)]
    for (row, game), seat in itertools.product(games, range(num_seats)):
        decisions = [
            (time, place) for time in game for place in np.flatnonzero(slot.seats[time, row] == seat)
        ]
        values = [float(slot.values[time, row, place]) for time, place in decisions]
        borders = [time for time, _ in decisions[1:]] + [game.stop]
        after = 0.0 if slot.terminated[game[-1], row] else float(slot.bootstrap[game[-1], row, seat])
        if math.isnan(after):  # the last decision only serves those before it
            decisions = decisions[:-1]
        surprises = []
        for k, (time, _) in enumerate(decisions):
            reward = sum(float(slot.rewards[t, row, seat]) for t in range(time, borders[k]))
            surprises.append(reward + gamma * [*values, after][k + 1] - values[k])
        for k, (time, place) in enumerate(decisions):
            shares = [(gamma * gae_lambda) ** j for j in range(len(surprises) - k)]
            advantages[time, row, place] = sum(map(operator.mul, shares, surprises[k:]))
    return advantages


@settings(deadline=None, max_examples=200, database=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_steps=st.integers(1, 14),
    num_seats=st.integers(1, 3),
    acts_at_once=st.booleans(),
    gamma=st.sampled_from([1.0, 0.99, 0.5]),
    gae_lambda=st.sampled_from([0.0, 0.95, 1.0]),
)
def test_agrees_with_the_definition_read_forwards(
    seed: int, num_steps: int, num_seats: int, acts_at_once: bool, gamma: float, gae_lambda: float
) -> None:
    slot = random_slot(np.random.default_rng(seed), num_steps, 2, num_seats, acts_at_once)
    estimate = generalised_advantages(slot, gamma, gae_lambda)
    expected = slow_advantages(slot, gamma, gae_lambda)
    np.testing.assert_array_equal(estimate.is_known, ~np.isnan(expected))
    known = estimate.is_known
    np.testing.assert_allclose(estimate.advantages[known], expected[known], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        estimate.returns[known], expected[known] + slot.values[known], rtol=1e-5, atol=1e-5
    )
