"""A policy in a rollout: what it sees, how it decides, and what its slot stores for the learner.

A policy decides for all seats, and the game then writes directly into its slot. Or it decides for one seat;
then its slot receives what that seat sees and does, and nothing else.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from senju.collect.actor import Actor, NetworkOutput, StackedActor
from senju.collect.exploration import BY_POLICY, Acting, epsilon_greedy_actions, sample_actions
from senju.collect.seating import CURRENT
from senju.collect.slots import Slot
from senju.games.game import Game, Observations, Outcomes, SeatView
from senju.games.rows import ACTION, Rows
from senju.kernels import compiled
from senju.models.mlp import Mlp
from senju.models.model import Model
from senju.models.stacked import have_one_shape


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
        self._stream = ACTION + (acting_index << 8)
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
        self.slot, self._epsilon, self._num_final = slot, epsilon, 0
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
        state = (slot.legal[time], slot.seats[time], rows.clock, rows.seed, self._stream)
        out = slot.values[time]
        if self.acting.by == "action_values":
            settings = (self._epsilon, self.acting.is_dueling)
            epsilon_greedy_actions(
                logits, values, *state, *settings, slot.actions[time], slot.explored[time], out
            )
        else:
            out[:] = values.reshape(out.shape)
            sample_actions(logits, *state, slot.actions[time], slot.log_probs[time])

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


class PolicyGroup:
    """Policies that are evaluated together: networks of one shape, or a single policy."""

    def __init__(self, policies: Sequence[PolicyInPlay], num_rows: int) -> None:
        self.policies = list(policies)
        first, models = policies[0], [policy.model for policy in policies]
        self.is_valuing = first.is_valuing  # whether the values of these policies are learned from
        self._actor = Actor(first.view, first.model, num_rows) if len(policies) == 1 else None
        if self._actor is None:
            assert isinstance(first.view, SeatView)
            self._stack = StackedActor(first.view, models, num_rows)

    def evaluate(self, observations: Sequence[NDArray[Any]]) -> list[NetworkOutput]:
        """Evaluate one batch for each policy."""
        if self._actor is not None:
            return [self._actor.evaluate(observations[0])]
        return self._stack.evaluate(observations)

    def evaluate_step(self, time: int, is_partial: bool) -> list[NetworkOutput]:
        """Evaluate the step's observations; with `is_partial`, only the positions that a policy decides."""
        if self._actor is None:  # `grouped` makes no stack with `is_partial`
            return self._stack.evaluate([policy.slot.observation[time] for policy in self.policies])
        (policy,) = self.policies
        seen = policy.slot.observation[time]
        found = (
            self._actor.evaluate_some(seen, policy.positions) if is_partial else self._actor.evaluate(seen)
        )
        return [found]


def grouped(policies: Sequence[PolicyInPlay], num_rows: int, is_partial: bool) -> list[PolicyGroup]:
    """Group policies whose networks have one shape; groups are in the order of their first policies.

    With `is_partial`, each policy decides in some of the rows only: it gets a group of its own, which
    evaluates these rows.
    """
    groups: list[list[PolicyInPlay]] = []
    for policy in policies:
        for group in groups:
            is_alike = group[0].is_valuing == policy.is_valuing and not is_partial
            is_mlp = type(policy.model) is Mlp  # `vmap`, which stacks other networks, is slow on a CPU
            if is_alike and is_mlp and have_one_shape([group[0].model, policy.model]):
                group.append(policy)
                break
        else:
            groups.append([policy])
    return [PolicyGroup(group, num_rows) for group in groups]
