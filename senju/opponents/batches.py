"""Batches: all seats for which one opponent decides in a step, in any of the games."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.collect.seating import CURRENT
from senju.games.game import Game, Observations
from senju.games.rows import Rows, Stream
from senju.opponents.players import PlayerBatch

OPPONENTS_ACTION = int(Stream.OPPONENTS_ACTION)


class Batches:
    """The observations of all opponents in one step, sorted by opponent."""

    def __init__(self, game: Game, by_seat: bool = False) -> None:
        """A batch is of one acting index, or with `by_seat` of one seat."""
        self._num_acting = game.num_acting
        self._num_parts = game.num_seats if by_seat else game.num_acting
        self.positions = np.zeros(0, np.int64)  # row * num_acting + acting_index, batch by batch

    def fill(
        self, rows: Rows, observations: Observations, seats: NDArray[np.int8], seated: NDArray[np.int32]
    ) -> list[tuple[int, int, slice]]:
        """Copy the observations; return opponent, acting index (or seat) and slice of each batch."""
        acting = np.flatnonzero(seats >= 0)  # row * num_acting + acting_index
        which, indices = np.divmod(acting, self._num_acting)
        own = seats.reshape(-1)[acting]
        opponents = seated[which, own].astype(np.int64)
        keys = opponents * self._num_parts + (indices if self._num_parts == self._num_acting else own)
        order = np.argsort(keys, kind="stable")
        order = order[opponents[order] != CURRENT]
        self.positions = acting[order]
        columns: tuple[NDArray[Any], ...] = (observations.observation, observations.legal, seats)
        by_position = (column.reshape(seats.size, 1, *column.shape[2:]) for column in columns)
        self._seen = Observations(*(column.take(self.positions, axis=0) for column in by_position))
        self._clock = rows.clock.take(which[order])
        different, starts = np.unique(keys[order], return_index=True)
        parts = [slice(start, end) for start, end in pairwise([*starts.tolist(), len(order)])]
        return [
            (*divmod(key, self._num_parts), part) for key, part in zip(different.tolist(), parts, strict=True)
        ]

    def player_batch(self, rows: Rows, acting_index: int, part: slice, with_states: bool) -> PlayerBatch:
        """One batch as the argument of `Player.choose`."""
        which = self.positions[part] // self._num_acting if with_states else self.positions[:0]
        stream = OPPONENTS_ACTION + (acting_index << 8)
        seen = self._seen
        mine = Observations(seen.observation[part], seen.legal[part], seen.seats[part])
        return PlayerBatch(rows.states[which], mine, self._clock[part], rows.seed, stream)
