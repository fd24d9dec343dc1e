"""The sum tree against NumPy's cumulative sums."""

import numpy as np
import pytest
from numpy.typing import NDArray

from senju.algorithms.sum_tree import SumTree
from senju.kernels import random_word, unit_interval
from tests.algorithms.chi_squared import fits, limit

SEED, STREAM = np.uint64(7), 65


def tree_of(weights: NDArray[np.float64]) -> SumTree:
    tree = SumTree(len(weights))
    tree.set(np.arange(len(weights)), weights)
    return tree


def draw(tree: SumTree, count: int, step: int = 0) -> NDArray[np.int64]:
    chosen = np.empty(count, np.int64)
    tree.draw(SEED, step, STREAM, chosen)
    return chosen


def targets(count: int, step: int = 0) -> NDArray[np.float64]:
    """Where the draws fall, as shares of the whole: one in each of `count` equal parts."""
    words = [random_word(SEED, step, 0, each, STREAM) for each in range(count)]
    return (np.arange(count) + [unit_interval(np.uint64(word)) for word in words]) / count


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 100, 1000])
def test_draws_are_those_of_the_cumulative_sum(size: int) -> None:
    """Whole numbers are summed without rounding, so that both must agree on every draw."""
    weights = np.random.default_rng(size).integers(0, 5, size).astype(np.float64)
    weights[size // 2] = 3.0  # one at least is not 0
    tree = tree_of(weights)
    assert tree.total == weights.sum()
    expected = np.searchsorted(np.cumsum(weights), targets(4096) * weights.sum(), side="right")
    assert (draw(tree, 4096) == expected).all()


def test_many_small_changes_leave_the_tree_as_if_it_were_built_at_once() -> None:
    rng = np.random.default_rng(0)
    weights = np.zeros(300)
    tree = SumTree(300)
    for _ in range(200):
        if rng.random() < 0.5:
            indices = rng.integers(0, 300, 20)
            values = rng.random(20)
            tree.set(indices, values)
            for index, value in zip(indices, values, strict=True):  # of one that comes twice, the last counts
                weights[index] = value
        else:
            start, length = int(rng.integers(0, 250)), int(rng.integers(0, 50))
            weights[start : start + length] = rng.random(length)
            tree.set(np.arange(start, start + length), weights[start : start + length])
    assert tree.all_weights().tobytes() == weights.tobytes()
    assert tree._tree.tobytes() == tree_of(weights)._tree.tobytes()


def test_stratified_draw_takes_one_from_each_equal_part() -> None:
    weights = np.random.default_rng(1).random(50)
    ends = np.cumsum(weights) / weights.sum()
    chosen = draw(tree_of(weights), 1000)
    starts = np.concatenate([[0.0], ends[:-1]])
    parts = np.arange(1000) / 1000
    # the weight that was drawn and the part it was drawn from have something in common
    assert (starts[chosen] < parts + 0.001 + 1e-9).all()
    assert (ends[chosen] > parts - 1e-9).all()
    counts = np.bincount(chosen, minlength=50)
    assert (np.abs(counts - 1000 * weights / weights.sum()) < 2).all(), "at most one off at either end"


def test_what_has_no_weight_is_never_drawn() -> None:
    """Also where rounding makes the parts of a sum less than the sum."""
    rng = np.random.default_rng(2)
    weights = np.where(rng.random(5000) < 0.1, rng.random(5000) ** 8, 0.0)
    tree = tree_of(weights)
    for step in range(50):
        assert (weights[draw(tree, 1000, step)] > 0.0).all()


def test_single_draws_have_the_weights_as_their_distribution() -> None:
    weights = np.array([0.5, 0.0, 1.0, 2.0, 4.0, 0.25, 8.0, 3.0])
    tree = tree_of(weights)
    counts = np.zeros(8, np.int64)
    for step in range(20_000):
        counts[draw(tree, 1, step)] += 1
    has_weight = weights > 0.0
    assert counts[1] == 0
    assert fits(counts[has_weight], weights[has_weight] / weights.sum())
    assert not fits(counts[has_weight], np.full(7, 1 / 7)), "another distribution is detected"


def test_limit_of_chi_squared_is_the_tables() -> None:
    for freedom, value in ((5, 20.515), (10, 29.588), (100, 149.449)):  # p = 0.001
        assert limit(freedom + 1) == pytest.approx(value, rel=0.015)
