"""Anonymous shared memory, and arrays laid out in one block of it."""

import math
import mmap
import os
import tempfile
from pathlib import Path
from shutil import disk_usage
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.errors import ConfigError
from senju.machine import SHARED_MEMORY, memory_available

_MOST_BYTES = 2**60  # more than any machine has, and few enough for NumPy to count
_ALIGNMENT = 64  # a cache line: workers must not write to each other's


class ArrayAllocator:
    """Cuts arrays from a block, one after another. Without a block it only counts their bytes."""

    def __init__(self, block: mmap.mmap | NDArray[np.uint8] | None) -> None:
        self._block, self.num_bytes = block, 0

    def __call__(self, shape: tuple[int, ...] | int, dtype: Any, /) -> NDArray[Any]:
        num_bytes = math.prod(shape if isinstance(shape, tuple) else (shape,)) * np.dtype(dtype).itemsize
        if num_bytes > _MOST_BYTES:
            require_memory(num_bytes)
        start, self.num_bytes = self.num_bytes, self.num_bytes + aligned(num_bytes)
        if self._block is None:
            return np.broadcast_to(np.zeros((), dtype), shape)
        return np.ndarray(shape, np.dtype(dtype), self._block, start)


def aligned(num_bytes: int) -> int:
    """The size, rounded up to whole cache lines."""
    return -(-num_bytes // _ALIGNMENT) * _ALIGNMENT


def open_anonymous(num_bytes: int) -> int:
    """A descriptor of new shared memory, if the machine has room for it."""
    require_memory(num_bytes)
    return new_descriptor(num_bytes)


def new_descriptor(num_bytes: int) -> int:
    """A descriptor of new shared memory without a name, so that nothing is left behind.

    Linux gives memory that belongs to no file system, which a container's small /dev/shm does not
    limit. Elsewhere a file is unlinked as soon as it is open.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("senju")
        os.ftruncate(descriptor, num_bytes)
        return descriptor
    return _open_unlinked(num_bytes, _folder_with_room(num_bytes))


def require_memory(num_bytes: int) -> None:
    """Refuse more memory than this machine, or the container's limit, has free."""
    available = memory_available()
    if num_bytes > available:
        raise ConfigError(
            f"{mebibytes(num_bytes)} MiB of shared memory are needed, {mebibytes(available)} MiB are free; "
            "a smaller num_games, rollout_steps, max_lag or replay_size needs less, or give the container "
            "more memory"
        )


def _folder_with_room(num_bytes: int) -> Path:
    """The folder of shared memory, or the one for temporary files if only that has enough room."""
    folders = [folder for folder in (SHARED_MEMORY, Path(tempfile.gettempdir())) if folder.is_dir()]
    return next((folder for folder in folders if num_bytes <= disk_usage(folder).free), folders[0])


def _open_unlinked(num_bytes: int, folder: Path) -> int:
    """A file without a name in `folder`, with its space reserved."""
    room = disk_usage(folder).free
    if num_bytes > room:
        raise ConfigError(
            f"{mebibytes(num_bytes)} MiB of shared memory are needed, {folder} has {mebibytes(room)} MiB; "
            f"in a container raise it with --shm-size={mebibytes(2 * num_bytes)}m, or use fewer num_games "
            "or rollout_steps"
        )
    descriptor, name = tempfile.mkstemp(prefix="senju-", dir=folder)
    try:
        os.unlink(name)
        os.ftruncate(descriptor, num_bytes)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, num_bytes)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def map_shared(descriptor: int, num_bytes: int) -> mmap.mmap:
    """The memory behind a descriptor; zeroed when it is new."""
    return mmap.mmap(descriptor, num_bytes, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)


def new_private_block(num_bytes: int) -> NDArray[np.uint8]:
    """Zeroed memory of this process alone, aligned to a cache line."""
    memory = np.zeros(num_bytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + num_bytes]


def mebibytes(num_bytes: int) -> int:
    """A size in MiB, rounded up."""
    return math.ceil(num_bytes / 2**20)
