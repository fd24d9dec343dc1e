"""Seatings: which policy sits where.

`self_play` seats the current policy everywhere: all decisions of a step are one batch, and all
of them are learned from. `opponents` seats it in one seat of each game and others in the rest; only
its own decisions are learned from. `independent` gives every seat a policy of its own, which learns from
what that seat sees and does, and from nothing else.
"""

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from senju.collect.orders import Orders
from senju.games.game import Observations
from senju.games.rows import Rows
from senju.kernels import compiled

Seating = Literal["self_play", "opponents", "independent"]

CURRENT = 0  # in `seated`: the current policy; any other number is an opponent's id


def seat_seed(seed: int, seat: int) -> int:
    """The seed of one seat's policy, where each has its own."""
    return int(np.random.SeedSequence([seed, seat]).generate_state(1, np.uint64)[0] >> np.uint64(1))


class Failure(NamedTuple):
    """An opponent that raised, or answered with something that is no legal move."""

    opponent: int
    name: str
    row: int  # the first of those it was asked about
    game: int
    step: int
    what: str


class Others(ABC):
    """Whoever sits where the current policy does not."""

    @abstractmethod
    def begin(self, orders: Orders, rows: Rows) -> None:
        """A rollout begins."""

    @abstractmethod
    def seat(self, rows: Rows, seated: NDArray[np.int32]) -> None:
        """Write who sits where ([row, seat]) in each game that begins; the others stay as they are."""

    @abstractmethod
    def choose(
        self,
        rows: Rows,
        observations: Observations,
        seats: NDArray[np.int8],  # [row, acting], all that act; those in `observations` are blanked
        seated: NDArray[np.int32],
        actions: NDArray[np.int32],
    ) -> NDArray[np.int64] | None:
        """Write the others' actions; return the rows whose game cannot go on, if there are any."""

    @abstractmethod
    def take_failures(self) -> list[Failure]:
        """Who failed since the last call."""


@compiled
def _keep_own(
    seats: NDArray[np.int8],  # [row, acting], in: all that act; out: -1 where the policy does not
    seated: NDArray[np.int32],  # [row, seat]
    is_resting: NDArray[np.bool_],  # [row]
    positions: NDArray[np.int64],
) -> int:
    """List the places (row * acting + place) in which the current policy decides."""
    count, num_places = 0, seats.shape[1]
    for row in range(seats.shape[0]):
        for place in range(num_places):
            seat = seats[row, place]
            if seat < 0:
                continue
            if is_resting[row] or seated[row, seat] != CURRENT:
                seats[row, place] = -1
                continue
            positions[count] = row * num_places + place
            count += 1
    return count


def keep_own(
    seats: NDArray[np.int8],
    seated: NDArray[np.int32],
    is_resting: NDArray[np.bool_],
    positions: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Blank the seats that others decide for, or nobody; return the places that are left."""
    return positions[: _keep_own(seats, seated, is_resting, positions)]
