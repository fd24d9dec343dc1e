"""The random words of many cells at once, which the compiler makes several at a time."""

import numpy as np
from numpy.typing import NDArray

from senju.kernels import ZERO, compiled, philox

_11 = np.uint64(11)


@compiled
def draw_cells(
    key: np.uint64,
    turn: np.uint64,
    stream: np.uint64,
    threshold: np.uint64,
    cells: NDArray[np.uint32],
    hits: NDArray[np.uint8],
) -> None:
    """Write for each cell whether the upper 53 bits of its word are below the threshold."""
    for index in range(cells.shape[0]):
        word, _ = philox(key, turn, np.uint64(cells[index]), stream, ZERO)
        hits[index] = (word >> _11) < threshold
