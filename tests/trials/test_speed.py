"""What the figures measure; their sizes are a matter of benchmarks."""

from dataclasses import replace

import pytest

from senju.errors import ConfigError
from senju.runs.run_config import RunConfig
from senju.trials import rig
from senju.trials.rig import SERIAL, Rig
from senju.trials.scale import SMALL, scaled_config
from senju.trials.speed import (
    STAGES_PER_ENTRANT,
    Entrant,
    Figures,
    Spread,
    at_rest,
    entrants,
    measure_all,
    ratio_spread,
    spread,
    summarise,
)

FIGURES = Figures(
    start_seconds=1.0,
    collecting=100.0,
    learning=50.0,
    publish_seconds=0.1,
    end_to_end=30.0,
    allowed=40.0,
    memory_bytes=1000,
    worker_bytes=10,
    collecting_stages={"evaluate": 1.0},
    learning_stages={"backward": 2.0},
)


def small(**changes: object) -> RunConfig:
    return scaled_config("tic_tac_toe", SMALL, {"threads": 2, **changes})


def test_serial_enters_with_one_thread_and_with_all() -> None:
    names = [entrant.name for entrant in entrants(small(), "processes", [1, 4])]
    assert names == ["serial, 1 thread", "serial, 2 threads", "1 worker", "4 workers"]
    assert [entrant.name for entrant in entrants(small(threads=1), "serial", [1])] == ["serial, 1 thread"]


def test_workers_keep_the_settings_of_the_backend_that_the_config_names() -> None:
    config = small(backend={"name": "threads", "worker_timeout": 9.0})
    assert entrants(config, "threads", [3])[-1].backend["worker_timeout"] == 9.0
    assert "worker_timeout" not in entrants(config, "processes", [3])[-1].backend


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_every_stage_of_every_entrant_is_measured_in_every_repeat(mode: str) -> None:
    config = small(collect={"mode": mode}, threads=1)
    field = entrants(config, "threads", [1, 2])
    stages: list[tuple[int, str, str]] = []
    results = measure_all(
        config, field, 0.01, 2, lambda repeat, who, stage: stages.append((repeat, who.name, stage))
    )
    assert stages == [
        (repeat, entrant.name, stage)
        for repeat in range(2)
        for entrant in field
        for stage in STAGES_PER_ENTRANT
    ]
    for figures in (figures for repeats in results.values() for figures in repeats):
        assert min(figures.collecting, figures.learning, figures.end_to_end, figures.publish_seconds) > 0
        assert figures.allowed < min(figures.collecting, figures.learning)
        assert {"evaluate", "step"} <= set(figures.collecting_stages)
        assert {"forward", "backward"} <= set(figures.learning_stages)
        assert figures.memory_bytes > 0
    assert [one.entrant for one in summarise(field, results)] == field


def test_learning_from_a_replay_is_measured_once_it_has_begun() -> None:
    dqn = {"name": "dqn", "learning_starts": 3000, "replay_size": 4000, "replay_ratio": 0.2}
    against = {"collect": {"seating": "opponents"}, "opponents": {"snapshot_interval": 1}}
    config = small(algorithm=dqn, threads=1, **against)
    (figures,) = measure_all(config, entrants(config, "serial", [1]), 0.01, 1)["serial, 1 thread"]
    assert min(figures.collecting, figures.learning, figures.end_to_end) > 0
    assert {"store", "sample", "targets", "backward"} <= set(figures.learning_stages)
    assert {"evaluate", "opponents"} <= set(figures.collecting_stages)


def test_learner_that_never_begins_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig, "_MOST_WARMING", 3)
    config = small(algorithm={"name": "dqn", "learning_starts": 50_000}, threads=1)
    with (
        Rig(config, SERIAL) as idle,
        pytest.raises(ConfigError, match=r"first 3 updates.*learning_starts"),
    ):
        idle.warm_up()


def test_ratios_are_taken_within_repeats_and_against_the_right_one() -> None:
    one, all_, single, double = field = [
        Entrant("serial, 1 thread", SERIAL, 1),
        Entrant("serial, 2 threads", SERIAL, 2),
        Entrant("1 worker", {"name": "processes", "num_workers": 1}, 2),
        Entrant("2 workers", {"name": "processes", "num_workers": 2}, 2),
    ]
    results = {
        one.name: [replace(FIGURES, collecting=50.0)] * 2,
        all_.name: [replace(FIGURES, end_to_end=15.0)] * 2,
        single.name: [replace(FIGURES, collecting=100.0), replace(FIGURES, collecting=200.0)],
        double.name: [replace(FIGURES, collecting=180.0), replace(FIGURES, collecting=400.0)],
    }
    summary = summarise(field, results)[3]
    assert summary.efficiency == Spread(0.95, 0.9, 1.0)
    assert summary.collecting_over_serial == Spread(5.8, 3.6, 8.0)
    assert summary.end_to_end_over_serial.median == 2.0
    assert summary.reached.median == 0.75
    assert summary.collecting_stages == {"evaluate": 2.0}
    assert summarise(field, results)[0].efficiency is None


def test_stages_add_up_unless_the_learner_has_a_device_of_its_own() -> None:
    from senju.trials.speed import _allowed

    config = small()
    assert _allowed(config, 100.0, 100.0, 0.0) == 50.0
    overlapping = small(collect={"mode": "async"})
    assert _allowed(overlapping, 100.0, 100.0, 0.0) == 50.0
    elsewhere = overlapping.model_copy(update={"device": "cuda"})
    assert _allowed(elsewhere, 100.0, 50.0, 0.0) == 50.0


def test_no_worker_plays_at_rest() -> None:
    config = small(collect={"mode": "async"}, threads=1)
    with Rig(config, {"name": "threads", "num_workers": 2}) as busy:
        busy.update()
        with at_rest(busy.backend):
            before = busy.backend.status()
            assert before.slots_playing == 0
            assert {worker.state for worker in before.workers} == {"paused"}
        busy.update()


def test_spread_has_the_middle_and_the_ends() -> None:
    assert spread([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)


def test_ratios_are_taken_repeat_by_repeat() -> None:
    assert ratio_spread([2.0, 9.0], [1.0, 3.0]) == Spread(2.5, 2.0, 3.0)


def test_text_has_three_digits_or_whole_numbers() -> None:
    assert Spread(0.5, 0.25, 1234.5).as_text() == "0.500 (0.250..1,234)"
