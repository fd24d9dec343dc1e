"""`senju arena` as a command: tables and files, stopping and continuing, and killed workers."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from senju.cli import console
from senju.cli.arena import show_arena
from senju.evaluation.tournament.participants import Participant
from senju.evaluation.tournament.result import TournamentResult
from senju.evaluation.tournament.tasks import TournamentSchedule, TournamentSettings
from senju.opponents.ratings import Rating
from senju.opponents.score import Score
from senju.runs.run import Run
from tests.conftest import Invoke, Start, Train, WaitUntil
from tests.evaluation.tournament import odd_players
from tests.facts import Facts, assert_mentions

ODD = odd_players.__name__
CYCLE = [f"{ODD}:{name}" for name in ("rock", "scissors", "paper")]
HERE = ("--game", "tic_tac_toe", "--workers", 1)


def results(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return record


def test_single_run_meets_its_past_random_and_its_evaluation_opponents(
    invoke: Invoke, train_small: Train
) -> None:
    checkpoints = {"interval": 2, "keep": 10}
    opponents = {"opponents": ["random"], "final_opponents": ["minimax:1"]}
    run = train_small("mine", updates=6, checkpoint=checkpoints, evaluation=opponents)
    shown = invoke("arena", run.path, "--games", 20, "--workers", 1)
    assert shown.exit_code == 0
    names = [each["name"] for each in results(run.path / "arena")["participants"]]
    assert names == ["mine@6", "mine@4", "mine@2", "random", "minimax:1"]
    assert all(name in shown.stdout for name in names)
    assert (run.path / "arena" / "arena.svg").exists()
    fewer = invoke("arena", run.path, "--games", 20, "--workers", 1, "--past", 1, "--out", "fewer", "--json")
    assert [each["name"] for each in json.loads(fewer.stdout)["participants"]] == [
        "mine@6",
        "mine@2",
        "random",
        "minimax:1",
    ]


def test_a_game_that_is_not_the_runs_own_is_refused(invoke: Invoke, tic_tac_toe_run: Run) -> None:
    for players in ([tic_tac_toe_run.path], [tic_tac_toe_run.path, "random"]):
        refused = invoke("arena", *players, "--game", "connect_four", "--out", "other")
        assert refused.exit_code == 1
        assert_mentions(refused.stderr, "tic_tac_toe", "connect_four")


def test_several_are_exactly_those_and_past_selves_where_wanted(
    invoke: Invoke, tic_tac_toe_run: Run, tmp_path: Path
) -> None:
    given = (tic_tac_toe_run.path, "minimax:1", "--games", 20, "--workers", 1)
    invoke("arena", *given, "--out", "two")
    assert [each["name"] for each in results(tmp_path / "two")["participants"]] == [
        "tic_tac_toe@6",
        "minimax:1",
    ]
    invoke("arena", *given, "--past", 2, "--out", "four")
    names = [each["name"] for each in results(tmp_path / "four")["participants"]]
    assert names == ["tic_tac_toe@6", "tic_tac_toe@4", "tic_tac_toe@2", "minimax:1"]


def test_cycle_of_three_functions_is_found(invoke: Invoke, tmp_path: Path) -> None:
    shown = invoke("arena", *CYCLE, *HERE, "--opening", 0, "--out", "circle")
    rock, scissors, paper = CYCLE
    assert f"A cycle: {rock} beats {scissors} beats {paper} beats {rock}" in shown.stdout
    record = results(tmp_path / "circle")
    assert [pair["games"] for pair in record["pairs"]] == [20, 20, 20]  # clear at the first check
    assert [each["rating"] for each in record["participants"]] == pytest.approx([0, 0, 0], abs=1e-3)


def test_table_shows_scores_of_the_strongest_first(invoke: Invoke) -> None:
    shown = invoke("arena", "random", "minimax:3", *HERE, "--no-early-stop", "--games", 40, "--json")
    record = json.loads(shown.stdout)
    (pair,) = record["pairs"]
    assert pair["games"] == 40
    again = invoke("arena", "random", "minimax:3", *HERE, "--no-early-stop", "--games", 40)
    rows = [line.split("│") for line in again.stdout.splitlines() if line.startswith("│")]
    assert [row[2].strip() for row in rows] == ["minimax:3", "random"]
    cross = [line.split() for line in again.stdout.splitlines() if line.startswith(("1 ", "2 "))]
    better = f"{100 * (1 - pair['score']):.0f}"  # of the first row, against the second
    assert cross == [["1", "minimax:3", better], ["2", "random", f"{100 * pair['score']:.0f}"]]


def test_ratings_of_training_games_are_shown_beside_the_tournaments(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Shifted by the mean difference of players with both ratings: ratings have no origin of their own."""
    schedule = TournamentSchedule(["me@40", "random"], TournamentSettings(games=20))
    schedule.finish(schedule.task(0, 1, 0), Score(10, 0, 10))
    players = [Participant(name, name, "") for name in schedule.names]
    result = TournamentResult("tic_tac_toe", players, schedule, Path("here"))
    trained = [Rating("update 20", 900, 1, 9), Rating("update 40", 1100, 50, 9), Rating("random", 1000, 0, 9)]
    show_arena(result, trained)
    rows = [line.split("│") for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    assert {row[2].strip(): row[5].strip() for row in rows} == {"me@40": "+50 ± 98", "random": "-50 ± 0"}


def test_large_table_keeps_to_the_screen(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in (40, 60):
        monkeypatch.setattr(console.out, "_width", columns)
        everybody = ("random", *(f"minimax:{depth}" for depth in (1, 2, 3)), *CYCLE[:2])
        shown = invoke("arena", *everybody, *HERE, "--games", 2).stdout
        table = shown[shown.index("Who beats whom") : shown.index("green: ")].splitlines()[2:]
        assert all(len(line) <= columns for line in table)
        assert [line for line in table if line.startswith("6 ")]
        assert any("–" in line for line in table) == (columns == 60)


def test_same_command_again_shows_the_finished_tournament_without_playing(
    invoke: Invoke, tmp_path: Path
) -> None:
    command = ("arena", *CYCLE, *HERE, "--json")
    first = invoke(*command)
    folder = tmp_path / json.loads(first.stdout)["folder"]
    log = (folder / "games.jsonl").read_bytes()
    assert invoke(*command).stdout == first.stdout
    assert (folder / "games.jsonl").read_bytes() == log
    assert invoke(*command, "--seed", 1).stdout != first.stdout  # which takes another folder
    assert [path.name[:6] for path in sorted(tmp_path.iterdir())] == ["arena-", "arena-"]


def test_folder_of_another_tournament_is_refused_unless_fresh(invoke: Invoke, tmp_path: Path) -> None:
    invoke("arena", "random", "minimax:1", *HERE, "--games", 20, "--out", "here")
    other = ("arena", "random", "minimax:2", *HERE, "--games", 20, "--out", "here")
    refused = invoke(*other)
    assert refused.exit_code == 1
    assert_mentions(refused.stderr, "random, minimax:1", "random, minimax:2", "--fresh")
    assert invoke(*other, "--fresh").exit_code == 0
    assert [each["name"] for each in results(tmp_path / "here")["participants"]] == ["random", "minimax:2"]


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_ctrl_c_keeps_what_was_played_and_the_same_command_goes_on(
    invoke: Invoke, tmp_path: Path, workers: int
) -> None:
    (tmp_path / "arena.pid").write_text(str(os.getpid()))
    everybody = ("random", "minimax:1", f"{ODD}:interrupting")
    command = ("arena", *everybody, *HERE, "--games", 40)
    stopped = invoke(*command, "--out", "cut", "--workers", workers)
    assert stopped.exit_code == 130
    assert "Stopped" in stopped.stdout
    assert not results(tmp_path / "cut")["is_finished"]
    kept = (tmp_path / "cut" / "games.jsonl").read_bytes()
    if workers == 1:  # the header, and the pair before the one that was interrupted
        assert kept.count(b"\n") == 2
    assert invoke(*command, "--out", "cut").exit_code == 0
    assert (tmp_path / "cut" / "games.jsonl").read_bytes().startswith(kept)
    invoke(*command, "--out", "whole")
    for name in ("results.json", "arena.svg"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["random", "--game", "tic_tac_toe"], 2, "only 'random'"),
        (["random", "minimax:1", "random", "--game", "tic_tac_toe"], 2, ("twice", "random")),
        (["random", "minimax:1"], 2, ("none", "random, minimax:1", "run")),
        (["runs/none"], 2, ("none", "runs/none", "run")),
        (["random", "minimax:1", "--game", "tic_tac_toe", "--games", "7"], 2, ("games=7", "even")),
        (["random", "no_such:player", "--game", "tic_tac_toe"], 2, "module 'no_such'"),
        (["random", f"{ODD}:nobody", "--game", "tic_tac_toe"], 2, ("'nobody'", ODD)),
        (["random", "minimx:2", "--game", "tic_tac_toe"], 2, ("opponent 'minimx:2'", "minimax:DEPTH")),
        (["random", "minimax:1", "--game", "tests.collect.toy_games:Meeting"], 2, ("two seats", "meeting")),
        (
            ["random", "minimax:1", "--game", "tic_tac_toe", "--out", "a/file/b"],
            1,
            ("cannot write", "a/file/b"),
        ),
        (["random", f"{ODD}:raising", *map(str, HERE)], 1, ("RuntimeError: no idea", "tic_tac_toe", "row")),
        (["random", f"{ODD}:cheating", *map(str, HERE)], 1, ("99", "no legal action")),
    ],
)
def test_bad_input_is_reported_in_one_message(
    invoke: Invoke, tmp_path: Path, arguments: list[str], code: int, expected: Facts
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").touch()
    refused = invoke("arena", *arguments)
    assert_mentions(refused.stderr, expected)
    assert refused.exit_code == code


def test_run_of_another_game_is_refused(invoke: Invoke, tic_tac_toe_run: Run, connect_four_run: Run) -> None:
    refused = invoke("arena", tic_tac_toe_run.path, connect_four_run.path)
    assert_mentions(refused.stderr, str(connect_four_run.path), "connect_four", "tic_tac_toe")
    refused = invoke("arena", tic_tac_toe_run.path, "random", "--game", "connect_four")
    assert_mentions(refused.stderr, str(tic_tac_toe_run.path), "tic_tac_toe", "connect_four")


@pytest.mark.slow
def test_number_of_workers_does_not_change_a_byte(
    invoke: Invoke, tmp_path: Path, tic_tac_toe_run: Run
) -> None:
    """With agents, whose evaluations could round otherwise, and one that prints into the answers."""
    players = (tic_tac_toe_run.path, f"{tic_tac_toe_run.path}@2", "random", f"{ODD}:noisy")
    for workers in (1, 2):
        folder = f"by-{workers}"
        command = ("arena", *players, "--games", 100, "--workers", workers, "--out", folder)
        assert invoke(*command).exit_code == 0
    for name in ("results.json", "arena.svg"):
        assert (tmp_path / "by-1" / name).read_bytes() == (tmp_path / "by-2" / name).read_bytes()


Waiting = Callable[[], list[int]]


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Waiting:
    """Processes in which `odd_players:patient` waits for the file `go`; it is found from `tmp_path`."""
    shutil.copy(odd_players.__file__, tmp_path / "odd_players.py")
    monkeypatch.syspath_prepend(tmp_path)
    return lambda: [int(path.name.split("-")[1]) for path in tmp_path.glob("waiting-*")]


PATIENT = ("arena", "random", "minimax:1", "odd_players:patient", "--game", "tic_tac_toe", "--games", 40)


@pytest.mark.slow
def test_killed_worker_is_replaced_and_loses_nothing(
    invoke: Invoke, start_senju: Start, wait_until: WaitUntil, waiting: Waiting, tmp_path: Path
) -> None:
    arena = start_senju(*PATIENT, "--workers", 2, "--out", "struck")
    wait_until(lambda: len(waiting()) == 2, arena)
    os.kill(waiting()[0], signal.SIGKILL)
    wait_until(lambda: len(waiting()) == 3, arena)
    (tmp_path / "go").touch()
    _, said = arena.communicate(timeout=60)
    assert arena.returncode == 0
    assert "signal 9 (SIGKILL" in said
    invoke(*PATIENT, "--workers", 1, "--out", "whole")
    assert (tmp_path / "struck/results.json").read_bytes() == (tmp_path / "whole/results.json").read_bytes()


@pytest.mark.slow
def test_killed_tournament_leaves_no_process_and_can_continue(
    invoke: Invoke, start_senju: Start, wait_until: WaitUntil, waiting: Waiting, tmp_path: Path
) -> None:
    """One pair has begun, two wait for the patient one."""
    arena = start_senju(*PATIENT, "--workers", 2, "--out", "cut")
    wait_until(lambda: len(waiting()) == 2, arena)
    workers = [psutil.Process(pid) for pid in waiting()]
    arena.kill()
    arena.wait()
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert not alive
    kept = (tmp_path / "cut" / "games.jsonl").read_bytes()
    assert kept.count(b"\n") >= 2
    (tmp_path / "go").touch()
    assert invoke(*PATIENT, "--workers", 1, "--out", "cut").exit_code == 0
    assert (tmp_path / "cut" / "games.jsonl").read_bytes().startswith(kept)
    invoke(*PATIENT, "--workers", 1, "--out", "whole")
    assert (tmp_path / "cut/results.json").read_bytes() == (tmp_path / "whole/results.json").read_bytes()


@pytest.mark.slow
def test_player_that_kills_its_workers_is_named_with_what_it_printed(invoke: Invoke) -> None:
    command = ("arena", "random", f"{ODD}:deadly", "--game", "tic_tac_toe", "--games", 40, "--workers", 2)
    refused = invoke(*command)
    assert refused.exit_code == 1
    assert_mentions(refused.stderr, "3 workers", "random", f"{ODD}:deadly", "exit code 3")
    assert "goodbye, cruel world" in refused.stderr


@pytest.mark.slow
def test_cheat_in_a_worker_is_named(invoke: Invoke) -> None:
    cheat = f"{ODD}:cheating"
    refused = invoke("arena", "random", cheat, "--game", "tic_tac_toe", "--games", 40, "--workers", 2)
    assert refused.exit_code == 1
    assert_mentions(refused.stderr, cheat, "99", "no legal action")
