"""Starting positions in CSA: `PI`, ranks `P1` to `P9`, single pieces `P+` and `P-`, and the side to move."""

import re

import numpy as np

from senju.errors import SenjuError
from senju.games.shogi import pieces
from senju.games.shogi.layout import HAND_KINDS, NUM_OF_KIND, OF_WHITE, START_SFEN, UNPROMOTED
from senju.games.shogi.notation import square_of_digits
from senju.games.shogi.pieces import Board, Hands, PieceType, Side, Square
from senju.games.shogi.sfen import Placement, find_fault, parse_sfen

_PIECES = re.compile(r"(?:([1-9]{2}|00)([A-Z]{2}))*")
_START = parse_sfen(START_SFEN)


class CsaError(SenjuError, ValueError):
    """A text is not a CSA record, is truncated, or has an illegal move."""


def kind_of_code(code: str) -> PieceType:
    """The piece type of CSA's two letters."""
    if code not in pieces.CSA_CODES[1:]:
        raise CsaError(f"{code!r} is not a piece; expected one of {' '.join(pieces.CSA_CODES[1:])}")
    return pieces.CSA_CODES.index(code)


class PositionReader:
    """Reads the statements of a start position, up to the side to move.

    >>> reader = PositionReader()
    >>> reader.read("PI82HI22KA")
    >>> placement = reader.finish("-")
    >>> int(placement.board[63 + 1]), placement.side
    (0, 1)
    """

    def __init__(self) -> None:
        self.board: Board = np.zeros(81, np.uint8)
        self.hands: Hands = np.zeros((2, len(HAND_KINDS)), np.uint8)
        self.ranks: set[int] = set()
        self.is_begun = self.is_whole = False  # a statement was read; it was PI
        self.is_given_away = False  # `00AL` was read

    def read(self, text: str) -> None:
        """Read one statement that starts with P."""
        which, rest = text[1:2], text[2:]
        if which == "I":
            self._read_start(rest)
        elif which and which in "123456789":
            self._read_rank(int(which) - 1, rest)
        elif which and which in "+-":
            self._read_pieces("+-".index(which), rest)
        else:
            raise CsaError("expected PI, P1 to P9, P+ or P-")
        self.is_begun = True

    def finish(self, side: str) -> Placement:
        """The position, once the side to move (`+` or `-`) is known."""
        if not self.is_begun:
            raise CsaError("there is no position before the side to move; expected PI or P1 to P9")
        if self.ranks and len(self.ranks) < 9:
            missing = ", ".join(f"P{rank + 1}" for rank in range(9) if rank not in self.ranks)
            raise CsaError(f"the board has {len(self.ranks)} of 9 ranks; {missing} missing")
        if fault := find_fault(self.board, self.hands):
            raise CsaError(f"in the position before this line, {fault}")
        return Placement(self.board, self.hands, "+-".index(side), 1)

    def _read_start(self, removed: str) -> None:
        if self.is_begun:
            raise CsaError("PI must be the first statement of a position")
        self.board[:], self.is_whole = _START.board, True
        for square, code in _pieces(removed):
            kind = kind_of_code(code)
            if square is None or pieces.piece_type(self.board[square]) != kind:
                found = "no piece"
                if square is not None and self.board[square]:
                    found = pieces.piece_on(self.board, square)
                raise CsaError(f"{code} cannot be removed: there is {found}")
            self.board[square] = 0

    def _read_rank(self, rank: int, text: str) -> None:
        if rank in self.ranks or self.is_whole:
            raise CsaError(f"rank {rank + 1} is given twice")
        if text.endswith(" *"):
            text += " "  # an editor may have removed the last blank
        if len(text) != 27:
            raise CsaError(f"the rank has {len(text)} letters; expected 27, three for each square")
        for column in range(9):
            piece = text[3 * column : 3 * column + 3]
            if piece == " * ":
                continue
            if piece[0] not in "+-":
                raise CsaError(f"{piece!r} on file {9 - column}; expected one such as +FU, -OU or ' * '")
            kind = kind_of_code(piece[1:])
            self._put("+-".index(piece[0]), kind, 9 * (8 - column) + rank)
        self.ranks.add(rank)

    def _read_pieces(self, side: Side, text: str) -> None:
        for square, code in _pieces(text):
            if code == "AL":
                self._take_all_others(side, square)
                continue
            kind = kind_of_code(code)
            if square is not None:
                self._put(side, kind, square)
            elif kind not in HAND_KINDS:
                raise CsaError(f"{code} cannot be in hand")
            elif self.hands[side, HAND_KINDS.index(kind)] == NUM_OF_KIND[kind]:
                raise CsaError(f"a set has only {NUM_OF_KIND[kind]} {code}")
            else:
                self.hands[side, HAND_KINDS.index(kind)] += 1

    def _put(self, side: Side, kind: PieceType, square: Square) -> None:
        if self.board[square]:
            raise CsaError(f"the square has {pieces.piece_on(self.board, square)} already")
        self.board[square] = kind | OF_WHITE * side

    def _take_all_others(self, side: Side, square: Square | None) -> None:
        """`00AL`: all pieces not placed so far, except kings, go to this side's hand."""
        if square is not None:
            raise CsaError("AL means all other pieces in hand; write 00AL")
        if self.is_given_away:
            return  # no pieces are left
        self.is_given_away = True
        kinds = [pieces.piece_type(code) for code in self.board if code]
        for index, kind in enumerate(HAND_KINDS):
            on_board = sum(UNPROMOTED.get(other, other) == kind for other in kinds)
            rest = NUM_OF_KIND[kind] - on_board - int(self.hands[:, index].sum())
            self.hands[side, index] += max(rest, 0)


def _pieces(text: str) -> list[tuple[Square | None, str]]:
    """Squares (None for the hand) and codes, four letters each."""
    if not _PIECES.fullmatch(text):
        raise CsaError("expected squares and pieces, four letters each, such as 82HI or 00FU")
    parts = [text[start : start + 4] for start in range(0, len(text), 4)]
    return [(None if part[:2] == "00" else square_of_digits(part[:2]), part[2:]) for part in parts]


def format_position(board: Board, hands: Hands, side: Side) -> list[str]:
    """A start position as CSA's lines.

    >>> format_position(_START.board, _START.hands, 0)
    ['PI', '+']
    """
    if np.array_equal(board, _START.board) and not hands.any():
        return ["PI", "+-"[side]]
    ranks = ["".join(map(_format_piece, codes)) for codes in pieces.ranks_of(board)]
    lines = [f"P{number}{rank}" for number, rank in enumerate(ranks, 1)]
    for owner in (0, 1):
        in_hand = "".join(f"00{pieces.CSA_CODES[kind]}" * count for kind, count in pieces.held(hands, owner))
        lines += [f"P{'+-'[owner]}{in_hand}"] if in_hand else []
    return [*lines, "+-"[side]]


def _format_piece(code: int) -> str:
    return f"{'+-'[pieces.side_of(code)]}{pieces.CSA_CODES[pieces.piece_type(code)]}" if code else " * "
