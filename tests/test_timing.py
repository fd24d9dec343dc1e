"""The stage clock, with a clock that is set by hand: tests claim which stage gets the time, not how much."""

from collections.abc import Callable

import pytest

from senju.timing import StageClock


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the time that the stage clock reads."""
    now = 100.0

    def advance(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr("senju.timing.perf_counter", lambda: now)
    return advance


def test_each_lap_goes_to_its_stage_and_laps_add_up(pass_time: Callable[[float], None]) -> None:
    clock = StageClock()
    clock.start()
    for _ in range(3):
        pass_time(1.0)
        clock.lap("observe")
        pass_time(2.0)
        clock.lap("step")
    assert clock.take() == {"observe": 3.0, "step": 6.0}


def test_time_before_start_belongs_to_no_stage(pass_time: Callable[[float], None]) -> None:
    clock = StageClock()
    clock.start()
    pass_time(1.0)
    clock.lap("play")
    pass_time(50.0)
    clock.start()
    pass_time(2.0)
    clock.lap("play")
    assert clock.take() == {"play": 3.0}


def test_block_is_one_stage(pass_time: Callable[[float], None]) -> None:
    clock = StageClock()
    pass_time(7.0)
    with clock.stage("checkpoint"):
        pass_time(4.0)
    assert clock.take() == {"checkpoint": 4.0}


def test_taking_starts_the_count_anew_and_leaves_what_was_taken(pass_time: Callable[[float], None]) -> None:
    clock = StageClock()
    clock.start()
    pass_time(1.0)
    clock.lap("play")
    taken = clock.take()
    assert clock.take() == {}
    pass_time(5.0)
    clock.lap("play")
    assert taken == {"play": 1.0}
    assert clock.take() == {"play": 5.0}, "a take in mid-stage loses no time"
