"""`senju doctor`: on this machine, and for made-up machines."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from senju import machine
from senju.cli.doctor import limits
from senju.machine import Machine, available_cores, inspect_machine
from senju.trials.profiling import Probe
from tests.conftest import Invoke
from tests.facts import Facts, assert_mentions
from tests.fake_nvml import GIB, FakeGpu, FakeNvml

TRIED = Probe("tic_tac_toe", 100.0, 50.0, 33.0, "learning-bound 67 % (backward 40 %)")
ROOMY = Machine(
    processor="a good one",
    cores=8,
    core_limit=8.0,
    memory_bytes=16 * GIB,
    shared_memory_bytes=8 * GIB,
    disk_free_bytes=100 * GIB,
    torch_threads=8,
    busy_cores=0.1,
    gpus=("a fast one",),
)


def test_text_report_shows_the_machine_and_its_limits(invoke: Invoke) -> None:
    result = invoke("doctor", "--game", "tic_tac_toe")
    assert result.exit_code == 0
    for expected in (
        "processor",
        "memory free",
        "torch threads",
        "GPU",
        "tic_tac_toe, end to end",
        "steps/s",
    ):
        assert expected in result.stdout
    assert_mentions(result.stdout, "• A run of tic_tac_toe")


def test_report_as_json_holds_the_same(invoke: Invoke) -> None:
    record = json.loads(invoke("doctor", "--game", "tic_tac_toe", "--json").stdout)
    assert record["cores"] == available_cores()
    assert record["probe"]["game"] == "tic_tac_toe"
    assert record["probe"]["end_to_end"] > 0
    assert set(record["versions"]) >= {"senju", "torch", "numba"}
    assert record["limits"][0].startswith("A run of tic_tac_toe")


def test_unknown_game_is_explained(invoke: Invoke) -> None:
    result = invoke("doctor", "--game", "chess")
    assert result.exit_code == 2
    assert "unknown game 'chess'" in result.stderr


def test_machine_without_limits_has_only_the_bound_of_its_run() -> None:
    (bound,) = limits(ROOMY, TRIED)
    assert_mentions(bound, "tic_tac_toe", "learning-bound 67 % (backward 40 %)")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"core_limit": 2.5}, ("2.5 of 8 cores", "threads to 2")),
        ({"core_limit": 0.5}, ("0.5 of 8 cores", "threads to 1")),
        ({"busy_cores": 1.6}, ("Other programs", "1.6 cores")),
        ({"busy_cores": 7.9}, ("Other programs", "7.9 cores")),
        ({"cores": 1, "core_limit": 1.0}, ("One core", "collecting", "learning")),
        ({"memory_bytes": GIB}, ("memory", "free", "1.0 GiB")),
        ({"memory_bytes": 100 * 2**20}, ("memory", "free", "100 MiB")),
        ({"disk_free_bytes": 500 * 2**20}, ("disk", "500 MiB free", "checkpoints")),
        ({"gpus": ()}, "No GPU"),
    ],
)
def test_each_limit_is_found(changes: dict[str, object], expected: Facts) -> None:
    findings = limits(replace(ROOMY, **changes), TRIED)  # type: ignore[arg-type]  # fields of Machine
    assert len(findings) == 2
    assert_mentions(findings[1], expected)


def test_small_shared_memory_is_a_limit_only_where_workers_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(ROOMY, shared_memory_bytes=64 * 2**20)
    monkeypatch.setattr("os.memfd_create", None, raising=False)
    assert len(limits(small, TRIED)) == 1
    monkeypatch.delattr("os.memfd_create")
    assert limits(small, TRIED)[1].startswith("/dev/shm has only 64 MiB free")


def test_missing_shared_memory_is_no_small_shared_memory() -> None:
    assert len(limits(replace(ROOMY, shared_memory_bytes=None), TRIED)) == 1


def test_cache_that_cannot_be_written_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENJU_CACHE", "/proc/senju")
    assert "SENJU_CACHE" in limits(ROOMY, TRIED)[-1]


def test_this_machine_has_what_the_system_says() -> None:
    found = inspect_machine()
    assert found.cores >= 1
    assert 0 < found.core_limit <= found.cores
    assert found.memory_bytes > 0
    assert found.disk_free_bytes >= 0
    assert found.processor


@pytest.mark.parametrize(
    ("content", "cores"),
    [("max 100000", float("inf")), ("250000 100000", 2.5), ("50000 100000", 0.5), ("nonsense", float("inf"))],
)
def test_quota_of_a_container_is_read(tmp_path: Path, content: str, cores: float) -> None:
    (tmp_path / "cpu.max").write_text(f"{content}\n")
    assert machine._core_quota(tmp_path) == cores


@pytest.mark.parametrize(
    ("limit", "used", "left"),
    [("max", "5", 2**62), ("100", "30", 70), ("100", "130", 0), ("100", "?", 2**62)],
)
def test_memory_left_to_a_container_is_read(tmp_path: Path, limit: str, used: str, left: int) -> None:
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text(f"{used}\n")
    assert machine._memory_left_in_container(tmp_path) == left


def test_machine_without_control_groups_has_no_quota(tmp_path: Path) -> None:
    assert machine._core_quota(tmp_path) == float("inf")
    assert machine._memory_left_in_container(tmp_path) == 2**62


def test_report_shows_gpus_with_their_memory_and_driver(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeNvml(FakeGpu("a"), FakeGpu("b")).install(monkeypatch)
    shown = " ".join(invoke("doctor", "--game", "tic_tac_toe").stdout.split())
    for fact in ("Fake 0 (139.0 GiB)", "Fake 1 (139.0 GiB)", "driver 580.65.06", "NVML works"):
        assert fact in shown
    record = json.loads(invoke("doctor", "--game", "tic_tac_toe", "--json").stdout)
    assert record["gpus"] == ["Fake 0", "Fake 1"]
    assert record["gpu_memory_total"] == [139 * GIB, 139 * GIB]
    assert (record["gpu_driver"], record["gpu_problem"]) == ("580.65.06", "")


def test_report_without_nvml_says_what_to_install(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeNvml(FakeGpu("a")).install(monkeypatch)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    shown = " ".join(invoke("doctor", "--game", "tic_tac_toe").stdout.split())
    assert_mentions(shown, "NVML not available", "pip install nvidia-ml-py")


def test_report_without_a_gpu_has_no_fields_of_one(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    record = json.loads(invoke("doctor", "--game", "tic_tac_toe", "--json").stdout)
    assert record["gpus"] == []
    assert not [name for name in record if name.startswith("gpu_")]
