"""Observations: one byte for each plane and square, in the mover's view."""

import numpy as np
from numpy.typing import NDArray

from senju.games.shogi.core import layout as at
from senju.games.shogi.core.bits import Words
from senju.games.shogi.core.moves import Octets
from senju.games.shogi.core.rules import RUNNING, entering_points
from senju.kernels import ALL_BITS, ONE, ZERO, compiled, fill_81, inlined, spread_bits

NUM_PLANES = 48
PLANES_OF_PAST = 42  # pieces and hands
HANDS_PLANE = np.uint64(81 * 28)
REPETITIONS, CHECK, OWN_POINTS, OTHER_POINTS, PLIES, IS_BLACK = (np.uint64(81 * n) for n in range(42, 48))
_3, _4, _7, _14, _15, _16, _80, _81 = (np.uint64(n) for n in (3, 4, 7, 14, 15, 16, 80, 81))
_PAST_BYTES = at.PAST_WORDS << _3
_HANDS_AFTER_BOARD = at.HANDS_BYTE - at.BOARD_BYTE


@inlined
def _pieces(words: Words, own: np.uint64, planes: NDArray[np.uint8], offset: np.uint64) -> None:
    """Write 28 planes from the sets of a view."""
    for index in range(14):
        kind = np.uint64(index)
        own_set, other_set = own + (kind << ONE), own + at.OTHER + (kind << ONE)
        spread_bits(planes, offset + kind * _81, words[own_set], words[own_set + ONE])
        spread_bits(planes, offset + (_14 + kind) * _81, words[other_set], words[other_set + ONE])


@compiled
def _pieces_of_past(
    octets: Octets, board: np.uint64, side: np.uint64, planes: NDArray[np.uint8], offset: np.uint64
) -> None:
    """Write 28 planes from a board without its sets."""
    for index in range(28 * 81):
        planes[offset + np.uint64(index)] = 0
    for index in range(81):
        piece = np.uint64(octets[board + np.uint64(index)])
        if piece != ZERO:
            square = _80 - np.uint64(index) if side != ZERO else np.uint64(index)
            plane = (piece & _15) - ONE
            if (piece >> _4) != side:
                plane += _14
            planes[offset + plane * _81 + square] = 1


@inlined
def _hands(
    octets: Octets, hands: np.uint64, side: np.uint64, planes: NDArray[np.uint8], offset: np.uint64
) -> None:
    """Write 14 planes, the mover's hand first."""
    own, other = hands + side * _7, hands + (ONE - side) * _7
    for index in range(7):
        kind = np.uint64(index)
        fill_81(planes, offset + kind * _81, octets[own + kind])
        fill_81(planes, offset + (_7 + kind) * _81, octets[other + kind])


@compiled
def observe_rows(
    words: Words,
    octets: Octets,
    width: np.uint64,
    max_plies: np.uint64,
    history: int,
    planes: NDArray[np.uint8],  # [row * plane * square]
    legal: NDArray[np.uint64],  # [row, acting, words]
    seats: NDArray[np.int8],
) -> None:
    """Write planes, legal actions and the mover of every row."""
    num_planes = np.uint64(NUM_PLANES + PLANES_OF_PAST * history)
    for row in range(seats.shape[0]):
        base = np.uint64(row) * width
        start = base << _3
        side = np.uint64(octets[start + at.SIDE_BYTE])
        seats[row, 0] = np.int8(side)
        shown = ALL_BITS if octets[start + at.ENDING_BYTE] == RUNNING else ZERO
        for index in range(at.NUM_LEGAL_WORDS):
            legal[row, 0, index] = words[base + at.LEGAL + np.uint64(index)] & shown
        offset = np.uint64(row) * num_planes * _81
        _pieces(words, base + at.VIEW * side, planes, offset)
        _hands(octets, start + at.HANDS_BYTE, side, planes, offset + HANDS_PLANE)
        _, own_points = entering_points(words, base, side)
        _, other_points = entering_points(words, base, ONE - side)
        fill_81(planes, offset + REPETITIONS, octets[start + at.REPETITIONS_BYTE])
        fill_81(planes, offset + CHECK, octets[start + at.IS_CHECK_BYTE])
        fill_81(planes, offset + OWN_POINTS, np.uint8(own_points))
        fill_81(planes, offset + OTHER_POINTS, np.uint8(other_points))
        fill_81(planes, offset + PLIES, np.uint8(words[base + at.PLY] * _16 // max_plies))
        fill_81(planes, offset + IS_BLACK, np.uint8(ONE - side))
        past = start + ((at.HASHES + max_plies + ONE) << _3)
        for index in range(history):
            there = offset + np.uint64(NUM_PLANES + PLANES_OF_PAST * index) * _81
            board = past + np.uint64(index) * _PAST_BYTES
            _pieces_of_past(octets, board, side, planes, there)
            _hands(octets, board + _HANDS_AFTER_BOARD, side, planes, there + HANDS_PLANE)
