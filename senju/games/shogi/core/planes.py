"""What the mover sees: a byte for each plane and square, in its own view."""

import numpy as np
from numpy.typing import NDArray

from senju.games.shogi.core.bits import Words
from senju.games.shogi.core.layout import (
    BOARD_BYTE,
    ENDING_BYTE,
    HANDS_BYTE,
    HASHES,
    IS_CHECK_BYTE,
    LEGAL,
    NUM_LEGAL_WORDS,
    OTHER,
    PAST_WORDS,
    PLY,
    REPETITIONS_BYTE,
    SIDE_BYTE,
    VIEW,
)
from senju.games.shogi.core.moves import Octets
from senju.games.shogi.core.rules import RUNNING, entering_points
from senju.kernels import ALL_BITS, ONE, ZERO, compiled, fill_81, inlined, spread_bits

NUM_PLANES = 48
PLANES_OF_PAST = 42  # men and hands
HANDS_PLANE = np.uint64(81 * 28)
REPETITIONS, CHECK, OWN_POINTS, OTHER_POINTS, PLIES, IS_BLACK = (np.uint64(81 * n) for n in range(42, 48))
_3, _4, _7, _14, _15, _16, _80, _81 = (np.uint64(n) for n in (3, 4, 7, 14, 15, 16, 80, 81))
_PAST_BYTES = PAST_WORDS << _3
_HANDS_AFTER_BOARD = HANDS_BYTE - BOARD_BYTE


@inlined
def _men(words: Words, own: np.uint64, planes: NDArray[np.uint8], at: np.uint64) -> None:
    """Write 28 planes from the sets of a view."""
    for index in range(14):
        kind = np.uint64(index)
        own_set, other_set = own + (kind << ONE), own + OTHER + (kind << ONE)
        spread_bits(planes, at + kind * _81, words[own_set], words[own_set + ONE])
        spread_bits(planes, at + (_14 + kind) * _81, words[other_set], words[other_set + ONE])


@compiled
def _men_of_past(
    octets: Octets, board: np.uint64, side: np.uint64, planes: NDArray[np.uint8], at: np.uint64
) -> None:
    """Write 28 planes from a board that is kept without its sets."""
    for index in range(28 * 81):
        planes[at + np.uint64(index)] = 0
    for index in range(81):
        man = np.uint64(octets[board + np.uint64(index)])
        if man != ZERO:
            square = _80 - np.uint64(index) if side != ZERO else np.uint64(index)
            plane = (man & _15) - ONE
            if (man >> _4) != side:
                plane += _14
            planes[at + plane * _81 + square] = 1


@inlined
def _hands(
    octets: Octets, hands: np.uint64, side: np.uint64, planes: NDArray[np.uint8], at: np.uint64
) -> None:
    """Write 14 planes, the mover's hand first."""
    own, other = hands + side * _7, hands + (ONE - side) * _7
    for index in range(7):
        kind = np.uint64(index)
        fill_81(planes, at + kind * _81, octets[own + kind])
        fill_81(planes, at + (_7 + kind) * _81, octets[other + kind])


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
        side = np.uint64(octets[start + SIDE_BYTE])
        seats[row, 0] = np.int8(side)
        shown = ALL_BITS if octets[start + ENDING_BYTE] == RUNNING else ZERO
        for index in range(NUM_LEGAL_WORDS):
            legal[row, 0, index] = words[base + LEGAL + np.uint64(index)] & shown
        at = np.uint64(row) * num_planes * _81
        _men(words, base + VIEW * side, planes, at)
        _hands(octets, start + HANDS_BYTE, side, planes, at + HANDS_PLANE)
        _, own_points = entering_points(words, base, side)
        _, other_points = entering_points(words, base, ONE - side)
        fill_81(planes, at + REPETITIONS, octets[start + REPETITIONS_BYTE])
        fill_81(planes, at + CHECK, octets[start + IS_CHECK_BYTE])
        fill_81(planes, at + OWN_POINTS, np.uint8(own_points))
        fill_81(planes, at + OTHER_POINTS, np.uint8(other_points))
        fill_81(planes, at + PLIES, np.uint8(words[base + PLY] * _16 // max_plies))
        fill_81(planes, at + IS_BLACK, np.uint8(ONE - side))
        past = start + ((HASHES + max_plies + ONE) << _3)
        for index in range(history):
            there = at + np.uint64(NUM_PLANES + PLANES_OF_PAST * index) * _81
            board = past + np.uint64(index) * _PAST_BYTES
            _men_of_past(octets, board, side, planes, there)
            _hands(octets, board + _HANDS_AFTER_BOARD, side, planes, there + HANDS_PLANE)
