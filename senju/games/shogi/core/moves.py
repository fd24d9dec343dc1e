"""The move generator: all legal moves of one side as 27 sets of destinations, in the order of the actions.

A move is given by its direction, whether it promotes, and its destination; the nearest piece in the opposite
direction moves. So the generator never handles single moves. A piece pinned on an axis may move along this
axis only, and one intersection per direction enforces all pins.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.games.shogi.core import layout as at
from senju.games.shogi.core.attacks import attacked_from_above, pawn_drop_mates, stepping_attackers
from senju.games.shogi.core.bits import (
    AROUND,
    AXES,
    DIRECTIONS,
    DOWN,
    DOWN_LEFT,
    DOWN_RIGHT,
    HIGH,
    LEFT,
    LOW,
    NOT_RANK_0,
    NOT_RANKS_01,
    OPPOSITE,
    RANK_8_HIGH,
    RANK_8_LOW,
    RIGHT,
    UP,
    UP_LEFT,
    UP_RIGHT,
    ZONE,
    Squares,
    Words,
    both,
    count,
    down,
    either,
    first,
    get,
    is_any,
    left,
    meet,
    only,
    put,
    ray,
    rest,
    right,
    slide_falling,
    slide_rising,
    slide_up,
    up,
    within,
    without,
)
from senju.games.shogi.core.packing import pack_sets
from senju.kernels import ONE, ZERO, compiled, inlined

Octets = NDArray[np.uint8]

_PROMOTING = np.uint64(20)  # words from a direction's moves to its promotions
_KNIGHT_LEFT, _KNIGHT_RIGHT = np.uint64(16), np.uint64(18)
_DROPS = np.uint64(40)
_2, _3, _4, _7, _8, _81 = (np.uint64(n) for n in (2, 3, 4, 7, 8, 81))


@inlined
def _lines_to_king(words: Words, other: np.uint64, king_square: np.uint64) -> Squares:
    """Enemy sliders on a line with the king, with or without pieces in between."""
    rooks = either(get(words, other + at.ROOK), get(words, other + at.DRAGON))
    bishops = either(get(words, other + at.BISHOP), get(words, other + at.HORSE))
    above = ray(UP, king_square)
    straight = either(
        either(above, ray(DOWN, king_square)), either(ray(LEFT, king_square), ray(RIGHT, king_square))
    )
    diagonal = either(
        either(ray(UP_LEFT, king_square), ray(UP_RIGHT, king_square)),
        either(ray(DOWN_LEFT, king_square), ray(DOWN_RIGHT, king_square)),
    )
    return either(
        either(both(straight, rooks), both(diagonal, bishops)), both(above, get(words, other + at.LANCE))
    )


@compiled
def _write(out: Words, direction: np.uint64, squares: Squares) -> None:
    put(out, direction << ONE, squares)


@compiled
def _write_promoting(out: Words, direction: np.uint64, squares: Squares) -> None:
    put(out, (direction << ONE) + _PROMOTING, squares)


@compiled
def _add_slides(out: Words, direction: np.uint64, may_promote: bool, in_zone: bool, found: Squares) -> None:
    offset = direction << ONE
    put(out, offset, either(get(out, offset), found))
    if may_promote:
        offset += _PROMOTING
        put(out, offset, either(get(out, offset), found if in_zone else within(found, ZONE)))


@inlined
def _steps(
    words: Words, own: np.uint64, occupied: Squares, targets: Squares, flights: Squares, free: Any, out: Words
) -> None:
    """Moves of stepping pieces, of lances, and of the king to its `flights`.

    `free` holds, per axis, the pieces that may move along it, and last the unpinned pieces.
    """
    on_file, on_rank, on_falling, on_rising, unpinned = free
    silver, gold = get(words, own + at.SILVER), get(words, own + at.GOLD)
    horse, dragon = get(words, own + at.HORSE), get(words, own + at.DRAGON)
    gold_or_horse, gold_or_dragon = either(gold, horse), either(gold, dragon)
    silver_or_dragon, king = either(silver, dragon), get(words, own + at.KING)
    king_up, king_down, nothing = up(king), down(king), (ZERO, ZERO)

    lances = slide_up(both(get(words, own + at.LANCE), on_file), occupied)
    soldiers = both(either(up(both(get(words, own + at.PAWN), on_file)), lances), targets)
    silvers = both(up(both(silver, on_file)), targets)
    golds = both(up(both(gold_or_horse, on_file)), targets)
    golds = either(golds, both(king_up, flights))
    _write(out, UP, either(either(within(soldiers, NOT_RANK_0), silvers), golds))
    _write_promoting(out, UP, within(either(soldiers, silvers), ZONE))

    silvers = both(left(up(both(silver, on_falling))), targets)
    golds = both(left(up(both(gold_or_dragon, on_falling))), targets)
    _write(out, UP_LEFT, either(either(silvers, golds), both(left(king_up), flights)))
    _write_promoting(out, UP_LEFT, within(silvers, ZONE))
    silvers = both(right(up(both(silver, on_rising))), targets)
    golds = both(right(up(both(gold_or_dragon, on_rising))), targets)
    _write(out, UP_RIGHT, either(either(silvers, golds), both(right(king_up), flights)))
    _write_promoting(out, UP_RIGHT, within(silvers, ZONE))

    golds = both(gold_or_horse, on_rank)
    _write(out, LEFT, either(both(left(golds), targets), both(left(king), flights)))
    _write(out, RIGHT, either(both(right(golds), targets), both(right(king), flights)))
    golds = both(down(both(gold_or_horse, on_file)), targets)
    _write(out, DOWN, either(golds, both(king_down, flights)))
    for direction in (LEFT, RIGHT, DOWN):
        _write_promoting(out, direction, nothing)

    # a silver that leaves the zone backwards may promote too
    backwards = both(left(down(both(silver_or_dragon, on_rising))), targets)
    _write(out, DOWN_LEFT, either(backwards, both(left(king_down), flights)))
    _write_promoting(out, DOWN_LEFT, both(left(down(within(both(silver, on_rising), ZONE))), targets))
    backwards = both(right(down(both(silver_or_dragon, on_falling))), targets)
    _write(out, DOWN_RIGHT, either(backwards, both(right(king_down), flights)))
    _write_promoting(out, DOWN_RIGHT, both(right(down(within(both(silver, on_falling), ZONE))), targets))

    jumps = up(up(both(get(words, own + at.KNIGHT), unpinned)))
    jumps_left, jumps_right = both(left(jumps), targets), both(right(jumps), targets)
    put(out, _KNIGHT_LEFT, within(jumps_left, NOT_RANKS_01))
    put(out, _KNIGHT_LEFT + _PROMOTING, within(jumps_left, ZONE))
    put(out, _KNIGHT_RIGHT, within(jumps_right, NOT_RANKS_01))
    put(out, _KNIGHT_RIGHT + _PROMOTING, within(jumps_right, ZONE))


@inlined
def _slides(words: Words, own: np.uint64, occupied: Squares, targets: Squares, free: Any, out: Words) -> None:
    """Moves of rooks, bishops, dragons and horses, one piece at a time."""
    on_file, on_rank, on_falling, on_rising, _ = free
    dragons, horses = get(words, own + at.DRAGON), get(words, own + at.HORSE)
    rooks = either(get(words, own + at.ROOK), dragons)
    while is_any(rooks):
        square, piece = first(rooks), only(first(rooks))
        rooks = rest(rooks)
        may_promote, in_zone = not meet(piece, dragons), is_any(within(piece, ZONE))
        if meet(piece, on_file):
            found = both(slide_falling(UP, square, occupied), targets)
            _add_slides(out, UP, may_promote, in_zone, found)
            found = both(slide_rising(DOWN, square, occupied), targets)
            _add_slides(out, DOWN, may_promote, in_zone, found)
        if meet(piece, on_rank):
            found = both(slide_rising(LEFT, square, occupied), targets)
            _add_slides(out, LEFT, may_promote, in_zone, found)
            found = both(slide_falling(RIGHT, square, occupied), targets)
            _add_slides(out, RIGHT, may_promote, in_zone, found)
    bishops = either(get(words, own + at.BISHOP), horses)
    while is_any(bishops):
        square, piece = first(bishops), only(first(bishops))
        bishops = rest(bishops)
        may_promote, in_zone = not meet(piece, horses), is_any(within(piece, ZONE))
        if meet(piece, on_falling):
            found = both(slide_rising(UP_LEFT, square, occupied), targets)
            _add_slides(out, UP_LEFT, may_promote, in_zone, found)
            found = both(slide_falling(DOWN_RIGHT, square, occupied), targets)
            _add_slides(out, DOWN_RIGHT, may_promote, in_zone, found)
        if meet(piece, on_rising):
            found = both(slide_falling(UP_RIGHT, square, occupied), targets)
            _add_slides(out, UP_RIGHT, may_promote, in_zone, found)
            found = both(slide_rising(DOWN_LEFT, square, occupied), targets)
            _add_slides(out, DOWN_LEFT, may_promote, in_zone, found)


@compiled
def _held(octets: Octets, hand: np.uint64, ranks: np.uint64) -> Any:
    """The ranks' pattern if the hand has a piece of that type, else zero."""
    return ranks if octets[hand] != 0 else ZERO


@inlined
def _drops(
    words: Words, octets: Octets, base: np.uint64, side: np.uint64, targets: Squares, out: Words
) -> None:
    """Drops of the pieces in hand onto `targets`, which are empty squares."""
    own, hand = base + at.VIEW * side, (base << _3) + at.HANDS_BYTE + _7 * side
    # subtracting the pawns from the last rank borrows in each file with a pawn
    pawns = get(words, own + at.PAWN)
    open_low, open_high = (RANK_8_LOW - pawns[0]) & RANK_8_LOW, (RANK_8_HIGH - pawns[1]) & RANK_8_HIGH
    open_files = (open_low << ONE) - (open_low >> _8), (open_high << ONE) - (open_high >> _8)
    squares = within(both(targets, open_files), _held(octets, hand, NOT_RANK_0))
    king = get(words, own + at.OTHER + at.KING)
    in_front = both(down(king), squares)
    if is_any(in_front) and pawn_drop_mates(words, own, base + at.VIEW * (ONE - side), first(king)):
        squares = without(squares, in_front)
    put(out, _DROPS, squares)
    put(out, _DROPS + _2, within(targets, _held(octets, hand + ONE, NOT_RANK_0)))
    put(out, _DROPS + _4, within(targets, _held(octets, hand + _2, NOT_RANKS_01)))
    for kind in range(3, 7):
        put(out, _DROPS + np.uint64(2 * kind), within(targets, _held(octets, hand + np.uint64(kind), LOW)))


@inlined
def generate(words: Words, octets: Octets, base: np.uint64, out: Words) -> Any:
    """Write the legal actions of a row; return whether its mover is in check, and the number of actions.

    `out` has room for the 27 sets.
    """
    side = np.uint64(octets[(base << _3) + at.SIDE_BYTE])
    own = base + at.VIEW * side
    other = own + at.OTHER
    mine, theirs, king = get(words, own + at.ALL), get(words, other + at.ALL), get(words, own + at.KING)
    occupied, king_square = either(mine, theirs), first(king)
    # without the king, so that it cannot flee along a slider's line
    attacked = attacked_from_above(words, other, without(occupied, king))
    is_check = meet(attacked, king)
    targets, empty = (LOW ^ mine[0], HIGH ^ mine[1]), (LOW ^ occupied[0], HIGH ^ occupied[1])

    nothing = ZERO, ZERO
    checkers, between = nothing, nothing
    pinned_file, pinned_rank, pinned_falling, pinned_rising = nothing, nothing, nothing, nothing
    sliders = _lines_to_king(words, other, king_square)
    while is_any(sliders):
        slider = first(sliders)
        sliders = rest(sliders)
        direction = np.uint64(DIRECTIONS[king_square * _81 + slider])
        line = both(ray(direction, king_square), ray(OPPOSITE[direction], slider))
        blockers = both(line, occupied)
        num_blockers = count(blockers)
        if num_blockers == ZERO:
            checkers, between = either(checkers, only(slider)), either(between, line)
        elif num_blockers == ONE:
            pinned, axis = both(blockers, mine), AXES[direction]
            if axis == ZERO:
                pinned_file = either(pinned_file, pinned)
            elif axis == ONE:
                pinned_rank = either(pinned_rank, pinned)
            elif axis == _2:
                pinned_falling = either(pinned_falling, pinned)
            else:
                pinned_rising = either(pinned_rising, pinned)
    if is_check:
        checkers = either(checkers, stepping_attackers(words, other, king))
        is_single = count(checkers) == ONE  # double check: only the king can move
        targets = either(checkers, between) if is_single else nothing
        empty = between if is_single else nothing
    pinned = either(either(pinned_file, pinned_rank), either(pinned_falling, pinned_rising))
    unpinned = ~pinned[0], ~pinned[1]
    free = (
        either(unpinned, pinned_file),
        either(unpinned, pinned_rank),
        either(unpinned, pinned_falling),
        either(unpinned, pinned_rising),
        unpinned,
    )
    flights = without(without(get(AROUND, king_square << ONE), mine), attacked)
    _steps(words, own, occupied, targets, flights, free, out)
    _slides(words, own, occupied, targets, free, out)
    _drops(words, octets, base, side, empty, out)
    return is_check, pack_sets(out, words, base + at.LEGAL)
