import resource
import subprocess
import sys

import pytest

from senju.memory import keep_freed_memory

COUNT_FAULTS = """
import resource, sys
import torch
from senju.memory import keep_freed_memory

if sys.argv[1] == "keep":
    assert keep_freed_memory()
torch.set_num_threads(1)

def work():
    for _ in range(50):
        large = torch.ones(40_000_000 // 4)  # beyond what glibc keeps by itself
        del large

work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc")
def test_freed_memory_is_used_again_without_page_faults() -> None:
    faults = {}
    for mode in ("keep", "leave"):
        command = [sys.executable, "-c", COUNT_FAULTS, mode]
        faults[mode] = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert faults["leave"] > 50 * 40_000_000 // resource.getpagesize() // 600  # huge pages: 512 at once
    assert faults["keep"] < faults["leave"] / 10


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    assert not keep_freed_memory()


def test_another_system_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not keep_freed_memory()
