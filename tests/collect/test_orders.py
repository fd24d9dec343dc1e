"""Orders as bytes: unpacking returns the packed orders."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from senju.collect.orders import NO_ORDERS, Orders, orders_bytes, pack_orders, unpack_orders


@st.composite
def any_orders(draw: st.DrawFn) -> Orders:
    count = draw(st.integers(0, 6))
    lists = [
        draw(st.lists(numbers, min_size=count, max_size=count))
        for numbers in (st.integers(1, 2**31 - 1), st.integers(-1, 2**31 - 1), st.floats(0.0, 1.0))
    ]
    version, epsilons = (
        draw(st.integers(0, 2**62)),
        draw(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=2)),
    )
    return Orders(version, tuple(epsilons), *map(tuple, lists))  # type: ignore[arg-type]  # of three types


@given(orders=any_orders(), most=st.integers(6, 9), num_weights=st.integers(0, 30))
def test_unpacked_orders_are_those_that_were_packed(orders: Orders, most: int, num_weights: int) -> None:
    """Behind weights of any length, whatever those are."""
    packed = pack_orders(orders, most, 2)
    assert len(packed) == orders_bytes(most, 2)
    block = np.concatenate([np.full(num_weights, 77, np.uint8), packed])
    assert unpack_orders(block, most, 2) == orders


def test_empty_orders_name_no_opponent() -> None:
    assert unpack_orders(pack_orders(NO_ORDERS, 0, 1), 0, 1) == Orders(0, (0.0,), (), (), ())


def test_more_opponents_than_there_is_room_for_are_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError, match=r"3 opponents.* 2"):
        pack_orders(Orders(ids=(1, 2, 3), weight_indices=(0, 1, 2), probabilities=(1.0, 0.0, 0.0)), 2, 1)
