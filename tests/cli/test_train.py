"""`senju train`: results, refusals, settings from everywhere, and signals to a real process."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

import senju
from senju.cli import display
from senju.config import merged
from senju.runs.metrics import append_record
from senju.runs.run import Run
from tests.conftest import SMALL, BadSettings, Invoke, Options, Start, Train, WaitUntil, as_options
from tests.facts import Facts, assert_mentions

TENSORS = "tensors.safetensors"


def test_training_shows_game_folder_strength_and_next_commands(
    invoke: Invoke, small_options: Options
) -> None:
    result = invoke("train", "tic_tac_toe", "--run", "my-run", *small_options())
    assert result.exit_code == 0
    for expected in (
        "tic_tac_toe by ppo",
        "mlp (474 weights)",
        "32 games",
        "1,024 steps",
        "Run folder: my-run",
        "update 4: against random",
        "95 % interval",
        "1,024 steps in",
        "-bound",
        "my-run/strength.svg",
        "senju play tic_tac_toe --run my-run",
    ):
        assert expected in result.stdout
    assert result.stderr == ""
    assert Run("my-run").agent.name == "my-run@4"


def test_training_that_ends_against_perfect_shows_the_share_of_perfect_moves(
    invoke: Invoke, small_options: Options
) -> None:
    options = small_options(updates=1, evaluation={"final_opponents": ["perfect"]})
    output = invoke("train", "connect_four", "--run", "run", *options).stdout
    assert "Perfect moves: " in output or "judged" in output
    assert [record["opponent"] for record in Run("run").evaluations] == ["random", "perfect"]


def test_training_without_a_terminal_writes_progress_lines(
    invoke: Invoke, small_options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(display, "PLAIN_INTERVAL", 0.0)
    lines = invoke("train", "tic_tac_toe", "--run", "run", *small_options()).stdout.splitlines()
    progress = [line for line in lines if line.startswith("update ") and "steps/s" in line]
    assert [line.split(",")[0] for line in progress] == [f"update {n}/4" for n in (1, 2, 3, 4)]
    assert all(line.endswith(" left") for line in progress)
    assert "\x1b" not in "".join(lines)


def test_result_as_json_is_one_document(invoke: Invoke, small_options: Options) -> None:
    result = invoke("train", "tic_tac_toe", "--run", "run", "--json", *small_options())
    summary = json.loads(result.stdout)
    assert (summary["run"], summary["finished"], summary["update"], summary["steps"]) == (
        "run",
        True,
        4,
        1024,
    )
    assert summary["metrics"]["update"] == 4
    assert [record["opponent"] for record in summary["evaluations"]] == ["random"]
    assert "-bound" in summary["explanation"]


def test_run_stopped_early_says_how_to_go_on_and_goes_on(invoke: Invoke, small_options: Options) -> None:
    stopped = invoke("train", "tic_tac_toe", "--run", "run", "--max-updates", 1, *small_options())
    assert stopped.exit_code == 0
    assert "senju train --resume run" in stopped.stdout
    summary = json.loads(invoke("train", "--resume", "run", "--json", "--max-updates", 1).stdout)
    assert (summary["update"], summary["finished"], summary["evaluations"]) == (2, False, [])
    finished = invoke("train", "--resume", "run")
    assert_mentions(finished.stdout, "random", "95 % interval")
    assert [record["update"] for record in Run("run").metrics] == [1, 2, 3, 4]


def test_finished_run_resumed_says_where_it_is(invoke: Invoke, small_options: Options) -> None:
    invoke("train", "tic_tac_toe", "--run", "run", *small_options())
    again = invoke("train", "--resume", "run")
    assert again.exit_code == 0
    assert "senju play tic_tac_toe --run run" in again.stdout
    assert "Stopped" not in again.stdout


def test_failures_of_an_earlier_session_are_not_reported_again(invoke: Invoke, train_small: Train) -> None:
    run = train_small(max_updates=1)
    for kind in ("set_aside", "learner_hung"):
        append_record(run.path / "events.jsonl", {"kind": kind, "update": 1})
    ended = json.loads(invoke("train", "--resume", run.path, "--max-updates", 1, "--json").stdout)
    assert (ended["set_aside"], ended["learners_replaced"]) == (0, 0)
    assert (run.summary()["set_aside"], run.summary()["learners_replaced"]) == (1, 1)
    assert "events.jsonl" not in invoke("train", "--resume", run.path).stdout


def test_older_checkpoint_is_resumed_by_name(invoke: Invoke, small_options: Options) -> None:
    invoke("train", "tic_tac_toe", "--run", "run", *small_options(checkpoint={"interval": 2}))
    undisturbed = (Run("run").checkpoints.latest() / TENSORS).read_bytes()
    assert invoke("train", "--resume", "run", "--checkpoint", "update_000000002").exit_code == 0
    assert sorted(path.name for path in Path("run/checkpoints").iterdir()) == [
        "abandoned_update_000000004",
        "update_000000002",
        "update_000000004",
    ]
    assert (Run("run").checkpoints.latest() / TENSORS).read_bytes() == undisturbed


def test_command_line_wins_over_file_over_preset(invoke: Invoke, small_options: Options) -> None:
    Path("settings.yaml").write_text(
        "seed: 5\ntotal_steps: 256\nalgorithm:\n  epochs: 2\n  gamma: 0.5\ncheckpoint: {keep: 9}\n"
    )
    given = [*pairs_without(small_options(), "total"), "--set", "algorithm.epochs=3", "--seed", "6"]
    result = invoke("train", "tic_tac_toe", "--run", "run", "--config", "settings.yaml", *given)
    assert result.exit_code == 0, result.stderr
    config = Run("run").config
    assert config.algorithm["epochs"] == 3  # --set over the file
    assert config.seed == 6  # an option of its own over the file
    assert config.algorithm["gamma"] == 0.5  # the file over the default
    assert config.total_steps == 256  # the file over the preset
    assert config.checkpoint.keep == 9


def pairs_without(options: list[str], word: str) -> list[str]:
    """`--set KEY=VALUE` options without those of one key."""
    settings = [setting for setting in options[1::2] if not setting.startswith(word)]
    return [part for setting in settings for part in ("--set", setting)]


def test_numbers_may_be_written_with_an_exponent(invoke: Invoke, small_options: Options) -> None:
    options = pairs_without(small_options(), "total")
    invoke("train", "tic_tac_toe", "--run", "run", *options, "--set", "total_steps=0.5e3")
    assert Run("run").config.total_steps == 500


def test_game_may_stand_in_the_file(invoke: Invoke, small_options: Options) -> None:
    Path("settings.yaml").write_text("game: {name: tic_tac_toe}\n")
    assert invoke("train", "--config", "settings.yaml", "--run", "run", *small_options()).exit_code == 0
    assert Run("run").config.game == {"name": "tic_tac_toe"}


@pytest.mark.slow
def test_another_algorithm_takes_none_of_the_presets_settings_for_the_usual_one(
    invoke: Invoke, small_options: Options
) -> None:
    options = [*pairs_without(small_options(), "algorithm"), "--set", "algorithm.batch_size=32"]
    result = invoke("train", "tic_tac_toe", "--run", "run", "--algorithm", "dqn", *options)
    assert result.exit_code == 0, result.stderr
    algorithm = Run("run").config.algorithm
    assert (algorithm["name"], algorithm["batch_size"]) == ("dqn", 32)
    unknown = invoke("train", "tic_tac_toe", "--algorithm", "dqm")
    assert unknown.exit_code == 2
    assert_mentions(unknown.stderr, "'dqm'", "'dqn'")


@pytest.mark.slow
def test_opponents_sit_in_the_other_seats(invoke: Invoke, small_options: Options) -> None:
    result = invoke("train", "tic_tac_toe", "--run", "run", "--opponents", "random,pool", *small_options())
    assert result.exit_code == 0, result.stderr
    config = Run("run").config
    assert config.collect.seating == "opponents"
    assert config.opponents.fixed == ("random",)
    assert config.opponents.snapshot_interval > 0


def test_opponents_without_the_pool_are_all_there_is_unless_set_otherwise(
    invoke: Invoke, small_options: Options
) -> None:
    given = ("--opponents", "random, minimax:1", *small_options())
    assert invoke("train", "tic_tac_toe", "--run", "run", *given).exit_code == 0
    opponents = Run("run").config.opponents
    assert opponents.fixed == ("random", "minimax:1")
    assert (opponents.snapshot_interval, opponents.self_share) == (0, 0.0)
    changed = ("--set", "opponents.self_share=0.25")
    assert invoke("train", "tic_tac_toe", "--run", "other", *given, *changed).exit_code == 0
    assert Run("other").config.opponents.self_share == 0.25


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "opponents=''"),
        (" ", "opponents="),
        ("pool,", ("opponents='pool,'", "number 2", "empty")),
        (",pool", ("opponents=',pool'", "number 1", "empty")),
        ("random,random", ("'random'", "twice")),
        ("pool,grandmaster", "grandmaster"),
        ("minimax:0", ("'minimax:0'", "minimax:DEPTH", "1 to 9")),
    ],
)
def test_opponents_that_cannot_be_loaded_are_explained(
    invoke: Invoke, tmp_path: Path, text: str, expected: Facts
) -> None:
    result = invoke("train", "tic_tac_toe", "--opponents", text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert_mentions(result.stderr, expected)
    assert list(tmp_path.iterdir()) == []


def test_refused_settings_exit_with_2_and_leave_no_folder(
    invoke: Invoke, bad_settings: BadSettings, tmp_path: Path
) -> None:
    settings = merged(SMALL, bad_settings.changes)
    result = invoke("train", bad_settings.game, *as_options(settings))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert_mentions(result.stderr, bad_settings.expected)
    assert list(tmp_path.iterdir()) == []  # neither the run nor runs/


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("collect: [1, 2", ("settings.yaml", "YAML")),
        ("a: b: c", ("settings.yaml", "YAML")),
        ("- seed\n- 3\n", ("settings.yaml", "`key: value`", "list")),
        ("seed", ("settings.yaml", "`key: value`", "str")),
        ("seed: [3]", "seed=[3]"),
        ("sead: 3", ("unknown setting", "'sead'", "'seed'")),
        ("3: 4", "3"),
        ("game: {name: chess}", "unknown game 'chess'"),
        ("model: {name: mlp, hidden: wide}", "model.hidden='wide'"),
        (b"\xff\xfe\x00", ("settings.yaml", "YAML")),
        (None, ("settings.yaml", "No such file")),
    ],
)
def test_bad_settings_file_is_explained(
    invoke: Invoke, tmp_path: Path, content: str | bytes | None, expected: Facts
) -> None:
    file = tmp_path / "settings.yaml"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    game = [] if content == "game: {name: chess}" else ["tic_tac_toe"]
    result = invoke("train", *game, "--config", "settings.yaml")
    assert result.exit_code == 2
    assert_mentions(result.stderr, expected)
    assert {path.name for path in tmp_path.iterdir()} <= {"settings.yaml"}


def test_folder_given_as_settings_file_is_explained(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("train", "tic_tac_toe", "--config", tmp_path)
    assert result.exit_code == 2
    assert "Is a directory" in result.stderr


def test_empty_settings_file_changes_nothing(invoke: Invoke, small_options: Options) -> None:
    Path("settings.yaml").touch()
    options = ("--config", "settings.yaml", *small_options())
    assert invoke("train", "tic_tac_toe", "--run", "run", *options).exit_code == 0


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("seed", ("setting 'seed'", "part.key=value")),
        ("=3", ("setting '=3'", "part.key=value")),
        ("collect..num_games=3", ("setting 'collect..num_games=3'", "part.key=value")),
        ("model.hidden=[1, 2", ("value", "'model.hidden=[1, 2'")),
        ("game.name=5", "unknown game '5'"),
    ],
)
def test_setting_that_cannot_be_read_is_quoted(invoke: Invoke, setting: str, expected: Facts) -> None:
    game = [] if setting.startswith("game") else ["tic_tac_toe"]
    result = invoke("train", *game, "--set", setting)
    assert result.exit_code == 2
    assert_mentions(result.stderr, expected)


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (
            ["train"],
            2,
            "cleanup, connect_four, shogi, tag, tic_tac_toe, treasure_hunt",
        ),
        (["train", "tic_tac_toe", "--steps", "0"], 2, "total_steps=0"),
        (["train", "tic_tac_toe", "--steps", "many"], 2, "--steps"),
        (["train", "tic_tac_toe", "--max-updates", "0"], 2, "--max-updates"),
        (["train", "tic_tac_toe", "--checkpoint", "best"], 2, "names a checkpoint"),
        (["train", "tic_tac_toe", "--colour", "red"], 2, "--colour"),
        (["train", "--resume", "nothing"], 1, ("nothing", "not a run", "config.yaml")),
        (
            ["train", "tic_tac_toe", "--run", "file/run"],
            1,
            ("file/run", "Not a directory"),
        ),
        (["train", "tic_tac_toe", "--run", "file"], 1, ("file", "exists")),
        (["train", "tic_tac_toe", "--run", "/proc/senju"], 1, ("/proc/senju", "run folder")),
    ],
)
def test_bad_arguments_are_explained(
    invoke: Invoke, tmp_path: Path, arguments: list[str], code: int, expected: Facts
) -> None:
    (tmp_path / "file").write_text("in the way")
    result = invoke(*arguments)
    assert result.exit_code == code
    assert_mentions(result.stderr, expected)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("options", "code", "expected"),
    [
        (["--run", "other"], 2, ("other", "cannot")),
        (["--seed", "3"], 2, ("seed", "cannot change")),
        (["--set", "model.hidden=[8]"], 2, ("model", "cannot change")),
        (["--set", "evaluation.games=3"], 2, "evaluation.games=3"),
        (["--checkpoint", "best"], 1, "no checkpoint 'best'"),
    ],
)
def test_bad_resume_is_explained(
    invoke: Invoke, train_small: Train, options: list[str], code: int, expected: Facts
) -> None:
    run = train_small()
    result = invoke("train", "--resume", run.path, *options)
    assert result.exit_code == code
    assert_mentions(result.stderr, expected)
    assert Run(run.path).config == run.config


def test_existing_run_is_refused_with_the_way_to_go_on(invoke: Invoke, train_small: Train) -> None:
    train_small()
    result = invoke("train", "tic_tac_toe", "--run", "run")
    assert result.exit_code == 1
    assert "--resume run" in result.stderr


def test_damaged_checkpoint_exits_with_1_and_names_others(invoke: Invoke, train_small: Train) -> None:
    run = train_small(checkpoint={"interval": 2})
    (run.checkpoints.latest() / "state.json").write_text("{")
    result = invoke("train", "--resume", "run")
    assert result.exit_code == 1
    assert_mentions(result.stderr, "state.json", "JSON", "--checkpoint update_000000002")


def test_folder_with_brackets_in_its_name_is_printed_as_it_is(invoke: Invoke, small_options: Options) -> None:
    result = invoke("train", "tic_tac_toe", "--run", "x[/]y[bold]", *small_options())
    assert result.exit_code == 0
    assert "Run folder: x[/]y[bold]" in result.stdout
    assert "--run x[/]y[bold]" in result.stdout
    invoke("train", "tic_tac_toe", "--run", "x[/]y[bold]")
    assert "x[/]y[bold] exists already" in invoke("train", "tic_tac_toe", "--run", "x[/]y[bold]").stderr


ENDLESS: dict[str, Any] = {"updates": 10**6, "checkpoint": {"interval": 10**6}}  # only stopping saves


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_finishes_the_step_saves_and_the_run_can_go_on(
    start_senju: Start,
    small_options: Options,
    wait_until: WaitUntil,
    train_small: Train,
    tmp_path: Path,
    number: signal.Signals,
    code: int,
) -> None:
    process = start_senju("train", "tic_tac_toe", "--run", "run", *small_options(**ENDLESS))
    metrics = tmp_path / "run" / "metrics.jsonl"
    wait_until(lambda: metrics.exists() and metrics.read_text().count("\n") >= 3, process)
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert_mentions(output, "Stopped", "saved", "senju train --resume run")
    assert errors.startswith("stopping")
    assert len(errors.splitlines()) == 1

    run = Run(tmp_path / "run")
    reached = run.metrics[-1]["update"]
    assert [path.name for path in run.checkpoints.all()] == [f"update_{reached:09d}"]
    resumed = senju.train(resume=run.path, max_updates=2)
    undisturbed = train_small("undisturbed", **ENDLESS, max_updates=reached + 2)
    mine, yours = (r.checkpoints.latest() / TENSORS for r in (resumed, undisturbed))
    assert mine.read_bytes() == yours.read_bytes()
    assert [record["update"] for record in resumed.metrics] == list(range(1, reached + 3))


@pytest.mark.slow
def test_signal_with_json_still_prints_the_result(
    start_senju: Start, small_options: Options, wait_until: WaitUntil, tmp_path: Path
) -> None:
    process = start_senju("train", "tic_tac_toe", "--run", "run", "--json", *small_options(**ENDLESS))
    metrics = tmp_path / "run" / "metrics.jsonl"
    wait_until(lambda: metrics.exists() and metrics.read_text().count("\n") >= 1, process)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    summary = json.loads(output)
    assert summary["finished"] is False
    assert Run(tmp_path / "run").agent.name == f"run@{summary['update']}"


SLOW_GAME = """
import time
from pathlib import Path

from senju.games.tic_tac_toe import TicTacToe


class Slow(TicTacToe):
    def step(self, states, actions, out):
        super().step(states, actions, out)
        if Path("run/checkpoints/update_000000002").exists() and not Path("stuck").exists():
            Path("stuck").touch()
            time.sleep(600)
"""


@pytest.mark.slow
def test_second_interrupt_ends_at_once_and_leaves_the_older_checkpoint_good(
    start_senju: Start,
    small_options: Options,
    wait_until: WaitUntil,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "slow_game.py").write_text(SLOW_GAME)
    options = small_options(updates=4, checkpoint={"interval": 1})
    process = start_senju("train", "slow_game:Slow", "--run", "run", *options)
    wait_until((tmp_path / "stuck").exists, process)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("stopping")  # the first only asks
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    run = Run("run")
    assert run.checkpoints.latest().name == "update_000000002"
    senju.train(resume="run")
    assert [record["update"] for record in run.metrics] == [1, 2, 3, 4]


def test_presets_can_be_found_and_unknown_ones_are_answered_with_them(invoke: Invoke) -> None:
    assert "gpu (shogi)" in " ".join(invoke("train", "--help").stdout.split())
    unknown = invoke("train", "shogi", "--preset", "gpx")
    assert unknown.exit_code == 2
    assert_mentions(unknown.stderr, "preset 'gpx'", "shogi", "gpu")
    assert list(Path().iterdir()) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_preset_for_a_gpu_says_that_there_is_none(invoke: Invoke) -> None:
    result = invoke("train", "shogi", "--preset", "gpu")
    assert result.exit_code == 2
    assert "device='cuda'" in result.stderr
