"""Arrays between guard bytes, which show writes before or after the array."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

GuardBytes = NDArray[np.uint8]

GUARD = 64  # bytes on either side
GUARD_BYTE = 0xA5


def guarded(array: NDArray[Any]) -> tuple[NDArray[Any], GuardBytes]:
    """A copy of an array inside a larger block of guard bytes, and that block."""
    block = np.full(array.nbytes + 2 * GUARD, GUARD_BYTE, np.uint8)
    copy = block[GUARD:-GUARD].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy, block


def is_intact(block: GuardBytes) -> bool:
    """Whether the bytes on both sides are unchanged.

    >>> array, block = guarded(np.zeros((2, 3), np.int32))
    >>> array[:] = 7
    >>> is_intact(block)
    True
    >>> block[-1] = 7
    >>> is_intact(block)
    False
    """
    return bool((block[:GUARD] == GUARD_BYTE).all() and (block[-GUARD:] == GUARD_BYTE).all())
