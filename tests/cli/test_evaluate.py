"""`senju evaluate`: strength as a table and as JSON."""

import json

import pytest

from senju.runs.run import Run
from tests.conftest import Invoke, Train
from tests.facts import Facts, assert_mentions


def test_strength_is_shown_against_every_opponent_asked_for(invoke: Invoke, tic_tac_toe_run: Run) -> None:
    against = ("--against", "random", "--against", "minimax:2")
    result = invoke("evaluate", tic_tac_toe_run.path, *against, "--games", 10)
    assert result.exit_code == 0
    assert "tic_tac_toe@6, temperature 0" in result.stdout
    rows = [line for line in result.stdout.splitlines() if line.startswith("│")]
    assert [row.split("│")[1].strip() for row in rows] == ["random", "minimax:2"]
    assert all(row.split("│")[-2].strip() == "10" for row in rows)


def test_result_as_json_adds_up(invoke: Invoke, tic_tac_toe_run: Run) -> None:
    result = invoke("evaluate", tic_tac_toe_run.path, "--json", "--games", 20)
    (record,) = json.loads(result.stdout)
    assert (record["player"], record["opponent"], record["games"]) == ("tic_tac_toe@6", "random", 20)
    assert record["wins"] + record["draws"] + record["losses"] == 20
    assert record["score"] == (record["wins"] + record["draws"] / 2) / 20
    assert record["interval"][0] <= record["score"] <= record["interval"][1]
    assert record["judgement"] is None


def test_same_seed_gives_the_same_numbers(invoke: Invoke, tic_tac_toe_run: Run) -> None:
    def measure(*options: object) -> str:
        return invoke("evaluate", tic_tac_toe_run.path, "--json", "--games", 40, *options).stdout

    assert measure("--seed", 1) == measure("--seed", 1)
    assert measure("--seed", 1) != measure("--seed", 2)
    warm = ("--temperature", 1, "--seed", 1)
    assert measure(*warm) == measure(*warm)
    assert measure(*warm) != measure("--seed", 1)


def test_moves_against_perfect_are_judged(invoke: Invoke, connect_four_run: Run) -> None:
    options = ("--against", "perfect", "--games", 4, "--opening-plies", 12)
    assert "Perfect moves: " in invoke("evaluate", connect_four_run.path, *options).stdout
    (record,) = json.loads(invoke("evaluate", connect_four_run.path, "--json", *options).stdout)
    judgement = record["judgement"]
    assert judgement["moves"] >= judgement["decisive_moves"] >= judgement["decisive_kept"]
    assert judgement["share"] == judgement["kept"] / judgement["moves"]


def test_match_that_is_over_in_its_opening_has_no_move_to_judge(
    invoke: Invoke, connect_four_run: Run
) -> None:
    options = ("--against", "perfect", "--games", 2, "--opening-plies", 42)
    result = invoke("evaluate", connect_four_run.path, *options)
    assert result.exit_code == 0
    assert_mentions(result.stdout, "judged")
    (record,) = json.loads(invoke("evaluate", connect_four_run.path, "--json", *options).stdout)
    assert record["judgement"]["share"] is None


def test_run_plays_against_another_run(invoke: Invoke, tic_tac_toe_run: Run, train_small: Train) -> None:
    other = train_small("other[bold]", seed=7)
    options = ("--against", other.path, "--games", 8)
    (record,) = json.loads(invoke("evaluate", tic_tac_toe_run.path, "--json", *options).stdout)
    assert (record["opponent"], record["opening_plies"]) == ("other[bold]@4", 4)
    assert "other[bold]@4" in invoke("evaluate", tic_tac_toe_run.path, *options).stdout


def test_run_against_itself_is_even(invoke: Invoke, tic_tac_toe_run: Run) -> None:
    options = ("--against", tic_tac_toe_run.path, "--games", 8, "--json")
    (record,) = json.loads(invoke("evaluate", tic_tac_toe_run.path, *options).stdout)
    assert record["score"] == 0.5


def test_older_checkpoint_can_be_measured(invoke: Invoke, tic_tac_toe_run: Run) -> None:
    options = ("--checkpoint", "update_000000002", "--games", 2, "--json")
    (record,) = json.loads(invoke("evaluate", tic_tac_toe_run.path, *options).stdout)
    assert record["player"] == "tic_tac_toe@2"


def test_run_plays_against_its_own_past(invoke: Invoke, tic_tac_toe_run: Run) -> None:
    path = tic_tac_toe_run.path
    for past in ("self@2", f"{path}@2"):
        (record,) = json.loads(invoke("evaluate", path, "--against", past, "--games", 4, "--json").stdout)
        assert (record["player"], record["opponent"]) == ("tic_tac_toe@6", "tic_tac_toe@2")


@pytest.mark.parametrize(
    ("options", "code", "expected"),
    [
        (["--games", "3"], 2, ("games=3", "even")),
        (["--games", "0"], 2, ("games=0", "even")),
        (["--against", "randm"], 2, "unknown opponent 'randm'"),
        (["--against", "minimax:0"], 2, ("'minimax:0'", "minimax:DEPTH", "1 to 9")),
        (["--against", "minimax:x"], 2, ("'minimax:x'", "minimax:DEPTH", "1 to 9")),
        (["--against", "perfect"], 2, ("tic_tac_toe", "solver", "`perfect`")),
        (["--against", "greedy:1"], 2, ("tic_tac_toe", "heuristic", "minimax:1")),
        (["--against", "."], 1, "not a run"),
        (["--against", "self@3"], 1, "no checkpoint '3'"),
        (["--checkpoint", "best"], 1, "no checkpoint 'best'"),
        (["--temperature", "-1"], 2, "--temperature"),
        (["--seed", "-1"], 2, "--seed"),
        (["--seed", str(2**64)], 2, "--seed"),
        (["--opening-plies", "-1"], 2, "--opening-plies"),
    ],
)
def test_bad_options_are_explained(
    invoke: Invoke, tic_tac_toe_run: Run, options: list[str], code: int, expected: Facts
) -> None:
    result = invoke("evaluate", tic_tac_toe_run.path, *options)
    assert result.exit_code == code
    assert_mentions(result.stderr, expected)
    assert result.stdout == ""


def test_run_of_another_game_is_no_opponent(
    invoke: Invoke, tic_tac_toe_run: Run, connect_four_run: Run
) -> None:
    result = invoke("evaluate", tic_tac_toe_run.path, "--against", connect_four_run.path)
    assert result.exit_code == 1
    assert "not of tic_tac_toe" in result.stderr


def test_folder_that_is_no_run_is_explained(invoke: Invoke) -> None:
    result = invoke("evaluate", "nothing")
    assert result.exit_code == 1
    assert_mentions(result.stderr, "nothing", "not a run")
