"""Advantages and returns, per (row, seat).

The decisions of each seat form one sequence; the rewards a seat gets between two of its
decisions belong to the first. This rule is right for alternating turns, for a seat that
moves twice, for zero-sum and general-sum games, and for the loser's last move, whose reward
comes with the winner's.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from senju.collect.slots import Slot
from senju.kernels import compiled


class Advantages(NamedTuple):
    """Estimates for a rollout's decisions; all [time, row, acting]."""

    advantages: NDArray[np.float32]
    returns: NDArray[np.float32]
    is_known: NDArray[np.bool_]  # False where no policy acted, or where what followed is unknown


@compiled
def _estimate(
    values: NDArray[np.float32],
    seats: NDArray[np.int8],
    rewards: NDArray[np.float32],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    bootstrap: NDArray[np.float32],
    gamma: float,
    gae_lambda: float,
    advantages: NDArray[np.float32],
    is_known: NDArray[np.bool_],
) -> None:
    num_steps, num_rows, num_seats = rewards.shape
    next_value = np.zeros(num_seats, np.float64)  # of the seat's next decision; NaN: not known
    next_advantage = np.zeros(num_seats, np.float64)
    reward_since = np.zeros(num_seats, np.float64)
    for row in range(num_rows):
        for time in range(num_steps - 1, -1, -1):
            is_cut = truncated[time, row] or time == num_steps - 1
            if terminated[time, row] or is_cut:
                for seat in range(num_seats):
                    ended = terminated[time, row]
                    next_value[seat] = 0.0 if ended else bootstrap[time, row, seat]
                    next_advantage[seat] = 0.0
                    reward_since[seat] = 0.0
            for seat in range(num_seats):
                reward_since[seat] += rewards[time, row, seat]
            for acting_index in range(seats.shape[2]):
                seat = seats[time, row, acting_index]
                advantages[time, row, acting_index] = 0.0
                is_known[time, row, acting_index] = seat >= 0 and not np.isnan(next_value[seat])
                if seat < 0:
                    continue
                value = values[time, row, acting_index]
                advantage = 0.0
                if is_known[time, row, acting_index]:
                    surprise = reward_since[seat] + gamma * next_value[seat] - value
                    advantage = surprise + gamma * gae_lambda * next_advantage[seat]
                    advantages[time, row, acting_index] = advantage
                next_value[seat] = value
                next_advantage[seat] = advantage
                reward_since[seat] = 0.0


def generalised_advantages(slot: Slot, gamma: float, gae_lambda: float) -> Advantages:
    """Generalised advantage estimates (Schulman 2016, eq. 16) of one rollout.

    The discount is applied per decision of the seat. A terminated game has the value 0; a
    truncated one, and the end of the rollout, `slot.bootstrap`. Where that is not known
    (NaN: another seat is to move and the game is not zero-sum), a seat's last decision serves as
    the bootstrap of those before it and is not learned from.
    """
    advantages = np.empty(slot.values.shape, np.float32)
    is_known = np.empty(slot.values.shape, np.bool_)
    _estimate(
        slot.values,
        slot.seats,
        slot.rewards,
        slot.terminated,
        slot.truncated,
        slot.bootstrap,
        gamma,
        gae_lambda,
        advantages,
        is_known,
    )
    return Advantages(advantages, advantages + slot.values, is_known)
