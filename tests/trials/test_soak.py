"""A soak disturbs, recovers, compares, and says so when something is not as it should be."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from senju.errors import ConfigError, WorkerError
from senju.runs.interrupt import StopRequest
from senju.runs.run_config import RunConfig
from senju.trials import soak as soaking
from senju.trials.disturbances import KINDS, Disturber, is_stopped, send_signal
from senju.trials.rig import Rig
from senju.trials.scale import SMALL, scaled_config
from senju.trials.soak import SOAK_BACKEND, Growth, SoakProgress, growth, soak
from tests.facts import mentions


def soak_config(game: str = "tic_tac_toe", backend: str = "processes", **changes: object) -> RunConfig:
    parts = SOAK_BACKEND | {"name": backend, "num_workers": 2}
    layer = {"threads": 1, "model": {"name": "mlp", "hidden": [16]}, "backend": parts, **changes}
    return scaled_config(game, SMALL, layer)


@pytest.mark.slow
def test_run_that_is_disturbed_equals_a_quiet_one_and_leaves_nothing() -> None:
    moments: list[SoakProgress] = []
    report = soak(soak_config(), 8.0, 3, moments.append)
    assert report.is_equal
    assert report.leftovers == {}
    assert report.statistics.updates > 0
    assert sum(report.statistics.disturbances.values()) > 0
    assert set(report.statistics.disturbances) == set(KINDS)
    assert report.statistics.own_memory.first > 0
    assert {moment.stage for moment in moments} == {"disturbing", "checking"}
    assert moments[-1].updates == report.statistics.updates


@pytest.mark.slow
def test_game_that_depends_on_its_process_is_detected() -> None:
    report = soak(soak_config("tests.trials.unequal_games:SeesProcess"), 1.0, 0)
    assert not report.is_equal
    assert report.first_different_update == 1
    assert report.difference is not None
    assert report.difference.array.startswith("weights ")


@pytest.mark.slow
def test_stop_ends_the_disturbances_and_the_check_follows() -> None:
    stop = StopRequest()
    stop.signal = signal.SIGINT
    report = soak(soak_config(backend="threads"), 3600.0, 0, stop=stop)
    assert report.is_equal
    assert report.leftovers == {}


@pytest.mark.slow
def test_threads_can_be_paused_resized_and_reset_and_stay_equal() -> None:
    report = soak(soak_config(backend="threads"), 2.0, 5)
    assert report.is_equal
    assert report.leftovers == {}
    assert report.statistics.disturbances["kill"] == report.statistics.disturbances["hang"] == 0


@pytest.mark.slow
def test_replay_and_opponents_stay_equal_under_disturbances() -> None:
    algorithm = {"name": "dqn", "replay_size": 4000, "prioritised": True, "batch_size": 64}
    against = {"collect": {"seating": "opponents"}, "opponents": {"snapshot_interval": 1, "size": 3}}
    report = soak(soak_config(backend="threads", algorithm=algorithm, **against), 2.0, 5)
    assert report.is_equal
    assert report.statistics.updates > 0
    assert report.leftovers == {}


@pytest.mark.slow
def test_learner_processes_are_gone_after_a_soak() -> None:
    report = soak(soak_config("tag", backend="threads", learners="processes"), 1.0, 5)
    assert report.is_equal
    assert report.leftovers == {}


def test_error_in_a_worker_ends_the_soak_and_keeps_the_failing_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    parts = SOAK_BACKEND | {"name": "threads", "num_workers": 2, "shard_attempts": 1}
    config = soak_config("tests.trials.unequal_games:FailsElsewhere", backend="threads")
    config = config.model_copy(update={"backend": parts})
    with pytest.raises(WorkerError, match=r"(?s)a bug in the game.*senju reproduce failed-shards"):
        soak(config, 60.0, 0)
    assert list(tmp_path.glob("failed-shards/*.safetensors"))


@pytest.mark.slow
def test_run_that_stands_still_is_noticed_with_its_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soaking, "STALL_SECONDS", 0.2)
    monkeypatch.setattr(Disturber, "disturb", lambda self: self._backend.team.pause())
    with pytest.raises(WorkerError, match=mentions("no update", "0 s", "senju soak:", "collect")):
        soak(soak_config(backend="threads"), 60.0, 0)


def test_clock_must_not_decide_the_result() -> None:
    with pytest.raises(ConfigError, match="sync mode only"):
        soak(soak_config(collect={"mode": "async"}), 1.0, 0)


def test_growth_is_of_the_last_quarter_over_the_first() -> None:
    assert growth([]) == Growth(0, 0)
    assert growth([5]).bytes == 0
    assert growth([1.0] * 10 + [3.0] * 10) == Growth(1, 3)


def test_disturbances_follow_from_the_seed() -> None:
    with Rig(soak_config(), {"name": "serial"}) as rig:
        waits = [[Disturber(rig.backend, seed, 3).next_wait() for _ in range(3)] for seed in (1, 1, 2)]
    assert waits[0] == waits[1] != waits[2]


def test_only_child_processes_get_signals() -> None:
    assert not send_signal(1, signal.SIGCONT)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert not is_stopped(process.pid)
        assert send_signal(process.pid, signal.SIGKILL)
        process.wait()
        assert not send_signal(process.pid, signal.SIGKILL)
        assert is_stopped(process.pid)
