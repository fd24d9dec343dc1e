"""Material: what a move wins at once, and after the best reply."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.games.shogi.core import layout as at
from senju.games.shogi.core.bits import Words
from senju.games.shogi.core.moves import Octets
from senju.games.shogi.core.position import PROMOTED, play_copy, source_of
from senju.kernels import ONE, WORD_BITS, ZERO, compiled, trailing_zeros

MATE_VALUE = 1000.0
#                      -  P  L  N  S  G  B  R   K +P +L +N +S   H   D
_VALUES = np.array([0, 1, 3, 4, 5, 6, 8, 10, 0, 6, 6, 6, 6, 10, 12, 0], np.float64)
_IN_HAND = np.array([0, 1, 3, 4, 5, 6, 8, 10, 0, 1, 3, 4, 5, 8, 10, 0], np.float64)
_3, _10, _20, _80, _81 = (np.uint64(n) for n in (3, 10, 20, 80, 81))


@compiled
def _gain(words: Words, octets: Octets, base: np.uint64, action: np.uint64) -> Any:
    """The value of the captured piece, on the board and in hand, plus the gain of a promotion."""
    kind = action // _81
    if kind >= _20:
        return 0.0
    start = base << _3
    side = np.uint64(octets[start + at.SIDE_BYTE])
    own, target, board = base + at.VIEW * side, action - kind * _81, start + at.BOARD_BYTE
    taken = octets[board + (_80 - target if side != ZERO else target)] & np.uint8(15)
    gain = _VALUES[taken] + _IN_HAND[taken]
    if kind < _10:
        return gain
    source = source_of(words, own, kind - _10, target)
    piece = octets[board + (_80 - source if side != ZERO else source)] & np.uint8(15)
    return gain + _VALUES[PROMOTED[piece]] - _VALUES[piece]


@compiled
def _best_reply(words: Words, octets: Octets, base: np.uint64, offset: np.uint64, out: Words) -> Any:
    """The largest gain of the side to move by one move."""
    best = -np.inf
    for index in range(at.NUM_LEGAL_WORDS):
        replies = words[base + at.LEGAL + np.uint64(index)]
        while replies != ZERO:
            reply = index * WORD_BITS + int(trailing_zeros(replies))
            replies &= replies - ONE
            gain = _gain(words, octets, base, np.uint64(reply))
            if play_copy(words, octets, base, reply, offset, out) == ZERO:
                gain += MATE_VALUE
            best = max(best, gain)
    return best


@compiled
def action_values(
    words: Words,
    octets: Octets,
    width: np.uint64,
    depth: int,
    values: NDArray[np.float64],  # [row, action], minus infinity on entry
) -> None:
    """Write the gain of each legal action within one or two plies."""
    scratch = np.empty(3 * at.NUM_RULE_WORDS, np.uint64)
    scratch_octets = scratch.view(np.uint8)
    out = np.empty(54, np.uint64)
    first, second = np.uint64(at.NUM_RULE_WORDS), np.uint64(2 * at.NUM_RULE_WORDS)
    for row in range(values.shape[0]):
        for index in range(at.NUM_RULE_WORDS):
            scratch[index] = words[np.uint64(row) * width + np.uint64(index)]
        for index in range(at.NUM_LEGAL_WORDS):
            moves = scratch[at.LEGAL + np.uint64(index)]
            while moves != ZERO:
                action = index * WORD_BITS + int(trailing_zeros(moves))
                moves &= moves - ONE
                value = _gain(scratch, scratch_octets, ZERO, np.uint64(action))
                if play_copy(scratch, scratch_octets, ZERO, action, first, out) == ZERO:
                    value += MATE_VALUE
                elif depth > 1:
                    value -= _best_reply(scratch, scratch_octets, first, second, out)
                values[row, action] = value
