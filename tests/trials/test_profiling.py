"""A profile accounts for all of the time, and draws it."""

import json
from pathlib import Path

import pytest
import torch

from senju.config import Settings
from senju.errors import ConfigError, RunFolderError
from senju.trials.profiling import probe, profile, write_timeline
from senju.trials.rig import SERIAL
from senju.trials.scale import SMALL, scaled_config
from tests.facts import mentions
from tests.fake_nvml import GIB, FakeGpu, FakeNvml, sampler_threads

CONFIG = scaled_config("tic_tac_toe", SMALL, {"threads": 1})


@pytest.mark.parametrize("backend", [SERIAL, {"name": "threads", "num_workers": 2}])
def test_stages_account_for_all_of_the_time(backend: Settings) -> None:
    seen: list[int] = []
    found = profile(CONFIG, backend, 3, seen.append)
    assert seen == [1, 2, 3]
    assert found.steps == 3 * CONFIG.decisions_per_update
    assert found.steps_per_second == found.steps / found.seconds
    assert {"evaluate", "backward", "publish"} <= set(found.stages)
    assert sum(found.stages.values()) <= found.seconds * 1.0001
    assert len(found.busy_shares) == found.num_workers == backend.get("num_workers", 1)
    assert all(0 < share <= 1 for share in found.busy_shares)
    assert "-bound" in found.explanation
    assert found.events == []


def test_stages_of_replay_and_opponents_are_distinguished() -> None:
    dqn = {"name": "dqn", "replay_size": 4000, "prioritised": True, "replay_ratio": 0.5}
    against = {"collect": {"seating": "opponents"}, "opponents": {"snapshot_interval": 1}}
    found = profile(scaled_config("tic_tac_toe", SMALL, {"threads": 1, "algorithm": dqn}, against), SERIAL, 2)
    assert {"opponents", "store", "sample", "targets", "priorities", "publish"} <= set(found.stages)
    assert sum(found.stages.values()) <= found.seconds * 1.0001


def test_timeline_holds_the_learner_and_every_worker(tmp_path: Path) -> None:
    found = profile(CONFIG, {"name": "threads", "num_workers": 2}, 2)
    trace, picture = write_timeline(found, tmp_path / "deep" / "folder", "timeline")
    events = json.loads(trace.read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert names == {"learner", "worker 0", "worker 1"}
    rollouts = {tuple(event["args"].values()) for event in events if event.get("cat") == "rollout"}
    assert len(rollouts) == 2 * CONFIG.plan.num_shards
    assert picture.read_text().startswith("<svg")


def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match=mentions("timeline", str(tmp_path / "file"))):
        write_timeline(profile(CONFIG, SERIAL, 1), tmp_path / "file", "timeline")


def test_probe_tells_each_stages_speed_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    threads = torch.get_num_threads()
    tried = probe("tic_tac_toe", updates=1)
    assert tried.game == "tic_tac_toe"
    assert tried.collecting > tried.end_to_end > 0
    assert tried.learning > tried.end_to_end
    assert "-bound" in tried.explanation
    assert list(tmp_path.iterdir()) == []
    assert torch.get_num_threads() == threads


def test_probe_of_an_unknown_game_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=mentions("'tictactoe'", "'tic_tac_toe'")):
        probe("tictactoe")


def test_profile_holds_the_load_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    assert profile(CONFIG, SERIAL, 1).gpu == {}
    FakeNvml(FakeGpu("a", 92, used=3 * GIB)).install(monkeypatch)
    monkeypatch.setattr("senju.gpus._cuda_indices", lambda devices: [0])
    monkeypatch.setattr("senju.gpus.INTERVAL", 0.001)
    found = profile(CONFIG, SERIAL, 20)
    assert found.gpu == {"gpu_busy": 0.92, "gpu_memory": 3 * GIB, "gpu_memory_total": 140 * GIB}
    assert found.explanation.endswith("the GPU was busy 92 %")
    assert found.timeline.gpu_samples()
    assert not sampler_threads()
