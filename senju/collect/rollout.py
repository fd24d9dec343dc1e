"""The hot loop: T steps of one shard, written into a slot for each policy. No Python code runs per row.

Policies are a list. A list of one decides for all seats: that is self-play. A list with one policy for each
seat is a world of independent agents. Opponents are further players, which do not learn.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from senju.collect.device_columns import DeviceSlot
from senju.collect.exploration import Acting
from senju.collect.orders import NO_ORDERS, Orders
from senju.collect.policy import Policy, PolicyInPlay
from senju.collect.policy_groups import grouped
from senju.collect.resignation import NEVER, Resignation
from senju.collect.seating import Opponents
from senju.collect.shard import Shard
from senju.collect.slots import Ring, RingShape, Slot
from senju.collect.step_actor import StepProgram
from senju.errors import ConfigError
from senju.games.game import Game, Observations, Outcomes, SeatView, States
from senju.games.rows import Rows, first_allowed
from senju.models.model import Model
from senju.models.weights import WeightBlock, Weights
from senju.timing import StageClock

STAGES = ("observe", "evaluate", "choose", "opponents", "step", "restart")  # of every step of a shard


def policy_view(game: Game, num_policies: int) -> Game | SeatView:
    """The game as each policy sees it: all seats for a single policy, or one seat each."""
    if num_policies not in (1, game.num_seats):
        raise ConfigError(
            f"{num_policies} policies for the {game.num_seats} seats of {game.name}; expected 1 or all"
        )
    return game if num_policies == 1 else game.seat_view


def policies_in_play(game: Game, policies: Sequence[Policy], num_rows: int) -> list[PolicyInPlay]:
    """The policies with the seats that they play: one policy plays all, or each its own."""
    is_alone = len(policies) == 1
    return [
        PolicyInPlay(game, policy, num_rows, None if is_alone else seat)
        for seat, policy in enumerate(policies)
    ]


class RolloutPlayer:
    """Plays rollouts of shards; one per worker.

    `opponents` play the seats that no policy of the list plays; None: the policies play all seats. With
    `whole_games` every row plays one game to its end in each rollout, and then waits. With a `program` its
    actors evaluate the policies.
    """

    def __init__(
        self,
        game: Game,
        policies: Sequence[Policy],
        num_rows: int,
        clock: StageClock,
        resignation: Resignation = NEVER,
        opponents: Opponents | None = None,
        whole_games: bool = False,
        program: StepProgram | None = None,
    ) -> None:
        resignation.check(game)
        policy_view(game, len(policies))
        self.game, self.clock = game, clock
        self.resignation, self.opponents, self.whole_games = resignation, opponents, whole_games
        self._has_all_seats = len(policies) == 1
        is_turn_based = not self._has_all_seats and game.num_acting < game.num_seats
        self._is_partial = opponents is not None or whole_games or is_turn_based
        self._policies = policies_in_play(game, policies, num_rows)
        self._groups = grouped(self._policies, num_rows, self._is_partial, program)
        self._positions = {id(policy): index for index, policy in enumerate(self._policies)}
        self.weights = WeightBlock(nn.ModuleList(policy.model for policy in policies))  # of all policies
        self._seen, self._after = game.new_observations(num_rows), game.new_observations(num_rows)
        self._outcomes = game.new_outcomes(num_rows)
        self._actions = np.zeros((num_rows, game.num_acting), np.int32)
        self._acting_seats = np.zeros((num_rows, game.num_acting), np.int8)
        self._is_finished = np.zeros(num_rows, np.bool_)

    def write_weights(self, weights: Weights) -> None:
        """Play with these weights from the next rollout on."""
        self.weights.write(weights)
        for group in self._groups:
            group.refresh()

    @torch.inference_mode()  # once per rollout: entering it costs microseconds
    def play(
        self,
        shard: Shard,
        slots: Sequence[Slot],
        orders: Orders = NO_ORDERS,
        steps: range | None = None,
        kept: Sequence[DeviceSlot] = (),
    ) -> None:
        """Fill each policy's slot with the shard's next steps: a whole rollout, or a part of it.

        `kept` are the slots on the device, one for each policy, if there are any.
        """
        rows, clock, opponents = shard.rows, self.clock, self.opponents
        steps = steps if steps is not None else range(slots[0].num_steps)
        self._begin(shard, slots, orders, steps.start, kept)
        clock.start()
        for time in steps:
            if self.whole_games and self._is_finished.all():
                for policy in self._policies:
                    policy.clear_from(time)
                break
            seen, actions, outcomes = self._arrays_at(slots[0], time)
            rows.observe(seen)
            self._show_policies(shard, seen, time)
            clock.lap("observe")
            for group in self._groups:
                group.act(rows, time, self._is_partial, clock)
                for policy in group.policies:
                    if policy.seat is not None:
                        policy.give_actions(seen, actions, time, policy.seat)
                clock.lap("choose")
            broken = None
            if opponents is not None:
                broken = opponents.choose(rows, seen, self._acting_seats, shard.seated, actions)
                clock.lap("opponents")
            self._step(rows, seen, actions, outcomes, broken, time)
            clock.lap("step")
            if outcomes.truncated.any():
                self._store_truncated(rows, outcomes.truncated, broken, time)
            self._advance(rows, outcomes)
            clock.lap("restart")
        if steps.stop == slots[0].num_steps:
            self._end(rows, slots[0])
        for group in self._groups:
            group.finish()
        clock.lap("evaluate")

    def _begin(
        self, shard: Shard, slots: Sequence[Slot], orders: Orders, time: int, kept: Sequence[DeviceSlot]
    ) -> None:
        epsilons = orders.epsilons or (0.0,) * len(slots)
        for policy, slot, epsilon in zip(self._policies, slots, epsilons, strict=True):
            policy.begin(slot, policy.acting.epsilon(epsilon, shard.index), time)
        for group in self._groups:
            own = [kept[self._positions[id(policy)]] for policy in group.policies] if kept else []
            group.begin(shard.rows, own)
        is_compact = self._has_all_seats and not len(slots[0].final_seats)
        self._is_compact = is_compact and all(each.is_late and each.is_valuing for each in self._groups)
        ended = slots[0].terminated[:time] | slots[0].truncated[:time]
        self._is_finished[:] = ended.any(axis=0) if self.whole_games else False
        if self.opponents is not None:
            self.opponents.begin(orders, shard.rows)

    def _arrays_at(self, slot: Slot, time: int) -> tuple[Observations, NDArray[np.int32], Outcomes]:
        """The arrays of a step: the slot's own if one policy has all seats; else policies copy their part."""
        if self._has_all_seats:
            return slot.observations_at(time), slot.actions[time], slot.outcomes_at(time)
        self._actions.fill(0)
        return self._seen, self._actions, self._outcomes

    def _show_policies(self, shard: Shard, seen: Observations, time: int) -> None:
        """Seat the opponents, and give every policy what it sees."""
        if self.opponents is not None:
            self.opponents.seat(shard.rows, shard.seated)
            for policy in self._policies:
                policy.store_seated(shard.seated, self._is_finished, time)
        if self._is_partial:
            self._acting_seats[:] = seen.seats
            self._acting_seats[self._is_finished] = -1
        if self._is_partial or not self._has_all_seats:
            for policy in self._policies:
                policy.take(seen, shard.seated, self._is_finished, time)

    def _step(
        self,
        rows: Rows,
        seen: Observations,
        actions: NDArray[np.int32],
        outcomes: Outcomes,
        broken: NDArray[np.int64] | None,
        time: int,
    ) -> None:
        """Step the games; end those that are resigned or in which an opponent failed."""
        if self.whole_games:
            self._step_running(rows, seen.legal, actions, outcomes)
        else:
            rows.step(actions, outcomes)
        if self.resignation.below:
            for policy in self._policies:
                values, movers = policy.slot.values[time], policy.movers(time)
                self.resignation.apply(values, movers, rows.clock, rows.seed, outcomes)
        if broken is not None:  # the results of these games are unknown
            outcomes.rewards[broken] = 0.0
            outcomes.terminated[broken], outcomes.truncated[broken] = False, True
        for policy in self._policies:
            if policy.seat is not None:
                policy.store_outcomes(outcomes, time, policy.seat)

    def _step_running(
        self, rows: Rows, legal: NDArray[np.uint64], actions: NDArray[np.int32], outcomes: Outcomes
    ) -> None:
        """Step all rows, since games cannot be left out, and restore the finished ones."""
        finished = np.flatnonzero(self._is_finished)
        states = rows.states[finished]
        first_allowed(legal, finished, actions)
        rows.step(actions, outcomes)
        rows.states[finished] = states
        outcomes.rewards[finished], actions[finished] = 0.0, 0
        outcomes.terminated[finished] = outcomes.truncated[finished] = False

    def _advance(self, rows: Rows, outcomes: Outcomes) -> None:
        """Start new games; with whole games, a row whose game is over waits for the next rollout."""
        if not self.whole_games:
            rows.advance(outcomes)
            return
        clock = rows.clock[self._is_finished]
        ended = rows.advance(outcomes)
        rows.clock[self._is_finished] = clock
        self._is_finished[ended] = True

    def _store_truncated(
        self, rows: Rows, truncated: NDArray[np.bool_], broken: NDArray[np.int64] | None, time: int
    ) -> None:
        """Value and store the positions in which games were truncated, before new games start."""
        known = truncated.copy()
        if broken is not None:
            known[broken] = False
        self._value_positions(rows, known, time)
        for policy in self._policies:
            if broken is not None:
                policy.slot.bootstrap[time, broken] = math.nan
            if len(policy.slot.final_seats):
                policy.store_truncated(policy.view_after(self._after), known, time)

    def _value_positions(self, rows: Rows, chosen: NDArray[np.bool_], time: int) -> None:
        """Write the values of the chosen rows' positions for the policies that learn values."""
        indices = np.flatnonzero(chosen)
        if self._is_compact:  # nothing else needs what the other rows see
            self._groups[0].value_later([_observed(self.game, rows.states[indices])], indices, time)
            return
        rows.observe(self._after)
        for group in self._groups:
            if not group.is_valuing:
                continue
            if group.is_late:
                seen = [policy.view_after(self._after) for policy in group.policies]
                group.value_later([_rows_of(each, indices) for each in seen], indices, time)
                continue
            seen = [policy.view_after(self._after) for policy in group.policies]
            evaluations = group.evaluate([each.observation for each in seen])
            for policy, own, values in zip(group.policies, seen, evaluations, strict=True):
                policy.store_values(own, values, chosen, time)
        self.clock.lap("evaluate")

    def _end(self, rows: Rows, slot: Slot) -> None:
        """Value the positions of games that go on; clear the rest of an older rollout in the slots."""
        for policy in self._policies:
            policy.end()
        running = ~(slot.terminated[-1] | slot.truncated[-1] | self._is_finished)
        if running.any() and any(group.is_valuing for group in self._groups):
            self._value_positions(rows, running, -1)


def _observed(game: Game, states: States) -> Observations:
    """What is seen in some states."""
    seen = game.new_observations(len(states))
    game.observe(states, seen)
    return seen


def _rows_of(seen: Observations, rows: NDArray[np.int64]) -> Observations:
    """Copies of some rows."""
    return Observations(seen.observation[rows], seen.legal[rows], seen.seats[rows])


def warm_up(game: Game, models: Sequence[Model]) -> None:
    """Compile, or load from the cache, every kernel that collecting needs; workers then find them."""
    game.warm_up()
    view, shard = policy_view(game, len(models)), Shard(game, 0, 1, 0)
    slots = [Ring(view, RingShape(1, 1, 1, keeps_final=True)).slot(0, 0) for _ in models]
    greedy = [Policy(model, Acting("action_values")) for model in models]
    RolloutPlayer(game, greedy, 1, StageClock(), whole_games=True).play(shard, slots)
    player = RolloutPlayer(game, [Policy(model) for model in models], 1, StageClock())
    player.play(shard, slots)
    rows, everything = shard.rows, np.ones(1, np.bool_)
    no_rows = game.new_outcomes(0)
    values, seats = np.zeros((0, 1), np.float32), np.zeros((0, 1), np.int8)
    Resignation(1.0).apply(values, seats, rows.clock[:0], rows.seed, no_rows)
    player._store_truncated(rows, everything, None, 0)
    rows.advance(game.new_outcomes(1)._replace(truncated=everything))
