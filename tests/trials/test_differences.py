"""The first byte that differs is found in any part, and the message names the part."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from senju.collect.shard import new_shard_state
from senju.collect.slots import Rollout, Slot, new_slot
from senju.games import make_game
from senju.games.rows import CLOCK
from senju.models.weights import WeightBlock
from senju.trials.differences import (
    FINAL_ORDER,
    STEP_ORDER,
    Difference,
    compare_rollouts,
    compare_states,
    compare_weights,
    first_difference,
)

GAME = make_game("tic_tac_toe")


def new_rollout(shard: int = 0, version: int = 0) -> Rollout:
    return Rollout(
        shard, version, (new_slot(GAME, num_steps=4, num_rows=3, keeps_final=True),), np.zeros(3, CLOCK)
    )


def flip(array: NDArray[Any], byte: int) -> None:
    array.reshape(-1).view(np.uint8)[byte] ^= 1


def test_equal_arrays_have_no_difference() -> None:
    for array in (np.arange(6).reshape(2, 3), np.zeros(3, CLOCK), np.zeros((0, 2)), np.array(5)):
        assert first_difference("array", array, array.copy()) is None


def test_equal_bytes_of_nan_are_equal_and_zero_is_not_minus_zero() -> None:
    nan = np.array([math.nan], np.float32)
    assert first_difference("array", nan, nan.copy()) is None
    found = first_difference("array", np.array([0.0], np.float32), np.array([-0.0], np.float32))
    assert found == Difference("array", (0,), 3, "0.0", "-0.0")


def test_two_kinds_of_nan_are_distinguished_by_their_bytes() -> None:
    one, other = (np.array([bits], np.uint32).view(np.float32) for bits in (0x7FC00000, 0x7FC00001))
    found = first_difference("array", one, other)
    assert found is not None
    assert (found.expected, found.found) == ("nan (0000c07f)", "nan (0100c07f)")


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_any_flipped_byte_is_found_where_it_is(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([np.uint8, np.int32, np.float32, np.uint64, np.bool_]))
    shape = data.draw(st.tuples(*[st.integers(1, 4)] * data.draw(st.integers(1, 4))))
    array = np.zeros(shape, dtype)
    changed = array.copy()
    byte = data.draw(st.integers(0, array.nbytes - 1))
    flip(changed, byte)
    found = first_difference("array", array, changed)
    assert found is not None
    assert found.byte == byte
    assert np.ravel_multi_index(found.index, shape) == byte // array.itemsize


def test_field_of_a_record_is_named() -> None:
    inner = np.dtype([("kind", np.uint8), ("place", np.int16, (2, 2))])
    dtype = np.dtype([("board", np.int8, 9), ("stones", inner, 2), ("is_over", np.bool_)])
    states = np.zeros(4, dtype)
    changed = states.copy()
    changed["stones"]["place"][2, 1, 0, 1] = 7
    found = first_difference("states", states, changed)
    assert found is not None
    assert (found.place, found.expected, found.found) == ("states.stones[1].place[0, 1][2]", "0", "7")


def test_other_shapes_and_dtypes_differ_as_a_whole() -> None:
    found = first_difference("array", np.zeros((2, 3), np.int8), np.zeros((2, 4), np.int8))
    assert found == Difference("array", (), None, "int8 of shape (2, 3)", "int8 of shape (2, 4)")
    assert first_difference("array", np.zeros(2, np.int8), np.zeros(2, np.uint8)) is not None


@pytest.mark.parametrize("name", Slot._fields)
def test_every_array_of_a_rollout_is_compared(name: str) -> None:
    one, other = new_rollout(), new_rollout()
    assert compare_rollouts([one], [other]) is None
    flip(getattr(other.data, name), 0)
    found = compare_rollouts([one], [other])
    assert found is not None
    assert (found.array, found.index[0], found.byte, found.shard) == (name, 0, 0, 0)
    assert {*STEP_ORDER, *FINAL_ORDER} == set(Slot._fields)


def test_version_clock_and_order_of_shards_are_compared() -> None:
    one = [new_rollout(0), new_rollout(1)]
    assert compare_rollouts(one, one[::-1]) == Difference("shards", (), None, "[0, 1]", "[1, 0]")
    assert compare_rollouts(one, one[:1]) == Difference("shards", (), None, "[0, 1]", "[0]")
    later = [new_rollout(0), new_rollout(1, version=3)]
    assert compare_rollouts(one, later) == Difference("version", (), None, "0", "3", shard=1)
    other = [new_rollout(0), new_rollout(1)]
    other[1].clock["game"][2] = 5
    assert compare_rollouts(one, other) == Difference("clock.game", (2,), 28, "0", "5", shard=1)


def test_earliest_step_counts_and_the_cause_comes_before_its_effects() -> None:
    one, other = new_rollout(), new_rollout()
    other.data.observation[2] = 1  # stands first in a slot, but later in time
    other.data.rewards[1, 2, 0] = 1.0
    other.data.actions[1, 2, 0] = 4
    found = compare_rollouts([one], [other])
    assert found is not None
    assert found.place == "actions[1, 2, 0]"


def test_snapshots_are_compared_with_their_shards() -> None:
    one = [new_shard_state(GAME, 2) for _ in range(3)]
    other = [state.copy() for state in one]
    assert compare_states(one, other) is None
    other[2].states["board"][1, 4] += 1
    found = compare_states(one, other)
    assert found is not None
    assert (found.place, found.shard) == ("states.board[4][1]", 2)
    assert compare_states(one, one[:2]) == Difference("shards", (), None, "3", "2")
    other[0].seated[1, 0] = 5
    assert compare_states(one, other) == Difference("seated", (1, 0), 8, "0", "5", shard=0)


def test_kept_final_positions_are_compared_after_the_steps() -> None:
    one, other = new_rollout(), new_rollout()
    other.data.final_observation[0] = 1
    other.data.rewards[1, 2, 0] = 1.0
    found = compare_rollouts([one], [other])
    assert found is not None
    assert found.place == "rewards[1, 2, 0]"


def test_weights_are_named_by_their_tensor() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1).to(torch.bfloat16))
    one, tensors = WeightBlock(model).read(), model.state_dict()
    assert compare_weights(one, one.copy(), tensors) is None
    other = one.copy()
    other[4 * 6 + 4 * 1] ^= 1
    found = compare_weights(one, other, tensors)
    assert found is not None
    assert (found.place, found.byte, found.shard) == ("weights 0.bias[1]", 4, None)
    other = one.copy()
    other[-1] ^= 1  # NumPy has no bfloat16: the byte is named
    found = compare_weights(one, other, tensors)
    assert found is not None
    assert found.place == "weights 1.bias[1]"


def test_weights_of_something_else_are_compared_as_bytes() -> None:
    one, other = np.zeros(8, np.uint8), np.zeros(8, np.uint8)
    other[5] = 9
    assert compare_weights(one, other) == Difference("weights", (5,), 5, "0", "9")
    assert compare_weights(one, other[:4]) is not None
