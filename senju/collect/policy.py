"""A policy in a rollout: what it sees, how it decides, and what its slot stores for the learner.

A policy decides for all seats, and the game then writes directly into its slot. Or it decides for one seat;
then its slot receives what that seat sees and does, and nothing else.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from senju.collect.actor import NetworkOutput
from senju.collect.exploration import (
    BY_POLICY,
    Acting,
    epsilon_greedy_actions,
    refuse_choice,
    sample_actions,
)
from senju.collect.seating import CURRENT
from senju.collect.slots import Slot
from senju.collect.step_actor import Results
from senju.games.game import Game, Observations, Outcomes, SeatView
from senju.games.rows import ACTION, Rows
from senju.kernels import compiled
from senju.models.model import Model


class Policy(NamedTuple):
    """A network, and how its outputs become actions."""

    model: Model
    acting: Acting = BY_POLICY


@compiled
def _find_own_positions(
    seats: NDArray[np.int8],  # [row, acting], in: all that act; out: -1 where the policy does not
    seated: NDArray[np.int32],  # [row, seat]
    is_finished: NDArray[np.bool_],  # [row], its game is over until the next rollout
    positions: NDArray[np.int64],
) -> int:
    """List the positions (row * num_acting + acting_index) in which the current policy decides."""
    count, num_acting = 0, seats.shape[1]
    for row in range(seats.shape[0]):
        for acting_index in range(num_acting):
            seat = seats[row, acting_index]
            if seat < 0:
                continue
            if is_finished[row] or seated[row, seat] != CURRENT:
                seats[row, acting_index] = -1
                continue
            positions[count] = row * num_acting + acting_index
            count += 1
    return count


@compiled
def _take_seat(
    observation: NDArray[np.uint8],  # [row, acting, bytes]
    legal: NDArray[np.uint64],  # [row, acting, words]
    seats: NDArray[np.int8],  # [row, acting]
    seated: NDArray[np.int32],  # [row, seat]
    is_finished: NDArray[np.bool_],  # [row]
    seat: int,
    current: int,  # in `seated`: the seat's own policy
    own_observation: NDArray[np.uint8],  # out: [row, bytes]
    own_legal: NDArray[np.uint64],  # out: [row, words]
    own_seats: NDArray[np.int8],  # out: [row], 0 where the policy decides, else -1
    positions: NDArray[np.int64],  # out: the rows in which it decides
) -> int:
    """Copy what one seat sees where its policy decides, and zeros elsewhere; count the decisions."""
    count = 0
    for row in range(seats.shape[0]):
        found = -1
        for acting_index in range(seats.shape[1]):
            if seats[row, acting_index] == seat:
                found = acting_index
        if found < 0 or is_finished[row] or seated[row, seat] != current:
            own_observation[row], own_legal[row], own_seats[row] = 0, 0, -1
            continue
        own_observation[row], own_legal[row] = observation[row, found], legal[row, found]
        own_seats[row], positions[count] = 0, row
        count += 1
    return count


@compiled
def _give_actions(
    chosen: NDArray[np.int32],  # [row]
    own_seats: NDArray[np.int8],  # [row]
    seats: NDArray[np.int8],  # [row, acting]
    seat: int,
    actions: NDArray[np.int32],  # out: [row, acting]
) -> None:
    """Write one seat's actions to the acting indices at which it acts."""
    for row in range(seats.shape[0]):
        for acting_index in range(seats.shape[1]):
            if own_seats[row] >= 0 and seats[row, acting_index] == seat:
                actions[row, acting_index] = chosen[row]


@compiled
def _spread_values(
    values: NDArray[np.float32],  # [row * acting]
    seats: NDArray[np.int8],  # [row, acting]
    chosen: NDArray[np.bool_],  # [row]
    is_zero_sum: bool,
    bootstrap: NDArray[np.float32],  # [row, seat]
) -> None:
    """Write the position's value for each seat: its own, or in a zero-sum game minus the other seat's."""
    num_acting = seats.shape[1]
    for row in range(seats.shape[0]):
        if not chosen[row]:
            continue
        bootstrap[row] = math.nan
        for acting_index in range(num_acting):
            seat, value = seats[row, acting_index], values[row * num_acting + acting_index]
            if seat < 0:
                continue
            if is_zero_sum and num_acting == 1:
                bootstrap[row, 1 - seat] = -value
            bootstrap[row, seat] = value


class PolicyInPlay:
    """One policy in the rollouts of a worker. `seat` is None if it decides for all seats."""

    def __init__(self, game: Game, policy: Policy, num_rows: int, seat: int | None) -> None:
        self.view: Game | SeatView = game if seat is None else game.seat_view
        self.model, self.acting, self.seat = policy.model, policy.acting, seat
        self.is_valuing = self.acting.by == "policy"  # otherwise values are not learned from
        self.positions = np.zeros(0, np.int64)  # row * num_acting + acting_index, where it decides
        # a seat's own policy draws the random numbers that one policy for all seats draws at its acting index
        acting_index = 0 if seat is None or game.num_acting == 1 else seat
        self.stream = ACTION + (acting_index << 8)
        self.epsilon = 0.0  # of the current rollout
        self._buffer = np.zeros(num_rows * game.num_acting, np.int64)
        self._after = Observations(
            np.zeros((num_rows, 1, *game.observation_shape), game.observation_dtype),
            game.new_observations(num_rows).legal[:, :1].copy(),
            np.zeros((num_rows, 1), np.int8),
        )
        self._all_current = np.full((num_rows, game.num_seats), CURRENT, np.int32)
        self._none_finished = np.zeros(num_rows, np.bool_)

    def begin(self, slot: Slot, epsilon: float, time: int) -> None:
        """Start a rollout, which is written to `slot`, or continue one at step `time`."""
        self.slot, self.epsilon, self._num_final = slot, epsilon, 0
        if time:
            self._num_final = int(slot.final_at[:time].max(initial=-1)) + 1
            return
        slot.bootstrap.fill(0.0)
        slot.final_at.fill(-1)
        slot.seated.fill(CURRENT)

    def store_seated(self, seated: NDArray[np.int32], is_finished: NDArray[np.bool_], time: int) -> None:
        """Record which policy or opponent has each seat; in finished rows, the policy itself."""
        own = self.slot.seated[time]
        own[:] = seated if self.seat is None else seated[:, self.seat, None]
        own[is_finished] = CURRENT

    def take(
        self, seen: Observations, seated: NDArray[np.int32], is_finished: NDArray[np.bool_], time: int
    ) -> None:
        """Take what the policy sees in this step, and find the positions in which it decides."""
        if self.seat is None:  # `seen` is the slot
            count = _find_own_positions(seen.seats, seated, is_finished, self._buffer)
            self.positions = self._buffer[:count]
        else:
            self.positions = self._take_seat(seen, seated, is_finished, self.slot.observations_at(time))

    def _take_seat(
        self, seen: Observations, seated: NDArray[np.int32], is_finished: NDArray[np.bool_], own: Observations
    ) -> NDArray[np.int64]:
        num_rows, num_acting = seen.seats.shape
        count = _take_seat(
            seen.observation.reshape(num_rows, num_acting, -1).view(np.uint8),
            seen.legal,
            seen.seats,
            seated,
            is_finished,
            self.seat or 0,
            CURRENT,
            own.observation.reshape(num_rows, -1).view(np.uint8),
            own.legal[:, 0],
            own.seats[:, 0],
            self._buffer,
        )
        return self._buffer[:count]

    def choose(self, evaluation: NetworkOutput, rows: Rows, time: int) -> None:
        """Choose actions, and write them to the slot."""
        slot, (logits, values) = self.slot, evaluation
        state = (slot.legal[time], slot.seats[time], rows.clock, rows.seed, self.stream)
        out = slot.values[time]
        if self.acting.by == "action_values":
            settings = (self.epsilon, self.acting.is_dueling)
            epsilon_greedy_actions(
                logits, values, *state, *settings, slot.actions[time], slot.explored[time], out
            )
        else:
            out[:] = values.reshape(out.shape)
            sample_actions(logits, *state, slot.actions[time], slot.log_probs[time])

    def seen_at(self, time: int) -> Observations:
        """What the policy sees in a step, as its slot holds it."""
        return self.slot.observations_at(time)

    def store_choice(self, results: Results, index: int, time: int) -> bool:
        """Write what a device chose for policy `index` of its group; return whether all choices are valid."""
        slot = self.slot
        shape = slot.actions[time].shape
        slot.actions[time] = results.actions[index].reshape(shape)
        slot.values[time] = results.values[index].reshape(shape)
        if self.acting.by == "policy":
            slot.log_probs[time] = results.log_probs[index].reshape(shape)
        else:
            slot.explored[time] = results.explored[index].reshape(shape)
        return bool(results.actions[index].min() >= 0)

    def refuse_choice(self, position: int, logits: NDArray[np.float32], time: int) -> None:
        """Raise the error that explains why no action could be chosen at a position."""
        row, acting_index = divmod(position, self.view.num_acting)
        seen = self.slot
        legal = seen.legal[time, row : row + 1, acting_index : acting_index + 1]
        seats = seen.seats[time, row : row + 1, acting_index : acting_index + 1]
        refuse_choice(0, logits, legal, seats, self.acting.by == "action_values", first_row=row)

    def give_actions(self, seen: Observations, actions: NDArray[np.int32], time: int, seat: int) -> None:
        """Write one seat's decisions to the actions of the step."""
        own = self.slot.seats[time, :, 0]
        _give_actions(self.slot.actions[time, :, 0], own, seen.seats, seat, actions)

    def movers(self, time: int) -> NDArray[np.int8]:
        """[row, acting]: the seats that the policy decided for in this step; -1 where it did not."""
        own = self.slot.seats[time]
        return own if self.seat is None else np.where(own < 0, own, np.int8(self.seat))

    def store_outcomes(self, outcomes: Outcomes, time: int, seat: int) -> None:
        """Write one seat's outcomes of the step to the slot."""
        slot = self.slot
        slot.rewards[time, :, 0] = outcomes.rewards[:, seat]
        slot.terminated[time], slot.truncated[time] = outcomes.terminated, outcomes.truncated

    def view_after(self, after: Observations) -> Observations:
        """The policy's view of the positions after a step."""
        if self.seat is None:
            return after
        self._take_seat(after, self._all_current, self._none_finished, self._after)
        return self._after

    def store_some_values(
        self, seats: NDArray[np.int8], values: NDArray[np.float32], chosen: NDArray[np.int64], time: int
    ) -> None:
        """Write the values of some rows' positions after a step: `seats` and `values` are of these rows."""
        found = np.empty((len(chosen), self.view.num_seats), np.float32)
        _spread_values(values, seats, np.ones(len(chosen), np.bool_), self.view.is_zero_sum, found)
        self.slot.bootstrap[time, chosen] = found

    def store_values(self, seen: Observations, values: Any, chosen: NDArray[np.bool_], time: int) -> None:
        """Write the values of the chosen rows' positions after a step, before new games start."""
        _spread_values(values, seen.seats, chosen, self.view.is_zero_sum, self.slot.bootstrap[time])

    def store_truncated(self, seen: Observations, known: NDArray[np.bool_], time: int) -> None:
        """Write the positions in which games were truncated, as many as there is room for."""
        slot = self.slot
        chosen = np.flatnonzero(known)[: len(slot.final_seats) - self._num_final]
        if len(chosen):
            finals = np.arange(self._num_final, self._num_final + len(chosen))
            slot.final_at[time, chosen] = finals
            slot.final_observation[finals] = seen.observation[chosen]
            slot.final_legal[finals] = seen.legal[chosen]
            slot.final_seats[finals] = seen.seats[chosen]
            self._num_final += len(chosen)

    def clear_from(self, time: int) -> None:
        """Clear the steps from `time` on: all rows are finished."""
        self.slot.seats[time:] = -1
        for column in _EMPTIED:
            getattr(self.slot, column)[time:] = 0

    def end(self) -> None:
        """Clear truncated positions that an older rollout left in the slot."""
        self.slot.final_observation[self._num_final :] = 0
        self.slot.final_legal[self._num_final :] = 0
        self.slot.final_seats[self._num_final :] = -1


_WRITTEN_OTHERWISE = ("seats", "bootstrap", "final_at", "final_observation", "final_legal", "final_seats")
_EMPTIED = tuple(name for name in Slot._fields if name not in _WRITTEN_OTHERWISE)
