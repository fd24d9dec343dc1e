"""Positions as SFEN: the board, the side to move, the hands and the move number in one line."""

import re
import reprlib
from typing import NamedTuple, NoReturn

import numpy as np

from senju.errors import SenjuError
from senju.games.shogi.layout import HAND_KINDS, KING, NUM_OF_KIND, OF_WHITE, PAWN, START_SFEN, UNPROMOTED
from senju.games.shogi.pieces import (
    NAMES,
    RANKS,
    SIDE_NAMES,
    SYMBOLS,
    Board,
    Hands,
    could_move_on,
    held,
    letter_of,
    piece_on,
    piece_type,
    ranks_of,
    side_of,
    square_name,
)

MAX_NUMBER = 999_999  # of a move
MAX_LETTERS = 1000  # of a text; a full board, full hands and a number take about 200

_PIECES = {letter_of(code): code for kind in range(1, len(SYMBOLS)) for code in (kind, kind | OF_WHITE)}


class SfenError(SenjuError, ValueError):
    """A text is not an SFEN, or its position is impossible."""


class Placement(NamedTuple):
    """The content of an SFEN."""

    board: Board  # [81]
    hands: Hands  # [side, P L N S G B R]
    side: int  # to move: 0 Black, 1 White
    number: int  # of the next move, from 1


def parse_sfen(text: str) -> Placement:
    """Read an SFEN (or `startpos`); the move number may be missing.

    `Position` checks that the king of the side not to move is not in check.

    >>> parse_sfen("startpos").board[:9].tolist()
    [18, 0, 17, 0, 0, 0, 1, 0, 2]
    >>> parse_sfen("4k4/9/9/9/9/9/9/9/4K4 w 2Pr 7").hands.tolist()
    [[2, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1]]
    """
    if not isinstance(text, str):
        raise SfenError(f"SFEN {reprlib.repr(text)}: expected text, got {type(text).__name__}")
    if len(text) > MAX_LETTERS:
        _refuse(text, f"it has {len(text)} letters; expected at most {MAX_LETTERS}")
    fields = START_SFEN.split() if text.strip() == "startpos" else text.split()
    if not 3 <= len(fields) <= 4:
        _refuse(text, f"it has {len(fields)} fields; expected board, side, hands and move number")
    number = fields[3] if len(fields) == 4 else "1"
    placement = Placement(
        _parse_board(text, fields[0]),
        _parse_hands(text, fields[2]),
        _parse_side(text, fields[1]),
        _parse_number(text, number),
    )
    fault = find_fault(placement.board, placement.hands)
    if fault is not None:
        _refuse(text, fault)
    return placement


def format_sfen(board: Board, hands: Hands, side: int, number: int = 1) -> str:
    """A position as SFEN, in its usual form.

    >>> placement = parse_sfen("startpos")
    >>> format_sfen(*placement) == START_SFEN
    True
    """
    _require_placement(board, hands, side, number)
    ranks = "/".join(map(_format_rank, ranks_of(board)))
    return f"{ranks} {'bw'[side]} {_format_hands(hands)} {number}"


def _require_placement(board: Board, hands: Hands, side: int, number: int) -> None:
    """Refuse arguments of the wrong type, shape or range; the position itself is not checked."""
    for name, pieces, shape, most in (
        ("board", board, (81,), OF_WHITE | (len(SYMBOLS) - 1)),
        ("hands", hands, (2, len(HAND_KINDS)), max(NUM_OF_KIND.values())),
    ):
        if not isinstance(pieces, np.ndarray) or pieces.shape != shape or pieces.dtype.kind not in "iu":
            raise SfenError(f"{name}: expected whole numbers of shape {shape}, got {reprlib.repr(pieces)}")
        if pieces.min() < 0 or pieces.max() > most:
            raise SfenError(
                f"{name}: expected numbers from 0 to {most}, got {pieces.min()} to {pieces.max()}"
            )
    if not isinstance(side, int | np.integer) or side not in (0, 1):
        raise SfenError(f"side={reprlib.repr(side)}: expected 0 (Black) or 1 (White)")
    if not isinstance(number, int | np.integer) or number < 1:
        raise SfenError(f"number={reprlib.repr(number)}: expected a whole number from 1")


def find_fault(board: Board, hands: Hands) -> str | None:
    """Why a position is impossible: a wrong number of kings or pieces, stuck pieces, doubled pawns."""
    return _find_wrong_count(board, hands) or _find_stuck_piece(board) or _find_doubled_pawns(board)


def _parse_board(text: str, field: str) -> Board:
    ranks = field.split("/")
    if len(ranks) != 9:
        _refuse(text, f"the board {field!r} has {len(ranks)} ranks; expected 9, with '/' between them")
    board = np.zeros(81, np.uint8)
    for rank, squares in enumerate(ranks):
        pieces = _parse_rank(text, squares, f"rank {RANKS[rank]} {squares!r}")
        board[rank::9] = pieces[::-1]  # written from file 9 to file 1
    return board


def _parse_rank(text: str, squares: str, where: str) -> list[int]:
    pieces: list[int] = []
    promotes = ""
    for letter in squares:
        if letter == "+" and not promotes:
            promotes = "+"
        elif letter in "123456789" and not promotes:
            pieces += [0] * int(letter)
        elif promotes + letter in _PIECES:
            pieces.append(_PIECES[promotes + letter])
            promotes = ""
        elif promotes and letter in _PIECES:
            _refuse(text, f"{where}: '+{letter}': a {NAMES[piece_type(_PIECES[letter])]} cannot be promoted")
        elif promotes:
            _refuse(text, f"{where}: '+{letter}': after '+' comes one of P L N S B R")
        else:
            _refuse(text, f"{where}: {letter!r} is not a piece; expected K R B G S N L P, '+' or 1 to 9")
    if promotes:
        _refuse(text, f"{where}: no piece follows the last '+'")
    if len(pieces) != 9:
        _refuse(text, f"{where} has {len(pieces)} squares; expected 9")
    return pieces


def _parse_side(text: str, field: str) -> int:
    if field not in ("b", "w"):
        _refuse(text, f"the side to move is {field!r}; expected 'b' (Black) or 'w' (White)")
    return "bw".index(field)


def _parse_hands(text: str, field: str) -> Hands:
    hands = np.zeros((2, len(HAND_KINDS)), np.uint8)
    if field == "-":
        return hands
    count = ""
    for letter in field:
        if letter in "0123456789":
            count += letter
            continue
        piece = _PIECES.get(letter, 0)
        if piece_type(piece) not in HAND_KINDS:
            _refuse(text, f"hands {field!r}: {letter!r} cannot be in hand; expected '-' or R B G S N L P")
        place = (side_of(piece), HAND_KINDS.index(piece_type(piece)))
        if hands[place]:
            _refuse(text, f"hands {field!r}: {letter!r} occurs twice")
        limit = NUM_OF_KIND[piece_type(piece)]
        if count and not (count[0] != "0" and len(count) <= 2 and int(count) <= limit):
            _refuse(text, f"hands {field!r}: '{count}{letter}': expected a count from 1 to {limit}")
        hands[place] = int(count or "1")
        count = ""
    if count:
        _refuse(text, f"hands {field!r}: no piece follows the count {count}")
    return hands


def _parse_number(text: str, field: str) -> int:
    is_number = field.isascii() and field.isdigit() and len(field) <= len(str(MAX_NUMBER))
    if not is_number or int(field) == 0:
        _refuse(text, f"the move number is {field!r}; expected 1 to {MAX_NUMBER}")
    return int(field)


def _find_wrong_count(board: Board, hands: Hands) -> str | None:
    pieces = [int(piece) for piece in board if piece]
    for side in (0, 1):
        num_kings = pieces.count(KING | OF_WHITE * side)
        if num_kings != 1:
            found = "no king" if num_kings == 0 else f"{num_kings} kings"
            return f"{SIDE_NAMES[side]} has {found}; expected exactly one"
    kinds = [UNPROMOTED.get(piece_type(piece), piece_type(piece)) for piece in pieces]
    for kind in HAND_KINDS:
        on_board, in_hand = kinds.count(kind), int(hands[:, HAND_KINDS.index(kind)].sum())
        if on_board + in_hand > NUM_OF_KIND[kind]:
            where = f"{on_board} on the board, {in_hand} in hand"
            return f"there are {on_board + in_hand} {NAMES[kind]}s ({where}); a set has {NUM_OF_KIND[kind]}"
    return None


def _find_stuck_piece(board: Board) -> str | None:
    for square in np.flatnonzero(board).tolist():
        if not could_move_on(piece_type(board[square]), square, side_of(board[square])):
            return f"{piece_on(board, square)} could never move"
    return None


def _find_doubled_pawns(board: Board) -> str | None:
    for side in (0, 1):
        for file in range(9):
            pawns = 9 * file + np.flatnonzero(board[9 * file : 9 * file + 9] == (PAWN | OF_WHITE * side))
            if len(pawns) > 1:
                squares = " and ".join(square_name(square) for square in pawns.tolist())
                return f"{SIDE_NAMES[side]} has two unpromoted pawns on file {file + 1}: {squares}"
    return None


def _format_rank(pieces: list[int]) -> str:
    squares = "".join(letter_of(piece) or "1" for piece in pieces)
    return re.sub("1+", lambda empty: str(len(empty[0])), squares)


def _format_hands(hands: Hands) -> str:
    pieces = [(kind | OF_WHITE * side, count) for side in (0, 1) for kind, count in held(hands, side)]
    return "".join(f"{count if count > 1 else ''}{letter_of(code)}" for code, count in pieces) or "-"


def _refuse(text: str, what: str) -> NoReturn:
    shown = text if len(text) <= 200 else text[:200] + "…"
    raise SfenError(f"SFEN {shown!r}: {what}")
