"""The display of a training run, drawn on a terminal that is a string."""

import re
from io import StringIO

import pytest
from rich.console import Console

from senju.cli.display import TrainingDisplay
from senju.cli.quantities import duration_text
from senju.config import Settings
from tests.conftest import Invoke, Options, Train
from tests.facts import Facts, assert_mentions
from tests.fake_nvml import GIB, FakeGpu, FakeNvml


def terminal() -> tuple[Console, StringIO]:
    screen = StringIO()
    return Console(force_terminal=True, file=screen, width=140, height=60), screen


def text_of(screen: StringIO) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())


def test_live_display_shows_progress_strength_losses_and_where_the_time_goes(train_small: Train) -> None:
    console, screen = terminal()
    with TrainingDisplay(console) as display:
        train_small(
            updates=4, evaluation={"interval": 2, "opponents": ["random", "minimax:1"]}, listener=display
        )
    shown = text_of(screen)
    last = shown[shown.rindex("╭") :]  # what is left standing on the screen
    for expected in (
        "4/4",
        "100 %",
        "0:00 left",
        "strength against",
        "random",
        "minimax:1",
        "policy loss",
        "value loss",
        "entropy",
        "learning rate",
        "time goes",
        "steps/s",
        "collecting",
        "learning",
        "-bound",
    ):
        assert expected in last
    assert_mentions(shown, "tic_tac_toe by ppo")
    assert len(display.results["random"]) == 2


def test_strength_so_far_is_drawn_as_bars(train_small: Train) -> None:
    console, screen = terminal()
    with TrainingDisplay(console) as display:
        train_small(updates=3, evaluation={"interval": 1, "games": 20}, listener=display)
    shown = text_of(screen)
    line = [line for line in shown.splitlines() if "random" in line][-1]
    expected = "".join(" ▁▂▃▄▅▆▇█"[round(8 * result.score.mean)] for result in display.results["random"])
    assert expected in line
    assert len(expected) == 3


def test_display_before_the_first_update_says_what_takes_so_long() -> None:
    console, screen = terminal()
    with TrainingDisplay(console):
        pass
    assert_mentions(text_of(screen), "compiling kernels")


def test_resumed_run_begins_its_bar_where_it_stands(train_small: Train, tmp_path: object) -> None:
    import senju

    run = train_small(updates=4, max_updates=3)
    console, screen = terminal()
    with TrainingDisplay(console) as display:
        senju.train(resume=run.path, listener=display)
    assert "4/4" in text_of(screen)


@pytest.mark.parametrize(
    ("opponents", "expected"),
    [
        ({"snapshot_interval": 3}, ("own past", "snapshot", "every 3 updates", "80 %")),
        ({"snapshot_interval": 4}, ("after 4 updates", "before", "first snapshot")),
        ({"snapshot_interval": 0, "fixed": ["random"], "self_share": 0.0}, "Against random."),
    ],
)
def test_display_shows_the_opponents_and_a_pool_that_stays_empty(
    train_small: Train, opponents: Settings, expected: Facts
) -> None:
    screen = StringIO()
    with TrainingDisplay(Console(file=screen, width=140)) as display:
        train_small(collect={"seating": "opponents"}, opponents=opponents, listener=display)
    assert_mentions(screen.getvalue(), expected)
    assert screen.getvalue().count("first snapshot") == (opponents["snapshot_interval"] == 4)


def test_display_without_a_terminal_draws_nothing(train_small: Train) -> None:
    screen = StringIO()
    with TrainingDisplay(Console(file=screen, width=140)) as display:
        train_small(listener=display)
    assert "\x1b" not in screen.getvalue()
    assert "╭" not in screen.getvalue()
    assert "update 4: against random" in screen.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (59.6, "1:00"), (61, "1:01"), (3599, "59:59"), (3600, "1:00:00"), (90061, "25:01:01")],
)
def test_durations_are_read_like_a_clock(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that is 92 % busy, which runs on the CPU take for theirs."""
    FakeNvml(FakeGpu("a", 92, used=3 * GIB)).install(monkeypatch)
    monkeypatch.setattr("senju.gpus._cuda_indices", lambda devices: [0])
    monkeypatch.setattr("senju.gpus.INTERVAL", 0.001)
    monkeypatch.setattr("senju.runs.monitor.SAMPLE_SECONDS", 0.02)  # long enough for a sample


def test_live_display_shows_the_load_of_the_gpu(train_small: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    a_gpu(monkeypatch)
    console, screen = terminal()
    with TrainingDisplay(console) as display:
        train_small(updates=60, listener=display)
    shown = text_of(screen)
    assert_mentions(shown[shown.rindex("╭") :], "GPU", "92 % busy, 3.0 GiB of 140.0 GiB")


def test_lines_without_a_terminal_and_the_end_tell_the_load_of_the_gpu(
    train_small: Train, monkeypatch: pytest.MonkeyPatch, invoke: Invoke, small_options: Options
) -> None:
    a_gpu(monkeypatch)
    monkeypatch.setattr("senju.cli.display.PLAIN_INTERVAL", 0.0)
    shown = invoke("train", "tic_tac_toe", *small_options(updates=60)).stdout
    assert_mentions(shown, "GPU 92 % busy, 3.0 GiB of 140.0 GiB")
    assert_mentions(shown, "the GPU was busy 92 %")


def test_display_of_a_run_on_the_cpu_has_no_line_for_a_gpu(train_small: Train) -> None:
    console, screen = terminal()
    with TrainingDisplay(console) as display:
        train_small(updates=4, listener=display)
    assert "busy," not in text_of(screen)
