"""Moves in USI, CSA and Japanese: every legal one to an action and back, and compared with cshogi."""

import random

import cshogi
import cshogi.KIF
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from senju.games.shogi.layout import NUM_ACTIONS
from senju.games.shogi.notation import (
    NotationError,
    action_of_usi,
    csa_of_move,
    kif_of_move,
    move_of_action,
    move_of_usi,
    parse_square,
    usi_of_action,
)
from senju.games.shogi.pieces import square_name
from senju.games.shogi.sfen import parse_sfen
from tests.games.shogi.games import random_game

MIDDLE_GAME = "l6nl/5+P1gk/2np1S3/p1p4Pp/3P2Sp1/1PPb2P1P/P5GS1/R8/LN4bKL {} RGgsn5p 1"


def test_square_names_both_ways() -> None:
    assert [parse_square(square_name(square)) for square in range(81)] == list(range(81))
    assert (parse_square("1a"), parse_square("1i"), parse_square("9a")) == (0, 8, 72)


@given(st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_every_move_of_cshogi_has_one_action_and_the_same_names(seed: int) -> None:
    chance, board = random.Random(seed), cshogi.Board()
    for _ in range(chance.randrange(120)):
        moves = list(board.legal_moves)
        if not moves:
            break
        board.push(chance.choice(moves))
    pieces, _, side, _ = parse_sfen(board.sfen())
    actions = set()
    for theirs in board.legal_moves:
        usi = cshogi.move_to_usi(theirs)
        action = action_of_usi(pieces, side, usi)
        assert usi_of_action(pieces, side, action) == usi
        move = move_of_usi(pieces, side, usi)
        assert csa_of_move(move)[1:] == cshogi.move_to_csa(theirs)
        for_one_character = (
            kif_of_move(move).replace("成香(", "杏(").replace("成桂(", "圭(").replace("成銀(", "全(")
        )
        assert for_one_character == cshogi.KIF.move_to_kif(theirs).replace("竜", "龍")
        actions.add(action)
    assert len(actions) == len(list(board.legal_moves))


@given(st.integers(0, 2**32), st.integers(0, 150))
@settings(max_examples=20, deadline=None)
def test_whatever_an_action_is_called_means_that_action(seed: int, num_plies: int) -> None:
    state = random_game(seed, num_plies).state
    for side in (0, 1):
        for action in range(NUM_ACTIONS):
            try:
                usi = usi_of_action(state["board"], side, action)
            except NotationError:
                continue
            assert action_of_usi(state["board"], side, usi) == action


def test_both_sides_see_their_moves_alike() -> None:
    board = parse_sfen("startpos").board
    for black, white in (("7g7f", "3c3d"), ("2h5h", "8b5b"), ("9i9h", "1a1b"), ("P*5e", "P*5e")):
        assert action_of_usi(board, 0, black) == action_of_usi(board, 1, white)


def test_japanese_names_of_drops_promotions_and_recaptures() -> None:
    board = parse_sfen(MIDDLE_GAME.format("w")).board
    assert kif_of_move(move_of_usi(board, 1, "6f2b")) == "２二角(66)"
    assert kif_of_move(move_of_usi(board, 1, "3i1g+")) == "１七角成(39)"
    assert kif_of_move(move_of_usi(board, 1, "P*5e")) == "５五歩打"
    assert kif_of_move(move_of_usi(board, 0, "4b4a"), previous_target=parse_square("4a")) == "同　と(42)"
    assert (
        kif_of_move(move_of_usi(parse_sfen("4k4/9/9/9/4+s4/9/9/9/4K4 w - 1").board, 1, "5e5f"))
        == "５六成銀(55)"
    )


REFUSED = {
    "nothing": ("", ["''", "7g7f, 8h2b+ or P*5e"]),
    "half a move": ("7g7", ["'7g7'"]),
    "a square off the board": ("7g7j", ["'7g7j'"]),
    "file nought": ("0a1a", ["USI"]),
    "capitals": ("7G7F", ["USI"]),
    "a drop of a king": ("K*5e", ["USI"]),
    "a drop of a promoted piece": ("+P*5e", ["USI"]),
    "a drop that promotes": ("P*5e+", ["USI"]),
    "a line break": ("7g7f\n", ["USI"]),
    "much text": ("7" * 10_000, ["777…'"]),
    "an empty source": ("5e5d", ["'5e5d'", "on 5e"]),
    "the other's piece": ("3c3d", ["'3c3d'", "White's pawn on 3c", "Black is to move"]),
    "no line": ("7g6d", ["'7g6d'", "from 7g to 6d"]),
    "a knight's jump backwards": ("7g8i", ["from 7g to"]),
    "standing still": ("7g7g", ["from 7g to"]),
    "a piece in between": ("8h3c+", ["'8h3c+'", "Black's pawn on 7g"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_move_is_refused_and_quoted(name: str) -> None:
    text, expected = REFUSED[name]
    with pytest.raises(NotationError) as caught:
        action_of_usi(parse_sfen("startpos").board, 0, text)
    for words in expected:
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (-1, "-1.*0 to 2186"),
        (NUM_ACTIONS, "2187"),
        (81 * 9 + 3, "action 732.*Black to 1d.*no piece"),
        (81 * 5 + 13, "action 418.*Black to 2e.*White's pawn on 2c"),
    ],
)
def test_action_without_a_piece_is_refused(action: int, expected: str) -> None:
    with pytest.raises(NotationError, match=expected):
        move_of_action(parse_sfen("startpos").board, 0, action)


@pytest.mark.parametrize("name", ["", "7", "7j", "0a", "10a", "7gg", "g7"])
def test_invalid_square_is_refused(name: str) -> None:
    with pytest.raises(NotationError, match="7g"):
        parse_square(name)
