"""Weights in shared memory: readers never see a mixture, and the writer never waits.

There are three copies. The writer fills the one after the newest and then marks it as the newest. Each
copy has a sequence number, odd while it is being written: a reader that finds it odd, or changed
when it has finished copying, was overtaken by two publications and copies again.
"""

import numpy as np
from numpy.typing import NDArray

from senju.collect.slots import Allocate
from senju.kernels import compiled, memory_fence
from senju.models.weights import Weights

NUM_COPIES = 3
_NEWEST = 2 * NUM_COPIES  # index in the header of the newest copy, after sequence numbers and versions


@compiled
def _begin_writing(header: NDArray[np.int64]) -> int:
    """Choose the copy after the newest and mark it as being written.

    If a killed writer left the mark, the copy stays marked, with another number.
    """
    copy_index = (header[_NEWEST] + 1) % NUM_COPIES
    header[copy_index] += 1 + header[copy_index] % 2
    memory_fence()
    return copy_index  # type: ignore[no-any-return]  # numba has no types


@compiled
def _end_writing(header: NDArray[np.int64], copy_index: int, version: int) -> None:
    memory_fence()
    header[NUM_COPIES + copy_index] = version
    memory_fence()
    header[copy_index] += 1
    memory_fence()
    header[_NEWEST] = copy_index


@compiled
def _find_newest(header: NDArray[np.int64]) -> tuple[int, int, int]:
    """The newest copy, its sequence number and its version."""
    copy_index = header[_NEWEST]
    memory_fence()
    sequence = header[copy_index]
    memory_fence()
    return copy_index, sequence, header[NUM_COPIES + copy_index]


@compiled
def _is_unchanged(header: NDArray[np.int64], copy_index: int, sequence: int) -> bool:
    memory_fence()
    return sequence % 2 == 0 and header[copy_index] == sequence


class SharedWeights:
    """The newest weights with their version, in arrays that other processes see."""

    def __init__(self, num_bytes: int, allocate: Allocate) -> None:
        self.num_bytes = num_bytes
        self._header: NDArray[np.int64] = allocate(_NEWEST + 1, np.int64)
        self._copies: NDArray[np.uint8] = allocate((NUM_COPIES, num_bytes), np.uint8)

    @property
    def version(self) -> int:
        """The version of the newest weights."""
        return _find_newest(self._header)[2]

    @property
    def stamp(self) -> int:
        """A different number for every publication, even of a version that was published before."""
        copy_index, sequence, _ = _find_newest(self._header)
        return sequence * NUM_COPIES + copy_index

    def write(self, block: Weights, version: int) -> None:
        """Make this block the newest; one process writes at a time."""
        copy_index = _begin_writing(self._header)
        self._copies[copy_index] = block
        _end_writing(self._header, copy_index, version)

    def read(self, block: Weights) -> tuple[int, int]:
        """Copy the newest weights into `block`; return their stamp and version."""
        while True:
            copy_index, sequence, version = _find_newest(self._header)
            block[:] = self._copies[copy_index]
            if _is_unchanged(self._header, copy_index, sequence):
                return sequence * NUM_COPIES + copy_index, version
