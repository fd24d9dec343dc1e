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

Seating = Literal["self_play", "opponents", "independent"]

CURRENT = 0  # in `seated`: the current policy; any other number is an opponent's id


def seat_seed(seed: int, seat: int) -> int:
    """The seed of one seat's policy, if each seat has its own."""
    return int(np.random.SeedSequence([seed, seat]).generate_state(1, np.uint64)[0] >> np.uint64(1))


class Failure(NamedTuple):
    """An opponent that raised, or returned an illegal move."""

    opponent: int
    name: str
    row: int  # the first of the rows in the failing call
    game: int
    step: int
    what: str


class Opponents(ABC):
    """The players in the seats that the current policy does not play."""

    @abstractmethod
    def begin(self, orders: Orders, rows: Rows) -> None:
        """Prepare for a rollout."""

    @abstractmethod
    def seat(self, rows: Rows, seated: NDArray[np.int32]) -> None:
        """Write the policy or opponent of each seat ([row, seat]) of games that begin; the rest stays."""

    @abstractmethod
    def choose(
        self,
        rows: Rows,
        observations: Observations,
        seats: NDArray[np.int8],  # [row, acting], all that act; `observations.seats` has no opponents
        seated: NDArray[np.int32],
        actions: NDArray[np.int32],
    ) -> NDArray[np.int64] | None:
        """Write the opponents' actions; return the rows whose game cannot go on, if there are any."""

    @abstractmethod
    def take_failures(self) -> list[Failure]:
        """The failures since the last call."""
