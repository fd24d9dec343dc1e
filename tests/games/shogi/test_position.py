"""One position with its history, as users and engines use it."""

import numpy as np
import pytest

from senju.errors import IllegalActionError, SenjuError
from senju.games.shogi.game import Shogi, ShogiConfig
from senju.games.shogi.layout import BLACK, START_SFEN, WHITE, Ending
from senju.games.shogi.position import Position
from senju.games.shogi.sfen import SfenError
from tests.facts import mentions
from tests.games.shogi.flips import flip_sfen
from tests.games.shogi.games import random_moves

ROOK_AND_KING = "k8/9/9/9/9/9/9/1R7/4K4 b - 1"
CHECKS = ["8h9h", "9a8a", "9h8h", "8a9a"]


def test_new_position_is_the_usual_start() -> None:
    position = Position()
    assert position.sfen() == START_SFEN
    assert (position.side, position.ply, position.is_check) == (BLACK, 0, False)
    assert position.ending is Ending.RUNNING
    assert not position.can_declare
    assert len(position.legal_moves()) == len(position.legal_actions()) == 30


def test_moves_change_side_ply_and_number() -> None:
    position = Position("4k4/9/9/9/9/9/9/9/4K4 w P 41")
    assert (position.side, position.ply, position.first_number) == (WHITE, 0, 41)
    position.push_usi("5a5b")
    position.push(position.action("P*5e"))
    assert (position.side, position.ply) == (WHITE, 2)
    assert position.sfen() == "9/4k4/9/9/4P4/9/9/9/4K4 w - 43"


def test_captures_go_to_the_hand_unpromoted() -> None:
    position = Position()
    for usi in ("7g7f", "3c3d", "8h2b+", "3a2b", "B*4e"):
        position.push_usi(usi)
    assert position.sfen() == "lnsgkg1nl/1r5s1/pppppp1pp/6p2/5B3/2P6/PP1PPPPPP/7R1/LNSGKGSNL w b 6"


@pytest.mark.parametrize("seed", range(3))
def test_position_read_from_sfen_is_the_position_played_to(seed: int) -> None:
    """But for its history: the legal moves, the hash and all sets are made anew, and are the same."""
    played = Position()
    for usi in random_moves(seed, 120):
        played.push_usi(usi)
        read = Position(played.sfen())
        for name in ("sets", "legal", "hash", "board", "side", "is_check", "hands"):
            assert np.array_equal(played.state[name], read.state[name]), name
        assert read.sfen() == played.sfen()


def test_copy_is_independent() -> None:
    position = Position()
    twin = position.copy()
    twin.push_usi("7g7f")
    assert position.sfen() == START_SFEN
    assert twin.ply == 1
    position.push_usi("2g2f")
    assert twin.sfen() != position.sfen()


def test_copy_keeps_the_history() -> None:
    position = Position(ROOK_AND_KING)
    for usi in CHECKS * 2:
        position.push_usi(usi)
    twin = position.copy()
    for usi in CHECKS:
        twin.push_usi(usi)
    assert twin.ending is Ending.PERPETUAL_LOSS
    assert position.ending is Ending.RUNNING


def test_play_goes_on_after_a_repetition() -> None:
    """A person may go on where the rules call the game over, and the next verdict is right again."""
    position = Position(ROOK_AND_KING)
    for usi in CHECKS * 3:
        position.push_usi(usi)
    assert position.ending is Ending.PERPETUAL_LOSS
    position.push_usi("5i5h")
    assert position.ending is Ending.RUNNING
    for usi in ("9a9b", "5h5i", "9b9a"):
        position.push_usi(usi)
    assert position.state["repetitions"] == 4
    assert position.ending is Ending.REPETITION


def test_play_goes_on_where_a_declaration_was_possible() -> None:
    position = Position("K+R+R+B+B4/+P+P+P+P+P+P3/9/9/9/9/9/9/8k b 2P 1")
    assert position.can_declare
    position.push_usi("P*5e")
    assert position.ending is Ending.RUNNING
    position.push_usi("1i1h")
    assert not position.can_declare, "the pawn on the board left a point short"


def test_no_move_is_played_past_the_limit_of_plies() -> None:
    position = Position(max_plies=2)
    position.push_usi("7g7f")
    position.push_usi("3c3d")
    assert position.ending is Ending.PLY_LIMIT
    before = position.states.tobytes()
    with pytest.raises(IllegalActionError, match=r"2 moves.*max_plies"):
        position.push_usi("2g2f")
    assert position.states.tobytes() == before


def test_no_move_is_played_after_mate() -> None:
    position = Position("8k/9/6NG1/9/9/9/9/9/4K4 b G 1")
    position.push_usi("G*1b")
    assert position.ending is Ending.MATE
    assert position.legal_moves() == []
    with pytest.raises(IllegalActionError):
        position.push_usi("1a1b")


@pytest.mark.parametrize(
    ("usi", "words"),
    [
        ("7g7e", "pawn on 7g"),
        ("8h3c", "pawn on 7g"),
        ("P*5e", "no pawn in hand"),
        ("3c3d", "White's pawn on 3c"),
        ("5e5d", "5e"),
        ("7g7f+", "neither 7g nor 7f"),
        ("hello", "hello"),
        ("", "''"),
    ],
)
def test_illegal_moves_say_why_and_change_nothing(usi: str, words: str) -> None:
    position = Position()
    before = position.states.tobytes()
    with pytest.raises(IllegalActionError, match=words):
        position.push_usi(usi)
    assert position.states.tobytes() == before


@pytest.mark.parametrize("action", [-1, 0, 2186, 2187, 10**12, -(10**12)])
def test_illegal_actions_are_refused(action: int) -> None:
    position = Position()
    before = position.states.tobytes()
    with pytest.raises(IllegalActionError, match=str(action)):
        position.push(action)
    assert position.states.tobytes() == before


@pytest.mark.parametrize("flip", [False, True], ids=["Black", "White"])
@pytest.mark.parametrize(
    "sfen",
    ["4k4/4P4/9/9/9/9/9/9/4K4 b - 1", "4k4/9/9/9/4R4/9/9/9/4K4 b - 1", "4k4/4K4/9/9/9/9/9/9/9 b - 1"],
    ids=["pawn", "rook", "king"],
)
def test_king_that_could_be_taken_is_refused(sfen: str, flip: bool) -> None:
    mover, other = ("White", "Black") if flip else ("Black", "White")
    with pytest.raises(SfenError, match=mentions(f"{mover} is to move", f"{other}'s king")):
        Position(flip_sfen(sfen) if flip else sfen)


def test_unknown_rule_is_refused() -> None:
    with pytest.raises((SenjuError, ValueError), match="declaration"):
        Position(declaration="28")


def test_positions_share_a_game() -> None:
    game = Shogi(ShogiConfig(max_plies=7, declaration="24", history=2))
    position = Position(game=game)
    assert position.game is game
    for usi in random_moves(1, 7):
        position.push_usi(usi)
    assert position.ending is Ending.PLY_LIMIT
