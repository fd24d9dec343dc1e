"""GPU utilisation through NVML: which GPU it is of, its mean, and what happens without NVML."""

import sys
import threading

import pytest
import torch

from senju.gpus import GpuSample, GpuSampler, inspect_gpus, summarise
from tests.facts import assert_mentions
from tests.fake_nvml import GIB, SECONDS, FakeGpu, FakeNvml, NVMLError, sampler_threads, wait_for


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples follow each other at once."""
    monkeypatch.setattr("senju.gpus.INTERVAL", 0.001)


def samples_of(sampler: GpuSampler, count: int) -> list[GpuSample]:
    """The first samples, once there are as many."""
    found: list[GpuSample] = []

    def has_enough() -> bool:
        found.extend(sampler.take())
        return len(found) >= count

    with sampler:
        wait_for(has_enough)
    return found[:count]


@pytest.mark.usefixtures("quick")
def test_samples_hold_the_busy_share_and_the_memory_of_each_device(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeNvml(FakeGpu("a", 40, used=GIB), FakeGpu("b", 100, used=2 * GIB)).install(monkeypatch)
    samples = samples_of(GpuSampler(["cuda:1", "cuda", "cuda:1", "cpu"]), 4)
    assert [(sample.device, sample.busy, sample.memory) for sample in samples[:2]] == [
        (0, 0.4, GIB),
        (1, 1.0, 2 * GIB),
    ]
    assert {sample.memory_total for sample in samples} == {140 * GIB}
    assert samples[0].began < samples[0].ended == samples[2].began  # without gaps


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("knows_uuids", [True, False])
def test_device_is_found_whatever_numbers_torch_gives_it(
    monkeypatch: pytest.MonkeyPatch, knows_uuids: bool
) -> None:
    nvml = FakeNvml(FakeGpu("a", 1, bus=1), FakeGpu("b", 2, bus=2), FakeGpu("c", 3, bus=0x81))
    nvml.knows_uuids = knows_uuids
    nvml.install(monkeypatch, visible=(2, 0))  # as with CUDA_VISIBLE_DEVICES=2,0
    samples = samples_of(GpuSampler(["cuda:0", "cuda:1"]), 2)
    assert [(sample.device, sample.busy) for sample in samples] == [(0, 0.03), (1, 0.01)]


def test_busy_share_is_the_mean_and_memory_the_most() -> None:
    samples = [
        GpuSample(0, 0.0, 1.0, 1.0, memory=3, memory_total=10),
        GpuSample(0, 1.0, 2.0, 0.5, memory=5, memory_total=10),
        GpuSample(0, 2.0, 3.0, 0.0, memory=4, memory_total=10),
    ]
    assert summarise(samples) == {"gpu_busy": 0.5, "gpu_memory": 5, "gpu_memory_total": 10}
    assert summarise([]) == {}


def test_several_devices_count_as_one_with_the_memory_of_all() -> None:
    samples = [GpuSample(0, 0.0, 1.0, 0.8, 3, 10), GpuSample(1, 0.0, 1.0, 0.4, 5, 20)]
    assert summarise(samples) == {"gpu_busy": 0.6, "gpu_memory": 8, "gpu_memory_total": 30}


@pytest.mark.usefixtures("quick")
def test_samples_are_taken_once_and_also_after_closing(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml(FakeGpu("a", 50))
    nvml.install(monkeypatch)
    with GpuSampler(["cuda"]) as sampler:
        wait_for(lambda: len(sampler._samples) > 3)
    assert len(sampler.take()) > 3
    assert sampler.take() == []


def test_closing_ends_the_thread_and_releases_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml(FakeGpu("a", 50))
    nvml.install(monkeypatch)
    sampler = GpuSampler(["cuda"])
    sampler.start()
    assert len(sampler_threads()) == nvml.num_open == 1
    sampler.close()
    sampler.close()
    assert not sampler_threads()
    assert nvml.num_open == 0


@pytest.mark.usefixtures("quick")
def test_gpu_that_is_lost_is_reported_once_and_ends_sampling(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    nvml = FakeNvml(FakeGpu("a", 50, 60, 70, NVMLError("GPU is lost")))  # the first one is the test
    nvml.install(monkeypatch)
    with GpuSampler(["cuda"]) as sampler:
        wait_for(lambda: not sampler_threads())
        assert [sample.busy for sample in sampler.take()] == [0.6, 0.7]
    assert nvml.num_open == 0
    [record] = caplog.records
    assert_mentions(record.getMessage(), "GPU is lost", "no longer measured")


def refuse_to_start(nvml: FakeNvml) -> None:
    nvml.start_error = NVMLError("Driver Not Loaded")


def hide_the_gpu(nvml: FakeNvml) -> None:
    nvml.gpus[0].uuid, nvml.gpus[0].bus = "other", 99


@pytest.mark.parametrize(
    ("spoil", "fact"), [(refuse_to_start, "Driver Not Loaded"), (hide_the_gpu, "Not Found")]
)
def test_nvml_that_fails_is_reported_once_and_nothing_is_sampled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, spoil: object, fact: str
) -> None:
    nvml, visible = FakeNvml(FakeGpu("a", 50)), FakeNvml(FakeGpu("a", 50))
    visible.install(monkeypatch)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert callable(spoil)
    spoil(nvml)
    with GpuSampler(["cuda"]) as sampler:
        assert not sampler_threads()
    assert sampler.take() == []
    assert nvml.num_open == 0
    [record] = caplog.records
    assert_mentions(record.getMessage(), fact)
    assert fact in inspect_gpus().problem


def test_without_nvidia_ml_py_the_warning_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    FakeNvml(FakeGpu("a", 50)).install(monkeypatch)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with GpuSampler(["cuda"]):
        assert not sampler_threads()
    [record] = caplog.records
    assert_mentions(record.getMessage(), "pip install nvidia-ml-py")


def test_run_on_the_cpu_starts_no_thread_and_loads_no_nvml(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)  # importing it would warn
    with GpuSampler(["cpu"]) as sampler:
        assert not sampler_threads()
    assert sampler.take() == []
    assert not caplog.records


def test_report_holds_memory_and_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml(FakeGpu("a", 50), FakeGpu("b", 50))
    nvml.install(monkeypatch)
    assert inspect_gpus() == ((139 * GIB, 139 * GIB), "580.65.06", "")
    assert nvml.num_open == 0


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_real_gpu_is_busy_while_it_computes_and_its_memory_is_counted() -> None:
    pytest.importorskip("pynvml", reason="needs nvidia-ml-py")
    matrix = torch.ones(4096, 4096, device="cuda")
    size = matrix.element_size() * matrix.nelement()
    done = threading.Timer(SECONDS, lambda: None)
    done.start()
    busiest, memory = 0.0, 0
    with GpuSampler(["cuda"]) as sampler:
        while busiest < 0.5 and done.is_alive():
            for _ in range(100):
                matrix = (matrix @ matrix).clamp(-1.0, 1.0)
            torch.cuda.synchronize()
            for sample in sampler.take():
                busiest, memory = max(busiest, sample.busy), sample.memory
                assert size < sample.memory <= sample.memory_total
    done.cancel()
    assert busiest >= 0.5
    assert memory
    report = inspect_gpus()
    assert (report.problem, len(report.memory_total)) == ("", torch.cuda.device_count())
    assert report.driver
    assert not sampler_threads()
