"""How busy a run's GPUs are, and how much of their memory is in use, read through NVML (optional)."""

import importlib
import logging
import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Any, NamedTuple

import torch

logger = logging.getLogger(__name__)

INTERVAL = 0.2  # seconds between two samples; NVML itself averages over about as long
KEPT_SAMPLES = 20_000
CLOSING_SECONDS = 5.0  # a driver that hangs must not keep a run from ending
INSTALL = "pip install nvidia-ml-py"  # the extra `gpu` of senju
GPU_FIELDS = ("gpu_busy", "gpu_memory", "gpu_memory_total")  # a share, and bytes


class GpuSample(NamedTuple):
    """A GPU's load between two times of `time.monotonic`."""

    device: int  # torch's index
    began: float
    ended: float
    busy: float  # share of the time in which a kernel ran, of any program
    memory: int  # bytes in use, by all programs
    memory_total: int


class GpuReport(NamedTuple):
    """The GPUs that torch sees, and whether NVML can watch them."""

    memory_total: tuple[int, ...]  # bytes of each
    driver: str | None  # None if NVML is missing or fails
    problem: str  # why NVML cannot be used, and what to do; empty if it can


class NvmlUnavailableError(Exception):
    """NVML is not installed, or does not work here; the message says why."""


class GpuSampler:
    """Samples the CUDA devices among `devices` in a thread; without any, it starts none.

    If NVML is missing or fails, one warning says why, and sampling ends.
    """

    def __init__(self, devices: Iterable[str] = ()) -> None:
        self._devices = sorted(set(devices))
        self._samples: deque[GpuSample] = deque(maxlen=KEPT_SAMPLES)
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start sampling, if there is a CUDA device to sample."""
        indices = _cuda_indices(self._devices)
        if not indices:
            return
        try:
            nvml, handles = _open(indices)
        except NvmlUnavailableError as error:
            logger.warning("GPU utilisation is not measured: %s", error)
            return
        self._thread = threading.Thread(
            target=self._run, args=(nvml, handles), name="gpu sampler", daemon=True
        )
        self._thread.start()

    def take(self) -> list[GpuSample]:
        """The samples since the last call; also after closing."""
        return [self._samples.popleft() for _ in range(len(self._samples))]

    def close(self) -> None:
        """End the thread; may be called twice."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(CLOSING_SECONDS)

    def __enter__(self) -> "GpuSampler":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _run(self, nvml: Any, handles: dict[int, Any]) -> None:
        began = monotonic()
        try:
            while not self._closed.wait(INTERVAL):
                ended = monotonic()
                self._samples += [_sample(nvml, index, handles[index], began, ended) for index in handles]
                began = ended
        except nvml.NVMLError as error:
            logger.warning("GPU utilisation is no longer measured: NVML failed: %s", error)
        finally:
            _shut_down(nvml)


def mean_load(samples: Iterable[GpuSample]) -> float:
    """The mean busy share over the time of some samples.

    >>> mean_load([GpuSample(0, 0.0, 3.0, 1.0, 5, 9), GpuSample(0, 3.0, 4.0, 0.2, 5, 9)])
    0.8
    """
    lengths, busy = 0.0, 0.0
    for sample in samples:
        lengths += sample.ended - sample.began
        busy += sample.busy * (sample.ended - sample.began)
    return busy / lengths if lengths else 0.0


def summarise(samples: Sequence[GpuSample]) -> dict[str, float]:
    """The mean share of busy time, and the most memory in use; empty without samples.

    Several devices count as one, with the memory of all.

    >>> samples = [GpuSample(0, 0.0, 1.0, 1.0, 5, 9), GpuSample(0, 1.0, 2.0, 0.5, 3, 9)]
    >>> summarise(samples)
    {'gpu_busy': 0.75, 'gpu_memory': 5, 'gpu_memory_total': 9}
    """
    if not samples:
        return {}
    used: dict[int, int] = defaultdict(int)
    for sample in samples:
        used[sample.device] = max(used[sample.device], sample.memory)
    totals = {sample.device: sample.memory_total for sample in samples}
    busy = round(mean_load(samples), 4)
    return dict(zip(GPU_FIELDS, (busy, sum(used.values()), sum(totals.values())), strict=True))


def inspect_gpus() -> GpuReport:
    """The memory of the GPUs that torch sees, the driver, and whether NVML can watch them."""
    indices = list(range(torch.cuda.device_count()))
    memory = tuple(torch.cuda.get_device_properties(index).total_memory for index in indices)
    if not indices:
        return GpuReport((), None, "")
    try:
        nvml, _ = _open(indices)
    except NvmlUnavailableError as error:
        return GpuReport(memory, None, str(error))
    try:
        return GpuReport(memory, nvml.nvmlSystemGetDriverVersion(), "")
    except nvml.NVMLError as error:
        return GpuReport(memory, None, f"NVML failed: {error}")
    finally:
        _shut_down(nvml)


def _cuda_indices(devices: Iterable[str]) -> list[int]:
    """The indices of the CUDA devices in torch; `cuda` alone is the current one."""
    found = [device for device in map(torch.device, devices) if device.type == "cuda"]
    current = [torch.cuda.current_device() for device in found if device.index is None]
    return sorted({*current, *(device.index for device in found if device.index is not None)})


def _open(indices: Iterable[int]) -> tuple[Any, dict[int, Any]]:
    """NVML and its handles of these devices, each read once as a test."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        raise NvmlUnavailableError(f"nvidia-ml-py is not installed; {INSTALL}") from None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise NvmlUnavailableError(f"NVML does not start: {error}") from None
    try:
        handles = {index: _handle_of(nvml, index) for index in indices}
        for index, handle in handles.items():
            _sample(nvml, index, handle, 0.0, 0.0)
    except (nvml.NVMLError, AttributeError) as error:  # an older torch has no PCI numbers
        _shut_down(nvml)
        raise NvmlUnavailableError(f"NVML cannot read the GPU: {error}") from None
    return nvml, handles


def _handle_of(nvml: Any, index: int) -> Any:
    """NVML's handle of torch's device, whose number CUDA_VISIBLE_DEVICES may have changed."""
    found: Any = torch.cuda.get_device_properties(index)
    try:
        return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{found.uuid}")
    except nvml.NVMLError:  # for example a part of a GPU (MIG)
        bus = f"{found.pci_domain_id:08x}:{found.pci_bus_id:02x}:{found.pci_device_id:02x}.0"
        return nvml.nvmlDeviceGetHandleByPciBusId(bus)


def _sample(nvml: Any, index: int, handle: Any, began: float, ended: float) -> GpuSample:
    busy = nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    return GpuSample(index, began, ended, busy, memory.used, memory.total)


def _shut_down(nvml: Any) -> None:
    try:
        nvml.nvmlShutdown()
    except nvml.NVMLError as error:
        logger.debug("NVML does not shut down: %s", error)
