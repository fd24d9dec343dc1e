"""Perft: counts all move sequences of a length, the usual test of a move generator."""

import numpy as np

from senju.games.shogi.core import layout as at
from senju.games.shogi.core.bits import Words
from senju.games.shogi.core.moves import Octets
from senju.games.shogi.core.position import play_copy
from senju.kernels import ONE, WORD_BITS, ZERO, compiled, trailing_zeros


@compiled
def _take_first(actions: Words) -> int:
    """Remove the first action from a set of them; -1 if it is empty."""
    for index in range(actions.shape[0]):
        word = actions[index]
        if word != ZERO:
            actions[index] = word & (word - ONE)
            return index * WORD_BITS + int(trailing_zeros(word))
    return -1


@compiled
def count_lines(words: Words, octets: Octets, width: np.uint64, depth: int) -> int:
    """The number of move sequences of at least two plies from row 0; row i is overwritten with ply i."""
    out, legal = np.empty(54, np.uint64), int(at.LEGAL)
    left = np.empty((depth, at.NUM_LEGAL_WORDS), np.uint64)  # moves still to try at each ply
    left[0] = words[legal : legal + at.NUM_LEGAL_WORDS]
    total, ply = 0, 0
    while ply >= 0:
        action = _take_first(left[ply])
        if action < 0:
            ply -= 1
            continue
        base = np.uint64(ply) * width
        num_moves = play_copy(words, octets, base, action, base + width, out)
        if ply == depth - 2:
            total += int(num_moves)
            continue
        ply += 1
        first = legal + ply * int(width)
        left[ply] = words[first : first + at.NUM_LEGAL_WORDS]
    return total
