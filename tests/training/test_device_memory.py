"""A GPU whose memory is exhausted: fewer games at the start, and a clear error later."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import senju
from senju.cuda import is_out_of_memory, reporting_memory
from senju.errors import DeviceMemoryError, DeviceRoomError, WorkerError
from senju.runs.monitor import read_events
from senju.runs.run import Run
from senju.runs.run_config import RunConfig, resolve_config
from senju.training import memory_shortage
from senju.training.device_memory import halved, train_run
from senju.training.loop import Loop
from tests.conftest import SMALL, Invoke, Options, Train
from tests.facts import assert_mentions

SHORTAGE = "CUDA out of memory. Tried to allocate 2.00 GiB.\nGPU 0 has a total capacity of 8.00 GiB"
AUTO = {"collect": {"num_games": "auto", "games_per_shard": "auto", "rollout_steps": 8}}
AUTO_MINIBATCH = {"algorithm": {"minibatch_size": "auto"}}


def small_run(path: Path, *layers: Any) -> Run:
    config = resolve_config("tic_tac_toe", SMALL, {"total_steps": 4096, "device": "cpu"}, *layers)
    return Run.create(path, config)


@pytest.fixture
def shortage(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let learning fail where more than `games` are played at once, from update `first` on."""

    def install(games: int, first: int = 0) -> None:
        learn = Loop.learn

        def failing(self: Loop, rollouts: Any) -> dict[str, float]:
            if self.config.collect.num_games > games and self.learner.version >= first:
                raise torch.OutOfMemoryError(SHORTAGE)
            return learn(self, rollouts)

        monkeypatch.setattr(Loop, "learn", failing)

    return install


def test_automatic_sizes_are_halved_until_they_fit_and_saved_before_the_first_step(
    tmp_path: Path, shortage: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    shortage(games=70)
    run = small_run(tmp_path / "run", AUTO, AUTO_MINIBATCH)
    before = run.config.collect
    assert (before.num_games, before.games_per_shard) == (256, 64)
    with caplog.at_level(logging.WARNING):
        assert train_run(run)
    saved = Run(run.path).config
    assert (saved.collect.num_games, saved.collect.games_per_shard) == (64, 16)
    assert saved.algorithm["minibatch_size"] * 16 <= 64 * 8 * 4
    assert saved.chosen.endswith("the GPU's memory suffices for 16 games in a shard, not for 32")
    assert saved.chosen.count("suffices") == 1
    assert "256 games at once; trying 128" in caplog.text
    assert [record["update"] for record in run.metrics] == list(range(1, saved.total_updates + 1))


def test_given_sizes_are_kept_and_the_error_says_what_to_lower(
    tmp_path: Path, shortage: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    shortage(games=0)
    run = small_run(tmp_path / "run")
    with pytest.raises(DeviceRoomError) as caught:
        train_run(run)
    message = str(caught.value)
    assert_mentions(
        message, "collect.num_games (now 32, about", "algorithm.minibatch_size (now 128)", "model"
    )
    assert "Tried to allocate 2.00 GiB" in message
    assert "\n" not in message
    assert Run(run.path).config == run.config


def test_halving_ends(tmp_path: Path, shortage: Callable[..., None]) -> None:
    shortage(games=0)
    with pytest.raises(DeviceRoomError):
        train_run(small_run(tmp_path / "run", AUTO, AUTO_MINIBATCH))


def test_shortage_in_the_middle_names_the_checkpoint_and_settings(
    tmp_path: Path, shortage: Callable[..., None]
) -> None:
    shortage(games=0, first=3)
    run = small_run(tmp_path / "run", {"checkpoint": {"interval": 2}})
    with pytest.raises(DeviceMemoryError) as caught:
        train_run(run)
    assert_mentions(
        str(caught.value), "update 4", "checkpoint of update 2 is safe", "minibatch_size (now 128)", "model"
    )
    assert Run(run.path).checkpoints.newest_update == 2


def test_command_line_shows_one_line(
    invoke: Invoke, small_options: Options, shortage: Callable[..., None]
) -> None:
    shortage(games=0)
    result = invoke("train", "tic_tac_toe", "--run", "run", *small_options())
    assert result.exit_code == 2
    assert "Traceback" not in result.stdout + result.stderr
    assert_mentions(result.stderr, "error:", "does not fit into the memory", "collect.num_games")


def test_given_minibatch_that_does_not_divide_the_half_is_not_changed() -> None:
    config = resolve_config("tic_tac_toe", SMALL, AUTO, {"algorithm": {"minibatch_size": 256 * 8}})
    assert halved(config) is None
    assert halved(resolve_config("tic_tac_toe", SMALL)) is None


def test_advice_counts_the_memory_of_observations(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"collect": {"num_games": 2**14, "games_per_shard": 64, "rollout_steps": 64}}
    base = resolve_config("connect_four", changes, {"device": "cpu", "collect": {"evaluate_on": "device"}})
    plenty = memory_shortage.games_that_fit(base, 80 * 2**30)
    assert plenty == 2**13
    few = memory_shortage.games_that_fit(base, 2**26)
    assert 0 < few < plenty
    assert few % 64 == 0


@pytest.mark.parametrize(
    ("error", "is_shortage"),
    [
        (torch.OutOfMemoryError(SHORTAGE), True),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be …"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), True),
        (DeviceMemoryError("anything"), True),
        (WorkerError("learner 0 failed: CUDA out of memory"), True),
        (RuntimeError("shapes cannot be multiplied"), False),
        (MemoryError("out of memory"), False),
    ],
    ids=str,
)
def test_shortage_is_told_from_other_errors(error: BaseException, is_shortage: bool) -> None:
    assert is_out_of_memory(error) is is_shortage


def test_workers_report_a_shortage_as_an_error_that_is_not_retried() -> None:
    with pytest.raises(DeviceMemoryError, match="Tried to allocate"), reporting_memory():
        raise torch.OutOfMemoryError(SHORTAGE)
    with pytest.raises(RuntimeError, match="other"), reporting_memory():
        raise RuntimeError("other")


def test_resume_on_another_gpu_says_so(
    train_small: Train, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    began = {"GPU": "NVIDIA H200", "torch": "2.11.0", "CUDA": "12.8"}
    monkeypatch.setattr("senju.training.persistence.versions_of", lambda device: dict(began))
    run = train_small(updates=4, max_updates=1)
    senju.train(resume=run.path, max_updates=1)
    assert "began on another" not in caplog.text
    other = began | {"GPU": "NVIDIA A100", "torch": "2.12.0"}
    monkeypatch.setattr("senju.training.persistence.versions_of", lambda device: dict(other))
    for _ in range(2):  # it is the beginning that counts, not the last session
        caplog.clear()
        senju.train(resume=run.path, max_updates=1)
        assert_mentions(
            caplog.text, "GPU NVIDIA H200 is now NVIDIA A100", "torch 2.11.0 is now 2.12.0", "may differ"
        )
        assert "CUDA 12.8" not in caplog.text
    assert [event["kind"] for event in read_events(run.path)] == ["versions_differ"] * 2


def test_config_note_has_no_effect() -> None:
    config = resolve_config("tic_tac_toe", SMALL)
    noted = RunConfig.model_validate({**config.model_dump(mode="json"), "chosen": "because"})
    assert noted.plan == config.plan
