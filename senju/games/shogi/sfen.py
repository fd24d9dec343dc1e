"""Positions as SFEN: the board, the side to move, the hands and the move number in one line."""

import re
import reprlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from senju.errors import SenjuError
from senju.games.shogi import pieces
from senju.games.shogi.layout import HAND_KINDS, KING, NUM_OF_KIND, OF_WHITE, PAWN, START_SFEN, UNPROMOTED
from senju.games.shogi.pieces import Board, Hands

MAX_NUMBER = 999_999  # of a move
MAX_LETTERS = 1000  # of a text; a full board, full hands and a number take about 200

_PIECES = {
    pieces.letter_of(code): code for kind in range(1, len(pieces.SYMBOLS)) for code in (kind, kind | OF_WHITE)
}


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
    try:
        return _parse(text)
    except SfenError as error:
        shown = text if len(text) <= 200 else text[:200] + "…"
        raise SfenError(f"SFEN {shown!r}: {error}") from None


def _parse(text: str) -> Placement:
    if len(text) > MAX_LETTERS:
        raise SfenError(f"it has {len(text)} letters; expected at most {MAX_LETTERS}")
    fields = START_SFEN.split() if text.strip() == "startpos" else text.split()
    if not 3 <= len(fields) <= 4:
        raise SfenError(f"it has {len(fields)} fields; expected board, side, hands and move number")
    board, side, in_hand, number = fields if len(fields) == 4 else [*fields, "1"]
    codes, hands = _parse_board(board), _parse_hands(in_hand)
    if side not in ("b", "w"):
        raise SfenError(f"the side to move is {side!r}; expected 'b' (Black) or 'w' (White)")
    is_number = number.isascii() and number.isdigit() and len(number) <= len(str(MAX_NUMBER))
    if not is_number or int(number) == 0:
        raise SfenError(f"the move number is {number!r}; expected 1 to {MAX_NUMBER}")
    if fault := find_fault(codes, hands):
        raise SfenError(fault)
    return Placement(codes, hands, "bw".index(side), int(number))


def format_sfen(board: Board, hands: Hands, side: int, number: int = 1) -> str:
    """A position as SFEN, in its usual form.

    >>> placement = parse_sfen("startpos")
    >>> format_sfen(*placement) == START_SFEN
    True
    """
    _require_placement(board, hands, side, number)
    ranks = ["".join(pieces.letter_of(code) or "1" for code in rank) for rank in pieces.ranks_of(board)]
    squares = re.sub("1+", lambda empty: str(len(empty[0])), "/".join(ranks))
    held = [(kind | OF_WHITE * owner, count) for owner in (0, 1) for kind, count in pieces.held(hands, owner)]
    in_hand = "".join(f"{count if count > 1 else ''}{pieces.letter_of(code)}" for code, count in held)
    return f"{squares} {'bw'[side]} {in_hand or '-'} {number}"


def _require_placement(board: Board, hands: Hands, side: int, number: int) -> None:
    """Refuse arguments of the wrong type, shape or range; the position itself is not checked."""
    for name, array, shape, most in (
        ("board", board, (81,), OF_WHITE | (len(pieces.SYMBOLS) - 1)),
        ("hands", hands, (2, len(HAND_KINDS)), max(NUM_OF_KIND.values())),
    ):
        if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype.kind not in "iu":
            raise SfenError(f"{name}: expected whole numbers of shape {shape}, got {reprlib.repr(array)}")
        if array.min() < 0 or array.max() > most:
            raise SfenError(f"{name}: expected numbers from 0 to {most}, got {array.min()} to {array.max()}")
    if not isinstance(side, int | np.integer) or side not in (0, 1):
        raise SfenError(f"side={reprlib.repr(side)}: expected 0 (Black) or 1 (White)")
    if not isinstance(number, int | np.integer) or number < 1:
        raise SfenError(f"number={reprlib.repr(number)}: expected a whole number from 1")


def find_fault(board: Board, hands: Hands) -> str | None:
    """Why a position is impossible: a wrong number of kings or pieces, stuck pieces, doubled pawns."""
    return next(_faults(board, hands), None)


def _parse_board(field: str) -> Board:
    ranks = field.split("/")
    if len(ranks) != 9:
        raise SfenError(f"the board {field!r} has {len(ranks)} ranks; expected 9, with '/' between them")
    board = np.zeros(81, np.uint8)
    for rank, squares in enumerate(ranks):
        codes = _parse_rank(squares, f"rank {pieces.RANKS[rank]} {squares!r}")
        board[rank::9] = codes[::-1]  # written from file 9 to file 1
    return board


def _parse_rank(squares: str, where: str) -> list[int]:
    codes: list[int] = []
    promotes = ""
    for letter in squares:
        if letter == "+" and not promotes:
            promotes = "+"
        elif letter in "123456789" and not promotes:
            codes += [0] * int(letter)
        elif promotes + letter in _PIECES:
            codes.append(_PIECES[promotes + letter])
            promotes = ""
        elif promotes and letter in _PIECES:
            name = pieces.NAMES[pieces.piece_type(_PIECES[letter])]
            raise SfenError(f"{where}: '+{letter}': a {name} cannot be promoted")
        elif promotes:
            raise SfenError(f"{where}: '+{letter}': after '+' comes one of P L N S B R")
        else:
            raise SfenError(f"{where}: {letter!r} is not a piece; expected K R B G S N L P, '+' or 1 to 9")
    if promotes:
        raise SfenError(f"{where}: no piece follows the last '+'")
    if len(codes) != 9:
        raise SfenError(f"{where} has {len(codes)} squares; expected 9")
    return codes


def _parse_hands(field: str) -> Hands:
    hands = np.zeros((2, len(HAND_KINDS)), np.uint8)
    if field == "-":
        return hands
    count = ""
    for letter in field:
        if letter in "0123456789":
            count += letter
            continue
        piece = _PIECES.get(letter, 0)
        kind = pieces.piece_type(piece)
        if kind not in HAND_KINDS:
            raise SfenError(f"hands {field!r}: {letter!r} cannot be in hand; expected '-' or R B G S N L P")
        place = (pieces.side_of(piece), HAND_KINDS.index(kind))
        if hands[place]:
            raise SfenError(f"hands {field!r}: {letter!r} occurs twice")
        limit = NUM_OF_KIND[kind]
        if count and not (count[0] != "0" and len(count) <= 2 and int(count) <= limit):
            raise SfenError(f"hands {field!r}: '{count}{letter}': expected a count from 1 to {limit}")
        hands[place] = int(count or "1")
        count = ""
    if count:
        raise SfenError(f"hands {field!r}: no piece follows the count {count}")
    return hands


def _faults(board: Board, hands: Hands) -> Iterator[str]:
    codes = [int(piece) for piece in board if piece]
    for side in (0, 1):
        num_kings = codes.count(KING | OF_WHITE * side)
        if num_kings != 1:
            found = "no king" if num_kings == 0 else f"{num_kings} kings"
            yield f"{pieces.SIDE_NAMES[side]} has {found}; expected exactly one"
    kinds = [UNPROMOTED.get(pieces.piece_type(piece), pieces.piece_type(piece)) for piece in codes]
    for kind in HAND_KINDS:
        on_board, in_hand = kinds.count(kind), int(hands[:, HAND_KINDS.index(kind)].sum())
        total, most = on_board + in_hand, NUM_OF_KIND[kind]
        if total > most:
            where = f"{on_board} on the board, {in_hand} in hand"
            yield f"there are {total} {pieces.NAMES[kind]}s ({where}); a set has {most}"
    for square in np.flatnonzero(board).tolist():
        if not pieces.could_move_on(pieces.piece_type(board[square]), square, pieces.side_of(board[square])):
            yield f"{pieces.piece_on(board, square)} could never move"
    for side in (0, 1):
        for file in range(9):
            pawns = 9 * file + np.flatnonzero(board[9 * file : 9 * file + 9] == (PAWN | OF_WHITE * side))
            if len(pawns) > 1:
                squares = " and ".join(pieces.square_name(square) for square in pawns.tolist())
                yield f"{pieces.SIDE_NAMES[side]} has two unpromoted pawns on file {file + 1}: {squares}"
