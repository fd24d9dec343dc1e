"""Weights in shared memory: readers never see a mixture, and the writer never waits.

There are three places. The writer fills the one after the newest and then marks it as the newest. Each
place has a sequence number, odd while it is being written: a reader that finds it odd, or changed
when it has finished copying, was overtaken by two publications and copies again.
"""

import numpy as np
from numpy.typing import NDArray

from senju.collect.slots import Allocate
from senju.kernels import compiled, memory_fence
from senju.models.weights import Weights

NUM_PLACES = 3
_NEWEST = 2 * NUM_PLACES  # index in the header of the newest place, after sequence numbers and versions


@compiled
def _begin_writing(header: NDArray[np.int64]) -> int:
    """Choose the place after the newest and mark it as being written.

    If a killed writer left the mark, the place stays marked, with another number.
    """
    place = (header[_NEWEST] + 1) % NUM_PLACES
    header[place] += 1 + header[place] % 2
    memory_fence()
    return place  # type: ignore[no-any-return]  # numba has no types


@compiled
def _end_writing(header: NDArray[np.int64], place: int, version: int) -> None:
    memory_fence()
    header[NUM_PLACES + place] = version
    memory_fence()
    header[place] += 1
    memory_fence()
    header[_NEWEST] = place


@compiled
def _find_newest(header: NDArray[np.int64]) -> tuple[int, int, int]:
    """The newest place, its sequence number and its version."""
    place = header[_NEWEST]
    memory_fence()
    sequence = header[place]
    memory_fence()
    return place, sequence, header[NUM_PLACES + place]


@compiled
def _is_unchanged(header: NDArray[np.int64], place: int, sequence: int) -> bool:
    memory_fence()
    return sequence % 2 == 0 and header[place] == sequence


class SharedWeights:
    """The newest weights with their version, in arrays that other processes see."""

    def __init__(self, num_bytes: int, allocate: Allocate) -> None:
        self.num_bytes = num_bytes
        self._header: NDArray[np.int64] = allocate(_NEWEST + 1, np.int64)
        self._places: NDArray[np.uint8] = allocate((NUM_PLACES, num_bytes), np.uint8)

    @property
    def version(self) -> int:
        """The version of the newest weights."""
        return _find_newest(self._header)[2]

    @property
    def stamp(self) -> int:
        """A different number for every publication, even of a version that was published before."""
        place, sequence, _ = _find_newest(self._header)
        return sequence * NUM_PLACES + place

    def write(self, block: Weights, version: int) -> None:
        """Make this block the newest; one process writes at a time."""
        place = _begin_writing(self._header)
        self._places[place] = block
        _end_writing(self._header, place, version)

    def read(self, block: Weights) -> tuple[int, int]:
        """Copy the newest weights into `block`; return their stamp and version."""
        while True:
            place, sequence, version = _find_newest(self._header)
            block[:] = self._places[place]
            if _is_unchanged(self._header, place, sequence):
                return sequence * NUM_PLACES + place, version
