"""Random positions with few pieces on the board, near rare cases: mates by a pawn, entered kings, pins."""

import random
from collections.abc import Sequence

import cshogi
import numpy as np

from senju.games.shogi.layout import (
    BISHOP,
    DRAGON,
    GOLD,
    HAND_KINDS,
    HORSE,
    KING,
    LANCE,
    NUM_OF_KIND,
    OF_WHITE,
    PAWN,
    PROMOTED,
    ROOK,
    SILVER,
)
from senju.games.shogi.pieces import Board, could_move_on, in_view, is_promotion_zone, squares_before
from senju.games.shogi.sfen import format_sfen

ALL_SQUARES = range(81)
CAMPS = [[square for square in ALL_SQUARES if is_promotion_zone(square, side)] for side in range(2)]


def open_position(chance: random.Random) -> str:
    """A few pieces anywhere, sliders that look at the kings, and full hands."""
    while True:
        maker = _Maker(chance)
        maker.put_kings(ALL_SQUARES, ALL_SQUARES)
        for _ in range(chance.randrange(4)):
            maker.aim_at_king(chance.randrange(2))
        for _ in range(chance.randrange(2, 16)):
            maker.put(maker.any_kind(), chance.randrange(2), ALL_SQUARES)
        maker.fill_hands(chance.random())
        if (sfen := maker.sfen()) is not None:
            return sfen


def cornered_king(chance: random.Random) -> str:
    """One king at its edge with pieces of both sides around it, pawns in the other's hand."""
    while True:
        maker, loser = _Maker(chance), chance.randrange(2)
        kings: list[Sequence[int]] = [ALL_SQUARES, ALL_SQUARES]
        kings[loser] = [square for square in ALL_SQUARES if in_view(square, loser) % 9 >= 7]
        maker.put_kings(*kings)
        maker.side = 1 - loser
        near = maker.around(loser, chance.choice([2, 2, 3]))
        for _ in range(chance.randrange(3)):
            maker.aim_at_king(loser)
        for _ in range(chance.randrange(3, 9)):
            maker.put(maker.any_kind(), 1 - loser, near)
        for _ in range(chance.randrange(5)):
            maker.put(maker.any_kind(), loser, near)
        maker.hold(PAWN, 1 - loser)
        if (sfen := maker.sfen()) is not None:
            return sfen


def entered_king(chance: random.Random) -> str:
    """A king in or near the other's camp, about ten pieces beside it, about enough points to declare."""
    while True:
        maker = _Maker(chance)
        near = [[square for square in ALL_SQUARES if in_view(square, side) % 9 < 4] for side in range(2)]
        maker.put_kings(*(chance.choice([CAMPS[side], near[side]]) for side in range(2)))
        side, camp = maker.side, CAMPS[maker.side]
        if chance.random() < 0.3:
            maker.aim_at_king(side)
        for _ in range(chance.choice([8, 9, 9, 10, 10, 10, 11, 12])):
            kind = maker.any_kind() if chance.random() < 0.4 else chance.choice(maker.box)
            maker.put(kind, side, camp, num_tries=20)
        for _ in range(chance.randrange(5)):
            maker.put(chance.choice(maker.box), 1 - side, ALL_SQUARES)
        maker.fill_hand_to(side, chance.randrange(26, 33))
        if (sfen := maker.sfen()) is not None:
            return sfen


def hunted_king(chance: random.Random) -> str:
    """Two kings and a few pieces that can go back to where they came from."""
    while True:
        maker = _Maker(chance)
        maker.put_kings(ALL_SQUARES, ALL_SQUARES)
        hunter = chance.randrange(2)
        for _ in range(chance.randrange(1, 4)):
            maker.put(chance.choice([ROOK, ROOK, BISHOP, GOLD]), hunter, ALL_SQUARES, num_tries=5)
        for _ in range(chance.randrange(3)):
            maker.put(chance.choice([ROOK, BISHOP, GOLD, SILVER]), 1 - hunter, ALL_SQUARES, num_tries=5)
        if (sfen := maker.sfen()) is not None:
            return sfen


def points_of(kind: int) -> int:
    """What a piece counts when its king has entered."""
    return 5 if kind in (BISHOP, ROOK, HORSE, DRAGON) else 1


class _Maker:
    """A position while it is made."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.board: Board = np.zeros(81, np.uint8)
        self.hands = np.zeros((2, 7), np.uint8)
        self.side = chance.randrange(2)
        self.box = [kind for kind in HAND_KINDS for _ in range(NUM_OF_KIND[kind])]
        self.kings = [0, 0]

    def any_kind(self) -> int:
        """A kind that is still in the box, each as likely as the others."""
        return self.chance.choice(sorted(set(self.box)))

    def put_kings(self, *squares: Sequence[int]) -> None:
        for side in range(2):
            self.kings[side] = self.chance.choice([s for s in squares[side] if not self.board[s]])
            self.board[self.kings[side]] = KING | OF_WHITE * side

    def put(self, kind: int, side: int, squares: Sequence[int], num_tries: int = 1) -> None:
        """Put a piece on one of the squares; it stays in the box where the rules forbid it."""
        for _ in range(num_tries if kind in self.box else 0):
            square = self.chance.choice(squares)
            promotes = kind in PROMOTED and self.chance.random() < 0.4
            code = PROMOTED[kind] if promotes else kind
            file = self.board[square - square % 9 : square - square % 9 + 9]
            is_second_pawn = code == PAWN and (file == (PAWN | OF_WHITE * side)).any()
            if not self.board[square] and could_move_on(code, square, side) and not is_second_pawn:
                self.board[square] = code | OF_WHITE * side
                self.box.remove(kind)
                return

    def aim_at_king(self, side: int) -> None:
        """Put an enemy slider on a line with the king, mostly with one of the king's own pieces between."""
        direction = self.chance.randrange(8)
        line = list(squares_before(self.kings[side], direction, 1 - side))
        kinds = {0: (ROOK, LANCE), 3: (ROOK,), 4: (ROOK,), 5: (ROOK,)}.get(direction, (BISHOP,))
        kinds = tuple(kind for kind in kinds if kind in self.box)
        if len(line) < 2 or not kinds:
            return
        distance = self.chance.randrange(1, len(line))
        self.put(self.chance.choice(kinds), 1 - side, line[distance : distance + 1])
        if self.chance.random() < 0.8:
            self.put(self.any_kind(), side, line[:distance])

    def around(self, side: int, distance: int) -> list[int]:
        """The squares near a king."""
        file, rank = divmod(self.kings[side], 9)
        return [s for s in ALL_SQUARES if max(abs(s // 9 - file), abs(s % 9 - rank)) <= distance]

    def hold(self, kind: int, side: int) -> None:
        """Move a piece from the box to a hand, if there is one left."""
        if kind in self.box:
            self.box.remove(kind)
            self.hands[side, HAND_KINDS.index(kind)] += 1

    def fill_hands(self, share: float) -> None:
        """Put part of what is left in the box into the hands."""
        for kind in list(self.box):
            if self.chance.random() < share:
                self.hold(kind, self.chance.randrange(2))

    def fill_hand_to(self, side: int, points: int) -> None:
        """Put pieces into a hand until the side has so many points, or no piece fits."""
        missing = points - self.points(side)
        while kinds := [kind for kind in self.box if points_of(kind) <= missing]:
            kind = self.chance.choice(kinds)
            self.hold(kind, side)
            missing -= points_of(kind)

    def points(self, side: int) -> int:
        """What the rule of the entering king counts."""
        own = self.board[CAMPS[side]]
        own = own[(own // OF_WHITE == side) & (own & 15 != KING) & (own != 0)]
        held = np.repeat(HAND_KINDS, self.hands[side])
        return sum(points_of(kind) for kind in [*(own & 15).tolist(), *held.tolist()])

    def sfen(self) -> str | None:
        """The position, unless the side to move could take the king."""
        if self.kings[1] in self.around(0, 1):  # which cshogi calls no check
            return None
        if cshogi.Board(format_sfen(self.board, self.hands, 1 - self.side)).is_check():
            return None
        return format_sfen(self.board, self.hands, self.side)
