"""The other side of shared weights, as a process of its own that reads or writes without end.

A block's bytes all follow from its version, so that a mixture of two is seen.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.backends.shared_weights import SharedWeights
from senju.workers.shared_memory import map_shared


def carver(descriptor: int, num_bytes: int) -> Callable[..., NDArray[Any]]:
    """Cuts the header and the copies from the memory."""
    block, used = map_shared(descriptor, num_bytes), 0

    def allocate(shape: tuple[int, ...] | int, dtype: Any) -> NDArray[Any]:
        nonlocal used
        array: NDArray[Any] = np.ndarray(shape, dtype, block, used)
        used += -(-array.nbytes // 64) * 64
        return array

    return allocate


NUM_PATTERNS = 64


def pattern(version: int, out: NDArray[np.uint8]) -> None:
    """The block of a version; those of 64 versions in a row are different in every word."""
    words = out.view(np.uint64)
    words[:] = np.arange(len(words), dtype=np.uint64) + np.uint64(version % NUM_PATTERNS * 1_000_003)


def is_pattern(block: NDArray[np.uint8], version: int, expected: NDArray[np.uint8]) -> bool:
    pattern(version, expected)
    return bool(np.array_equal(block, expected))


def write_forever(weights: SharedWeights) -> None:
    block, version = np.zeros(weights.num_bytes, np.uint8), weights.version
    while True:
        version += 1
        pattern(version, block)
        weights.write(block, version)
        if version % 20 == 0:
            sys.stdout.write(f"{version}\n")
            sys.stdout.flush()


def read_forever(weights: SharedWeights) -> None:
    """Say how many blocks were read and whether each was whole and none older than the one before."""
    block, expected = np.zeros(weights.num_bytes, np.uint8), np.zeros(weights.num_bytes, np.uint8)
    last_version, count = 0, 0
    while True:
        _, version = weights.read(block)
        if version < last_version or not is_pattern(block, version, expected):
            sys.stdout.write(f"mixture in {version} after {last_version}\n")
            sys.stdout.flush()
            return
        last_version, count = version, count + 1
        if count % 20 == 0:
            sys.stdout.write(f"{count}\n")
            sys.stdout.flush()


if __name__ == "__main__":  # python -m tests.backends.weights_player ROLE MEMORY ITS_BYTES BLOCK_BYTES
    role, memory, size, block_bytes = sys.argv[1], *map(int, sys.argv[2:5])
    shared = SharedWeights(block_bytes, carver(memory, size))
    {"write": write_forever, "read": read_forever}[role](shared)
