"""Putting men on the board and playing moves: both views, the board, hands and hash kept in step."""

from typing import Any

import numpy as np

from senju.games.shogi.core.bits import OPPOSITE, Words, either, get, nearest
from senju.games.shogi.core.layout import (
    ALL,
    BOARD_BYTE,
    GOLD,
    HANDS_BYTE,
    HASH,
    OTHER,
    SIDE_BYTE,
    VIEW,
)
from senju.games.shogi.core.moves import Octets
from senju.kernels import ALL_BITS, ONE, ZERO, compiled, inlined

# whether a man moves as gold does
_AS_GOLD = np.array([ALL_BITS if code in (5, 9, 10, 11, 12) else 0 for code in range(16)], np.uint64)
PROMOTED = np.array([0, 9, 10, 11, 12, 0, 13, 14, 0, 0, 0, 0, 0, 0, 0, 0], np.uint8)
_HAND_OF_KIND = np.array([0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 1, 2, 3, 5, 6, 0], np.uint64)

_MOST_IN_HAND = 18
_COUNTS = np.uint64(_MOST_IN_HAND + 1)
# Zobrist 1970: the hash of a position is the exclusive or of one key for each thing that is so
_generator = np.random.Generator(np.random.Philox(key=0x53686F6769))
_BOARD_KEYS = _generator.integers(2**64, size=32 * 81, dtype=np.uint64)  # [code][square in Black's view]
_HAND_KEYS = _generator.integers(2**64, size=14 * (_MOST_IN_HAND + 1), dtype=np.uint64)  # [hand][count]
_SIDE_KEY = _generator.integers(2**64, dtype=np.uint64)

_OF_WHITE, _KIND, _NOBODY, _ONE_MAN = np.uint8(16), np.uint8(15), np.uint8(0), np.uint8(1)
_7, _8, _9, _10, _11, _20, _63, _80, _81 = (np.uint64(n) for n in (7, 8, 9, 10, 11, 20, 63, 80, 81))


@compiled
def _flip(words: Words, sets: np.uint64, code: np.uint8, square: np.uint64) -> None:
    """Put a man into the sets it belongs to, or take it out, in one view."""
    is_high = ONE if square >= _63 else ZERO
    bit = ONE << (square - is_high * _63)
    sets += is_high
    words[sets + ((np.uint64(code) - ONE) << ONE)] ^= bit
    words[sets + GOLD] ^= bit & _AS_GOLD[code]
    words[sets + ALL] ^= bit


@inlined
def _flip_man(words: Words, own: np.uint64, mirrored: np.uint64, code: np.uint8, square: np.uint64) -> None:
    """Set down or take up a man, in both views."""
    _flip(words, own, code, square)
    _flip(words, mirrored, code, _80 - square)


@compiled
def board_key(code: np.uint8, square: np.uint64) -> Any:
    """The key of a man on a square of Black's view."""
    return _BOARD_KEYS[np.uint64(code) * _81 + square]


@compiled
def hand_key(hand: np.uint64, count: np.uint8) -> Any:
    """The key of so many men of one kind in one hand; hands are numbered 7 * colour + kind."""
    return _HAND_KEYS[hand * _COUNTS + np.uint64(count)]


@compiled
def set_up(words: Words, octets: Octets, base: np.uint64) -> None:
    """Make the sets and the hash of a row from its board, hands and side."""
    start = base << np.uint64(3)
    for index in range(128):
        words[base + np.uint64(index)] = ZERO
    key = _SIDE_KEY if octets[start + SIDE_BYTE] != _NOBODY else ZERO
    for index in range(81):
        square = np.uint64(index)
        man = octets[start + BOARD_BYTE + square]
        if man == _NOBODY:
            continue
        key ^= board_key(man, square)
        if man < _OF_WHITE:
            _flip_man(words, base, base + VIEW + OTHER, man, square)
        else:
            _flip_man(words, base + VIEW, base + OTHER, man & _KIND, _80 - square)
    for index in range(14):
        at = np.uint64(index)
        key ^= hand_key(at, octets[start + HANDS_BYTE + at])
    words[base + HASH] = key


@inlined
def source_of(words: Words, own: np.uint64, direction: np.uint64, target: np.uint64) -> Any:
    """Where the man stands that moves to a square in a direction, in its own view."""
    if direction == _8:
        return target - _7
    if direction == _9:
        return target + _11
    occupied = either(get(words, own + ALL), get(words, own + OTHER + ALL))
    return nearest(OPPOSITE[direction], target, occupied)


@inlined
def play(words: Words, octets: Octets, base: np.uint64, action: np.uint64) -> None:
    """Play a legal action in the row that starts at word `base`; board, hands, side and hash follow."""
    start = base << np.uint64(3)
    side = np.uint64(octets[start + SIDE_BYTE])
    own = base + VIEW * side  # the mover's sets in its own view
    mirrored = base + VIEW * (ONE - side) + OTHER  # and in the other's
    kind = action // _81
    target = action - kind * _81
    is_white = side != ZERO
    colour = _OF_WHITE if is_white else _NOBODY
    target_on_board = _80 - target if is_white else target
    board, hands, hand = start + BOARD_BYTE, start + HANDS_BYTE, side * _7
    key = words[base + HASH]

    if kind >= _20:
        hand += kind - _20
        man = np.uint8(kind - _20) + _ONE_MAN
        num_held = octets[hands + hand]
        octets[hands + hand] = num_held - _ONE_MAN
        key ^= hand_key(hand, num_held) ^ hand_key(hand, num_held - _ONE_MAN)
    else:
        source = source_of(words, own, kind - _10 if kind >= _10 else kind, target)
        source_on_board = _80 - source if is_white else source
        man = octets[board + source_on_board] & _KIND
        taken = octets[board + target_on_board] & _KIND
        octets[board + source_on_board] = _NOBODY
        _flip_man(words, own, mirrored, man, source)
        key ^= board_key(man | colour, source_on_board)
        if kind >= _10:
            man = PROMOTED[man]
        if taken != _NOBODY:
            _flip_man(words, mirrored - OTHER, own + OTHER, taken, _80 - target)
            key ^= board_key(taken | (colour ^ _OF_WHITE), target_on_board)
            hand += _HAND_OF_KIND[taken]
            num_held = octets[hands + hand]
            octets[hands + hand] = num_held + _ONE_MAN
            key ^= hand_key(hand, num_held) ^ hand_key(hand, num_held + _ONE_MAN)
    octets[board + target_on_board] = man | colour
    _flip_man(words, own, mirrored, man, target)
    octets[start + SIDE_BYTE] ^= _ONE_MAN
    words[base + HASH] = key ^ board_key(man | colour, target_on_board) ^ _SIDE_KEY
