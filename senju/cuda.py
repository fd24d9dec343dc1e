"""Shared by everything that computes on a GPU: finding it, its memory, a lock for compiling and capturing."""

import contextlib
import gc
import logging
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Literal, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from senju.errors import DeviceMemoryError
from senju.machine import math_threads, memory_available

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
# eager: torch's own; repeatable: compiled, the same bits in each process; fastest: chosen by timing them
Kernels = Literal["eager", "repeatable", "fastest"]

# torch compiles and captures for one thread at a time; the others only replay meanwhile
capture_lock = threading.RLock()
_numbers = count()
_WARM_UPS = 3
_capture_streams: dict[int, Any] = {}  # by device
_ERROR_LENGTH = 300  # characters of torch's message in ours


def is_cuda(device: object) -> bool:
    """Whether a device's name is that of a GPU."""
    return isinstance(device, str) and device.partition(":")[0] == "cuda"


def find_gpu() -> str | None:
    """`cuda` if this process can compute on a GPU."""
    try:
        if torch.cuda.is_available():
            torch.zeros(1, device="cuda").cpu()
            return "cuda"
    except (RuntimeError, AssertionError) as error:
        logger.warning("the GPU cannot be used: %s", str(error).partition("\n")[0])
    return None


def has_native_bfloat16(device: str) -> bool:
    """Whether a GPU computes bfloat16 itself instead of emulating it."""
    with torch.cuda.device(device):
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))


def versions_of(device: str) -> dict[str, str]:
    """What decides the bits that a GPU computes, besides senju; empty for the CPU."""
    if not is_cuda(device):
        return {}
    name = torch.cuda.get_device_name(torch.device(device))
    return {"GPU": name, "torch": str(torch.__version__), "CUDA": str(torch.version.cuda)}


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that a GPU's memory is exhausted."""
    if isinstance(error, torch.OutOfMemoryError | DeviceMemoryError):
        return True
    text = str(error)
    has_no_room = "CUDA error: out of memory" in text or "CUDA out of memory" in text
    return isinstance(error, RuntimeError) and (has_no_room or "STATUS_ALLOC_FAILED" in text)


@contextlib.contextmanager
def reporting_memory() -> Iterator[None]:
    """Raise DeviceMemoryError, which no worker retries, where a GPU's memory is exhausted."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, DeviceMemoryError) or not is_out_of_memory(error):
            raise
        raise DeviceMemoryError(str(error).partition("\n")[0][:_ERROR_LENGTH]) from None


def release_memory() -> None:
    """Give memory that nothing uses any more back to the GPU."""
    gc.collect()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch has no types for it
        torch.cuda.empty_cache()


def default_kernels(device: torch.device) -> Kernels:
    """Compiled kernels on a GPU; the CPU has kernels of its own."""
    return "repeatable" if device.type == "cuda" else "eager"


def apply_kernels(kernels: Kernels) -> None:
    """Set cuDNN's flags for this process: only `fastest` may choose kernels by timing them."""
    for source in ("_inductor", "_dynamo"):  # advice for people who write compilers
        warnings.filterwarnings("ignore", category=UserWarning, module=rf"torch\.{source}\.")
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
            with contextlib.suppress(RuntimeError):  # the next call would raise the error again
                torch.zeros(1, device="cuda")
            return
        self._address = memory.ctypes.data

    def release(self) -> None:
        """Undo the registration; may be called twice. No copy may be under way."""
        address, self._address = self._address, 0
        if address:
            torch.cuda.synchronize()
            runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]  # as above
            runtime.cudaHostUnregister(address)
        self._memory = None


@contextlib.contextmanager
def capturing(graph: torch.cuda.CUDAGraph, pool: Any = None) -> Iterator[None]:
    """Capture what is called in the block as a graph, which may be replayed on any stream.

    Other threads may use the GPU meanwhile. So a stream of its own is captured: torch hands out few streams
    again and again, but only captures use those of high priority. Garbage stays: it may hold graphs, which
    CUDA does not let a thread destroy while it captures.
    """
    with capture_lock:
        device, was_enabled = torch.cuda.current_device(), gc.isenabled()
        if device not in _capture_streams:
            _capture_streams[device] = torch.cuda.Stream(priority=-1)  # type: ignore[no-untyped-call]  # of torch
        stream = _capture_streams[device]
        captured = torch.cuda.graph(graph, pool, stream, capture_error_mode="thread_local")
        gc.disable()
        try:
            with captured:
                yield
        finally:
            if was_enabled:
                gc.enable()


def recorded(stream: Any, run: Callable[[], T]) -> tuple[torch.cuda.CUDAGraph, T]:
    """Call a function a few times on a stream, which compiles and allocates; then capture a call.

    Compiled code is compiled again for another number of math threads, so this is done with one.
    """
    with capture_lock, math_threads(1), torch.no_grad():
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                run()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with capturing(graph):
            return graph, run()
