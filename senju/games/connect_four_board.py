"""The board of Connect Four as bits.

Each seat's stones are one 64-bit word, bit `7 * column + height`; the seventh bit of a column stays empty,
so that a line cannot run from the top of one column into the next.
"""

import numpy as np

from senju.kernels import compiled

COLUMNS, HEIGHT = 7, 6
CELLS = COLUMNS * HEIGHT

# shifts to the next cell of a line: up, right, and both diagonals
_ONE_STEP = (np.uint64(1), np.uint64(7), np.uint64(6), np.uint64(8))
_TWO_STEPS = (np.uint64(2), np.uint64(14), np.uint64(12), np.uint64(16))


@compiled
def has_four(stones: np.uint64) -> bool:
    """Whether a seat's stones contain four in a line."""
    for direction in range(4):
        pairs = stones & (stones >> _ONE_STEP[direction])
        if pairs & (pairs >> _TWO_STEPS[direction]):
            return True
    return False
