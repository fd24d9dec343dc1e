"""Weights in shared memory: readers never see a mixture, and the writer never waits.

There are three places. The writer fills the one after the newest and then names it the newest. Each
place has a sequence number, odd while it is being written: a reader that finds it odd, or changed
when it has finished copying, was overtaken by two publications and copies again.
"""

import numpy as np
from numpy.typing import NDArray

from senju.collect.slots import Allocate
from senju.kernels import compiled, memory_fence
from senju.models.weights import Weights

NUM_PLACES = 3
_NEWEST = 2 * NUM_PLACES  # where the header names the newest place; before it: sequences, versions


@compiled
def _write(
    header: NDArray[np.int64], places: NDArray[np.uint8], block: NDArray[np.uint8], version: int
) -> None:
    place = (header[_NEWEST] + 1) % NUM_PLACES
    header[place] += 1
    memory_fence()
    places[place, :] = block
    header[NUM_PLACES + place] = version
    memory_fence()
    header[place] += 1
    memory_fence()
    header[_NEWEST] = place


@compiled
def _read(header: NDArray[np.int64], places: NDArray[np.uint8], block: NDArray[np.uint8]) -> tuple[int, int]:
    while True:
        place = header[_NEWEST]
        memory_fence()
        sequence = header[place]
        memory_fence()
        block[:] = places[place]
        version = header[NUM_PLACES + place]
        memory_fence()
        if sequence % 2 == 0 and header[place] == sequence:
            return sequence * NUM_PLACES + place, version


@compiled
def _stamp(header: NDArray[np.int64]) -> tuple[int, int]:
    place = header[_NEWEST]
    memory_fence()
    return header[place] * NUM_PLACES + place, header[NUM_PLACES + place]


class SharedWeights:
    """The newest weights with their version, in arrays that other processes see."""

    def __init__(self, num_bytes: int, allocate: Allocate) -> None:
        self.num_bytes = num_bytes
        self._header: NDArray[np.int64] = allocate(_NEWEST + 1, np.int64)
        self._places: NDArray[np.uint8] = allocate((NUM_PLACES, num_bytes), np.uint8)

    @property
    def version(self) -> int:
        """The version of the newest weights."""
        return _stamp(self._header)[1]

    @property
    def stamp(self) -> int:
        """Another number for every publication, even of a version that was published before."""
        return _stamp(self._header)[0]

    def write(self, block: Weights, version: int) -> None:
        """Make this block the newest; only one process ever writes."""
        _write(self._header, self._places, block, version)

    def read(self, block: Weights) -> tuple[int, int]:
        """Copy the newest weights into `block`; return their stamp and version."""
        return _read(self._header, self._places, block)
