"""Arrays between known bytes, so that a write before or behind them is noticed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Block = NDArray[np.uint8]

GUARD = 64  # bytes on either side
GUARD_BYTE = 0xA5


def guarded(shape: tuple[int, ...], dtype: Any) -> tuple[NDArray[Any], Block]:
    """An array inside a larger block of known bytes, and that block."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    block = np.full(size + 2 * GUARD, GUARD_BYTE, np.uint8)
    return block[GUARD : GUARD + size].view(dtype).reshape(shape), block


def guarded_copy(array: NDArray[Any]) -> tuple[NDArray[Any], Block]:
    """A copy of `array` inside a block of known bytes, and that block."""
    inner, block = guarded(array.shape, array.dtype)
    inner[...] = array
    return inner, block


def is_intact(block: Block) -> bool:
    """Whether the bytes on both sides are as they were.

    >>> array, block = guarded((2, 3), np.int32)
    >>> array[:] = 7
    >>> is_intact(block)
    True
    >>> block[-1] = 7
    >>> is_intact(block)
    False
    """
    return bool((block[:GUARD] == GUARD_BYTE).all() and (block[-GUARD:] == GUARD_BYTE).all())
