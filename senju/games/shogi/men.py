"""The men of Shogi for people: their names, letters and characters, and how each kind moves.

Nothing here is compiled: the kernels have tables of their own, and tests hold the two against each other.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from senju.games.shogi.layout import KIND, KING, KNIGHT, LANCE, OF_WHITE, PAWN

Square = int  # 9 * file + rank in Black's view; file 0 is "1", rank 0 is "a", at White's end
Kind = int  # of a man, 1 to 14, without its colour
Side = int  # 0 is Black, 1 is White
Board = NDArray[np.uint8]  # [square], the codes of the men, 0 where there is none
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
_STEPS = (  # of each kind: the directions in which it goes one square
    *(_NOWHERE, frozenset({UP}), _NOWHERE, frozenset({KNIGHT_LEFT, KNIGHT_RIGHT}), _DIAGONAL | {UP}),
    *(_AS_GOLD, _NOWHERE, _NOWHERE, _STRAIGHT | _DIAGONAL),
    *(_AS_GOLD, _AS_GOLD, _AS_GOLD, _AS_GOLD, _STRAIGHT, _DIAGONAL),
)
_SLIDES = (  # of each kind: the directions in which it goes any number of squares
    *(_NOWHERE, _NOWHERE, frozenset({UP}), _NOWHERE, _NOWHERE, _NOWHERE, _DIAGONAL, _STRAIGHT, _NOWHERE),
    *(_NOWHERE, _NOWHERE, _NOWHERE, _NOWHERE, _DIAGONAL, _STRAIGHT),
)
_FIRST_RANK = {PAWN: 1, LANCE: 1, KNIGHT: 2}  # the farthest, in its own view, that a kind can move on from


def kind_of(code: int) -> Kind:
    """A man's kind, without its colour."""
    return int(code) & KIND


def side_of(code: int) -> Side:
    """Whose man it is."""
    return int(code) // OF_WHITE


def in_view(square: Square, side: Side) -> Square:
    """A square as this side sees it, its own men at the bottom; the way back is the same."""
    return square if side == 0 else 80 - square


def square_name(square: Square) -> str:
    """A square's name in USI.

    >>> square_name(60), square_name(0), square_name(80)
    ('7g', '1a', '9i')
    """
    return f"{square // 9 + 1}{RANKS[square % 9]}"


def man_on(board: Board, square: Square) -> str:
    """A man and its place in words.

    >>> man_on(np.array([OF_WHITE | LANCE], np.uint8), 0)
    "White's lance on 1a"
    """
    code = int(board[square])
    return f"{SIDE_NAMES[side_of(code)]}'s {NAMES[kind_of(code)]} on {square_name(square)}"


def is_promotion_zone(square: Square, side: Side) -> bool:
    """Whether this side's men promote there: on the three ranks farthest from it."""
    return in_view(square, side) % 9 < 3


def could_move_on(kind: Kind, square: Square, side: Side) -> bool:
    """Whether a man has a move from there on an empty board.

    >>> could_move_on(KNIGHT, 1, 0), could_move_on(KNIGHT, 1, 1), could_move_on(LANCE, 1, 0)
    (False, True, True)
    """
    return in_view(square, side) % 9 >= _FIRST_RANK.get(kind, 0)


def reaches(kind: Kind, direction: int, distance: int) -> bool:
    """Whether a kind goes so far in a direction, if nothing is in its way."""
    return direction in _SLIDES[kind] or (distance == 1 and direction in _STEPS[kind])


def squares_before(square: Square, direction: int, side: Side) -> Iterator[Square]:
    """Whence this side's men come to a square when they move in a direction; the nearest first."""
    files, ranks = DIRECTIONS[direction]
    turn = -1 if side == 0 else 1
    file, rank = square // 9 + turn * files, square % 9 + turn * ranks
    while 0 <= file < 9 and 0 <= rank < 9:
        yield 9 * file + rank
        if direction >= KNIGHT_LEFT:
            return
        file, rank = file + turn * files, rank + turn * ranks


def nearest_before(board: Board, square: Square, direction: int, side: Side) -> tuple[Square, int] | None:
    """The first man on those squares, and how many steps away it is."""
    for distance, source in enumerate(squares_before(square, direction, side), 1):
        if board[source]:
            return source, distance
    return None


def attackers(board: Board, square: Square, side: Side) -> list[Square]:
    """Where this side's men stand that reach a square, whatever stands there."""
    found = []
    for direction in range(len(DIRECTIONS)):
        nearest = nearest_before(board, square, direction, side)
        if nearest is None:
            continue
        source, distance = nearest
        code = int(board[source])
        if side_of(code) == side and reaches(kind_of(code), direction, distance):
            found.append(source)
    return found


def king_square(board: Board, side: Side) -> Square:
    """Where this side's king stands."""
    return int(np.flatnonzero(board == (KING | OF_WHITE * side))[0])
