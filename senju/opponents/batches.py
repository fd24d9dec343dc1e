"""Batches: all seats for which one opponent decides in a step, in any of the games."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.collect.seating import CURRENT
from senju.games.game import Game, Observations
from senju.games.rows import Rows, Stream
from senju.kernels import compiled, inlined
from senju.opponents.players import Table

OPPONENTS_ACTION = int(Stream.OPPONENTS_ACTION)


@inlined
def _key(
    seats: NDArray[np.int8], seated: NDArray[np.int32], current: int, num_parts: int, row: int, place: int
) -> int:
    """The batch of a place; -1 where no opponent decides."""
    seat = seats[row, place]
    if seat < 0 or seated[row, seat] == current:
        return -1
    return int(seated[row, seat] * num_parts + (place if num_parts == seats.shape[1] else seat))


@compiled
def _group(
    seats: NDArray[np.int8],  # [row, acting]
    seated: NDArray[np.int32],
    current: int,  # policy id of the learning policy
    num_parts: int,  # num_seats: batches are of one seat; otherwise num_acting: of one place
    keys: NDArray[np.int64],  # out: opponent * num_parts + seat or place, in order
    ends: NDArray[np.int64],  # out: where the positions of each key end
    positions: NDArray[np.int64],  # out: row * acting + place, key by key
) -> int:
    """Group the places where opponents decide by opponent; return the number of groups."""
    num_keys, num_places = 0, seats.shape[1]
    for row in range(seats.shape[0]):
        for place in range(num_places):
            key = _key(seats, seated, current, num_parts, row, place)
            if key < 0:
                continue
            index = num_keys
            while index > 0 and keys[index - 1] >= key:
                index -= 1
            if index == num_keys or keys[index] != key:
                for later in range(num_keys, index, -1):
                    keys[later], ends[later] = keys[later - 1], ends[later - 1]
                keys[index], ends[index] = key, 0
                num_keys += 1
            ends[index] += 1
    total = 0
    for index in range(num_keys):  # for now, where the positions of each key begin
        ends[index], total = total, total + ends[index]
    for row in range(seats.shape[0]):
        for place in range(num_places):
            key = _key(seats, seated, current, num_parts, row, place)
            if key < 0:
                continue
            index = 0
            while keys[index] != key:
                index += 1
            positions[ends[index]] = row * num_places + place
            ends[index] += 1
    return num_keys


class Batches:
    """The observations of all opponents in one step, sorted by opponent."""

    def __init__(self, game: Game, num_rows: int, by_seat: bool = False) -> None:
        """Batches are of one place among the acting ones, or with `by_seat` of one seat."""
        most = num_rows * game.num_acting
        self._num_places = game.num_acting
        self._num_parts = game.num_seats if by_seat else game.num_acting
        self._keys, self._ends = np.zeros(most, np.int64), np.zeros(most, np.int64)
        self._positions = np.zeros(most, np.int64)

    def fill(
        self, rows: Rows, observations: Observations, seats: NDArray[np.int8], seated: NDArray[np.int32]
    ) -> list[tuple[int, int, slice]]:
        """Copy the observations; return opponent, place (or seat) and slice of each batch."""
        num_keys = _group(seats, seated, CURRENT, self._num_parts, self._keys, self._ends, self._positions)
        keys, ends = self._keys[:num_keys].tolist(), self._ends[:num_keys].tolist()
        chosen, most = self._positions[: ends[-1] if ends else 0], len(self._positions)
        columns: tuple[NDArray[Any], ...] = (observations.observation, observations.legal, seats)
        by_place = (column.reshape(most, 1, *column.shape[2:]) for column in columns)
        self._seen = Observations(*(column.take(chosen, axis=0) for column in by_place))
        self._clock = rows.clock.take(chosen // self._num_places)
        parts = [slice(start, end) for start, end in pairwise([0, *ends])]
        return [(*divmod(key, self._num_parts), part) for key, part in zip(keys, parts, strict=True)]

    def positions(self, part: slice) -> NDArray[np.int64]:
        """The places (row * acting + place) of one batch."""
        return self._positions[part]

    def table(self, rows: Rows, place: int, part: slice, with_states: bool) -> Table:
        """One batch as a player sees it."""
        which = self._positions[part] // self._num_places if with_states else self._positions[:0]
        stream = OPPONENTS_ACTION + (place << 8)
        seen = self._seen
        mine = Observations(seen.observation[part], seen.legal[part], seen.seats[part])
        return Table(rows.states[which], mine, self._clock[part], rows.seed, stream)
