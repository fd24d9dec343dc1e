"""Perft: counts all move sequences of a length, the usual test of a move generator."""

import numpy as np

from senju.games.shogi.core import layout as at
from senju.games.shogi.core.bits import Words
from senju.games.shogi.core.moves import Octets, generate
from senju.games.shogi.core.packing import pack_sets
from senju.games.shogi.core.position import play
from senju.kernels import ONE, WORD_BITS, ZERO, compiled, trailing_zeros

_3, _7 = np.uint64(3), np.uint64(7)


@compiled
def count_lines(words: Words, octets: Octets, width: np.uint64, depth: int) -> int:
    """The number of move sequences of length `depth` from row 0; row i is overwritten with ply i."""
    out = np.empty(54, np.uint64)
    left = np.zeros((depth, at.NUM_LEGAL_WORDS), np.uint64)  # moves still to try offset each ply
    total, ply = 0, 0
    is_new = True
    while ply >= 0:
        base = np.uint64(ply) * width
        if is_new:
            start = base << _3
            side = np.uint64(octets[start + at.SIDE_BYTE])
            generate(words, base + at.VIEW * side, octets, start + at.HANDS_BYTE + _7 * side, out)
            num_moves = pack_sets(out, words, base + at.LEGAL)
            if ply == depth - 1:
                total += int(num_moves)
                ply -= 1
                is_new = False
                continue
            for index in range(at.NUM_LEGAL_WORDS):
                left[ply, index] = words[base + at.LEGAL + np.uint64(index)]
        action = -1
        for index in range(at.NUM_LEGAL_WORDS):
            word = left[ply, index]
            if word != ZERO:
                action = index * WORD_BITS + int(trailing_zeros(word))
                left[ply, index] = word & (word - ONE)
                break
        if action < 0:
            ply -= 1
            is_new = False
            continue
        for index in range(at.NUM_RULE_WORDS):
            words[base + width + np.uint64(index)] = words[base + np.uint64(index)]
        play(words, octets, base + width, np.uint64(action))
        ply += 1
        is_new = True
    return total
