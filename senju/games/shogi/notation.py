"""Moves in USI, CSA and Japanese notation, to actions and back.

An action is one of `27 kinds × 81 destinations` in the mover's view; it moves the nearest piece in the
opposite direction. These functions check the geometry only, not whether a move is legal.
"""

import operator
import re
import reprlib
from typing import NamedTuple, SupportsIndex

from senju.errors import IllegalActionError
from senju.games.shogi import layout, pieces
from senju.games.shogi.pieces import Board, PieceType, Side, Square

_USI_MOVE = re.compile(r"([1-9][a-i])([1-9][a-i])(\+?)")
_USI_DROP = re.compile(r"([PLNSGBR])\*([1-9][a-i])")
# two characters, as in KIF
_KANJI_NAMES = {layout.PRO_LANCE: "成香", layout.PRO_KNIGHT: "成桂", layout.PRO_SILVER: "成銀"}


class NotationError(IllegalActionError):
    """A text is not a move, a number is not an action, or there is no piece to move."""


class Move(NamedTuple):
    """One move, with squares in Black's view."""

    side: Side
    kind: PieceType  # of the piece, before it promotes
    source: Square | None  # None for a drop
    target: Square
    promotes: bool

    def __str__(self) -> str:
        return f"{usi_of_move(self)} ({kif_of_move(self)})"


def action_number(action: SupportsIndex) -> int:
    """An action as a Python int, in range or not.

    >>> action_number(True)
    1
    """
    try:
        return operator.index(action)
    except TypeError:
        raise NotationError(
            f"{reprlib.repr(action)} is not an action; expected a whole number, got {type(action).__name__}"
        ) from None


def split_action(action: int) -> tuple[int, Square]:
    """An action's kind (0 to 26) and its destination in the mover's view.

    >>> split_action(10 * 81 + 4)
    (10, 4)
    """
    action = action_number(action)
    if not 0 <= action < layout.NUM_ACTIONS:
        last = layout.NUM_ACTIONS - 1
        raise NotationError(f"{reprlib.repr(action)} is not an action; expected 0 to {last}")
    return divmod(action, layout.NUM_SQUARES)


def parse_square(name: str) -> Square:
    """The square with this name.

    >>> parse_square("7g")
    60
    """
    if not isinstance(name, str) or not re.fullmatch("[1-9][a-i]", name):
        raise NotationError(
            f"{reprlib.repr(name)} is not a square; expected a file 1 to 9 and a rank a to i, such as 7g"
        )
    return 9 * (int(name[0]) - 1) + pieces.RANKS.index(name[1])


def move_of_action(board: Board, side: Side, action: int) -> Move:
    """The move that an action means on this board, legal or not."""
    kind, seen = split_action(action)
    target = pieces.in_view(seen, side)
    if kind >= layout.DROPPING:
        return Move(side, layout.HAND_KINDS[kind - layout.DROPPING], None, target, promotes=False)
    nearest = pieces.nearest_before(board, target, kind % layout.PROMOTING, side)
    source = None if nearest is None else nearest[0]
    if source is None or pieces.side_of(board[source]) != side:
        found = "no piece" if source is None else pieces.piece_on(board, source)
        raise NotationError(
            f"action {action} moves a piece of {pieces.SIDE_NAMES[side]} to {pieces.square_name(target)}; "
            f"there is {found} to move"
        )
    promotes = kind >= layout.PROMOTING
    return Move(side, pieces.piece_type(board[source]), source, target, promotes)


def action_of_move(board: Board, move: Move) -> int:
    """The action of a move on this board; the inverse of `move_of_action`."""
    seen = pieces.in_view(move.target, move.side)
    if move.source is None:
        return (layout.DROPPING + layout.HAND_KINDS.index(move.kind)) * layout.NUM_SQUARES + seen
    for direction in range(len(pieces.DIRECTIONS)):
        line = list(pieces.squares_before(move.target, direction, move.side))
        if move.source in line:
            between = [square for square in line[: line.index(move.source)] if board[square]]
            if between:
                blocker = pieces.piece_on(board, between[-1])
                raise NotationError(f"{usi_of_move(move)!r}: {blocker} is in the way")
            return (direction + layout.PROMOTING * move.promotes) * layout.NUM_SQUARES + seen
    raise NotationError(
        f"{usi_of_move(move)!r}: no piece of {pieces.SIDE_NAMES[move.side]} can move from "
        f"{pieces.square_name(move.source)} to {pieces.square_name(move.target)}, along a line or as a knight"
    )


def usi_of_move(move: Move) -> str:
    """A move in USI.

    >>> usi_of_move(Move(side=0, kind=6, source=70, target=10, promotes=True))
    '8h2b+'
    """
    if move.source is None:
        return f"{pieces.SYMBOLS[move.kind]}*{pieces.square_name(move.target)}"
    return f"{pieces.square_name(move.source)}{pieces.square_name(move.target)}{'+' * move.promotes}"


def move_of_usi(board: Board, side: Side, text: str) -> Move:
    """The move of a USI text on this board."""
    if not isinstance(text, str):
        raise not_usi(text)
    if drop := _USI_DROP.fullmatch(text):
        return Move(side, pieces.SYMBOLS.index(drop[1]), None, parse_square(drop[2]), promotes=False)
    parts = _USI_MOVE.fullmatch(text)
    if parts is None:
        raise not_usi(text)
    source, target = parse_square(parts[1]), parse_square(parts[2])
    if not board[source]:
        raise NotationError(f"{text!r}: there is no piece on {parts[1]}")
    if pieces.side_of(board[source]) != side:
        moved, mover = pieces.piece_on(board, source), pieces.SIDE_NAMES[side]
        raise NotationError(f"{text!r} moves {moved}, but {mover} is to move")
    return Move(side, pieces.piece_type(board[source]), source, target, promotes=parts[3] == "+")


def not_usi(text: object) -> NotationError:
    """The error for a text that is not a USI move."""
    shown = text[:40] + "…" if isinstance(text, str) and len(text) > 40 else text
    shown = repr(shown) if isinstance(shown, str) else reprlib.repr(shown)
    return NotationError(f"{shown} is not a USI move; expected one such as 7g7f, 8h2b+ or P*5e")


def usi_of_action(board: Board, side: Side, action: int) -> str:
    """An action on this board in USI.

    >>> from senju.games.shogi.sfen import parse_sfen
    >>> usi_of_action(parse_sfen("startpos").board, 0, 59), usi_of_action(parse_sfen("startpos").board, 1, 59)
    ('7g7f', '3c3d')
    """
    return usi_of_move(move_of_action(board, side, action))


def action_of_usi(board: Board, side: Side, text: str) -> int:
    """The action of a USI text on this board.

    >>> from senju.games.shogi.sfen import parse_sfen
    >>> action_of_usi(parse_sfen("startpos").board, 1, "3c3d")
    59
    """
    return action_of_move(board, move_of_usi(board, side, text))


def csa_of_move(move: Move) -> str:
    """A move in CSA: side, source (00: from the hand), target, and the piece after the move.

    >>> csa_of_move(Move(side=0, kind=6, source=70, target=10, promotes=True))
    '+8822UM'
    """
    source = "00" if move.source is None else square_digits(move.source)
    kind = layout.PROMOTED.get(move.kind, move.kind) if move.promotes else move.kind
    return f"{'+-'[move.side]}{source}{square_digits(move.target)}{pieces.CSA_CODES[kind]}"


def square_digits(square: Square) -> str:
    """A square in CSA, and in KIF's brackets: its file and its rank as digits."""
    return f"{square // 9 + 1}{square % 9 + 1}"


def square_of_digits(digits: str) -> Square:
    """The square of two digits from 1 to 9."""
    return 9 * (int(digits[0]) - 1) + int(digits[1]) - 1


def kif_of_move(move: Move, previous_target: Square | None = None) -> str:
    """A move in Japanese, as in KIF; 同 if it captures on the square of the move before.

    >>> kif_of_move(Move(side=0, kind=1, source=60, target=59, promotes=False))
    '７六歩(77)'
    >>> kif_of_move(Move(side=1, kind=4, source=18, target=10, promotes=False), previous_target=10)
    '同　銀(31)'
    """
    name = _KANJI_NAMES.get(move.kind, pieces.KANJI[move.kind])
    file, rank = divmod(move.target, 9)
    square = f"{'１２３４５６７８９'[file]}{pieces.KANJI_DIGITS[rank + 1]}"
    if move.target == previous_target:
        square = "同　"
    if move.source is None:
        return f"{square}{name}打"
    return f"{square}{name}{'成' * move.promotes}({square_digits(move.source)})"
