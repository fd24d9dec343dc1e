"""Slots: the arrays that one rollout is written to."""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from senju.games.game import Game, Observations, Outcomes
from senju.kernels import legal_words


class Slot(NamedTuple):
    """T consecutive steps of one shard. Observations are bytes, legal masks are bits.

    `bootstrap[t]` is the value of the position after step t for each seat, NaN where it is not
    known. It is filled where the step truncated the game, and after the last step.
    """

    observation: NDArray[Any]  # [time, row, acting, *observation_shape]
    legal: NDArray[np.uint64]  # [time, row, acting, words]
    seats: NDArray[np.int8]  # [time, row, acting], -1 where nobody acts
    actions: NDArray[np.int32]  # [time, row, acting]
    log_probs: NDArray[np.float32]  # [time, row, acting], of the policy that acted
    values: NDArray[np.float32]  # [time, row, acting]
    rewards: NDArray[np.float32]  # [time, row, seat]
    terminated: NDArray[np.bool_]  # [time, row]
    truncated: NDArray[np.bool_]  # [time, row]
    bootstrap: NDArray[np.float32]  # [time, row, seat]

    @property
    def num_steps(self) -> int:
        """T, the rollout's length."""
        return len(self.seats)

    def observations_at(self, time: int) -> Observations:
        """Where the game writes what is seen at one step."""
        return Observations(self.observation[time], self.legal[time], self.seats[time])

    def outcomes_at(self, time: int) -> Outcomes:
        """Where the game writes what one step leads to."""
        return Outcomes(self.rewards[time], self.terminated[time], self.truncated[time])


class Rollout(NamedTuple):
    """A finished slot, with the shard that was played and the weights version that acted."""

    shard: int
    version: int
    data: Slot
    clock: NDArray[np.void]  # [row], each row's id, game and step when it began


class Allocate(Protocol):
    """Gives zeroed arrays: NumPy's own, or places in shared memory."""

    def __call__(self, shape: tuple[int, ...] | int, dtype: Any, /) -> NDArray[Any]:
        """An array of that shape and dtype."""


def new_slot(game: Game, num_steps: int, num_rows: int, allocate: Allocate = np.zeros) -> Slot:
    """Zeroed arrays for one rollout."""
    decisions = (num_steps, num_rows, game.num_acting)
    return Slot(
        observation=allocate((*decisions, *game.observation_shape), game.observation_dtype),
        legal=allocate((*decisions, legal_words(game.num_actions)), np.uint64),
        seats=allocate(decisions, np.int8),
        actions=allocate(decisions, np.int32),
        log_probs=allocate(decisions, np.float32),
        values=allocate(decisions, np.float32),
        rewards=allocate((num_steps, num_rows, game.num_seats), np.float32),
        terminated=allocate((num_steps, num_rows), np.bool_),
        truncated=allocate((num_steps, num_rows), np.bool_),
        bootstrap=allocate((num_steps, num_rows, game.num_seats), np.float32),
    )
