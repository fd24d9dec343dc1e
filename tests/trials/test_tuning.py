"""Tuning: what is tried, what stays as the user gave it, and what is kept; speeds are given."""

from collections.abc import Callable
from typing import Any

import pytest

from senju.config import Settings
from senju.errors import WorkerError
from senju.runs.run_config import RunConfig, resolve_config
from senju.trials import tuning
from senju.trials.speed import Figures
from senju.trials.tuning import Tuner, tuned_config, value_of, warnings_about

Speed = Callable[[RunConfig], float]


def figures(speed: float) -> Figures[float]:
    return Figures(0.1, 2 * speed, 2 * speed, 0.001, speed, speed, 1e6, 1e6, {}, {})


def tuner(speed: Speed, given: Settings | None = None, seconds: float = 60.0) -> Tuner:
    """A tuner of a run whose settings have this speed."""
    given = given or {}
    config = resolve_config("connect_four", {"device": "cpu"}, given)
    return Tuner(config, given, seconds, lambda config, seconds, on_stage: figures(speed(config)))


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "available_cores", lambda: 4)
    monkeypatch.setattr(tuning, "processor_has_bfloat16", lambda: True)


def peak(**best: Any) -> Speed:
    """A speed that grows with each setting that has its best value."""

    def speed(config: RunConfig) -> float:
        own = {path.replace("__", "."): value for path, value in best.items()}
        return 1000.0 * 2 ** sum(value_of(config, path) == value for path, value in own.items())

    return speed


def test_search_finds_the_fastest_of_every_setting() -> None:
    searched = tuner(
        peak(
            backend__name="threads",
            algorithm__precision="bfloat16",
            collect__num_games=512,
            algorithm__minibatch_size=4096,
        )
    )
    searched.run()
    assert searched.best is not None
    config = searched.best.config
    assert config.backend["name"] == "threads"
    assert config.algorithm["precision"] == "bfloat16"
    assert config.collect.num_games == 512
    assert config.algorithm["minibatch_size"] == 4096
    assert searched.best.speed == 16_000.0
    assert len(searched.best.figures) > 1  # the fastest are measured again


def test_search_goes_on_while_it_helps() -> None:
    searched = tuner(lambda config: float(config.collect.games_per_shard))
    searched.run()
    assert searched.best is not None
    assert searched.best.config.collect.games_per_shard == searched.best.config.collect.num_games


def test_given_settings_never_change() -> None:
    given: Settings = {
        "backend": {"name": "serial"},
        "collect": {"num_games": 512, "games_per_shard": 128},
        "algorithm": {"precision": "float32", "minibatch_size": 512},
    }
    searched = tuner(lambda config: 1.0, given)
    searched.run()
    assert [trial.changes for trial in searched.trials] == [{}]
    given["collect"]["games_per_shard"] = "auto"
    searched = tuner(lambda config: 1.0, given)
    searched.run()
    assert {path for trial in searched.trials for path in trial.changes} == {"collect.games_per_shard"}


def test_nothing_is_tried_twice_and_everything_tried_is_valid() -> None:
    searched = tuner(lambda config: float(hash(repr(config)) % 1000))
    searched.run()
    configs = [trial.config for trial in searched.trials]
    assert all(configs.count(config) == 1 for config in configs)
    assert len(configs) > 8


def test_noise_does_not_replace_the_first_settings() -> None:
    searched = tuner(lambda config: 1000.0 + (config.collect.games_per_shard > 64))
    searched.run()
    assert searched.best is searched.trials[0]


def test_settings_that_fail_are_recorded_and_not_kept() -> None:
    def speed(config: RunConfig) -> float:
        if config.backend["name"] == "processes":
            raise WorkerError("worker 0 could not start: no memory\nmore")
        return 5000.0 if config.backend["name"] == "threads" else 1000.0

    searched = tuner(speed)
    searched.run()
    failed = [trial for trial in searched.trials if trial.failure]
    assert failed
    assert {trial.failure for trial in failed} == {"worker 0 could not start: no memory"}
    assert searched.best is not None
    assert searched.best.config.backend["name"] == "threads"


def test_time_ends_the_search() -> None:
    searched = tuner(lambda config: 1.0, seconds=0.0)
    searched.run()
    assert len(searched.trials) == 1


def test_interrupted_search_keeps_what_was_measured() -> None:
    def speed(config: RunConfig) -> float:
        if config.backend["name"] == "processes":
            raise KeyboardInterrupt
        return 1000.0 if config.backend["name"] == "serial" else 3000.0

    searched = tuner(speed)
    with pytest.raises(KeyboardInterrupt):
        searched.run()
    assert searched.best is not None
    assert searched.best.config.backend["name"] == "threads"


def test_warnings_name_what_changes_learning() -> None:
    first = resolve_config("connect_four", {"device": "cpu"})
    changes = {"collect.num_games": 512, "algorithm.minibatch_size": 4096}
    batch, minibatch = warnings_about(changes, first, tuning.with_changes(first, changes))
    assert "32,768 decisions instead of 16,384" in batch
    assert "learning_rate" in minibatch
    assert warnings_about({"backend": {"name": "serial"}}, first, first) == []


def test_tuned_config_reproduces_the_settings() -> None:
    searched = tuner(peak(backend__name="threads"))
    searched.run()
    assert searched.best is not None
    config = tuned_config(searched.best)
    assert "2,000 steps/s" in config.chosen
    assert resolve_config(None, config.model_dump(mode="json")) == config


def test_shards_on_a_gpu_may_be_more_than_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "has_native_bfloat16", lambda device: True)
    first = resolve_config("connect_four", {"device": "cpu"})
    config = tuning.with_changes(
        first.model_copy(update={"device": "cuda"}),
        {"collect.evaluate_on": "device", "collect.num_games": 1024},
    )
    found = [changes for knob in tuning.KNOBS for changes in knob(config, frozenset())]
    assert {"collect.evaluate_on": "workers"} in found
    assert {"collect.precision": "bfloat16"} in found
    assert {"backend": {"name": "threads", "num_workers": 8}} in found
