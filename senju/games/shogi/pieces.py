"""The pieces of Shogi for display: their names, letters and characters, and how they move.

The kernels have their own tables; tests compare the two.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from senju.games.shogi.layout import HAND_KINDS, KIND, KING, KNIGHT, LANCE, OF_WHITE, PAWN

Square = int  # 9 * file + rank in Black's view; file 0 is "1", rank 0 is "a", at White's end
PieceType = int  # 1 to 14, without the colour
Side = int  # 0 is Black, 1 is White
Board = NDArray[np.uint8]  # [square], the codes of the pieces, 0 if empty
Hands = NDArray[np.uint8]  # [side, P L N S G B R]

SIDE_NAMES = ("Black", "White")
NAMES = (
    "nothing",
    *("pawn", "lance", "knight", "silver", "gold", "bishop", "rook", "king"),
    *("promoted pawn", "promoted lance", "promoted knight", "promoted silver", "horse", "dragon"),
)
SYMBOLS = ("", "P", "L", "N", "S", "G", "B", "R", "K", "+P", "+L", "+N", "+S", "+B", "+R")
CSA_CODES = ("", "FU", "KY", "KE", "GI", "KI", "KA", "HI", "OU", "TO", "NY", "NK", "NG", "UM", "RY")
KANJI = "・歩香桂銀金角飛玉と杏圭全馬龍"
RANKS = "abcdefghi"
KANJI_DIGITS = "〇一二三四五六七八九"

# The ten directions of movement in the mover's view, in the order of the actions: (files, ranks).
UP, UP_LEFT, UP_RIGHT, LEFT, RIGHT, DOWN, DOWN_LEFT, DOWN_RIGHT, KNIGHT_LEFT, KNIGHT_RIGHT = range(10)
DIRECTIONS = ((0, -1), (1, -1), (-1, -1), (1, 0), (-1, 0), (0, 1), (1, 1), (-1, 1), (1, -2), (-1, -2))

_STRAIGHT = frozenset({UP, LEFT, RIGHT, DOWN})
_DIAGONAL = frozenset({UP_LEFT, UP_RIGHT, DOWN_LEFT, DOWN_RIGHT})
_AS_GOLD = _STRAIGHT | {UP_LEFT, UP_RIGHT}
_NOWHERE: frozenset[int] = frozenset()
_STEPS = (  # [piece type]: the directions in which it moves one square
    *(_NOWHERE, frozenset({UP}), _NOWHERE, frozenset({KNIGHT_LEFT, KNIGHT_RIGHT}), _DIAGONAL | {UP}),
    *(_AS_GOLD, _NOWHERE, _NOWHERE, _STRAIGHT | _DIAGONAL),
    *(_AS_GOLD, _AS_GOLD, _AS_GOLD, _AS_GOLD, _STRAIGHT, _DIAGONAL),
)
_SLIDES = (  # [piece type]: the directions in which it moves any number of squares
    *(_NOWHERE, _NOWHERE, frozenset({UP}), _NOWHERE, _NOWHERE, _NOWHERE, _DIAGONAL, _STRAIGHT, _NOWHERE),
    *(_NOWHERE, _NOWHERE, _NOWHERE, _NOWHERE, _DIAGONAL, _STRAIGHT),
)
_FIRST_RANK = {PAWN: 1, LANCE: 1, KNIGHT: 2}  # the farthest rank, in its own view, from which it can move


def piece_type(code: int) -> PieceType:
    """A piece code without its colour."""
    return int(code) & KIND


def side_of(code: int) -> Side:
    """The side that a piece belongs to."""
    return int(code) // OF_WHITE


def letter_of(code: int) -> str:
    """A piece's letter in SFEN, with a `+` if promoted; White's are lower-case."""
    symbol = SYMBOLS[piece_type(code)]
    return symbol.lower() if side_of(code) else symbol


def ranks_of(board: Board) -> list[list[int]]:
    """The codes on each rank from White's end, file 9 first, as diagrams show them."""
    ranks: list[list[int]] = board.reshape(9, 9)[::-1].T.tolist()
    return ranks


def held(hands: Hands, side: Side) -> list[tuple[PieceType, int]]:
    """A side's pieces in hand with their counts, the most valuable first."""
    counts = zip(HAND_KINDS, hands[side].tolist(), strict=True)
    return [(kind, count) for kind, count in counts if count][::-1]


def in_view(square: Square, side: Side) -> Square:
    """A square in this side's view, its own pieces at the bottom; also converts back."""
    return square if side == 0 else 80 - square


def square_name(square: Square) -> str:
    """A square's name in USI.

    >>> square_name(60), square_name(0), square_name(80)
    ('7g', '1a', '9i')
    """
    return f"{square // 9 + 1}{RANKS[square % 9]}"


def piece_on(board: Board, square: Square) -> str:
    """The name of the piece on a square.

    >>> piece_on(np.array([OF_WHITE | LANCE], np.uint8), 0)
    "White's lance on 1a"
    """
    code = int(board[square])
    return f"{SIDE_NAMES[side_of(code)]}'s {NAMES[piece_type(code)]} on {square_name(square)}"


def is_promotion_zone(square: Square, side: Side) -> bool:
    """Whether this side's pieces promote there: the three ranks farthest from it."""
    return in_view(square, side) % 9 < 3


def could_move_on(kind: PieceType, square: Square, side: Side) -> bool:
    """Whether a piece has a move from there on an empty board.

    >>> could_move_on(KNIGHT, 1, 0), could_move_on(KNIGHT, 1, 1), could_move_on(LANCE, 1, 0)
    (False, True, True)
    """
    return in_view(square, side) % 9 >= _FIRST_RANK.get(kind, 0)


def reaches(kind: PieceType, direction: int, distance: int) -> bool:
    """Whether a piece moves so far in a direction on an empty board."""
    return direction in _SLIDES[kind] or (distance == 1 and direction in _STEPS[kind])


def squares_before(square: Square, direction: int, side: Side) -> Iterator[Square]:
    """The squares from which a move in a direction can reach a square, the nearest first."""
    files, ranks = DIRECTIONS[direction]
    turn = -1 if side == 0 else 1
    file, rank = square // 9 + turn * files, square % 9 + turn * ranks
    while 0 <= file < 9 and 0 <= rank < 9:
        yield 9 * file + rank
        if direction >= KNIGHT_LEFT:
            return
        file, rank = file + turn * files, rank + turn * ranks


def nearest_before(board: Board, square: Square, direction: int, side: Side) -> tuple[Square, int] | None:
    """The first piece on those squares, and how many steps away it is."""
    for distance, source in enumerate(squares_before(square, direction, side), 1):
        if board[source]:
            return source, distance
    return None


def attackers(board: Board, square: Square, side: Side) -> list[Square]:
    """The squares of this side's pieces that attack a square."""
    found = []
    for direction in range(len(DIRECTIONS)):
        nearest = nearest_before(board, square, direction, side)
        if nearest is None:
            continue
        source, distance = nearest
        code = int(board[source])
        if side_of(code) == side and reaches(piece_type(code), direction, distance):
            found.append(source)
    return found


def king_square(board: Board, side: Side) -> Square:
    """The square of this side's king."""
    return int(np.flatnonzero(board == (KING | OF_WHITE * side))[0])
