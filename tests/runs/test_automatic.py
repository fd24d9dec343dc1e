"""Automatic settings: the rules, with measurements that are given."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from senju.config import Settings, merged
from senju.errors import ConfigError
from senju.machine import processor_has_bfloat16
from senju.runs import automatic, presets, run_config
from senju.runs.run_config import RunConfig, dump_config, load_config, resolve_config
from tests.fake_gpu import FakeMeter, install

AUTO_SIZES: Settings = {"num_games": "auto", "games_per_shard": "auto"}
SHOGI: Settings = {
    "model": {"name": "plane_net", "channels": 8, "blocks": 1},
    "collect": AUTO_SIZES,
    "algorithm": {"name": "ppo", "minibatch_size": "auto", "epochs": 1},
    "total_steps": 10**9,
}
Gpu = Callable[..., FakeMeter]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    """A machine with a GPU and the given measurements."""
    return lambda **measured: install(monkeypatch, FakeMeter(**measured))


@pytest.fixture(autouse=True)
def no_preset_for_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules are tested without the settings of presets that name a GPU."""
    monkeypatch.setattr(run_config, "preset_variants", lambda game: [])


def shogi(*changes: Settings) -> RunConfig:
    return resolve_config("shogi", SHOGI, {"backend": "auto"}, *changes)


def test_without_a_gpu_new_runs_are_what_they_were_and_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*arguments: Any) -> None:
        raise AssertionError("measured")

    monkeypatch.setattr(run_config, "MachineMeter", refuse)
    monkeypatch.setattr(run_config, "find_gpu", lambda: None)
    config = resolve_config("connect_four")
    assert (config.device, config.collect.evaluate_on, config.collect.precision) == (
        "cpu",
        "workers",
        "float32",
    )
    assert (config.chosen, config.automatic) == ("", ())
    assert config == resolve_config("connect_four", {"device": "cpu"})
    assert config == resolve_config("connect_four", {"device": "auto"})


@pytest.mark.parametrize("has_bfloat16", [True, False])
def test_auto_on_the_cpu_takes_the_usual_values(monkeypatch: pytest.MonkeyPatch, has_bfloat16: bool) -> None:
    monkeypatch.setattr(automatic, "processor_has_bfloat16", lambda: has_bfloat16)
    monkeypatch.setattr(automatic, "available_cores", lambda: 8)
    config = resolve_config(
        "tic_tac_toe",
        {"device": "cpu", "backend": "auto", "collect": AUTO_SIZES | {"rollout_steps": "auto"}},
        {"collect": {"evaluate_on": "auto", "precision": "auto"}},
        {"algorithm": {"precision": "auto", "minibatch_size": "auto"}},
    )
    collect = config.collect
    assert (collect.num_games, collect.games_per_shard, collect.rollout_steps) == (1024, 64, 64)
    assert (collect.evaluate_on, collect.precision) == ("workers", "float32")
    assert config.algorithm["precision"] == ("bfloat16" if has_bfloat16 else "float32")
    assert config.algorithm["minibatch_size"] == 2048
    assert config.backend["name"] == "processes"
    assert "algorithm.precision=" in config.chosen
    assert "collect.num_games" in config.automatic


def test_compiled_game_is_evaluated_on_the_gpu_with_a_thread_for_each_shard(gpu: Gpu) -> None:
    gpu()
    config = shogi()
    collect = config.collect
    assert (config.device, collect.evaluate_on, collect.precision) == ("cuda", "device", "bfloat16")
    assert collect.games_per_shard == 4096  # 0.91 of the best; 2048 reach 0.84
    assert collect.num_games == 12 * 4096
    assert config.backend["name"] == "threads"
    assert config.backend["num_workers"] == 12
    batch = collect.num_games * collect.rollout_steps
    assert config.algorithm["minibatch_size"] == 32768
    assert batch % 32768 == 0
    assert config.chosen == (
        "NVIDIA H200 evaluates and learns (bfloat16); 12 threads step 12 shards of 4096 games: one core "
        "steps 0.55 M moves/s, the GPU evaluates 2.4 M/s"
    )


def test_saved_config_holds_the_values_and_resolves_to_itself(gpu: Gpu, tmp_path: Path) -> None:
    meter = gpu()
    config = shogi()
    assert "auto" not in dump_config(config).replace("automatic:", "").replace("learners: auto", "")
    (tmp_path / "config.yaml").write_text(dump_config(config))
    asked = len(meter.asked)
    assert load_config(tmp_path / "config.yaml") == config
    assert resolve_config(None, config.model_dump(mode="json")) == config
    assert len(meter.asked) == asked


def test_only_one_size_is_compiled(gpu: Gpu) -> None:
    meter = gpu()
    config = shogi()
    assert {asked for asked in meter.asked if asked[2] != "eager"} == {
        (config.collect.games_per_shard, "bfloat16", "repeatable")
    }
    meter.asked.clear()
    shogi({"kernels": "eager"})
    assert all(kernels == "eager" for _, _, kernels in meter.asked)


def test_slow_game_gets_small_batches_more_shards_than_cores_and_processes(gpu: Gpu) -> None:
    gpu(core_steps=1000.0, releases_lock=False)
    config = shogi()
    assert config.collect.games_per_shard == 256
    assert config.collect.num_games == 20 * 256
    assert config.backend["name"] == "processes"
    assert config.backend["num_workers"] == 0


def test_tiny_network_is_evaluated_by_the_workers(gpu: Gpu) -> None:
    meter = gpu(core_evaluates=50e6, best=200_000.0)
    config = shogi()
    assert (config.collect.evaluate_on, config.collect.precision) == ("workers", "float32")
    assert config.collect.games_per_shard == 64
    assert config.backend["name"] == "threads"
    assert config.backend["num_workers"] == 0  # as many as there are cores
    assert "learns, the cores evaluate" in config.chosen
    assert all(kernels == "eager" for _, _, kernels in meter.asked)  # compiled ones could not win either


def test_gpu_without_bfloat16_computes_in_float32(gpu: Gpu) -> None:
    gpu(has_bfloat16=False)
    config = shogi({"algorithm": {"precision": "auto"}})
    assert (config.collect.precision, config.algorithm["precision"]) == ("float32", "float32")
    gpu(has_bfloat16=True)
    assert shogi({"algorithm": {"precision": "auto"}}).algorithm["precision"] == "bfloat16"
    assert shogi().algorithm["precision"] == "float32"  # not asked for


@pytest.mark.parametrize(("memory", "rows"), [("device_bytes", 1024), ("host_bytes", 1024)])
def test_little_memory_makes_fewer_games_and_says_so(gpu: Gpu, memory: str, rows: int) -> None:
    gpu(**{memory: 4 * 2**30})
    config = shogi()
    assert config.collect.games_per_shard <= rows
    assert "do not fit into the free memory" in config.chosen


def test_batches_that_do_not_fit_are_not_taken(gpu: Gpu) -> None:
    gpu(most_rows=1024)
    assert shogi().collect.games_per_shard == 1024


def test_gpu_without_any_room_only_learns(gpu: Gpu) -> None:
    gpu(most_rows=0)
    assert shogi().collect.evaluate_on == "workers"


def test_short_run_collects_less_at_once(gpu: Gpu) -> None:
    gpu()
    config = shogi({"total_steps": 1_000_000, "collect": {"rollout_steps": "auto"}})
    assert config.collect.rollout_steps == 16
    assert config.collect.games_per_shard == 256


@pytest.mark.parametrize(
    "given",
    [
        {"collect": {"num_games": 6000}},
        {"collect": {"num_games": 1009}},
        {"collect": {"games_per_shard": 300}},
        {"collect": {"rollout_steps": 30}},
        {"collect": {"num_games": 512, "games_per_shard": 512}},
        {"algorithm": {"minibatch_size": 1000}},
        {"algorithm": {"minibatch_size": 1000}, "collect": {"games_per_shard": 512}},
        {"backend": {"name": "serial"}},
        {"backend": {"name": "threads", "num_workers": 3}},
        {"collect": {"evaluate_on": "workers"}},
        {"collect": {"evaluate_on": "device"}},
        {"collect": {"precision": "float32"}},
    ],
    ids=str,
)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_the_user_gives_stays_and_the_rest_fits(gpu: Gpu, given: Settings, device: str) -> None:
    gpu()
    config = shogi(given, {"device": device})  # validated: everything divides
    for part, settings in given.items():
        own = getattr(config, part)
        found = own if isinstance(own, dict) else own.model_dump()
        assert {name: found[name] for name in settings} == settings


def test_minibatch_of_the_algorithms_default_is_divided_too(gpu: Gpu) -> None:
    gpu()
    config = resolve_config(
        "shogi", SHOGI, {"algorithm": {"name": "ppo"}, "collect": {"games_per_shard": 100}}
    )
    assert config.collect.games_per_shard == 100


def test_game_of_an_agent_in_each_seat_and_dqn_are_resolved(gpu: Gpu) -> None:
    gpu()
    worlds = resolve_config("treasure_hunt", {"collect": AUTO_SIZES})
    assert worlds.is_independent
    assert worlds.collect.evaluate_on == "device"
    assert worlds.backend["name"] == "threads"
    alone = resolve_config("treasure_hunt", {"parallel": {"enabled": False}})
    assert alone.backend["name"] == "serial"
    assert resolve_config("connect_four", {"algorithm": "dqn"}).collect.evaluate_on == "device"


def test_several_runs_share_the_cores(gpu: Gpu) -> None:
    gpu()
    settings = merged(SHOGI, {"collect": {"evaluate_on": "device"}})
    config = resolve_config("shogi", settings, {"backend": "auto"}, num_runs=4)
    assert config.collect.num_games == 5 * config.collect.games_per_shard  # 1.25 for each of four cores


@pytest.mark.parametrize(("cores", "name"), [(1, "serial"), (2, "processes")])
def test_one_core_needs_no_workers_unless_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, cores: int, name: str
) -> None:
    monkeypatch.setattr(automatic, "available_cores", lambda: cores)
    assert resolve_config("tic_tac_toe", {"backend": "auto"}).backend["name"] == name
    asked = resolve_config("tic_tac_toe", {"backend": {"name": "auto", "num_workers": 2}}).backend
    assert (asked["name"], asked["num_workers"]) == ("processes", 2)


def test_given_num_workers_of_an_automatic_backend_stay(gpu: Gpu) -> None:
    gpu()
    assert shogi({"backend": {"name": "auto", "num_workers": 5}}).backend["num_workers"] == 5


@pytest.mark.parametrize("path", ["collect.mode", "collect.max_lag", "model.hidden", "total_steps", "seed"])
def test_auto_elsewhere_is_refused(path: str) -> None:
    part, _, name = path.partition(".")
    with pytest.raises(ConfigError, match=f"{path}='auto'"):
        resolve_config("connect_four", {part: {name: "auto"} if name else "auto"})


@pytest.mark.parametrize("path", ["device", "collect.evaluate_on", "collect.num_games", "collect.precision"])
def test_saved_run_must_not_say_auto(path: str, tmp_path: Path) -> None:
    settings = resolve_config("tic_tac_toe").model_dump(mode="json")
    *parts, last = path.split(".")
    (settings[parts[0]] if parts else settings)[last] = "auto"
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings))
    with pytest.raises(ConfigError, match=f"{path}='auto'"):
        load_config(tmp_path / "config.yaml")


def test_dqn_has_no_minibatch_to_choose() -> None:
    with pytest.raises(ConfigError, match=r"unknown setting 'algorithm\.minibatch_size'"):
        resolve_config("connect_four", {"algorithm": {"name": "dqn", "minibatch_size": "auto"}})


def test_errors_of_other_settings_come_before_any_measurement(gpu: Gpu) -> None:
    meter = gpu()
    with pytest.raises(ConfigError, match="total_steps=0"):
        shogi({"total_steps": 0})
    assert not meter.asked


@pytest.mark.parametrize(
    ("game", "given", "variant"),
    [
        ("shogi", {}, "gpu"),
        ("shogi", {"algorithm": {"epochs": 1}}, "gpu"),
        ("shogi", {"algorithm": "ppo"}, "gpu"),
        ("shogi", {"algorithm": "dqn"}, None),
        ("shogi", {"device": "cpu"}, None),
        ("tic_tac_toe", {}, None),
    ],
)
def test_preset_for_gpus_is_the_usual_one_on_a_gpu(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch, game: str, given: Settings, variant: str | None
) -> None:
    gpu()
    monkeypatch.setattr(run_config, "preset_variants", presets.preset_variants)
    settings = presets.preset(game, variant)
    config = resolve_config(game, given)
    assert config.total_steps == settings["total_steps"]


def test_processor_is_asked_for_bfloat16(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text("processor : 0\nflags : fpu avx512_bf16 sse\n")
    assert processor_has_bfloat16(file)
    file.write_text("processor : 0\nflags : fpu avx512f sse\n")
    assert not processor_has_bfloat16(file)
    assert not processor_has_bfloat16(tmp_path / "missing")


def test_minibatch_that_fits_no_reasonable_sizes_is_refused() -> None:
    given: Settings = {"collect": {"num_games": "auto"}, "algorithm": {"minibatch_size": 2047}}
    with pytest.raises(
        ConfigError, match=r"minibatch_size=2047 divides no batch .*; try 2\d*|try \d+, or auto"
    ):
        resolve_config("connect_four", {"device": "cpu"}, given)
