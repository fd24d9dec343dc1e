"""Resignation: games whose value falls below a threshold end early, to spend the time on others.

Nothing is remembered between steps: whether a game is resigned follows from the mover's value now and
from (seed, row id, game number). So every worker, and every replay, resigns the same games.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from senju.errors import ConfigError
from senju.games.game import Game, Outcomes
from senju.games.rows import Stream
from senju.kernels import compiled, random_word, unit_interval

RESIGNATION = int(Stream.RESIGNATION)


@compiled
def _resign(
    values: NDArray[np.float32],  # [row, 1]
    seats: NDArray[np.int8],  # [row, 1]
    clock: NDArray[np.void],
    seed: np.uint64,
    below: float,
    exempt: float,
    rewards: NDArray[np.float32],  # [row, seat]
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
) -> None:
    for row in range(values.shape[0]):
        mover = seats[row, 0]
        if not values[row, 0] < -below or mover < 0 or terminated[row] or truncated[row]:
            continue
        word = random_word(seed, clock[row]["row"], clock[row]["game"], 0, RESIGNATION)
        if unit_interval(word) < exempt:
            continue
        rewards[row, mover], rewards[row, 1 - mover] = -1.0, 1.0
        terminated[row] = True


class Resignation(NamedTuple):
    """When a mover resigns: if the value of its position is less than -`below`; 0: never.

    The share `exempt` of the games is played to the end. They keep the value correct: if all games
    below the threshold were resigned, the network could not learn that some of them were not lost.
    """

    below: float = 0.0
    exempt: float = 0.1

    def check(self, game: Game) -> None:
        """Refuse games in which resigning does not mean that the other seat wins."""
        if self.below and not (game.is_zero_sum and game.num_seats == 2 and game.num_acting == 1):
            raise ConfigError(
                f"resign_below={self.below:g} needs a zero-sum game of two seats in turn; {game.name} is "
                "not one; leave it at 0"
            )

    def apply(
        self,
        values: NDArray[np.float32],
        seats: NDArray[np.int8],
        clock: NDArray[np.void],
        seed: np.uint64,
        out: Outcomes,
    ) -> None:
        """After a step: end the games whose mover, by its value [row, 1] before the step, resigns."""
        if self.below:
            _resign(values, seats, clock, seed, self.below, self.exempt, *out)


NEVER = Resignation()
