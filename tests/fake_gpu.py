"""A GPU that is not there: its measurements are given, and nothing is computed on it."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from senju.backends.measuring import Announce
from senju.backends.plan import Plan
from senju.cuda import Kernels
from senju.runs import run_config


@dataclass
class FakeMeter:
    """An H200 with 16 cores and a Shogi network, unless the test says otherwise."""

    device_name: str = "NVIDIA H200"
    has_bfloat16: bool = True
    cores: int = 16
    device_bytes: int = 140 * 2**30
    host_bytes: int = 200 * 2**30
    core_steps: float = 550_000.0
    releases_lock: bool = True
    core_evaluates: float = 2_000.0
    best: float = 1_100_000.0  # of eager kernels
    half_at: int = 400  # rows at which half of the best rate is reached
    compiled_gain: float = 2.4
    most_rows: int = 2**20  # larger batches do not fit
    asked: list[tuple[int, str, Kernels]] = field(default_factory=list)

    def device_evaluates(self, num_rows: int, precision: str, kernels: Kernels) -> float:
        self.asked.append((num_rows, precision, kernels))
        if num_rows > self.most_rows:
            return 0.0
        gain = self.compiled_gain if kernels != "eager" else 1.0
        return gain * self.best * num_rows / (num_rows + self.half_at)


Install = Callable[[FakeMeter], FakeMeter]


def install(patch: pytest.MonkeyPatch, meter: FakeMeter) -> FakeMeter:
    """Let new runs find this GPU."""

    def new_meter(plan: Plan, device: str, announce: Announce, num_runs: int = 1) -> FakeMeter:
        announce("measuring this machine: a fake one")
        meter.cores //= num_runs
        return meter

    patch.setattr(run_config, "find_gpu", lambda: "cuda")
    patch.setattr(run_config, "require_device", lambda device: None)
    patch.setattr(run_config, "MachineMeter", new_meter)
    return meter
