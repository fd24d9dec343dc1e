"""Batches: all seats for which one opponent decides in a step, in any of the games."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from senju.collect.seating import CURRENT
from senju.games.game import Game, Observations
from senju.games.rows import CLOCK, Rows, Stream
from senju.kernels import compiled, legal_words
from senju.opponents.players import Table

OPPONENTS_ACTION = int(Stream.OPPONENTS_ACTION)


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
            seat = seats[row, place]
            if seat < 0 or seated[row, seat] == current:
                continue
            key = seated[row, seat] * num_parts + (place if num_parts == num_places else seat)
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
            seat = seats[row, place]
            if seat < 0 or seated[row, seat] == current:
                continue
            key = seated[row, seat] * num_parts + (place if num_parts == num_places else seat)
            index = 0
            while keys[index] != key:
                index += 1
            positions[ends[index]] = row * num_places + place
            ends[index] += 1
    return num_keys


@compiled
def _gather(
    positions: NDArray[np.int64],
    num_places: int,
    observation: NDArray[np.uint8],  # [row * acting, bytes]
    legal: NDArray[np.uint64],  # [row * acting, words]
    seats: NDArray[np.int8],  # [row * acting]
    clock: NDArray[np.void],  # [row]
    observation_out: NDArray[np.uint8],
    legal_out: NDArray[np.uint64],
    seats_out: NDArray[np.int8],
    clock_out: NDArray[np.void],
) -> None:
    """Copy the observations at these positions in order: each opponent's batch is a slice of the copy."""
    for index in range(positions.shape[0]):
        position = positions[index]
        row = position // num_places
        observation_out[index] = observation[position]
        legal_out[index] = legal[position]
        seats_out[index] = seats[position]
        clock_out[index]["row"] = clock[row]["row"]
        clock_out[index]["game"] = clock[row]["game"]
        clock_out[index]["step"] = clock[row]["step"]


class Batches:
    """The observations of all opponents in one step, sorted by opponent; each step uses the same arrays."""

    def __init__(self, game: Game, num_rows: int, by_seat: bool = False) -> None:
        """Batches are of one place among the acting ones, or with `by_seat` of one seat."""
        most = num_rows * game.num_acting
        self._num_places = game.num_acting
        self._num_parts = game.num_seats if by_seat else game.num_acting
        self._keys, self._ends = np.zeros(most, np.int64), np.zeros(most, np.int64)
        self._positions = np.zeros(most, np.int64)
        self._seen = Observations(
            np.zeros((most, 1, *game.observation_shape), game.observation_dtype),
            np.zeros((most, 1, legal_words(game.num_actions)), np.uint64),
            np.zeros((most, 1), np.int8),
        )
        self._clock = np.zeros(most, CLOCK)

    def fill(
        self, rows: Rows, observations: Observations, seats: NDArray[np.int8], seated: NDArray[np.int32]
    ) -> list[tuple[int, int, slice]]:
        """Copy the observations; return opponent, place (or seat) and slice of each batch."""
        num_keys = _group(seats, seated, CURRENT, self._num_parts, self._keys, self._ends, self._positions)
        keys, ends = self._keys[:num_keys].tolist(), self._ends[:num_keys].tolist()
        total, most = ends[-1] if ends else 0, len(self._positions)
        _gather(
            self._positions[:total],
            self._num_places,
            observations.observation.reshape(most, -1).view(np.uint8),
            observations.legal.reshape(most, -1),
            seats.reshape(most),
            rows.clock,
            self._seen.observation.reshape(most, -1).view(np.uint8),
            self._seen.legal[:, 0],
            self._seen.seats[:, 0],
            self._clock,
        )
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
