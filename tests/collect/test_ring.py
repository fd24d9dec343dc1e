"""The ring: each rollout has its own place, and a sequence number that says if it is complete."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from senju.collect.slots import TRANSIENT, Ring, RingShape, Slot
from tests.collect.toy_games import Race

shapes = st.builds(
    RingShape,
    num_shards=st.integers(1, 3),
    num_steps=st.integers(1, 9),
    num_rows=st.integers(1, 4),
    kept=st.integers(1, 5),
    ahead=st.integers(0, 3),
    keeps_final=st.booleans(),
)


def stamp(slot: Slot, number: int) -> None:
    for column in slot:
        column.view(np.uint8).fill(number)


def is_stamped(column: NDArray[Any], number: int) -> bool:
    return bool((column.view(np.uint8) == number).all())


@settings(max_examples=50, deadline=None)
@given(shape=shapes, turns=st.integers(1, 30))
def test_kept_turns_stay_readable_while_others_are_played_ahead(shape: RingShape, turns: int) -> None:
    """While no worker is further ahead than allowed: of the newest turn all columns, of older ones most."""
    ring = Ring(Race(), shape)
    for turn in range(turns + shape.ahead):
        for shard in range(shape.num_shards):
            ring.open(shard, turn)
            stamp(ring.slot(shard, turn), (shard + 1) * 40 + turn % 40)
            ring.complete(shard, turn)
    newest = turns - 1  # the last that was collected
    for shard in range(shape.num_shards):
        for turn in range(max(0, newest - shape.kept + 1), newest + 1):
            assert turn in ring.complete_turns(shard)
            for name, column in ring.slot(shard, turn)._asdict().items():
                if turn == newest or name not in TRANSIENT:
                    assert is_stamped(column, (shard + 1) * 40 + turn % 40), name


@settings(max_examples=50, deadline=None)
@given(shape=shapes)
def test_slots_are_views_of_the_columns_at_shard_and_place(shape: RingShape) -> None:
    ring = Ring(Race(), shape)
    for turn in range(2 * shape.depth):
        for shard in range(shape.num_shards):
            slot = ring.slot(shard, turn)
            for name, column, whole in zip(Slot._fields, slot, ring.columns, strict=True):
                places = shape.ahead + 1 if name in TRANSIENT else shape.depth
                assert whole.shape[:2] == (shape.num_shards, places)
                if column.size:
                    assert np.shares_memory(column, whole[shard, turn % places])


def test_place_that_is_being_written_is_not_complete() -> None:
    ring = Ring(Race(), RingShape(1, 2, 2, kept=3))
    for turn in range(3):
        ring.open(0, turn)
        ring.complete(0, turn)
    assert list(ring.complete_turns(0)) == [0, 1, 2]
    ring.open(0, 3)
    assert list(ring.complete_turns(0)) == [1, 2]
    assert ring.sequence_numbers[0].tolist() == [-4, 2, 3]
    ring.complete(0, 3)
    assert list(ring.complete_turns(0)) == [1, 2, 3]
    ring.open(0, 1_000_000_007)
    ring.complete(0, 1_000_000_007)
    assert list(ring.complete_turns(0)) == [1, 3, 1_000_000_007]


@pytest.mark.parametrize(("turn", "left"), [(0, []), (4, [3]), (5, [3, 4]), (9, [3, 4, 5])])
def test_turns_that_will_be_played_anew_are_forgotten(turn: int, left: list[int]) -> None:
    ring = Ring(Race(), RingShape(2, 2, 2, kept=3, ahead=1))
    for played in range(3, 6):
        for shard in range(2):
            ring.open(shard, played)
            ring.complete(shard, played)
    ring.open(1, 6)  # by a worker that died while writing
    ring.forget(turn)
    assert [list(ring.complete_turns(shard)) for shard in range(2)] == [left, left]
    assert (ring.sequence_numbers[1, 6 % 4] == 0) == (turn <= 6), "no worker is writing there"


def test_room_for_truncated_positions() -> None:
    assert RingShape(1, 64, 8).final_rows == 0
    assert RingShape(1, 64, 8, keeps_final=True).final_rows == 64
    assert RingShape(1, 2, 8, keeps_final=True).final_rows == 8, "one step may truncate all"
