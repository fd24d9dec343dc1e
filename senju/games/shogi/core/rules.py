"""The rules beyond single moves: repetition, perpetual check, declaration, the limit of plies."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.games.shogi.core import layout as at
from senju.games.shogi.core.bits import ZONE, Words, either, get, is_any, within
from senju.games.shogi.core.moves import Octets, generate
from senju.games.shogi.core.position import play, set_up
from senju.kernels import ONE, ZERO, compiled, inlined, popcount

# endings, as in `Ending`
RUNNING, MATE, REPETITION, PERPETUAL_LOSS, PERPETUAL_WIN, DECLARATION, PLY_LIMIT = (
    np.uint8(code) for code in range(7)
)
NO_DECLARATION = np.uint64(10**6)  # more points than a side can have
_BIT_OF_SEEN, _LOW6 = np.uint64(4095), np.uint64(63)
_3, _4, _6, _8, _40, _48, _56 = (np.uint64(n) for n in (3, 4, 6, 8, 40, 48, 56))
_SEVEN_BYTES, _BYTE, _EACH_BYTE = np.uint64((1 << 56) - 1), np.uint64(255), np.uint64(0x0101010101010101)
_NUM_ACTIONS = 2187
_PIECES_TO_DECLARE = np.uint64(10)


@compiled
def entering_points(words: Words, base: np.uint64, side: np.uint64) -> Any:
    """The number of a side's pieces in the enemy camp, without its king, and its points.

    The points are those of these pieces and of its hand: five for a rook or bishop, promoted or not, and
    one for any other piece.
    """
    own = base + at.VIEW * side
    in_camp = within(get(words, own + at.ALL), ZONE)
    king = within(get(words, own + at.KING), ZONE)
    num_pieces = popcount(in_camp[0]) + popcount(in_camp[1]) - popcount(king[0]) - popcount(king[1])
    big = either(get(words, own + at.ROOK), get(words, own + at.BISHOP))
    big = within(either(big, either(get(words, own + at.HORSE), get(words, own + at.DRAGON))), ZONE)
    points = num_pieces + _4 * (popcount(big[0]) + popcount(big[1]))
    hand = words[base + at.HANDS]  # a byte for each kind; the product's top byte is their sum
    if side != ZERO:
        hand = (hand >> _56) | (words[base + at.HANDS + ONE] << _8)
    points += ((hand & _SEVEN_BYTES) * _EACH_BYTE) >> _56
    points += _4 * (((hand >> _40) & _BYTE) + ((hand >> _48) & _BYTE))
    return num_pieces, points


@inlined
def may_declare(words: Words, base: np.uint64, side: np.uint64, points_needed: np.uint64) -> Any:
    """Whether the side to move, if not in check, may declare a win by entering king."""
    if not is_any(within(get(words, base + at.VIEW * side + at.KING), ZONE)):
        return False
    num_pieces, points = entering_points(words, base, side)
    return num_pieces >= _PIECES_TO_DECLARE and points >= points_needed


@inlined
def _repetition(words: Words, octets: Octets, base: np.uint64, ply: np.uint64, side: np.uint64) -> Any:
    """Count the earlier occurrences of the position, store its hash, and decide the fourth occurrence."""
    key = words[base + at.HASH]
    words[base + at.HASHES + ply] = key
    offset = base + at.SEEN + ((key & _BIT_OF_SEEN) >> _6)
    bit = ONE << (key & _LOW6)
    octets[(base << _3) + at.REPETITIONS_BYTE] = 0
    if words[offset] & bit == ZERO:
        words[offset] |= bit
        return RUNNING
    times, start = 0, base + at.HASHES
    for index in range(np.int64(ply)):  # without a branch, so that the compiler vectorises it
        times += words[start + np.uint64(index)] == key
    octets[(base << _3) + at.REPETITIONS_BYTE] = min(times, 255)
    if times < 3:
        return RUNNING
    earliest = ZERO
    while words[start + earliest] != key:
        earliest += ONE
    num_turns = (ply - earliest) >> ONE
    was_checked = words[base + at.CHECK_RUNS + side] >= num_turns  # the side to move, on each of its turns
    gave_check = words[base + at.CHECK_RUNS + (ONE - side)] >= num_turns
    if was_checked == gave_check:
        return REPETITION
    return PERPETUAL_WIN if was_checked else PERPETUAL_LOSS


@inlined
def _arrive(
    words: Words, octets: Octets, base: np.uint64, max_plies: np.uint64, points_needed: Words, out: Words
) -> Any:
    """Compute the legal moves, check and ending of a position that was just reached."""
    start = base << _3
    side, ply = np.uint64(octets[start + at.SIDE_BYTE]), words[base + at.PLY]
    is_check, num_moves = generate(words, octets, base, out)
    octets[start + at.IS_CHECK_BYTE] = 1 if is_check else 0
    words[base + at.CHECK_RUNS + side] = words[base + at.CHECK_RUNS + side] + ONE if is_check else ZERO
    ending = _repetition(words, octets, base, ply, side)
    if not is_check and may_declare(words, base, side, points_needed[side]):
        ending = DECLARATION
    elif num_moves == ZERO:
        ending = MATE
    elif ending == RUNNING and ply >= max_plies:
        ending = PLY_LIMIT
    octets[start + at.ENDING_BYTE] = ending
    return ending


@compiled
def _remember_board(words: Words, base: np.uint64, offset: np.uint64, history: int) -> None:
    """Add the position before a move to the earlier ones, newest first."""
    for index in range((history - 1) * 13 - 1, -1, -1):
        words[offset + at.PAST_WORDS + np.uint64(index)] = words[offset + np.uint64(index)]
    for index in range(13):
        words[offset + np.uint64(index)] = words[base + at.BOARD + np.uint64(index)]


@inlined
def _first_refused(words: Words, octets: Octets, width: np.uint64, actions: NDArray[np.int32]) -> int:
    """The first row whose game is over or whose action is not legal, or -1."""
    for row in range(actions.shape[0]):
        action, base = actions[row, 0], np.uint64(row) * width
        if not 0 <= action < _NUM_ACTIONS or octets[(base << _3) + at.ENDING_BYTE] != RUNNING:
            return row
        chosen = np.uint64(action)
        if (words[base + at.LEGAL + (chosen >> _6)] >> (chosen & _LOW6)) & ONE == ZERO:
            return row
    return -1


@compiled
def step_rows(
    words: Words,
    octets: Octets,
    width: np.uint64,
    actions: NDArray[np.int32],  # [row, 1]
    is_start: bool,
    max_plies: np.uint64,
    points_needed: Words,  # [side]
    history: int,
    rewards: NDArray[np.float32],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
) -> int:
    """Play one action in each row; return the first row whose action is refused, or -1.

    With `is_start`, no action is played: rows with a board, hands and side, and zeros elsewhere, become
    complete states. One kernel does both, since compiling the move generator takes seconds.
    """
    if not is_start:
        refused = _first_refused(words, octets, width, actions)
        if refused >= 0:
            return refused
    out = np.empty(54, np.uint64)
    for row in range(actions.shape[0]):
        base = np.uint64(row) * width
        if is_start:
            set_up(words, octets, base)
        else:
            if history > 0:
                _remember_board(words, base, base + at.HASHES + max_plies + ONE, history)
            play(words, octets, base, np.uint64(actions[row, 0]))
            words[base + at.PLY] += ONE
        ending = _arrive(words, octets, base, max_plies, points_needed, out)
        gain = np.float32(0.0)  # of the side to move
        if ending in (MATE, PERPETUAL_LOSS):
            gain = np.float32(-1.0)
        elif ending in (PERPETUAL_WIN, DECLARATION):
            gain = np.float32(1.0)
        side = octets[(base << _3) + at.SIDE_BYTE]
        rewards[row, side], rewards[row, 1 - side] = gain, -gain
        truncated[row] = ending == PLY_LIMIT
        terminated[row] = ending not in (RUNNING, PLY_LIMIT)
    return -1
