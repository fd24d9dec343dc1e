"""SFEN in and out: senju writes the same as cshogi, and errors name the wrong part."""

import random

import cshogi
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from senju.games.shogi.layout import START_SFEN
from senju.games.shogi.sfen import SfenError, format_sfen, parse_sfen

KINGS = "4k4/9/9/9/9/9/9/9/4K4"
ACCEPTED = [
    START_SFEN,
    "l6nl/5+P1gk/2np1S3/p1p4Pp/3P2Sp1/1PPb2P1P/P5GS1/R8/LN4bKL w RGgsn5p 1",
    "R8/2K1S1SSk/4B4/9/9/9/9/9/1L1L1L3 b RBGSNLP3g3n17p 1",
    f"{KINGS} b 2R2B4G4S4N4L18P 1",
    f"{KINGS} w 2r2b4g4s4n4l18p 123",
    "4k4/PL+NSGBR2/9/9/9/9/9/+pl+nsgbr2/4K4 b - 1",
    "+P+L+N+Sk+B+R2/9/9/9/9/9/9/9/+p+l+n+sK+b+r2 b - 1",
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_is_read_is_written_again(text: str) -> None:
    assert format_sfen(*parse_sfen(text)) == text


def test_hands_are_read_in_any_order_and_written_in_one() -> None:
    text = "l6nl/5+P1gk/2np1S3/p1p4Pp/3P2Sp1/1PPb2P1P/P5GS1/R8/LN4bKL w GR5pnsg 1"
    assert format_sfen(*parse_sfen(text)) == text.replace("GR5pnsg", "RGgsn5p") == cshogi.Board(text).sfen()


def test_start_position_has_a_name_and_the_number_may_be_missing() -> None:
    for text in ("startpos", " startpos ", START_SFEN.removesuffix(" 1")):
        assert format_sfen(*parse_sfen(text)) == START_SFEN


def test_squares_hands_and_side_stand_where_the_layout_says() -> None:
    placement = parse_sfen("8l/9/9/9/9/9/k8/9/K7+R w 2Pb 7")
    pieces = {square: int(placement.board[square]) for square in np.flatnonzero(placement.board).tolist()}
    assert pieces == {0: 16 + 2, 8 * 9 + 6: 16 + 8, 8 * 9 + 8: 8, 8: 14}
    assert placement.hands.tolist() == [[2, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1, 0]]
    assert (placement.side, placement.number) == (1, 7)


@given(st.integers(0, 2**32))
@settings(deadline=None)
def test_every_position_of_a_random_game_is_written_as_cshogi_writes_it(seed: int) -> None:
    chance, board = random.Random(seed), cshogi.Board()
    for _ in range(60):
        moves = list(board.legal_moves)
        if not moves:
            break
        board.push(chance.choice(moves))
    text = board.sfen()
    placement = parse_sfen(text)
    assert format_sfen(*placement) == text
    assert placement.hands.tolist() == [list(hand) for hand in board.pieces_in_hand]


WITH_RANK_C = "4k4/9/{}/9/9/9/9/9/4K4 b - 1"
REFUSED = {
    "empty": ("", ["0 fields", "board, side, hands"]),
    "one field": (KINGS, ["1 fields"]),
    "five fields": (START_SFEN + " 1", ["5 fields"]),
    "eight ranks": ("4k4/9/9/9/9/9/9/4K4 b - 1", ["8 ranks", "expected 9"]),
    "ten ranks": (KINGS + "/9 b - 1", ["10 ranks"]),
    "eight squares": (WITH_RANK_C.format("8"), ["rank c '8'", "8 squares", "expected 9"]),
    "ten squares": (WITH_RANK_C.format("9p"), ["rank c '9p'", "10 squares"]),
    "no squares": (WITH_RANK_C.format(""), ["rank c ''", "0 squares"]),
    "nought": (WITH_RANK_C.format("0p8"), ["rank c", "'0'"]),
    "letter": (WITH_RANK_C.format("4x4"), ["rank c '4x4'", "'x'", "K R B G S N L P"]),
    "digit of another script": (WITH_RANK_C.format("٩"), ["rank c"]),
    "promoted gold": (WITH_RANK_C.format("4+g4"), ["'+g'", "gold", "promoted"]),
    "promoted king": ("4+k4/9/9/9/9/9/9/9/4K4 b - 1", ["rank a", "'+k'", "king", "promoted"]),
    "promoted nothing": (WITH_RANK_C.format("4+5"), ["'+5'", "P L N S B R"]),
    "promoted twice": (WITH_RANK_C.format("4++p4"), ["'++'"]),
    "ends with plus": (WITH_RANK_C.format("9+"), ["rank c '9+'", "'+'"]),
    "side": (f"{KINGS} x - 1", ["side to move", "'x'", "'b' (Black) or 'w' (White)"]),
    "side in capitals": (f"{KINGS} B - 1", ["side to move", "'B'"]),
    "number": (f"{KINGS} b - one", ["number is 'one'"]),
    "number nought": (f"{KINGS} b - 0", ["number is '0'", "1 to"]),
    "negative number": (f"{KINGS} b - -4", ["number is '-4'"]),
    "huge number": (f"{KINGS} b - {'9' * 500}", ["move number", "1 to 999999"]),
    "hand letter": (f"{KINGS} b Q 1", ["hands 'Q'", "'Q'", "in hand"]),
    "king in hand": (f"{KINGS} b k 1", ["'k'", "in hand"]),
    "promoted in hand": (f"{KINGS} b +P 1", ["'+'", "in hand"]),
    "count alone": (f"{KINGS} b P2 1", ["no piece", "count 2"]),
    "count nought": (f"{KINGS} b 0P 1", ["'0P'", "1 to 18"]),
    "count of two digits": (f"{KINGS} b 02P 1", ["'02P'"]),
    "count too large": (f"{KINGS} b 19P 1", ["'19P'", "1 to 18"]),
    "count beyond bytes": (f"{KINGS} b 257P 1", ["'257P'", "1 to 18"]),
    "the same piece twice": (f"{KINGS} b 2P3P 1", ["'P'", "twice"]),
    "dash and more": (f"{KINGS} b -P 1", ["'-'", "in hand"]),
    "no white king": ("9/9/9/9/9/9/9/9/4K4 b - 1", ["White", "no king", "exactly one"]),
    "no black king": ("4k4/9/9/9/9/9/9/9/9 b - 1", ["Black", "no king"]),
    "two kings": ("4k4/9/9/9/9/9/9/9/3K1K3 b - 1", ["Black has 2 kings"]),
    "no kings at all": ("9/9/9/9/9/9/9/9/9 b - 1", ["Black", "no king"]),
    "19 pawns": (
        "4k4/9/pppppppp1/9/9/PPPPPPPPP/9/9/4K4 b 2P 1",
        ["19 pawns", "17 on the board", "2 in hand", "has 18"],
    ),
    "promoted pieces count": (
        "4k4/9/+b+B+b6/9/9/9/9/9/4K4 b - 1",
        ["3 bishops", "3 on the board", "0 in hand"],
    ),
    "five golds": (f"{KINGS} b 3G2g 1", ["5 golds", "0 on the board", "5 in hand", "has 4"]),
    "three rooks": ("4k4/9/r8/9/9/9/9/9/4K4 b 2R 1", ["3 rooks"]),
    "black pawn on the last rank": ("P3k4/9/9/9/9/9/9/9/4K4 b - 1", ["Black's pawn on 9a", "never move"]),
    "white pawn on the last rank": ("4k4/9/9/9/9/9/9/9/4K3p b - 1", ["White's pawn on 1i", "never move"]),
    "lance on the last rank": ("4k3L/9/9/9/9/9/9/9/4K4 b - 1", ["Black's lance on 1a", "never move"]),
    "knight on the last rank": ("4k3N/9/9/9/9/9/9/9/4K4 b - 1", ["Black's knight on 1a", "never move"]),
    "knight on the rank before": (
        "4k4/9/9/9/9/9/9/2n6/4K4 b - 1",
        ["White's knight on 7h", "never move"],
    ),
    "two pawns": ("4k4/9/9/4P4/9/9/4P4/9/4K4 b - 1", ["Black", "pawns", "file 5", "5d and 5g"]),
    "two white pawns": (
        "4k4/9/p8/9/9/p8/9/9/4K4 b - 1",
        ["White", "pawns", "file 9", "9c and 9f"],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_sfen_is_refused_with_the_reason(name: str) -> None:
    text, expected = REFUSED[name]
    with pytest.raises(SfenError) as caught:
        parse_sfen(text)
    message = str(caught.value)
    assert text[:100] in message
    for words in expected:
        assert words in message


def test_pawns_of_both_sides_and_promoted_ones_may_share_a_file() -> None:
    parse_sfen("4k4/9/4p4/4+P4/9/9/4P4/9/4K4 b - 1")


@given(st.text("KkPp+Ll19/-bw 0Rr", max_size=60))
@settings(deadline=None)
def test_no_text_raises_anything_else(text: str) -> None:
    try:
        placement = parse_sfen(text)
    except SfenError:
        return
    assert parse_sfen(format_sfen(*placement)) is not None
