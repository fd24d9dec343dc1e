"""The resources of this machine: cores, memory, shared memory, disk, and GPUs."""

import math
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch

CGROUP = Path("/sys/fs/cgroup")
SHARED_MEMORY = Path("/dev/shm")
SYSTEM = Path("/proc")
NO_LIMIT = 2**62  # bytes, if no limit is known


@dataclass(frozen=True)
class Machine:
    """The resources of a machine that this process may use."""

    processor: str
    cores: int
    core_limit: float  # a container's CPU quota, at most `cores`
    memory_bytes: int | None  # free, and allowed by a container; None if unknown
    shared_memory_bytes: int | None  # None if there is no such file system
    disk_free_bytes: int | None  # None if unknown
    torch_threads: int
    busy_cores: float | None  # used by other programs; None if unknown
    gpus: tuple[str, ...]


def available_cores() -> int:
    """Cores that this process may use, by its affinity and by a container's quota."""
    return max(1, min(_affinity(), math.ceil(min(_core_quota(), 2**20))))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def even_learners(num_agents: int, num_cores: int) -> int:
    """The fewest learner processes that keep all cores busy while each agent learns once.

    >>> even_learners(4, 2), even_learners(3, 2), even_learners(5, 2), even_learners(2, 8)
    (2, 3, 3, 2)
    """
    counts = range(min(num_agents, num_cores), num_agents)
    return next((n for n in counts if math.ceil(num_agents / n) * num_cores <= num_agents), num_agents)


@contextmanager
def math_threads(count: int) -> Iterator[None]:
    """Set the number of torch's threads within a block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def inspect_machine(folder: Path = Path()) -> Machine:
    """Inspect this machine; `folder` is where runs are saved."""
    cores, memory = _affinity(), memory_available()
    return Machine(
        processor=processor_name(),
        cores=cores,
        core_limit=min(float(cores), _core_quota()),
        memory_bytes=memory if memory < NO_LIMIT else None,
        shared_memory_bytes=_free_bytes(SHARED_MEMORY),
        disk_free_bytes=_free_bytes(folder),
        torch_threads=torch.get_num_threads(),
        busy_cores=_busy_cores(),
        gpus=tuple(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())),
    )


def memory_available() -> int:
    """Bytes that are free and allowed by a container; `NO_LIMIT` if neither is known, as without `/proc`."""
    try:
        free = int(psutil.virtual_memory().available)
    except OSError:
        free = NO_LIMIT
    return min(free, _memory_left_in_container())


def private_bytes(pid: int | None) -> int:
    """Memory of a process without file mappings, with pages shared with the fork server; 0 if unknown."""
    memory = _memory_of(pid) if pid is not None else None
    return int(memory.rss - getattr(memory, "shared", 0)) if memory is not None else 0


def resident_bytes() -> int:
    """Memory of this process; 0 if unknown."""
    memory = _memory_of(os.getpid())
    return int(memory.rss) if memory is not None else 0


def _memory_of(pid: int) -> Any:
    """The memory of a process; None if it has ended, or without `/proc`."""
    try:
        return psutil.Process(pid).memory_info()
    except (psutil.Error, OSError):
        return None


def _free_bytes(folder: Path) -> int | None:
    """Bytes left on a folder's disk; None if there is no such folder."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def count_memory_kills() -> int:
    """The number of processes that the kernel has killed for lack of memory, since boot."""
    try:
        lines = (SYSTEM / "vmstat").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def _busy_cores(seconds: float = 0.2) -> float | None:
    """Cores in use while this process waits; None without `/proc`."""
    try:
        return psutil.cpu_percent(seconds) / 100 * (psutil.cpu_count() or 1)
    except OSError:
        return None


def processor_name() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def processor_has_bfloat16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the processor multiplies matrices of bfloat16 itself; false where this is unknown."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return False
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
    return not {"avx512_bf16", "amx_bf16"}.isdisjoint(flags)


def _core_quota(folder: Path = CGROUP) -> float:
    """Cores that a container's CPU quota allows (control groups, version 2)."""
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        return float("inf") if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return float("inf")


def _memory_left_in_container(folder: Path = CGROUP) -> int:
    """Bytes left under a container's memory limit (control groups, version 2)."""
    try:
        limit = (folder / "memory.max").read_text().strip()
        used = int((folder / "memory.current").read_text())
        return NO_LIMIT if limit == "max" else max(int(limit) - used, 0)
    except (OSError, ValueError):
        return NO_LIMIT
