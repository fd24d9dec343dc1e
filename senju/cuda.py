"""Shared by everything that computes on a GPU: a lock for compiling and capturing, registered memory."""

import contextlib
import logging
import threading
import types
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Literal, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from senju.machine import memory_available

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])
# eager: torch's own; repeatable: compiled, the same bits in each process; fastest: chosen by timing them
Kernels = Literal["eager", "repeatable", "fastest"]

# torch compiles and captures for one thread at a time; the others only replay meanwhile
capture_lock = threading.RLock()
_numbers = count()


def default_kernels(device: torch.device) -> Kernels:
    """Compiled kernels on a GPU; the CPU has kernels of its own."""
    return "repeatable" if device.type == "cuda" else "eager"


def apply_kernels(kernels: Kernels) -> None:
    """Set cuDNN's flags for this process: only `fastest` may choose kernels by timing them."""
    torch.backends.cudnn.benchmark = kernels == "fastest"
    torch.backends.cudnn.deterministic = kernels != "fastest"


def compiled_for(kernels: Kernels, function: F) -> F:
    """Compile a function for fixed shapes. Only the default mode chooses kernels without timing them."""
    if kernels == "eager":
        return function
    # torch counts compilations by code object and gives up after eight: each function gets a code of its own
    own = types.FunctionType(
        function.__code__.replace(co_name=f"{function.__name__}_{next(_numbers)}"),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    mode = "max-autotune-no-cudagraphs" if kernels == "fastest" else None
    return cast(F, torch.compile(own, dynamic=False, mode=mode))


def shortened(error: object) -> str:
    """The first line of an error, for a message."""
    return str(error).strip().partition("\n")[0][:300]


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
        runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]  # torch has no types for it
        code = runtime.cudaHostRegister(memory.ctypes.data, memory.nbytes, 0)
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
            runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]  # as above
            runtime.cudaHostUnregister(address)
        self._memory = None


@contextlib.contextmanager
def capturing(graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream) -> Iterator[None]:
    """Capture what is called in the block as a graph; other threads may use the GPU meanwhile."""
    with capture_lock, torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        yield
