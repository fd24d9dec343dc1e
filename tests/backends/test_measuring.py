"""Measuring this machine: every figure is found, for every kind of run; no test asserts a speed."""

import pytest
import torch

from senju.backends import measuring
from senju.backends.building import new_models
from senju.backends.measuring import MachineMeter, memory_need, play_at_random, seconds_of
from senju.backends.shared_block import rollout_bytes
from senju.collect.policy_groups import DeviceGroup
from senju.config import Settings
from senju.cuda import find_gpu
from senju.games import make_game
from senju.runs import run_config
from senju.runs.run_config import resolve_config

KINDS: dict[str, tuple[str, Settings]] = {
    "self-play": ("connect_four", {}),
    "dqn": ("tic_tac_toe", {"algorithm": "dqn"}),
    "independent": ("treasure_hunt", {}),
    "networks of two shapes": ("treasure_hunt", {"seats": {"1": {"model": {"hidden": [8]}}}}),
    "a game in Python": ("tests.collect.toy_games:Meeting", {"evaluation": {"opponents": []}}),
}


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_STEP_SECONDS", "_PAIR_SECONDS", "_EVALUATE_SECONDS", "_DEVICE_SECONDS"):
        monkeypatch.setattr(measuring, name, 0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_is_found_and_announced(kind: str) -> None:
    game, settings = KINDS[kind]
    said: list[str] = []
    meter = MachineMeter(resolve_config(game, {"device": "cpu"}, settings).plan, "cpu", said.append)
    assert meter.core_steps > 0
    assert meter.core_evaluates > 0
    assert meter.device_evaluates(32, "float32", "eager") > 0
    assert isinstance(meter.releases_lock, bool)
    assert min(meter.cores, meter.device_bytes, meter.host_bytes) > 0
    assert (meter.device_name, meter.has_bfloat16) == ("cpu", False)
    assert all(text.startswith("measuring this machine: ") for text in said)
    count = len(said)
    assert meter.device_evaluates(32, "float32", "eager") > 0
    assert meter.core_steps > 0
    assert len(said) == count == 3  # each figure is measured once


def test_runs_side_by_side_share_cores_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "available_cores", lambda: 16)
    monkeypatch.setattr(measuring, "memory_available", lambda: 64 * 2**30)
    plan = resolve_config("tic_tac_toe", {"device": "cpu"}).plan
    meter = MachineMeter(plan, "cpu", lambda text: None, num_runs=32)
    assert (meter.cores, meter.host_bytes) == (1, 2 * 2**30)


def test_batch_that_does_not_fit_counts_as_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: DeviceGroup, count: int) -> float:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(DeviceGroup, "time_steps", fail)
    meter = MachineMeter(resolve_config("tic_tac_toe", {"device": "cpu"}).plan, "cpu", lambda text: None)
    assert meter.device_evaluates(64, "float32", "eager") == 0.0


def test_other_errors_of_a_device_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: DeviceGroup, count: int) -> float:
        raise RuntimeError("no kernel image is available")

    monkeypatch.setattr(DeviceGroup, "time_steps", fail)
    meter = MachineMeter(resolve_config("tic_tac_toe", {"device": "cpu"}).plan, "cpu", lambda text: None)
    with pytest.raises(RuntimeError, match="no kernel image"):
        meter.device_evaluates(64, "float32", "eager")


def test_games_that_end_go_on() -> None:
    assert play_at_random(make_game("tic_tac_toe"), 8, 0.02) > 0


def test_slow_call_is_made_once() -> None:
    calls: list[int] = []
    assert seconds_of(lambda: calls.append(1), 0.0) >= 0.0
    assert calls == [1]


def test_memory_of_a_plan_is_counted_without_taking_it() -> None:
    config = resolve_config("connect_four", {"device": "cpu", "collect": {"num_games": 2**20}})
    game = make_game("connect_four")
    need = memory_need(config.plan, game, new_models(config.plan, game).sizes)
    assert need.host == rollout_bytes(config.plan, game, new_models(config.plan, game).sizes)
    decisions = 2**20 * config.collect.rollout_steps
    per_decision = game.new_observations(1).observation.nbytes + game.new_observations(1).legal.nbytes
    assert need.device == decisions * per_decision


@pytest.mark.cuda
def test_gpu_is_found_measured_and_used(monkeypatch: pytest.MonkeyPatch) -> None:
    if find_gpu() is None:
        pytest.skip("needs a CUDA device: none is usable here")
    monkeypatch.setattr(run_config, "find_gpu", find_gpu)
    sizes = {"collect": {"num_games": "auto", "games_per_shard": "auto"}}
    config = resolve_config("connect_four", sizes, {"algorithm": {"minibatch_size": "auto"}})
    assert config.device == "cuda"
    assert config.collect.evaluate_on == "device"
    assert torch.cuda.get_device_name() in config.chosen
