"""`senju explain-action`: an action by its number, by its name or as a move."""

import json

import pytest

from tests.conftest import Invoke
from tests.facts import Facts, assert_mentions


@pytest.mark.parametrize("text", ["59", "7g7f", "up to 7f"])
def test_number_move_and_name_mean_the_same(invoke: Invoke, text: str) -> None:
    result = invoke("explain-action", "shogi", text)
    assert result.exit_code == 0
    assert_mentions(result.stdout, "7g7f (７六歩(77))", "action 59", "up to 7f", "Black's pawn", "is legal")


def test_illegal_action_is_explained_with_its_reason(invoke: Invoke) -> None:
    result = invoke("explain-action", "shogi", "1234")
    assert result.exit_code == 0
    assert_mentions(result.stdout, "action 1234", "down to 3b, promoting", "no piece", "not legal")
    assert_mentions(result.stdout, "White's silver on 3a")
    assert_mentions(invoke("explain-action", "shogi", "9999").stdout, "9999", "not legal", "0 to 2186")


def test_position_can_be_given(invoke: Invoke) -> None:
    sfen = "4k4/9/9/9/9/9/9/9/4K4 w p 1"
    record = json.loads(invoke("explain-action", "shogi", "P*5h", "--sfen", sfen, "--json").stdout)
    assert record == {
        "sfen": sfen,
        "action": 20 * 81 + 80 - 43,
        "name": "drop a pawn on 5b",
        "usi": "P*5h",
        "japanese": "５八歩打",
        "side": "White",
        "piece": "pawn",
        "from": None,
        "to": "5h",
        "promotes": False,
        "is_drop": True,
        "is_legal": True,
        "reason": None,
    }


def test_json_of_an_action_that_moves_no_piece(invoke: Invoke) -> None:
    record = json.loads(invoke("explain-action", "shogi", "1234", "--json").stdout)
    assert (record["usi"], record["from"], record["is_legal"]) == (None, None, False)
    assert "White's silver on 3a" in record["reason"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["connect_four", "3"], "action 3 of connect_four: 4\n"),
        (["tic_tac_toe", "b2"], "action 4 of tic_tac_toe: b2\n"),
    ],
)
def test_other_games_name_their_actions(invoke: Invoke, arguments: list[str], expected: str) -> None:
    assert invoke("explain-action", *arguments).stdout == expected


def test_other_games_answer_in_json_too(invoke: Invoke) -> None:
    record = json.loads(invoke("explain-action", "connect_four", "3", "--json").stdout)
    assert record == {"action": 3, "name": "4"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["shogi", "7g"], "'7g'"),
        (["shogi", "5e5d"], "'5e5d'"),
        (["shogi", "9" * 30], "USI"),
        (["shogi", "59", "--sfen", "4k4 b - 1"], ("'4k4'", "1 ranks", "expected 9")),
        (["shogi", "59", "--sfen", "4k4/4R4/9/9/9/9/9/9/4K4 b - 1"], "White's king"),
        (["connect_four", "7"], ("7", "connect_four", "0 to 6")),
        (["connect_four", "x"], "'x'"),
        (["connect_four", "3", "--sfen", "startpos"], ("--sfen", "shogi")),
        (["shoggi", "59"], "unknown game 'shoggi'"),
    ],
)
def test_bad_input_is_named(invoke: Invoke, arguments: list[str], expected: Facts) -> None:
    result = invoke("explain-action", *arguments)
    assert result.exit_code == 2
    assert_mentions(result.stderr, expected)
