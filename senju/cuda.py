"""Shared by everything that computes on a GPU: a lock for compiling and capturing, registered memory."""

import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from senju.machine import memory_available

logger = logging.getLogger(__name__)

Kernels = Literal["eager", "repeatable", "fastest"]

# torch compiles and captures for one thread at a time; the others only replay meanwhile
capture_lock = threading.RLock()


def set_repeatable(kernels: Kernels) -> None:
    """Choose cuDNN's kernels: by rule, so that bits repeat, or for `fastest` by timing them."""
    torch.backends.cudnn.benchmark = kernels == "fastest"
    torch.backends.cudnn.deterministic = kernels != "fastest"


def compile_mode(kernels: Kernels) -> str | None:
    """The mode of `torch.compile`. Only the default mode chooses kernels without timing them."""
    return "max-autotune-no-cudagraphs" if kernels == "fastest" else None


def free_memory(device: torch.device) -> int:
    """Bytes that are free on a device."""
    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else memory_available()


class RegisteredMemory:
    """Host memory that the GPU may copy from and to while the processor goes on.

    Without registration copies are correct but slower, since the driver copies twice.
    """

    def __init__(self, memory: NDArray[np.uint8]) -> None:
        self._memory: NDArray[np.uint8] | None = memory  # keeps it alive
        self._address = 0
        if not len(memory):
            return
        code = torch.cuda.cudart().cudaHostRegister(memory.ctypes.data, memory.nbytes, 0)
        if int(code):
            logger.warning(
                "%d MiB could not be registered with the GPU (CUDA error %d): copies are slower",
                memory.nbytes >> 20,
                int(code),
            )
            return
        self._address = memory.ctypes.data

    def release(self) -> None:
        """Undo the registration; may be called twice. No copy may be under way."""
        address, self._address = self._address, 0
        if address:
            torch.cuda.cudart().cudaHostUnregister(address)
        self._memory = None


@contextlib.contextmanager
def capturing(graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream) -> Iterator[None]:
    """Capture what is called in the block as a graph; other threads may use the GPU meanwhile."""
    with capture_lock, torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        yield
