"""Setting up positions and playing moves: updates both views, the board, the hands and the hash."""

from typing import Any

import numpy as np

from senju.games.shogi.core import layout as at
from senju.games.shogi.core.bits import OPPOSITE, Words, either, get, nearest
from senju.games.shogi.core.moves import Octets, generate
from senju.kernels import ALL_BITS, ONE, WORD_BITS, ZERO, compiled, inlined, trailing_zeros

# whether a piece moves as gold does
_AS_GOLD = np.array([ALL_BITS if code in (5, 9, 10, 11, 12) else 0 for code in range(16)], np.uint64)
PROMOTED = np.array([0, 9, 10, 11, 12, 0, 13, 14, 0, 0, 0, 0, 0, 0, 0, 0], np.uint8)
_HAND_OF_KIND = np.array([0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 1, 2, 3, 5, 6, 0], np.uint64)

_MAX_IN_HAND = 18
_COUNTS = np.uint64(_MAX_IN_HAND + 1)
# Zobrist 1970: the hash of a position is the XOR of one key for each piece on its square, hand count and side
_generator = np.random.Generator(np.random.Philox(key=0x53686F6769))
_BOARD_KEYS = _generator.integers(2**64, size=32 * 81, dtype=np.uint64)  # [code][square in Black's view]
_HAND_KEYS = _generator.integers(2**64, size=14 * (_MAX_IN_HAND + 1), dtype=np.uint64)  # [hand][count]
_SIDE_KEY = _generator.integers(2**64, dtype=np.uint64)

_OF_WHITE, _KIND, _NO_PIECE, _ONE_PIECE = np.uint8(16), np.uint8(15), np.uint8(0), np.uint8(1)
_7, _8, _9, _10, _11, _20, _63, _80, _81 = (np.uint64(n) for n in (7, 8, 9, 10, 11, 20, 63, 80, 81))


@compiled
def _flip(words: Words, sets: np.uint64, code: np.uint8, square: np.uint64) -> None:
    """Add a piece to its sets, or remove it, in one view."""
    is_high = ONE if square >= _63 else ZERO
    bit = ONE << (square - is_high * _63)
    sets += is_high
    words[sets + ((np.uint64(code) - ONE) << ONE)] ^= bit
    words[sets + at.GOLD] ^= bit & _AS_GOLD[code]
    words[sets + at.ALL] ^= bit


@inlined
def _flip_piece(words: Words, own: np.uint64, mirrored: np.uint64, code: np.uint8, square: np.uint64) -> None:
    """Add or remove a piece, in both views."""
    _flip(words, own, code, square)
    _flip(words, mirrored, code, _80 - square)


@compiled
def board_key(code: np.uint8, square: np.uint64) -> Any:
    """The hash key of a piece on a square of Black's view."""
    return _BOARD_KEYS[np.uint64(code) * _81 + square]


@compiled
def hand_key(hand: np.uint64, count: np.uint8) -> Any:
    """The hash key of a count of pieces in hand; `hand` is 7 * side + kind."""
    return _HAND_KEYS[hand * _COUNTS + np.uint64(count)]


@compiled
def set_up(words: Words, octets: Octets, base: np.uint64) -> None:
    """Compute the sets and the hash of a row from its board, hands and side."""
    start = base << np.uint64(3)
    for index in range(128):
        words[base + np.uint64(index)] = ZERO
    key = _SIDE_KEY if octets[start + at.SIDE_BYTE] != _NO_PIECE else ZERO
    for index in range(81):
        square = np.uint64(index)
        piece = octets[start + at.BOARD_BYTE + square]
        if piece == _NO_PIECE:
            continue
        key ^= board_key(piece, square)
        if piece < _OF_WHITE:
            _flip_piece(words, base, base + at.VIEW + at.OTHER, piece, square)
        else:
            _flip_piece(words, base + at.VIEW, base + at.OTHER, piece & _KIND, _80 - square)
    for index in range(14):
        offset = np.uint64(index)
        key ^= hand_key(offset, octets[start + at.HANDS_BYTE + offset])
    words[base + at.HASH] = key


@inlined
def source_of(words: Words, own: np.uint64, direction: np.uint64, target: np.uint64) -> Any:
    """The source of the piece that moves to `target` in a direction, in the mover's view."""
    if direction == _8:
        return target - _7
    if direction == _9:
        return target + _11
    occupied = either(get(words, own + at.ALL), get(words, own + at.OTHER + at.ALL))
    return nearest(OPPOSITE[direction], target, occupied)


@inlined
def play(words: Words, octets: Octets, base: np.uint64, action: np.uint64) -> None:
    """Play a legal action in the row that starts at word `base`; updates board, hands, side and hash."""
    start = base << np.uint64(3)
    side = np.uint64(octets[start + at.SIDE_BYTE])
    own = base + at.VIEW * side  # the mover's sets in its own view
    mirrored = base + at.VIEW * (ONE - side) + at.OTHER  # the mover's sets in the other's view
    kind = action // _81
    target = action - kind * _81
    is_white = side != ZERO
    colour = _OF_WHITE if is_white else _NO_PIECE
    target_on_board = _80 - target if is_white else target
    board, hands, hand = start + at.BOARD_BYTE, start + at.HANDS_BYTE, side * _7
    key = words[base + at.HASH]

    if kind >= _20:
        hand += kind - _20
        piece = np.uint8(kind - _20) + _ONE_PIECE
        num_held = octets[hands + hand]
        octets[hands + hand] = num_held - _ONE_PIECE
        key ^= hand_key(hand, num_held) ^ hand_key(hand, num_held - _ONE_PIECE)
    else:
        source = source_of(words, own, kind - _10 if kind >= _10 else kind, target)
        source_on_board = _80 - source if is_white else source
        piece = octets[board + source_on_board] & _KIND
        taken = octets[board + target_on_board] & _KIND
        octets[board + source_on_board] = _NO_PIECE
        _flip_piece(words, own, mirrored, piece, source)
        key ^= board_key(piece | colour, source_on_board)
        if kind >= _10:
            piece = PROMOTED[piece]
        if taken != _NO_PIECE:
            _flip_piece(words, mirrored - at.OTHER, own + at.OTHER, taken, _80 - target)
            key ^= board_key(taken | (colour ^ _OF_WHITE), target_on_board)
            hand += _HAND_OF_KIND[taken]
            num_held = octets[hands + hand]
            octets[hands + hand] = num_held + _ONE_PIECE
            key ^= hand_key(hand, num_held) ^ hand_key(hand, num_held + _ONE_PIECE)
    octets[board + target_on_board] = piece | colour
    _flip_piece(words, own, mirrored, piece, target)
    octets[start + at.SIDE_BYTE] ^= _ONE_PIECE
    words[base + at.HASH] = key ^ board_key(piece | colour, target_on_board) ^ _SIDE_KEY


@compiled
def play_copy(
    words: Words, octets: Octets, base: np.uint64, action: int, offset: np.uint64, out: Words
) -> Any:
    """Play a move in a copy of the row at word `offset`; return the number of replies."""
    for index in range(at.NUM_RULE_WORDS):
        words[offset + np.uint64(index)] = words[base + np.uint64(index)]
    play(words, octets, offset, np.uint64(action))
    _, num_replies = generate(words, octets, offset, out)
    return num_replies


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
    """Perft: the number of sequences of `depth` moves, at least 2, from row 0; overwrites the other rows."""
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
