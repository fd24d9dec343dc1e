"""Bitboards: sets of squares as two words of 63 and 18 bits, so that no file crosses a word.

A square is `9 * file + rank` in the view of one side, which moves towards rank 0. A `Squares` is a
pair (low, high): low holds files 0 to 6, high holds files 7 and 8. A pattern of ranks in the low word
also fits the high word.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.kernels import ONE, ZERO, compiled, leading_zeros, popcount, trailing_zeros

Squares = Any  # a pair of np.uint64
Words = NDArray[np.uint64]


def _ranks(*ranks: int, num_files: int = 7) -> int:
    return sum(1 << (9 * file + rank) for file in range(num_files) for rank in ranks)


LOW = np.uint64((1 << 63) - 1)
HIGH = np.uint64((1 << 18) - 1)
NOT_RANK_0 = np.uint64(int(LOW) & ~_ranks(0))
NOT_RANKS_01 = np.uint64(int(LOW) & ~_ranks(0, 1))
NOT_RANK_8 = np.uint64(int(LOW) & ~_ranks(8))
RANK_8_LOW, RANK_8_HIGH = np.uint64(_ranks(8)), np.uint64(_ranks(8, num_files=2))
ZONE = np.uint64(_ranks(0, 1, 2))  # where pieces promote, in their own view
_FILE = np.uint64(0x1FF)
_LAST_HIGH = np.uint64(1 << 17)  # square 80
_TWO, _FOUR, _NINE = np.uint64(2), np.uint64(4), np.uint64(9)
_54, _63, _81, _126 = np.uint64(54), np.uint64(63), np.uint64(81), np.uint64(126)

# directions of movement: up, up-left, up-right, left, right, down, down-left, down-right
UP, UP_LEFT, UP_RIGHT, LEFT, RIGHT, DOWN, DOWN_LEFT, DOWN_RIGHT = (np.uint64(d) for d in range(8))
FILE_STEPS = (0, 1, -1, 1, -1, 0, 1, -1)
RANK_STEPS = (-1, -1, -1, 0, 0, 1, 1, 1)
OPPOSITE = np.array([5, 7, 6, 4, 3, 0, 2, 1], np.uint64)
AXES = np.array([0, 2, 3, 1, 1, 0, 3, 2], np.uint64)  # file, rank, and the two diagonals
_IS_RISING = np.array([0, 1, 0, 1, 0, 1, 1, 0], np.uint64)  # square numbers increase in this direction
NO_DIRECTION = 255


def _build_tables() -> tuple[Words, NDArray[np.uint8], Words]:
    """Rays [direction, square, word], direction [from, to], and the squares around [square, word]."""
    rays = np.zeros((8, 81, 2), np.uint64)
    directions = np.full((81, 81), NO_DIRECTION, np.uint8)
    around = np.zeros((81, 2), np.uint64)
    for square in range(81):
        for direction in range(8):
            file, rank = divmod(square, 9)
            is_next = True
            while 0 <= (file := file + FILE_STEPS[direction]) < 9:
                rank += RANK_STEPS[direction]
                if not 0 <= rank < 9:
                    break
                target = 9 * file + rank
                word, bit = divmod(target, 63)
                rays[direction, square, word] |= np.uint64(1 << bit)
                directions[square, target] = direction
                if is_next:
                    around[square, word] |= np.uint64(1 << bit)
                    is_next = False
    return rays.reshape(-1), directions.reshape(-1), around.reshape(-1)


RAYS, DIRECTIONS, AROUND = _build_tables()


@compiled
def get(words: Words, at: np.uint64) -> Squares:
    """Read the set at an offset."""
    return words[at], words[at + ONE]


@compiled
def put(words: Words, at: np.uint64, squares: Squares) -> None:
    """Write a set to an offset."""
    words[at] = squares[0]
    words[at + ONE] = squares[1]


@compiled
def either(a: Squares, b: Squares) -> Squares:
    """Union."""
    return a[0] | b[0], a[1] | b[1]


@compiled
def both(a: Squares, b: Squares) -> Squares:
    """Intersection."""
    return a[0] & b[0], a[1] & b[1]


@compiled
def without(a: Squares, b: Squares) -> Squares:
    """Difference."""
    return a[0] & ~b[0], a[1] & ~b[1]


@compiled
def within(squares: Squares, ranks: np.uint64) -> Squares:
    """The squares on the ranks of a one-word pattern."""
    return squares[0] & ranks, squares[1] & ranks


@compiled
def is_any(squares: Squares) -> Any:
    """Whether a set is not empty."""
    return (squares[0] | squares[1]) != ZERO


@compiled
def meet(a: Squares, b: Squares) -> Any:
    """Whether two sets share a square."""
    return ((a[0] & b[0]) | (a[1] & b[1])) != ZERO


@compiled
def count(squares: Squares) -> Any:
    """The number of squares."""
    return popcount(squares[0]) + popcount(squares[1])


@compiled
def first(squares: Squares) -> Any:
    """The lowest square of a set that is not empty."""
    return trailing_zeros(squares[0]) if squares[0] != ZERO else _63 + trailing_zeros(squares[1])


@compiled
def only(square: np.uint64) -> Squares:
    """The set of one square."""
    if square < _63:
        return ONE << square, ZERO
    return ZERO, ONE << (square - _63)


@compiled
def rest(squares: Squares) -> Squares:
    """All but the lowest square."""
    if squares[0] != ZERO:
        return squares[0] & (squares[0] - ONE), squares[1]
    return ZERO, squares[1] & (squares[1] - ONE)


@compiled
def left(squares: Squares) -> Squares:
    """Every square moved to the next higher file."""
    return (squares[0] << _NINE) & LOW, ((squares[1] << _NINE) | (squares[0] >> _54)) & HIGH


@compiled
def right(squares: Squares) -> Squares:
    """Every square moved to the next lower file."""
    return (squares[0] >> _NINE) | ((squares[1] & _FILE) << _54), squares[1] >> _NINE


@compiled
def sideways(squares: Squares) -> Squares:
    """Both neighbours on the rank."""
    return either(left(squares), right(squares))


@compiled
def up(squares: Squares) -> Squares:
    """Every square moved one rank towards rank 0."""
    return (squares[0] & NOT_RANK_0) >> ONE, (squares[1] & NOT_RANK_0) >> ONE


@compiled
def down(squares: Squares) -> Squares:
    """Every square moved one rank away from rank 0."""
    return (squares[0] & NOT_RANK_8) << ONE, (squares[1] & NOT_RANK_8) << ONE


@compiled
def _fill_up(pieces: np.uint64, occupied: np.uint64) -> Any:
    free = ~occupied & NOT_RANK_8  # a square may be entered from below, but not from another file
    reached = pieces & LOW
    reached |= free & (reached >> ONE)
    free &= free >> ONE
    reached |= free & (reached >> _TWO)
    free &= free >> _TWO
    reached |= free & (reached >> _FOUR)
    return (reached & NOT_RANK_0) >> ONE


@compiled
def slide_up(pieces: Squares, occupied: Squares) -> Squares:
    """The squares attacked by lances that move up, including the first piece in the way."""
    return _fill_up(pieces[0], occupied[0]), _fill_up(pieces[1], occupied[1])


@compiled
def _fill_down(pieces: np.uint64, occupied: np.uint64) -> Any:
    # the carry of a subtraction runs from each piece to the next blocker; the file's end blocks too
    blockers = occupied | (LOW ^ NOT_RANK_8)
    return blockers ^ (blockers - ((pieces & NOT_RANK_8) << ONE))


@compiled
def slide_down(pieces: Squares, occupied: Squares) -> Squares:
    """The squares attacked by lances that move down, including the first piece in the way."""
    return _fill_down(pieces[0], occupied[0]), _fill_down(pieces[1], occupied[1]) & HIGH


@compiled
def ray(direction: np.uint64, square: np.uint64) -> Squares:
    """All squares beyond one in a direction."""
    return get(RAYS, (direction * _81 + square) << ONE)


@compiled
def _beyond(direction: np.uint64, whole: Squares, blocker: np.uint64) -> Squares:
    behind = ray(direction, blocker)
    return whole[0] ^ behind[0], whole[1] ^ behind[1]


@compiled
def slide_rising(direction: np.uint64, square: np.uint64, occupied: Squares) -> Squares:
    """The squares that a slider attacks in a direction of increasing square numbers."""
    whole = ray(direction, square)
    low, high = whole[0] & occupied[0], (whole[1] & occupied[1]) | _LAST_HIGH
    blocker = trailing_zeros(low) if low != ZERO else _63 + trailing_zeros(high)
    return _beyond(direction, whole, blocker)


@compiled
def slide_falling(direction: np.uint64, square: np.uint64, occupied: Squares) -> Squares:
    """The squares that a slider attacks in a direction of decreasing square numbers."""
    whole = ray(direction, square)
    low, high = (whole[0] & occupied[0]) | ONE, whole[1] & occupied[1]
    blocker = _126 - leading_zeros(high) if high != ZERO else _63 - leading_zeros(low)
    return _beyond(direction, whole, blocker)


@compiled
def nearest(direction: np.uint64, square: np.uint64, occupied: Squares) -> Any:
    """The first occupied square in a direction; there must be one."""
    seen = both(ray(direction, square), occupied)
    if _IS_RISING[direction] != ZERO:
        return first(seen)
    return _126 - leading_zeros(seen[1]) if seen[1] != ZERO else _63 - leading_zeros(seen[0])


@compiled
def slide_diagonally(square: np.uint64, occupied: Squares) -> Squares:
    """The squares that a bishop attacks."""
    return either(
        either(slide_rising(UP_LEFT, square, occupied), slide_falling(DOWN_RIGHT, square, occupied)),
        either(slide_falling(UP_RIGHT, square, occupied), slide_rising(DOWN_LEFT, square, occupied)),
    )


@compiled
def slide_straight(square: np.uint64, occupied: Squares) -> Squares:
    """The squares that a rook attacks."""
    return either(
        either(slide_falling(UP, square, occupied), slide_rising(DOWN, square, occupied)),
        either(slide_rising(LEFT, square, occupied), slide_falling(RIGHT, square, occupied)),
    )
