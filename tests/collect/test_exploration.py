"""Drawing actions: the right frequencies, never an illegal one, and nothing but the clock decides."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from senju.algorithms.masked_categorical import MaskedCategorical
from senju.collect.exploration import best_actions, sample_actions
from senju.errors import ModelError, NoLegalActionError
from senju.games.rows import ACTION, CLOCK
from senju.kernels import pack_legal
from tests.facts import mentions

Logits = NDArray[np.float32]  # [row, actions]
Allowed = NDArray[np.bool_]  # [row, actions]


def clock_of(rows: NDArray[np.int64] | range, game: int = 0, step: int = 0) -> NDArray[np.void]:
    clock = np.zeros(len(rows), CLOCK)
    clock["row"], clock["game"], clock["step"] = rows, game, step
    return clock


def sample(
    logits: Logits, allowed: Allowed, clock: NDArray[np.void], seed: int = 5, stream: int = ACTION
) -> tuple[NDArray[np.int32], Logits]:
    """One draw per row of a game in which one seat acts."""
    num_rows = len(logits)
    actions, log_probs = np.full((num_rows, 1), -7, np.int32), np.full((num_rows, 1), np.nan, np.float32)
    seats, legal = np.zeros((num_rows, 1), np.int8), pack_legal(allowed)[:, None]
    sample_actions(logits, legal, seats, clock, np.uint64(seed), stream, actions, log_probs)
    return actions[:, 0], log_probs[:, 0]


def best(logits: Logits, allowed: Allowed) -> list[int]:
    actions = np.full((len(logits), 1), -7, np.int32)
    best_actions(logits, pack_legal(allowed)[:, None], np.zeros((len(logits), 1), np.int8), actions)
    return actions[:, 0].tolist()


def few_legal(num_actions: int, num_legal: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    allowed = np.zeros(num_actions, np.bool_)
    allowed[rng.choice(num_actions, num_legal, replace=False)] = True
    return allowed


def exact_probabilities(logits: Logits, allowed: Allowed) -> NDArray[np.float64]:
    weights = np.where(allowed, np.exp(logits.astype(np.float64) - logits[allowed].max()), 0.0)
    return weights / weights.sum()


def deviations_from(counts: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float:
    """Pearson's chi-squared, in standard deviations above its mean."""
    expected = counts.sum() * probabilities
    assert expected.min() > 5, "too few draws for the test to mean anything"
    freedom = len(counts) - 1
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / math.sqrt(2 * freedom))


@pytest.mark.parametrize(("num_actions", "num_legal"), [(2, 2), (7, 5), (70, 40), (2187, 20), (14_000, 30)])
def test_frequencies_are_the_probabilities(num_actions: int, num_legal: int) -> None:
    rng = np.random.default_rng(num_actions)
    allowed = few_legal(num_actions, num_legal, rng)
    logits = rng.normal(0.0, 1.0, num_actions).astype(np.float32)
    num_rows, num_steps = 250, 80
    many_logits, many_allowed = np.tile(logits, (num_rows, 1)), np.tile(allowed, (num_rows, 1))
    counts = np.zeros(num_actions, np.int64)
    for step in range(num_steps):
        actions, _ = sample(many_logits, many_allowed, clock_of(range(num_rows), step=step))
        counts += np.bincount(actions, minlength=num_actions)

    assert counts[~allowed].sum() == 0
    probabilities = exact_probabilities(logits, allowed)[allowed]
    assert deviations_from(counts[allowed], probabilities) < 4
    even = np.full(num_legal, 1 / num_legal)
    assert deviations_from(counts[allowed], even) > 20, "the test would not notice wrong probabilities"


@pytest.mark.parametrize("num_actions", [2, 7, 64, 65, 2187, 14_000])
def test_log_probs_are_those_of_the_masked_categorical(num_actions: int) -> None:
    rng = np.random.default_rng(1)
    logits = rng.normal(0.0, 3.0, (50, num_actions)).astype(np.float32)
    allowed = np.stack([few_legal(num_actions, 1 + i % min(num_actions, 40), rng) for i in range(50)])
    actions, log_probs = sample(logits, allowed, clock_of(range(50)))
    policy = MaskedCategorical(torch.from_numpy(logits), torch.from_numpy(allowed))
    expected = policy.log_prob(torch.from_numpy(actions)).numpy()
    np.testing.assert_allclose(log_probs, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("num_actions", [2, 7, 128, 2187])
def test_no_draw_is_ever_illegal_or_impossible(num_actions: int) -> None:
    """Also with logits that leave one action certain, and with legal actions of probability zero."""
    rng = np.random.default_rng(2)
    num_rows = 200
    extremes = np.array([-np.inf, -80.0, 0.0, 80.0], np.float32)
    for step in range(40):
        allowed = rng.random((num_rows, num_actions)) < rng.random((num_rows, 1))
        allowed[np.arange(num_rows), rng.integers(0, num_actions, num_rows)] = True
        logits = rng.choice(extremes, (num_rows, num_actions))
        logits[~allowed] = np.nan  # an illegal action's logit is never looked at
        certain = np.argmax(allowed, axis=1)  # keeps one legal action possible
        logits[np.arange(num_rows), certain] = rng.choice(extremes[1:], num_rows)
        actions, log_probs = sample(logits, allowed, clock_of(range(num_rows), step=step))
        rows = np.arange(num_rows)
        assert allowed[rows, actions].all()
        assert np.isfinite(logits[rows, actions]).all()
        assert np.isfinite(log_probs).all()
        assert (log_probs <= 0).all()


def test_rounding_never_leads_to_an_impossible_action() -> None:
    """Probabilities that add up to less than 1 leave draws that fall behind the last of them.

    Seven logits of 1e14, where float64 rounds log 7 up to a 64th, add up to 0.993; behind them stands
    a legal action of probability zero.
    """
    num_rows = 5000
    logits = np.full((num_rows, 8), 1e14, np.float32)
    logits[:, 7] = -np.inf
    actions, _ = sample(logits, np.ones((num_rows, 8), np.bool_), clock_of(range(num_rows)))
    counts = np.bincount(actions, minlength=8)
    assert counts[7] == 0
    assert (counts[:7] > num_rows / 10).all()


def test_single_legal_action_is_certain() -> None:
    logits = np.array([[3.0, -80.0, 9.0]], np.float32)
    actions, log_probs = sample(logits, np.array([[False, True, False]]), clock_of(range(1)))
    assert (actions.tolist(), log_probs.tolist()) == ([1], [0.0])


def test_draw_of_a_row_depends_on_nothing_beside_it() -> None:
    """Same row id, game and step: the same action, for any position in the batch and any neighbours."""
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(64, 300)).astype(np.float32)
    allowed = rng.random((64, 300)) < 0.5
    ids = rng.permutation(10_000)[:64]
    clock = clock_of(ids, game=4, step=9)
    together = np.stack(sample(logits, allowed, clock))
    for chosen in (rng.permutation(64), np.arange(17, 30), np.array([63])):
        apart = np.stack(sample(logits[chosen], allowed[chosen], clock[chosen]))
        assert apart.tobytes() == together[:, chosen].tobytes()


@pytest.mark.parametrize("changed", ["seed", "row", "game", "step", "stream"])
def test_every_part_of_the_counter_changes_the_draw(changed: str) -> None:
    num_rows, num_actions = 64, 14_000
    logits, allowed = np.zeros((num_rows, num_actions), np.float32), np.ones((num_rows, num_actions), bool)
    first, _ = sample(logits, allowed, clock_of(range(num_rows)))
    other_rows = range(1000, 1000 + num_rows) if changed == "row" else range(num_rows)
    clock = clock_of(other_rows, game=int(changed == "game"), step=int(changed == "step"))
    seed, stream = 6 if changed == "seed" else 5, ACTION + (changed == "stream")
    second, _ = sample(logits, allowed, clock, seed, stream)
    assert np.count_nonzero(first == second) <= 1, "even draws out of 14,000 are hardly ever equal"


def test_seats_that_act_at_once_draw_apart_and_absent_ones_not_at_all() -> None:
    num_rows, num_actions = 200, 50
    logits = np.zeros((num_rows, 2, num_actions), np.float32)
    legal = pack_legal(np.ones((num_rows, 2, num_actions), np.bool_))
    seats = np.tile(np.array([0, 1], np.int8), (num_rows, 1))
    seats[::2, 1] = -1
    legal[::2, 1], logits[::2, 1] = 0, np.nan  # nothing is asked of an absent seat
    actions, log_probs = np.full((num_rows, 2), -7, np.int32), np.full((num_rows, 2), 9, np.float32)
    sample_actions(
        logits.reshape(-1, num_actions),
        legal,
        seats,
        clock_of(range(num_rows)),
        np.uint64(5),
        ACTION,
        actions,
        log_probs,
    )
    assert not actions[::2, 1].any()
    assert not log_probs[::2, 1].any()
    np.testing.assert_allclose(log_probs[1::2], -math.log(num_actions), rtol=1e-6)
    agree = np.mean(actions[1::2, 0] == actions[1::2, 1])
    assert agree < 0.2, "both seats draw the same"
    alone, _ = sample(np.ascontiguousarray(logits[:, 0]), np.ones((num_rows, 50), bool), clock_of(range(200)))
    assert (actions[:, 0] == alone).all()


@pytest.mark.parametrize("choose", ["sample", "best"])
def test_nan_logit_is_refused_with_row_seat_and_action(choose: str) -> None:
    logits, allowed = np.zeros((4, 100), np.float32), np.ones((4, 100), np.bool_)
    logits[2, 70] = np.nan
    with pytest.raises(ModelError, match=r"row 2, seat 0: .*not finite \(nan for action 70\)"):
        sample(logits, allowed, clock_of(range(4))) if choose == "sample" else best(logits, allowed)


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_logits_that_leave_no_distribution_are_refused(bad: float) -> None:
    """Plus infinity for any legal action, or minus infinity for all of them."""
    logits = np.full((2, 3), bad, np.float32)
    logits[0] = 0.0
    with pytest.raises(ModelError, match="row 1, seat 0"):
        sample(logits, np.ones((2, 3), np.bool_), clock_of(range(2)))


@pytest.mark.parametrize("choose", ["sample", "best"])
def test_empty_mask_is_refused_with_its_row(choose: str) -> None:
    logits, allowed = np.zeros((3, 9), np.float32), np.ones((3, 9), np.bool_)
    allowed[1] = False
    with pytest.raises(NoLegalActionError, match=mentions("row 1", "seat 0", "legal mask")):
        sample(logits, allowed, clock_of(range(3))) if choose == "sample" else best(logits, allowed)


def test_refusal_names_the_seat_that_failed_among_those_that_act_at_once() -> None:
    logits = np.zeros((2, 4), np.float32)  # one row, two places
    logits[1, 3] = np.nan
    legal, seats = pack_legal(np.ones((1, 2, 4), np.bool_)), np.array([[0, 1]], np.int8)
    with pytest.raises(ModelError, match=r"row 0, seat 1: .*nan for action 3"):
        best_actions(logits, legal, seats, np.zeros((1, 2), np.int32))


def test_best_action_is_legal_and_the_lowest_among_equals() -> None:
    logits = np.array([[5.0, 1.0, 3.0, 3.0], [2.0, 2.0, 2.0, 2.0], [-np.inf] * 4, [0.0, -1.0, -2.0, np.nan]])
    allowed = np.array([[0, 1, 1, 1], [1, 1, 1, 1], [0, 0, 1, 1], [0, 1, 1, 0]], np.bool_)
    assert best(logits.astype(np.float32), allowed) == [2, 0, 2, 1]


def test_best_action_beyond_the_first_word_is_found() -> None:
    logits = np.arange(14_000, dtype=np.float32)[None]
    allowed = few_legal(14_000, 50, np.random.default_rng(4))[None]
    assert best(logits, allowed) == [int(np.flatnonzero(allowed[0])[-1])]
    assert best(-logits, allowed) == [int(np.flatnonzero(allowed[0])[0])]
