"""What a run records of its engine: events, samples, and the number of steps that were learned from."""

import json
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import senju
from senju.backends.serial import Serial
from senju.errors import WorkerError
from senju.events import new_event
from senju.runs.control import ask
from senju.runs.monitor import Monitor, read_events
from senju.runs.run import Run
from senju.training.api import prepare
from senju.training.trainer import TrainingListener, TrainingProgress
from tests.backends.trap_games import order, trap_plan
from tests.conftest import Invoke, Train
from tests.facts import assert_mentions, mentions
from tests.fake_nvml import GIB, FakeGpu, FakeNvml, NVMLError, sampler_threads, wait_for

TWO_SHARDS = {"collect": {"num_games": 32, "games_per_shard": 16, "rollout_steps": 8}}


def trap_settings(folder: Path, **backend: Any) -> dict[str, Any]:
    """A run of the game that goes wrong on demand: 3 shards of 2 games, 4 steps."""
    plan = trap_plan(folder, spared=0)
    return {
        "game": plan.game,
        "seed": plan.seed,
        "model": plan.policies[0].model,
        "collect": {"num_games": 6, "games_per_shard": 2, "rollout_steps": 4},
        "algorithm": {"name": "ppo", "minibatch_size": 24, "epochs": 1},
        "evaluation": {"interval": 0, "opponents": []},
        "backend": {"name": "threads", "num_workers": 2, **backend},
        "threads": 1,
    }


@pytest.fixture
def crippled(tmp_path: Path) -> Run:
    """A finished run of 6 updates that lost one of its 3 shards in the third."""
    order(trap_plan(tmp_path), "raise", shard=1, at=9, always=True)
    settings = trap_settings(tmp_path, shard_attempts=1)
    return senju.train(run=tmp_path / "run", total_steps=6 * 24, **settings)


def test_only_steps_that_were_played_are_counted(crippled: Run) -> None:
    assert [record["steps"] for record in crippled.metrics] == [24, 48, 64, 80, 96, 112]


def test_run_that_lost_a_shard_says_so_at_its_end(crippled: Run, invoke: Invoke) -> None:
    assert crippled.summary()["set_aside"] == 1
    shown = invoke("status", crippled.path)
    assert "shards set aside" in shown.stdout
    resumed = invoke("train", "--resume", crippled.path, "--set", f"total_steps={8 * 24}")
    assert crippled.summary()["set_aside"] == 2  # once in each session
    assert_mentions(resumed.stdout, "1 shard", "set aside")


def test_steps_of_a_run_that_lost_a_shard_go_on_from_its_checkpoint(crippled: Run, tmp_path: Path) -> None:
    (tmp_path / "orders").unlink()  # the shard is tried again, and plays
    run = senju.train(resume=crippled.path, total_steps=8 * 24)
    assert [record["steps"] for record in run.metrics[-2:]] == [136, 160]


def test_events_before_an_error_are_kept_with_their_time(tmp_path: Path) -> None:
    order(trap_plan(tmp_path), "raise", shard=0, at=9, always=True)
    began = datetime.now(UTC)
    with pytest.raises(WorkerError, match=mentions("shard 0", "failing_shard=set_aside")):
        senju.train(run=tmp_path / "run", **trap_settings(tmp_path, shard_attempts=3, failing_shard="stop"))
    events = read_events(tmp_path / "run")
    assert [event["kind"] for event in events] == ["worker_failed", "worker_failed"]
    assert all("RuntimeError: the trap is sprung" in event["message"] for event in events)
    times = [datetime.fromisoformat(event["time"]) for event in events]
    assert began.timestamp() - 0.001 <= times[0].timestamp() <= times[1].timestamp()
    assert (tmp_path / "run" / "timeline.svg").exists()


def test_event_is_marked_where_it_happened_not_where_it_was_written(tmp_path: Path) -> None:
    monitor = Monitor(tmp_path, Serial())
    event = new_event("worker_lost", "worker 1 is gone\nand more")._replace(time=time.time() - 5.0)
    monitor.note(event, update=7)
    [mark] = monitor.timeline.marks()
    assert mark.time == pytest.approx(time.monotonic() - 5.0, abs=0.5)
    assert mark.message == "worker 1 is gone"
    [record] = read_events(tmp_path)
    assert (record["update"], record["kind"], record["worker"]) == (7, "worker_lost", None)


def test_folder_that_cannot_be_written_costs_events_and_no_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "events.jsonl").mkdir()
    Monitor(tmp_path, Serial()).note(new_event("reset", "text"), update=1)
    assert "cannot write" in caplog.text


def test_event_after_a_cut_off_line_has_a_line_of_its_own_wherever_it_was_cut(tmp_path: Path) -> None:
    monitor, file = Monitor(tmp_path, Serial()), tmp_path / "events.jsonl"
    monitor.note(new_event("reset", "first"), update=1)
    monitor.note(new_event("reset", "second"), update=2)
    whole = file.read_bytes()
    first = whole.index(b"\n") + 1
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        is_whole = [length >= first - 1, length >= len(whole) - 1]  # the newline alone may be missing
        assert [event["update"] for event in read_events(tmp_path)] == [1, 2][: sum(is_whole)]
        monitor.note(new_event("reset", "third"), update=3)
        assert [event["update"] for event in read_events(tmp_path)] == [*[1, 2][: sum(is_whole)], 3]
        assert file.read_bytes().count(b"\n") == sum(is_whole) + 1


def test_status_and_resume_go_on_after_a_cut_off_event(train_small: Train, invoke: Invoke) -> None:
    run = train_small(updates=4, max_updates=2)
    (run.path / "events.jsonl").write_text('{"update": 1, "kind": "set_aside"}\n{"update": 2, "ki')
    assert json.loads(invoke("status", run.path, "--json").stdout)["set_aside"] == 1
    assert json.loads(invoke("train", "--resume", run.path, "--json").stdout)["finished"]
    assert json.loads(invoke("status", run.path, "--json").stdout)["set_aside"] == 1


def test_samples_hold_busy_workers_slots_and_memory(
    train_small: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("senju.runs.monitor.SAMPLE_SECONDS", 0.0)
    run = train_small(updates=5, **TWO_SHARDS, backend={"name": "threads", "num_workers": 2})
    for record in run.metrics:
        engine = record["engine"]
        assert engine["workers"] == len(engine["busy"]) == 2
        assert all(0.0 <= share <= 1.0 for share in engine["busy"])
        slots = [engine[f"slots_{state}"] for state in ("ready", "playing", "held", "free")]
        assert sum(slots) == 2
        assert engine["memory_bytes"] > 10**7
        assert engine["restarts"] == engine["set_aside"] == 0


class PausesAt(TrainingListener):
    """Pauses the run for a while after an update, as another terminal would."""

    def __init__(self, path: Path, update: int, seconds: float) -> None:
        self.path, self.update, self.seconds = path, update, seconds
        self.paused = 0.0  # seconds, at least

    def on_update(self, progress: TrainingProgress) -> None:
        if progress.update == self.update:
            threading.Thread(target=self._pause).start()

    def _pause(self) -> None:
        ask(self.path, "pause", wait=30.0)
        began = time.monotonic()
        threading.Event().wait(self.seconds)  # the pause itself
        self.paused = time.monotonic() - began
        ask(self.path, "resume")


@pytest.mark.slow
def test_pause_is_no_training_time(train_small: Train, tmp_path: Path) -> None:
    listener = PausesAt(tmp_path / "run", update=100, seconds=2.0)
    began = time.monotonic()
    run = train_small(updates=300, **TWO_SHARDS, listener=listener)
    assert run.metrics[-1]["seconds"] + listener.paused <= time.monotonic() - began


def test_run_that_was_made_and_never_trained_has_not_begun(invoke: Invoke, tmp_path: Path) -> None:
    prepare("tic_tac_toe", tmp_path / "new", None, None, {})
    shown = invoke("status", tmp_path / "new")
    assert "not begun" in shown.stdout
    assert "--resume" in shown.stdout.replace("\n", " ")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """A GPU that is 92 % busy, which runs on the CPU take for theirs."""
    nvml = FakeNvml(FakeGpu("a", 92, used=3 * GIB))
    nvml.install(monkeypatch)
    monkeypatch.setattr("senju.gpus._cuda_indices", lambda devices: [0])
    monkeypatch.setattr("senju.gpus.INTERVAL", 0.001)
    monkeypatch.setattr("senju.runs.monitor.SAMPLE_SECONDS", 0.0)
    return nvml


MEASURED = {"gpu_busy": 0.92, "gpu_memory": 3 * GIB, "gpu_memory_total": 140 * GIB}


class AsksForStatus(TrainingListener):
    """Asks the run for its status after every update, as another terminal would."""

    def __init__(self, path: Path) -> None:
        self.path, self.answers = path, list[dict[str, Any]]()

    def on_update(self, progress: TrainingProgress) -> None:
        self.answers.append(ask(self.path, "status"))


def test_load_of_the_gpu_is_in_metrics_status_summary_and_timeline(
    train_small: Train, tmp_path: Path, gpu: FakeNvml, invoke: Invoke
) -> None:
    listener = AsksForStatus(tmp_path / "run")
    run = train_small(updates=30, listener=listener)
    samples = [record["engine"] for record in run.metrics if "gpu_busy" in record["engine"]]
    assert samples
    assert all({name: sample[name] for name in MEASURED} == MEASURED for sample in samples)
    measured = [answer for answer in listener.answers if "gpu_busy" in answer]
    assert {name: measured[-1][name] for name in MEASURED} == MEASURED
    assert_mentions(measured[-1]["explanation"], "the GPU was busy 92 %")
    summary = json.loads(invoke("status", run.path, "--json").stdout)
    assert {name: summary[name] for name in MEASURED} == pytest.approx(MEASURED)
    shown = " ".join(invoke("status", run.path).stdout.split())
    assert_mentions(shown, "GPU", "92 % busy, 3.0 GiB of 140.0 GiB")
    assert "gpu 0" in (run.path / "timeline.svg").read_text()
    assert gpu.num_open == 0
    assert not sampler_threads()


def test_load_of_the_gpu_is_in_tensorboard(train_small: Train, gpu: FakeNvml) -> None:
    run = train_small(updates=30)
    written = b"".join(file.read_bytes() for file in (run.path / "tensorboard").iterdir())
    assert all(f"engine/{name}".encode() in written for name in MEASURED)


def test_run_on_the_cpu_has_no_fields_of_a_gpu(
    train_small: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("senju.runs.monitor.SAMPLE_SECONDS", 0.0)
    listener = AsksForStatus(tmp_path / "run")
    run = train_small(updates=3, listener=listener)
    everything = json.dumps([run.metrics, listener.answers, run.summary()])
    assert "gpu_" not in everything
    assert "the GPU was busy" not in everything


def test_gpu_that_is_lost_ends_no_training(
    train_small: Train, gpu: FakeNvml, caplog: pytest.LogCaptureFixture
) -> None:
    gpu.gpus = (FakeGpu("a", 50, 50, NVMLError("GPU is lost")),)
    assert len(train_small(updates=30).metrics) == 30
    assert caplog.text.count("GPU is lost") == 1
    assert not sampler_threads()


def test_failed_run_leaves_no_sampler_behind(tmp_path: Path, gpu: FakeNvml) -> None:
    order(trap_plan(tmp_path), "raise", shard=0, at=9, always=True)
    with pytest.raises(WorkerError):
        senju.train(run=tmp_path / "run", **trap_settings(tmp_path, failing_shard="stop"))
    assert not sampler_threads()
    assert gpu.num_open == 0


def test_what_the_gpu_did_in_a_pause_is_drawn_and_does_not_count(tmp_path: Path, gpu: FakeNvml) -> None:
    monitor = Monitor(tmp_path, Serial(), ["cuda"])
    with monitor.sampling_gpus():
        wait_for(lambda: monitor._gpus._samples)
        monitor.pause_ended()
    assert monitor.timeline.gpu_samples()
    monitor._gpus.take()
    assert monitor.gpu_busy is None
