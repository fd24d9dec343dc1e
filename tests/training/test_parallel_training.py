"""Whole runs with several workers have the bytes of the serial run, also when workers die."""

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

import senju
from senju.algorithms.ppo import PPO
from senju.collect.slots import Rollout
from senju.config import merged
from senju.runs.checkpoint import load_checkpoint
from senju.runs.control import ask
from senju.runs.monitor import read_events
from senju.runs.run import Run
from tests.backends.common import children_of_this_process
from tests.conftest import DECISIONS_PER_UPDATE, SMALL, Options, Start, Train, WaitUntil

FOUR_SHARDS = {"collect": {"num_games": 32, "games_per_shard": 8, "rollout_steps": 8}}


def whole_system(run: Run) -> tuple[bytes, dict[str, Any]]:
    """The newest checkpoint's bytes: weights, optimizer, shards; and what else it holds but the time."""
    folder = run.checkpoints.latest()
    state = load_checkpoint(folder).state
    return (folder / "tensors.safetensors").read_bytes(), {**state, "seconds": None}


def backend(name: str, num_workers: int) -> dict[str, Any]:
    return {"backend": {"name": name, "num_workers": num_workers}}


@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_threads_give_the_bytes_of_the_serial_run(train_small: Train, num_workers: int) -> None:
    expected = train_small("serial", updates=10, **FOUR_SHARDS)
    run = train_small("threads", updates=10, **FOUR_SHARDS, **backend("threads", num_workers))
    assert whole_system(run) == whole_system(expected)


@pytest.mark.slow
def test_processes_give_the_bytes_of_the_serial_run(train_small: Train) -> None:
    game = "connect_four"
    expected = whole_system(train_small("serial", game, updates=10, **FOUR_SHARDS))
    for num_workers in (1, 2, 3, 4):
        settings = FOUR_SHARDS | backend("processes", num_workers)
        assert whole_system(train_small(f"processes-{num_workers}", game, updates=10, **settings)) == expected


class Training:
    """A run of the installed command that goes on for thousands of small updates."""

    def __init__(self, start: Start, wait_until: WaitUntil, path: Path, options: list[str]) -> None:
        self.path = path
        self.process = start("train", "tic_tac_toe", "--run", path, *options, start_new_session=True)
        self._wait = wait_until
        self.wait_for(lambda: self.status().get("update", 0) > 2)

    def wait_for(self, condition: Callable[[], object]) -> None:
        self._wait(condition, self.process)

    def status(self) -> dict[str, Any]:
        if not (self.path / "control.sock").exists():
            return {}
        return ask(self.path, "status")

    def pids(self) -> list[int]:
        return [worker["pid"] for worker in self.status()["backend"]["workers"] if worker["pid"]]

    def finish(self) -> Run:
        _, errors = self.process.communicate(timeout=120)
        assert self.process.returncode == 0, errors
        return Run(self.path)


Begin = Callable[..., Training]
UPDATES = 300  # enough to be disturbed in the midst of, on a machine that is busy otherwise


@pytest.fixture
def begin(start_senju: Start, wait_until: WaitUntil, tmp_path: Path, small_options: Options) -> Begin:
    def begin(name: str = "parallel", *more: object, updates: int = UPDATES, **changes: Any) -> Training:
        settings = FOUR_SHARDS | {"checkpoint": {"interval": 20}} | changes
        options = [*small_options(updates=updates, **settings), "--workers", "2", *map(str, more)]
        return Training(start_senju, wait_until, tmp_path / name, options)

    return begin


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, Any]]:
    changes = {"total_steps": UPDATES * DECISIONS_PER_UPDATE, "checkpoint": {"interval": 20}}
    settings = merged(SMALL, FOUR_SHARDS, changes)
    return whole_system(
        senju.train("tic_tac_toe", run=tmp_path_factory.mktemp("runs") / "serial", **settings)
    )


@pytest.mark.slow
def test_run_that_is_killed_resized_paused_and_reset_ends_with_the_same_bytes(
    begin: Begin, expected: tuple[bytes, dict[str, Any]]
) -> None:
    training = begin()
    os.kill(training.pids()[0], signal.SIGKILL)
    training.wait_for(lambda: training.status()["backend"]["restarts"] == 1)
    assert ask(training.path, "workers", num_workers=1) == {"workers": 1}
    paused = ask(training.path, "pause", wait=30.0)
    assert paused["state"] == "paused"
    assert training.status()["update"] == paused["update"]
    ask(training.path, "resume")
    ask(training.path, "workers", num_workers=3)
    training.wait_for(lambda: len(training.pids()) == 3)
    ask(training.path, "reset", workers=[0])
    run = training.finish()
    assert whole_system(run) == expected
    kinds = [event["kind"] for event in read_events(run.path)]
    assert {"resized", "paused", "resumed", "reset"} <= set(kinds)
    assert {"worker_lost", "replay"} & set(kinds)


@pytest.mark.slow
def test_kill_of_the_whole_group_and_resume_end_with_the_same_bytes(
    begin: Begin, expected: tuple[bytes, dict[str, Any]], start_senju: Start
) -> None:
    training = begin()
    training.wait_for(lambda: training.status()["update"] > 20)
    pids = training.pids()
    os.killpg(training.process.pid, signal.SIGKILL)
    training.process.wait()
    _, alive = psutil.wait_procs([psutil.Process(p) for p in pids if psutil.pid_exists(p)], timeout=2)
    assert not alive
    assert not (training.path / "control.sock").exists()
    resumed = start_senju("train", "--resume", training.path, "--workers", "3")
    _, errors = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, errors
    assert whole_system(Run(training.path)) == expected


@pytest.mark.slow
def test_stopped_run_saves_and_leaves_nothing_behind(begin: Begin) -> None:
    training = begin(updates=100_000)
    pids = training.pids()
    os.killpg(training.process.pid, signal.SIGTERM)
    training.process.communicate(timeout=60)
    assert training.process.returncode == 128 + signal.SIGTERM
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    assert not (training.path / "control.sock").exists()
    assert Run(training.path).checkpoints.all()


class FailsAtThree(PPO):
    """A learner with a mistake in it."""

    def update(self, rollouts: Sequence[Rollout]) -> dict[str, float]:
        if self.version == 3:
            raise ZeroDivisionError("the learner's own mistake")
        return super().update(rollouts)


@pytest.mark.slow
def test_error_in_the_learner_leaves_nothing_behind(train_small: Train) -> None:
    algorithm = {"name": f"{__name__}:FailsAtThree", "minibatch_size": 128, "epochs": 1}
    before = children_of_this_process()
    with pytest.raises(ZeroDivisionError, match="own mistake"):
        train_small("run", algorithm=algorithm, **FOUR_SHARDS, **backend("processes", 2))
    assert children_of_this_process() == before


@pytest.mark.slow
def test_full_pause_is_no_hang_and_ctrl_c_ends_it(begin: Begin) -> None:
    training = begin(updates=100_000, backend={"name": "processes", "worker_timeout": 0.5})
    ask(training.path, "pause", wait=30.0)
    before = training.status()
    deadline = time.monotonic() + 1.5  # three times worker_timeout: the thing under test is time itself
    training.wait_for(lambda: time.monotonic() > deadline)
    after = training.status()
    assert after["update"] == before["update"]
    assert after["backend"]["restarts"] == 0
    training.process.send_signal(signal.SIGINT)
    training.process.communicate(timeout=30)
    assert training.process.returncode == 130


@pytest.mark.slow
def test_run_whose_fork_server_has_stopped_answers_heals_and_ends_by_ctrl_c(begin: Begin) -> None:
    training = begin(updates=100_000)
    fork_server = psutil.Process(training.pids()[0]).parent()
    assert fork_server is not None
    assert fork_server.ppid() == training.process.pid
    fork_server.suspend()
    os.kill(training.pids()[0], signal.SIGKILL)
    training.wait_for(lambda: training.status()["backend"]["restarts"] == 1 and len(training.pids()) == 2)
    another = psutil.Process(training.pids()[0]).parent()
    assert another is not None
    assert another.ppid() == training.process.pid
    another.suspend()
    before = training.status()["update"]
    ask(training.path, "workers", num_workers=1)
    training.wait_for(lambda: training.status()["update"] > before and len(training.pids()) == 1)
    training.process.send_signal(signal.SIGINT)
    output, errors = training.process.communicate(timeout=60)
    assert training.process.returncode == 130, (output, errors)
    assert not fork_server.is_running()


@pytest.mark.slow
@pytest.mark.parametrize("max_lag", [1, 3])
def test_async_lag_is_bounded_and_recorded(train_small: Train, max_lag: int) -> None:
    collect = FOUR_SHARDS["collect"] | {"mode": "async", "max_lag": max_lag}
    run = train_small(updates=60, collect=collect, **backend("threads", 2))
    lags = [record["lag_max"] for record in run.metrics]
    assert len(lags) == 60
    assert 0 < max(lags) <= max_lag
    assert all(0 <= record["lag_mean"] <= record["lag_max"] for record in run.metrics)


def test_async_run_resumes_where_its_checkpoint_was(train_small: Train, tmp_path: Path) -> None:
    collect = FOUR_SHARDS["collect"] | {"mode": "async"}
    run = train_small(updates=20, collect=collect, **backend("threads", 2), max_updates=8)
    assert run.metrics[-1]["update"] == 8
    run = senju.train(resume=run.path)
    assert [record["update"] for record in run.metrics] == list(range(1, 21))


def test_sync_lag_is_zero(train_small: Train) -> None:
    run = train_small(updates=5, **FOUR_SHARDS, **backend("threads", 2))
    assert {record["lag_max"] for record in run.metrics} == {0.0}


def test_timeline_is_written_as_trace_and_as_picture(train_small: Train) -> None:
    run = train_small(updates=5, **FOUR_SHARDS, **backend("threads", 2))
    events = json.loads((run.path / "timeline.json").read_text())["traceEvents"]
    kinds = [event.get("cat") for event in events]
    assert {"rollout", "collect", "learn", "publish", "checkpoint"} <= set(kinds)
    rollouts = {tuple(event["args"].values()) for event in events if event.get("cat") == "rollout"}
    assert len(rollouts) == 5 * 4
    assert (run.path / "timeline.svg").read_text().startswith("<svg")


def test_workers_change_on_resume_and_the_result_does_not(train_small: Train) -> None:
    expected = train_small("whole", updates=10, **FOUR_SHARDS)
    half = train_small("half", updates=10, **FOUR_SHARDS, max_updates=5)
    other = senju.train(resume=half.path, backend={"name": "threads", "num_workers": 3})
    assert other.config.backend["num_workers"] == 3
    assert whole_system(other) == whole_system(expected)
