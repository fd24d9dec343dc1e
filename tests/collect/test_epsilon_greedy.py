"""Acting by action values: the best, but for the share of moves that is to be made at random."""

import math
from typing import NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from senju.backends.building import new_models
from senju.collect.exploration import Acting, epsilon_greedy_actions
from senju.collect.orders import Orders
from senju.errors import ModelError, NoLegalActionError
from senju.games.rows import ACTION
from senju.kernels import pack_legal, unpack_legal
from tests.backends.common import PLAN, changed, started, weights_of
from tests.collect.test_exploration import clock_of, deviations_from
from tests.facts import mentions

SEED = 5


class Chosen(NamedTuple):
    actions: NDArray[np.int32]  # [row]
    explored: NDArray[np.bool_]
    values: NDArray[np.float32]


def choose(
    logits: NDArray[np.float32],
    allowed: NDArray[np.bool_],
    clock: NDArray[np.void],
    epsilon: float = 0.0,
    values: NDArray[np.float32] | None = None,
    seed: int = SEED,
    stream: int = ACTION,
) -> Chosen:
    """What is chosen in each row of a game in which one seat acts; with values, of a dueling network."""
    num_rows = len(logits)
    actions, best = np.full((num_rows, 1), -7, np.int32), np.full((num_rows, 1), np.nan, np.float32)
    explored, seats = np.ones((num_rows, 1), np.bool_), np.zeros((num_rows, 1), np.int8)
    legal, is_dueling = pack_legal(allowed)[:, None], values is not None
    position = values if values is not None else np.full(num_rows, np.nan, np.float32)
    chance = (clock, np.uint64(seed), stream, epsilon, is_dueling)
    epsilon_greedy_actions(logits, position, legal, seats, *chance, actions, explored, best)
    return Chosen(actions[:, 0], explored[:, 0], best[:, 0])


@pytest.mark.parametrize("num_actions", [2, 9, 64, 65, 2187])
@pytest.mark.parametrize("is_dueling", [False, True], ids=["plain", "dueling"])
def test_best_action_and_its_value_are_those_of_the_definition(num_actions: int, is_dueling: bool) -> None:
    """Q(s, a) = A(s, a), or V(s) + A(s, a) - mean of A(s, ·) over the legal actions (Wang 2016, eq. 9)."""
    rng = np.random.default_rng(num_actions)
    num_rows = 60
    logits = rng.integers(-9, 9, (num_rows, num_actions)).astype(np.float32) / 8  # with many equals
    allowed = rng.random((num_rows, num_actions)) < 0.4
    allowed[np.arange(num_rows), rng.integers(0, num_actions, num_rows)] = True
    logits[~allowed] = rng.choice([np.nan, np.inf, 9.0], np.count_nonzero(~allowed))  # is never looked at
    values = rng.normal(size=num_rows).astype(np.float32)
    found = choose(logits, allowed, clock_of(range(num_rows)), values=values if is_dueling else None)
    for row in range(num_rows):
        advantages = logits[row, allowed[row]].astype(np.float64)
        action_values = advantages + (values[row] - advantages.mean() if is_dueling else 0.0)
        assert found.actions[row] == np.flatnonzero(allowed[row])[action_values.argmax()]
        assert found.values[row] == pytest.approx(action_values.max(), rel=1e-6, abs=1e-6)
    assert not found.explored.any()


@pytest.mark.parametrize("epsilon", [0.02, 0.3, 1.0])
def test_share_of_random_moves_is_epsilon_and_they_are_even(epsilon: float) -> None:
    num_rows, num_steps, num_actions = 500, 60, 6
    allowed = np.tile(np.array([1, 0, 1, 1, 0, 1], np.bool_), (num_rows, 1))
    logits = np.tile(np.array([0.0, 9.0, 3.0, 1.0, 9.0, 2.0], np.float32), (num_rows, 1))
    counts, total = np.zeros(num_actions, np.int64), num_rows * num_steps
    for step in range(num_steps):
        found = choose(logits, allowed, clock_of(range(num_rows), step=step), epsilon)
        assert (found.actions[~found.explored] == 2).all()
        assert (found.values == 3.0).all(), "of the best action, whichever is taken"
        counts += np.bincount(found.actions[found.explored], minlength=num_actions)
    deviation = math.sqrt(total * epsilon * (1.0 - epsilon))
    assert abs(counts.sum() - total * epsilon) <= 4 * deviation
    assert counts[[1, 4]].sum() == 0
    assert deviations_from(counts[[0, 2, 3, 5]], np.full(4, 0.25)) < 4, "the best action is one of them"


def test_whether_and_what_to_explore_depend_on_nothing_beside_the_row() -> None:
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(64, 300)).astype(np.float32)
    allowed = rng.random((64, 300)) < 0.5
    clock = clock_of(rng.permutation(10_000)[:64], game=4, step=9)
    together = choose(logits, allowed, clock, 0.5)
    assert 0 < together.explored.sum() < 64
    for chosen in (rng.permutation(64), np.arange(17, 30), np.array([63])):
        apart = choose(logits[chosen], allowed[chosen], clock[chosen], 0.5)
        for part, whole in zip(apart, together, strict=True):
            assert part.tobytes() == whole[chosen].tobytes()


@pytest.mark.parametrize("changed", ["seed", "row", "game", "step", "stream"])
def test_every_part_of_the_counter_changes_what_is_explored(changed: str) -> None:
    num_rows, num_actions = 64, 14_000
    logits, allowed = np.zeros((num_rows, num_actions), np.float32), np.ones((num_rows, num_actions), bool)
    first = choose(logits, allowed, clock_of(range(num_rows)), 1.0)
    rows = range(1000, 1000 + num_rows) if changed == "row" else range(num_rows)
    clock = clock_of(rows, game=int(changed == "game"), step=int(changed == "step"))
    seed, stream = SEED + (changed == "seed"), ACTION + (changed == "stream")
    second = choose(logits, allowed, clock, 1.0, seed=seed, stream=stream)
    assert np.count_nonzero(first.actions == second.actions) <= 1


def test_smaller_epsilon_explores_at_some_of_the_same_moves() -> None:
    """One number decides whether to explore, another what: so runs that explore less can be compared."""
    logits, allowed, clock = np.zeros((500, 9), np.float32), np.ones((500, 9), bool), clock_of(range(500))
    much, little = (choose(logits, allowed, clock, epsilon) for epsilon in (0.6, 0.2))
    assert (much.explored[little.explored]).all()
    assert (much.actions[little.explored] == little.actions[little.explored]).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_action_value_that_is_not_finite_is_refused_with_row_seat_and_action(bad: float) -> None:
    logits, allowed = np.zeros((4, 100), np.float32), np.ones((4, 100), np.bool_)
    logits[2, 70] = bad
    with pytest.raises(ModelError, match=r"row 2, seat 0: .*not finite \(-?(nan|inf) for action 70\)"):
        choose(logits, allowed, clock_of(range(4)), 0.5)


def test_empty_mask_is_refused_with_its_row() -> None:
    logits, allowed = np.zeros((3, 9), np.float32), np.ones((3, 9), np.bool_)
    allowed[1] = False
    with pytest.raises(NoLegalActionError, match=mentions("row 1", "seat 0", "legal mask")):
        choose(logits, allowed, clock_of(range(3)), 0.5)


def test_seats_that_act_at_once_explore_apart_and_absent_ones_not_at_all() -> None:
    num_rows = 400
    logits, legal = np.zeros((2 * num_rows, 5), np.float32), pack_legal(np.ones((num_rows, 2, 5), np.bool_))
    seats = np.tile(np.array([0, 1], np.int8), (num_rows, 1))
    seats[::2, 1] = -1
    actions, explored = np.full((num_rows, 2), -7, np.int32), np.ones((num_rows, 2), np.bool_)
    chance = (clock_of(range(num_rows)), np.uint64(SEED), ACTION, 0.5, False)
    best = np.full((num_rows, 2), 9.0, np.float32)
    epsilon_greedy_actions(logits, logits[:, 0], legal, seats, *chance, actions, explored, best)
    absent = seats < 0
    assert [array[absent].any() for array in (actions, explored, best)] == [False] * 3
    both = explored[1::2]
    assert 0.4 < np.mean(both[:, 0] == both[:, 1]) < 0.6, "each draws for itself"


BY_VALUES = changed(PLAN, games_per_shard=64, rollout_steps=40, acting=Acting("action_values", ladder=2.0))


def test_orders_set_how_much_is_explored_on_a_ladder_over_the_shards() -> None:
    """Published for each batch: 0.5, its square, and its cube; then 0.2 likewise; then nothing."""
    weights = weights_of(BY_VALUES, 1)
    with started(BY_VALUES) as backend:
        for version, epsilon in enumerate((0.5, 0.2, 0.0)):
            backend.publish(weights, version, Orders(epsilons=(epsilon,)))
            for rollout in backend.collect():
                share, total = epsilon ** (1 + rollout.shard), rollout.data.explored.size
                deviation = math.sqrt(total * share * (1.0 - share))
                assert abs(rollout.data.explored.sum() - total * share) <= 4 * deviation
                assert (deviation > 0) == (epsilon > 0)


@pytest.mark.parametrize("is_dueling", [False, True], ids=["plain", "dueling"])
def test_recorded_values_are_those_of_the_best_actions(is_dueling: bool) -> None:
    plan = changed(BY_VALUES, acting=Acting("action_values", is_dueling))
    with started(plan) as backend:
        slot = backend.collect()[0].data
    [model] = new_models(plan).policies
    with torch.no_grad():
        logits, values = model(torch.from_numpy(slot.observation.reshape(-1, 2, 6, 7)).float())
    allowed = unpack_legal(slot.legal.reshape(-1, slot.legal.shape[-1]), 7)
    scores = np.where(allowed, logits.numpy(), -np.inf)
    expected = scores.max(axis=1)
    if is_dueling:
        expected += values.numpy() - np.where(allowed, logits.numpy(), 0.0).sum(axis=1) / allowed.sum(axis=1)
    np.testing.assert_allclose(slot.values.reshape(-1), expected, rtol=1e-4, atol=1e-6)
    assert (scores[np.arange(len(scores)), slot.actions.reshape(-1)] > scores.max(axis=1) - 1e-6).all()
