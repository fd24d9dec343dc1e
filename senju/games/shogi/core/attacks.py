"""Attacked squares: for king safety, for the pieces that give check, and for mate by a dropped pawn."""

from typing import Any

import numpy as np

from senju.games.shogi.core import layout as at
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
    up,
    without,
)
from senju.kernels import ONE, compiled, inlined

_80 = np.uint64(80)


@inlined
def attacked_from_above(words: Words, other: np.uint64, occupied: Squares) -> Squares:
    """All squares attacked by the side whose pieces move down in this view."""
    gold, king, horse = get(words, other + at.GOLD), get(words, other + at.KING), get(words, other + at.HORSE)
    silver, dragon = get(words, other + at.SILVER), get(words, other + at.DRAGON)
    sideways_movers = either(either(gold, king), horse)
    diagonal_movers = either(either(silver, king), dragon)
    # each of these attacks to the left and to the right: both are shifted at once
    beside = either(
        either(down(either(diagonal_movers, gold)), up(diagonal_movers)),
        either(sideways_movers, down(down(get(words, other + at.KNIGHT)))),
    )
    rooks, bishops = either(get(words, other + at.ROOK), dragon), either(get(words, other + at.BISHOP), horse)
    downwards = either(sideways_movers, either(silver, get(words, other + at.PAWN)))
    attacked = either(
        either(sideways(beside), either(down(downwards), up(sideways_movers))),
        slide_down(either(get(words, other + at.LANCE), rooks), occupied),
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


@inlined
def stepping_attackers(words: Words, other: np.uint64, target: Squares) -> Squares:
    """Pieces of the side above that reach a square by a single step, without king and lances."""
    gold, horse = get(words, other + at.GOLD), get(words, other + at.HORSE)
    silver, dragon = get(words, other + at.SILVER), get(words, other + at.DRAGON)
    beside = sideways(target)
    forward = either(either(gold, horse), either(silver, get(words, other + at.PAWN)))
    found = both(up(target), forward)
    found = either(found, both(either(beside, down(target)), either(gold, horse)))
    found = either(found, both(up(beside), either(either(silver, gold), dragon)))
    found = either(found, both(down(beside), either(silver, dragon)))
    return either(found, both(up(up(beside)), get(words, other + at.KNIGHT)))


@compiled
def pawn_drop_mates(words: Words, own: np.uint64, theirs: np.uint64, king_square: np.uint64) -> bool:
    """Whether dropping an own pawn in front of the enemy king is mate; `theirs` is the enemy's view."""
    # the king takes the pawn or steps aside; it does not block a slider's line to its own flight squares
    king, pieces = _80 - king_square, get(words, theirs + at.ALL)
    blockers = without(either(pieces, get(words, theirs + at.OTHER + at.ALL)), only(king))
    attacked = attacked_from_above(words, theirs + at.OTHER, either(blockers, only(king - ONE)))
    flights = without(get(AROUND, king << ONE), pieces)
    if is_any(without(flights, attacked)):
        return False
    other, square = own + at.OTHER, king_square + ONE
    pawn = only(square)
    occupied = either(either(get(words, own + at.ALL), get(words, other + at.ALL)), pawn)
    takers = stepping_attackers(words, other, pawn)
    rooks = either(get(words, other + at.ROOK), get(words, other + at.DRAGON))
    bishops = either(get(words, other + at.BISHOP), get(words, other + at.HORSE))
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
    rooks = either(get(words, own + at.ROOK), get(words, own + at.DRAGON))
    bishops = either(get(words, own + at.BISHOP), get(words, own + at.HORSE))
    return (
        meet(slide_straight(king_square, occupied), rooks)
        or meet(slide_diagonally(king_square, occupied), bishops)
        or meet(slide_rising(DOWN, king_square, occupied), get(words, own + at.LANCE))
    )
