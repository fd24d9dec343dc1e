"""A stand-in for `pynvml` and for torch's CUDA devices, which this machine may lack."""

import sys
import threading
import time
from collections.abc import Callable
from itertools import chain, repeat
from types import SimpleNamespace

import pytest
import torch

GIB = 2**30
SECONDS = 60.0


class NVMLError(Exception):
    """What NVML raises."""


class FakeGpu:
    """One GPU; utilisations come in order, and the last one is repeated; an error is raised."""

    def __init__(self, uuid: str, *busy: int | NVMLError, used: int = 0, bus: int = 0) -> None:
        self.uuid, self.used, self.bus = uuid, used, bus
        self._busy = chain(busy, repeat(busy[-1] if busy else 0))

    def next_busy(self) -> int:
        found = next(self._busy)
        if isinstance(found, NVMLError):
            raise found
        return found


class FakeNvml:
    """The part of `pynvml` that senju uses; its GPUs are in NVML's order."""

    NVMLError = NVMLError

    def __init__(self, *gpus: FakeGpu) -> None:
        self.gpus = gpus
        self.num_open = 0
        self.start_error: NVMLError | None = None
        self.knows_uuids = True

    def nvmlInit(self) -> None:
        if self.start_error is not None:
            raise self.start_error
        self.num_open += 1

    def nvmlShutdown(self) -> None:
        self.num_open -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.65.06"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeGpu:
        return self._found(lambda gpu: self.knows_uuids and f"GPU-{gpu.uuid}" == uuid)

    def nvmlDeviceGetHandleByPciBusId(self, bus: str) -> FakeGpu:
        return self._found(lambda gpu: f"00000000:{gpu.bus:02x}:00.0" == bus)

    def nvmlDeviceGetUtilizationRates(self, gpu: FakeGpu) -> SimpleNamespace:
        return SimpleNamespace(gpu=gpu.next_busy(), memory=0)

    def nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu) -> SimpleNamespace:
        return SimpleNamespace(used=gpu.used, total=140 * GIB)

    def _found(self, is_it: Callable[[FakeGpu], bool]) -> FakeGpu:
        found = [gpu for gpu in self.gpus if is_it(gpu)]
        if not found:
            raise NVMLError("Not Found")
        return found[0]

    def install(self, monkeypatch: pytest.MonkeyPatch, visible: tuple[int, ...] | None = None) -> None:
        """Let senju find this NVML; torch sees these GPUs (all by default) in this order."""
        seen = [self.gpus[index] for index in (range(len(self.gpus)) if visible is None else visible)]
        monkeypatch.setitem(sys.modules, "pynvml", self)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: len(seen))
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"Fake {index}")
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: _properties(seen[index]))


def _properties(gpu: FakeGpu) -> SimpleNamespace:
    numbers = {"pci_domain_id": 0, "pci_bus_id": gpu.bus, "pci_device_id": 0}
    return SimpleNamespace(uuid=gpu.uuid, total_memory=139 * GIB, **numbers)


def sampler_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "gpu sampler"]


def wait_for(condition: Callable[[], object]) -> None:
    """Wait until it is true, up to a deadline."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "not so in time"
        time.sleep(0.001)
