"""`senju games`: the list, and a game checked against the contract."""

import json
from pathlib import Path

import pytest

from senju.games import GAMES
from tests.conftest import Invoke, Start
from tests.facts import Facts, assert_mentions


def test_list_shows_every_game(invoke: Invoke) -> None:
    result = invoke("games")
    assert result.exit_code == 0
    for name in GAMES.names():
        assert f"│ {name} " in result.stdout
    assert "2×6×7" in result.stdout
    assert_mentions(result.stdout, "7×6 board")


def test_list_as_json_holds_the_facts(invoke: Invoke) -> None:
    facts = {fact["name"]: fact for fact in json.loads(invoke("games", "--json").stdout)}
    assert sorted(facts) == GAMES.names()
    assert "3×3 board" in facts["tic_tac_toe"].pop("description")
    assert facts["tic_tac_toe"] == {
        "name": "tic_tac_toe",
        "num_seats": 2,
        "num_acting": 1,
        "num_actions": 9,
        "observation_shape": [2, 3, 3],
        "is_zero_sum": True,
    }


def test_one_game_is_checked_against_the_contract(invoke: Invoke) -> None:
    result = invoke("games", "tic_tac_toe")
    assert result.exit_code == 0
    assert result.stdout.count("✓") > 5
    assert_mentions(result.stdout, "tic_tac_toe", "Game contract")


def test_check_as_json_lists_what_was_checked(invoke: Invoke) -> None:
    record = json.loads(invoke("games", "tic_tac_toe", "--json").stdout)
    assert "declarations" in record["checks"]
    assert record["num_steps"] > 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tictactoe", ("'tictactoe'", "'tic_tac_toe'")),
        ("no_such_module:Game", "module 'no_such_module'"),
        ("senju.games.tic_tac_toe:Nothing", ("'Nothing'", "'senju.games.tic_tac_toe'")),
        ("json:JSONDecoder", ("'json:JSONDecoder'", "senju.games.game.Game")),
    ],
)
def test_unknown_game_is_explained(invoke: Invoke, name: str, expected: Facts) -> None:
    result = invoke("games", name)
    assert result.exit_code == 2
    assert_mentions(result.stderr, expected)


@pytest.mark.slow
def test_broken_game_of_a_user_is_found_in_the_current_folder_and_refused(
    start_senju: Start, tmp_path: Path
) -> None:
    (tmp_path / "my_games.py").write_text(
        "from senju.games.tic_tac_toe import TicTacToe\n\n\n"
        "class Broken(TicTacToe):\n    name = 'broken'\n    num_actions = 1\n"
    )
    process = start_senju("games", "my_games:Broken")
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "error: broken: num_actions=1" in errors
    assert "Traceback" not in output + errors
