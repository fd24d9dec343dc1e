"""What a machine offers, and what a container or an affinity leaves of it."""

import math
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from senju.machine import (
    _core_quota,
    _memory_left_in_container,
    available_cores,
    inspect_machine,
)

UNLIMITED = 2**62


@pytest.mark.parametrize(
    ("content", "cores"),
    [
        ("max 100000\n", math.inf),
        ("150000 100000\n", 1.5),
        ("400000 100000\n", 4.0),
        ("1000 50000", 0.02),
        ("", math.inf),
        ("100000", math.inf),
        ("much 100000", math.inf),
    ],
)
def test_core_quota_of_a_control_group(tmp_path: Path, content: str, cores: float) -> None:
    (tmp_path / "cpu.max").write_text(content)
    assert _core_quota(tmp_path) == cores


def test_no_control_group_means_no_core_quota(tmp_path: Path) -> None:
    assert _core_quota(tmp_path / "absent") == math.inf


@pytest.mark.parametrize(
    ("limit", "used", "left"),
    [
        ("max\n", "123\n", UNLIMITED),
        ("1000\n", "300\n", 700),
        ("1000\n", "1500\n", 0),
        (f"{64 * 2**30}\n", f"{2**30}\n", 63 * 2**30),
        ("much\n", "300\n", UNLIMITED),
        ("1000\n", "\n", UNLIMITED),
    ],
)
def test_memory_left_under_a_control_groups_limit(tmp_path: Path, limit: str, used: str, left: int) -> None:
    (tmp_path / "memory.max").write_text(limit)
    (tmp_path / "memory.current").write_text(used)
    assert _memory_left_in_container(tmp_path) == left


def test_no_control_group_means_no_memory_limit(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("1000\n")
    assert _memory_left_in_container(tmp_path) == UNLIMITED
    assert _memory_left_in_container(tmp_path / "absent") == UNLIMITED


def test_machine_is_as_the_system_says(tmp_path: Path) -> None:
    machine = inspect_machine(tmp_path)
    assert machine.cores == available_cores()
    assert 0 < machine.core_limit <= machine.cores
    assert 0 < machine.memory_bytes <= psutil.virtual_memory().total
    assert machine.disk_free_bytes > 0
    assert machine.processor
    assert machine.torch_threads >= 1


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinities")
def test_cores_are_those_the_affinity_leaves() -> None:
    program = (
        "import os\n"
        "os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})\n"
        "from senju.machine import available_cores, inspect_machine\n"
        "print(available_cores(), inspect_machine().cores, inspect_machine().core_limit <= 1.0)\n"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout.split() == ["1", "1", "True"]
