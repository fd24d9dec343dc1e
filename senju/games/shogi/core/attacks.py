"""Attacked squares: for king safety, for the pieces that give check, and for mate by a dropped pawn."""

from typing import Any

import numpy as np

from senju.games.shogi.core.bits import (
    AROUND,
    DOWN,
    LEFT,
    RIGHT,
    UP,
    Squares,
    Words,
    both,
    down,
    down_two,
    either,
    first,
    get,
    is_any,
    meet,
    only,
    rest,
    sideways,
    slide_diagonally,
    slide_down,
    slide_falling,
    slide_rising,
    slide_straight,
    slide_up,
    up,
    up_two,
    without,
)
from senju.games.shogi.core.layout import (
    ALL,
    BISHOP,
    DRAGON,
    GOLD,
    HORSE,
    KING,
    KNIGHT,
    LANCE,
    OTHER,
    PAWN,
    ROOK,
    SILVER,
)
from senju.kernels import ONE, compiled, inlined


@inlined
def attacked_from_above(words: Words, other: np.uint64, occupied: Squares) -> Squares:
    """All squares attacked by the side whose pieces move down in this view."""
    gold, king, horse = get(words, other + GOLD), get(words, other + KING), get(words, other + HORSE)
    silver, dragon = get(words, other + SILVER), get(words, other + DRAGON)
    sideways_movers = either(either(gold, king), horse)
    diagonal_movers = either(either(silver, king), dragon)
    # each of these attacks to the left and to the right: both are shifted at once
    beside = either(
        either(down(either(diagonal_movers, gold)), up(diagonal_movers)),
        either(sideways_movers, down_two(get(words, other + KNIGHT))),
    )
    rooks, bishops = either(get(words, other + ROOK), dragon), either(get(words, other + BISHOP), horse)
    downwards = either(sideways_movers, either(silver, get(words, other + PAWN)))
    attacked = either(
        either(sideways(beside), either(down(downwards), up(sideways_movers))),
        slide_down(either(get(words, other + LANCE), rooks), occupied),
    )
    while is_any(rooks):
        square, rooks = first(rooks), rest(rooks)
        attacked = either(attacked, slide_falling(UP, square, occupied))
        attacked = either(attacked, slide_rising(LEFT, square, occupied))
        attacked = either(attacked, slide_falling(RIGHT, square, occupied))
    while is_any(bishops):
        square, bishops = first(bishops), rest(bishops)
        attacked = either(attacked, slide_diagonally(square, occupied))
    return attacked


@compiled
def _attacked_from_below(words: Words, own: np.uint64, occupied: Squares) -> Squares:
    """All squares attacked by the side whose pieces move up; used for the dropped pawn only."""
    gold, king, horse = get(words, own + GOLD), get(words, own + KING), get(words, own + HORSE)
    silver, dragon = get(words, own + SILVER), get(words, own + DRAGON)
    sideways_movers = either(either(gold, king), horse)
    diagonal_movers = either(either(silver, king), dragon)
    beside = either(
        either(up(either(diagonal_movers, gold)), down(diagonal_movers)),
        either(sideways_movers, up_two(get(words, own + KNIGHT))),
    )
    upwards = either(sideways_movers, either(silver, get(words, own + PAWN)))
    attacked = either(
        either(sideways(beside), either(up(upwards), down(sideways_movers))),
        slide_up(get(words, own + LANCE), occupied),
    )
    rooks, bishops = either(get(words, own + ROOK), dragon), either(get(words, own + BISHOP), horse)
    while is_any(rooks):
        attacked = either(attacked, slide_straight(first(rooks), occupied))
        rooks = rest(rooks)
    while is_any(bishops):
        attacked = either(attacked, slide_diagonally(first(bishops), occupied))
        bishops = rest(bishops)
    return attacked


@inlined
def stepping_attackers(words: Words, other: np.uint64, target: Squares) -> Squares:
    """Pieces of the side above that reach a square by a single step, without king and lances."""
    gold, horse = get(words, other + GOLD), get(words, other + HORSE)
    silver, dragon = get(words, other + SILVER), get(words, other + DRAGON)
    beside = sideways(target)
    forward = either(either(gold, horse), either(silver, get(words, other + PAWN)))
    found = both(up(target), forward)
    found = either(found, both(either(beside, down(target)), either(gold, horse)))
    found = either(found, both(up(beside), either(either(silver, gold), dragon)))
    found = either(found, both(down(beside), either(silver, dragon)))
    return either(found, both(up(up(beside)), get(words, other + KNIGHT)))


@compiled
def pawn_drop_mates(words: Words, own: np.uint64, king_square: np.uint64) -> bool:
    """Whether dropping an own pawn in front of the enemy king is mate."""
    other = own + OTHER
    square = king_square + ONE
    pawn, king = only(square), only(king_square)
    occupied = either(either(get(words, own + ALL), get(words, other + ALL)), pawn)
    # the king takes the pawn or steps aside; it does not block a slider's line to its own flight squares
    attacked = _attacked_from_below(words, own, without(occupied, king))
    flights = without(get(AROUND, king_square + king_square), get(words, other + ALL))
    if is_any(without(flights, attacked)):
        return False
    takers = stepping_attackers(words, other, pawn)
    rooks = either(get(words, other + ROOK), get(words, other + DRAGON))
    bishops = either(get(words, other + BISHOP), get(words, other + HORSE))
    takers = either(takers, both(slide_straight(square, occupied), rooks))
    takers = either(takers, both(slide_diagonally(square, occupied), bishops))
    while is_any(takers):
        taker = only(first(takers))
        takers = rest(takers)
        if not _sees_king(words, own, king_square, without(occupied, taker)):
            return False
    return True


@compiled
def _sees_king(words: Words, own: np.uint64, king_square: np.uint64, occupied: Squares) -> Any:
    """Whether an own slider attacks the enemy king."""
    rooks = either(get(words, own + ROOK), get(words, own + DRAGON))
    bishops = either(get(words, own + BISHOP), get(words, own + HORSE))
    return (
        meet(slide_straight(king_square, occupied), rooks)
        or meet(slide_diagonally(king_square, occupied), bishops)
        or meet(slide_rising(DOWN, king_square, occupied), get(words, own + LANCE))
    )
