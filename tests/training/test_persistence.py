"""A run with replay and opponents is kept whole: stopped, killed or moved, it ends with the same bytes."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

import senju
from senju.config import Settings
from senju.errors import CheckpointError, RunFolderError, SenjuError
from senju.runs.checkpoint import Checkpoint, load_checkpoint
from senju.runs.run import Run
from senju.runs.run_config import RunConfig
from senju.training.api import CHANGEABLE_ON_RESUME
from senju.training.persistence import DECIDING_PARTS
from senju.training.trainer import TrainingListener, TrainingProgress
from tests.conftest import Options, Start, Train, WaitUntil
from tests.small_disks import fill
from tests.training.test_parallel_training import FOUR_SHARDS, Training, backend, whole_system

REPLAYING: Settings = {
    "algorithm": {
        "name": "dqn",
        "prioritised": True,
        "n_step": 2,
        "batch_size": 32,
        "learning_starts": 300,
        "replay_size": 2000,
        "replay_ratio": 0.5,
    },
    "collect": FOUR_SHARDS["collect"] | {"seating": "opponents"},
    "opponents": {"snapshot_interval": 3, "size": 3, "fixed": ["random"], "choose": "harder"},
}
UPDATES = 20  # the replay keeps eight turns, and the pool lets its oldest go


def test_what_is_saved_is_the_whole_system(train_small: Train) -> None:
    run = train_small(updates=UPDATES, **REPLAYING)
    checkpoint = load_checkpoint(run.checkpoints.latest())
    names = set(checkpoint.tensors)
    assert {"shard.3.states", "shard.3.clock", "shard.3.seated", "pool.totals"} <= names
    assert {"learner.0.replay.weights", "learner.0.replay.largest"} <= names
    assert any(name.startswith("learner.0.target.") for name in names)
    assert len(checkpoint.state["turns"]) == run.config.plan.policies[0].kept_turns == 8
    opponents = checkpoint.state["pool"]["opponents"]
    assert [opponent["name"] for opponent in opponents if opponent["update"] < 0] == ["random"]
    assert {str(opponent["number"]) for opponent in opponents if opponent["update"] >= 0} == set(
        checkpoint.state["opponents_weights"]
    )
    assert {*checkpoint.state["turns"], *checkpoint.state["opponents_weights"].values()} == {
        path.name for path in run.checkpoints.blobs.iterdir()
    }


@pytest.mark.slow
@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_threads_give_the_bytes_of_the_serial_run(train_small: Train, num_workers: int) -> None:
    expected = train_small("serial", updates=UPDATES, **REPLAYING)
    assert expected.metrics[-1]["gradient_steps"] > 0
    assert expected.metrics[-1]["pool_size"] == 3
    run = train_small("threads", updates=UPDATES, **REPLAYING, **backend("threads", num_workers))
    assert whole_system(run) == whole_system(expected)


@pytest.mark.slow
@pytest.mark.parametrize("stops", [[1, 1, 1], [5, 6], [13]])
def test_stopping_and_resuming_changes_no_byte(train_small: Train, stops: list[int]) -> None:
    """Also before learning has begun, within the first turns of the replay, and between snapshots."""
    expected = train_small("whole", updates=UPDATES, **REPLAYING)
    first, *others = stops
    run = train_small("pieces", updates=UPDATES, **REPLAYING, max_updates=first, checkpoint={"interval": 4})
    for number in others:
        run = senju.train(resume=run.path, max_updates=number, **backend("threads", 2))
    run = senju.train(resume=run.path)
    assert whole_system(run) == whole_system(expected)
    assert [record["update"] for record in run.metrics] == list(range(1, UPDATES + 1))


def test_older_checkpoint_is_resumed_with_the_turns_it_had(train_small: Train) -> None:
    run = train_small(updates=UPDATES, **REPLAYING, checkpoint={"interval": 7})
    expected = whole_system(run)
    again = senju.train(resume=run.path, from_checkpoint="update_000000007")
    assert whole_system(again) == expected


@pytest.mark.slow
def test_killed_worker_and_killed_run_end_with_the_bytes_of_a_quiet_one(
    train_small: Train, start_senju: Start, wait_until: WaitUntil, tmp_path: Path, small_options: Options
) -> None:
    endless: Settings = {"updates": 10**6, **REPLAYING, "checkpoint": {"interval": 10}}
    options = [*small_options(**endless), "--workers", "2"]
    training = Training(start_senju, wait_until, tmp_path / "killed", options)
    os.kill(training.pids()[0], signal.SIGKILL)
    training.wait_for(lambda: training.status()["backend"]["restarts"] == 1)
    training.wait_for(lambda: training.status()["update"] > 20)
    pids = training.pids()
    os.killpg(training.process.pid, signal.SIGKILL)
    training.process.wait()
    _, alive = psutil.wait_procs([psutil.Process(p) for p in pids if psutil.pid_exists(p)], timeout=10)
    assert not alive
    reached = int(Run(training.path).checkpoints.latest().name.removeprefix("update_"))
    run = senju.train(resume=training.path, max_updates=5, **backend("threads", 3))
    assert whole_system(run) == whole_system(train_small("quiet", **endless, max_updates=reached + 5))


def test_opponents_run_may_vanish_after_the_start(train_small: Train) -> None:
    other = train_small("other")
    with_other = REPLAYING | {"opponents": {"snapshot_interval": 3, "fixed": [str(other.path), "random"]}}
    expected = train_small("whole", updates=8, **with_other)
    half = train_small("half", updates=8, **with_other, max_updates=3)
    shutil.rmtree(other.path)
    assert whole_system(senju.train(resume=half.path)) == whole_system(expected)
    with pytest.raises(SenjuError, match="unknown opponent"):
        train_small("new", **with_other)


def test_every_setting_decides_the_result_or_may_change_or_belongs_to_the_machine() -> None:
    parts = {name.partition(".")[0] for name in (*DECIDING_PARTS, *CHANGEABLE_ON_RESUME)}
    assert parts | {"device", "threads", "kernels", "chosen", "automatic"} == set(RunConfig.model_fields)
    assert set(DECIDING_PARTS).isdisjoint(CHANGEABLE_ON_RESUME)


def test_checkpoint_from_before_there_were_opponents_is_resumed(train_small: Train) -> None:
    expected = whole_system(train_small("whole", updates=6))
    run = train_small("old", updates=6, max_updates=3)
    saved = load_checkpoint(run.checkpoints.latest())
    tensors = {name: tensor for name, tensor in saved.tensors.items() if not name.endswith(".seated")}
    state = {name: value for name, value in saved.state.items() if name not in ("opponents", "turns")}
    state["collect"] = {
        name: value for name, value in state["collect"].items() if name not in ("seating", "whole_games")
    }
    assert len(tensors) < len(saved.tensors)
    run.checkpoints.save(3, Checkpoint(tensors, state), keep=1)
    config = yaml.safe_load((run.path / "config.yaml").read_text())
    del config["opponents"], config["collect"]["seating"], config["collect"]["whole_games"]
    (run.path / "config.yaml").write_text(yaml.safe_dump(config))
    assert whole_system(senju.train(resume=run.path)) == expected


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("opponents", {"snapshot_interval": 4}),
        ("algorithm", {"n_step": 3}),
        ("algorithm", {"replay_size": 3000}),
    ],
)
def test_edited_settings_of_replay_or_opponents_are_refused(
    train_small: Train, part: str, change: dict[str, Any]
) -> None:
    run = train_small(updates=8, **REPLAYING, max_updates=4)
    config = yaml.safe_load((run.path / "config.yaml").read_text())
    config[part] |= change
    (run.path / "config.yaml").write_text(yaml.safe_dump(config))
    ((name, value),) = change.items()
    with pytest.raises(CheckpointError, match=rf"{part} .*the run .*{name}={value}"):
        senju.train(resume=run.path)


@pytest.mark.slow
@pytest.mark.parametrize("max_lag", [1, 3])
def test_async_runs_keep_their_lag_and_resume(train_small: Train, max_lag: int) -> None:
    collect = REPLAYING["collect"] | {"mode": "async", "max_lag": max_lag}
    settings = REPLAYING | {"collect": collect} | backend("threads", 2)
    run = train_small(updates=40, **settings, max_updates=25)
    run = senju.train(resume=run.path)
    lags = [record["lag_max"] for record in run.metrics]
    assert len(lags) == 40
    assert 0 < max(lags) <= max_lag
    assert run.metrics[-1]["pool_size"] == 3
    assert run.metrics[-1]["replay_decisions"] > 300


class FillsDisk(TrainingListener):
    """Fills the disk after an update; leaves it full."""

    def __init__(self, disk: Path, update: int) -> None:
        self.disk, self.update = disk, update

    def on_update(self, progress: TrainingProgress) -> None:
        if progress.update == self.update:
            fill(self.disk, leave=8192)  # metrics fit, a turn does not


def test_full_disk_is_named_and_the_older_checkpoint_is_good(train_small: Train, small_disk: Path) -> None:
    settings = REPLAYING | {"checkpoint": {"interval": 5}}
    expected = train_small("whole", updates=12, **settings)
    folder = small_disk / "run"
    # a turn is written in the background: it may fill the rest of the disk, so that the metrics fail first
    with pytest.raises((CheckpointError, RunFolderError), match="the disk is full"):
        train_small(folder, updates=12, **settings, listener=FillsDisk(small_disk, 6))
    (small_disk / "filler").unlink()
    assert Run(folder).checkpoints.latest().name == "update_000000005"
    assert whole_system(senju.train(resume=folder)) == whole_system(expected)
