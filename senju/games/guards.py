"""Arrays between guard bytes, which show writes before or after the array."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

GuardBytes = NDArray[np.uint8]

GUARD = 64  # bytes on either side
GUARD_BYTE = 0xA5


def guarded(shape: tuple[int, ...], dtype: Any) -> tuple[NDArray[Any], GuardBytes]:
    """An array inside a larger block of guard bytes, and that block."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    block = np.full(size + 2 * GUARD, GUARD_BYTE, np.uint8)
    return block[GUARD : GUARD + size].view(dtype).reshape(shape), block


def guarded_copy(array: NDArray[Any]) -> tuple[NDArray[Any], GuardBytes]:
    """A copy of `array` inside a block of guard bytes, and that block."""
    inner, block = guarded(array.shape, array.dtype)
    inner[...] = array
    return inner, block


def is_intact(block: GuardBytes) -> bool:
    """Whether the bytes on both sides are unchanged.

    >>> array, block = guarded((2, 3), np.int32)
    >>> array[:] = 7
    >>> is_intact(block)
    True
    >>> block[-1] = 7
    >>> is_intact(block)
    False
    """
    return bool((block[:GUARD] == GUARD_BYTE).all() and (block[-GUARD:] == GUARD_BYTE).all())
