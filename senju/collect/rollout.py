"""The hot loop: T steps of one shard, written into a slot. Nothing here runs per row in Python."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from senju.collect.exploration import BY_POLICY, Acting, mostly_best_actions, sample_actions
from senju.collect.orders import NO_ORDERS, Orders
from senju.collect.resignation import NEVER, Resignation
from senju.collect.seating import CURRENT, Others, keep_own
from senju.collect.shard import Shard
from senju.collect.slots import Ring, RingShape, Slot
from senju.games.game import Game, Observations, Outcomes, SeatView
from senju.games.rows import ACTION, Rows, first_allowed
from senju.kernels import compiled
from senju.models.model import Model
from senju.timing import StageClock

STAGES = ("observe", "evaluate", "choose", "opponents", "step", "restart")  # of every step of a shard


class Actor:
    """A model that evaluates batches of at most one size, without gradients.

    A shard's batches have shapes that follow from the shard alone, because another shape may round
    differently: equal bits need equal shapes.
    """

    def __init__(self, game: Game | SeatView, model: Model, num_rows: int) -> None:
        self.model = model.eval().requires_grad_(False)
        self.num_rows = num_rows
        self._batch = num_rows * game.num_acting
        self._input = torch.zeros(self._batch, *game.observation_shape)
        self._logits = np.zeros((self._batch, game.num_actions), np.float32)
        self._values = np.zeros(self._batch, np.float32)

    def evaluate(self, observation: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Logits [row * acting, actions] and values [row * acting] of a batch of observations."""
        self._input.copy_(torch.from_numpy(observation).view(self._input.shape))
        logits, values = self.model(self._input)
        return logits.numpy(), values.numpy()

    def evaluate_first(
        self, observation: NDArray[np.uint8]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The same of a batch that may be smaller: observations [batch, 1, *observation_shape]."""
        batch = self._input[: len(observation)]
        batch.copy_(torch.from_numpy(observation).view(batch.shape))
        logits, values = self.model(batch)
        return logits.numpy(), values.numpy()

    def evaluate_some(
        self, observation: NDArray[np.uint8], positions: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The same of some places (row * acting + place) alone; the values of the rest are 0."""
        if len(positions) == self._batch:
            return self.evaluate(observation)
        self._values.fill(0.0)
        if len(positions):
            chosen = observation.reshape(self._input.shape)[positions]
            self._logits[positions], self._values[positions] = self.evaluate_first(chosen)
        return self._logits, self._values


@compiled
def _spread_values(
    values: NDArray[np.float32],  # [row * acting]
    seats: NDArray[np.int8],  # [row, acting]
    chosen: NDArray[np.bool_],  # [row]
    is_zero_sum: bool,
    bootstrap: NDArray[np.float32],  # [row, seat]
) -> None:
    """Give each seat the value of the position: its own, or in a zero-sum game minus the other's."""
    num_places = seats.shape[1]
    for row in range(seats.shape[0]):
        if not chosen[row]:
            continue
        bootstrap[row] = math.nan
        for place in range(num_places):
            seat, value = seats[row, place], values[row * num_places + place]
            if seat < 0:
                continue
            if is_zero_sum and num_places == 1:
                bootstrap[row, 1 - seat] = -value
            bootstrap[row, seat] = value


class RolloutPlayer:
    """Plays rollouts of shards with one actor; one per worker.

    `others` sit where the current policy does not; None is self-play. With `whole_games` every row
    plays one game to its end in each rollout, and rests when it is over.
    """

    def __init__(
        self,
        game: Game,
        model: Model,
        num_rows: int,
        clock: StageClock,
        resignation: Resignation = NEVER,
        acting: Acting = BY_POLICY,
        others: Others | None = None,
        whole_games: bool = False,
    ) -> None:
        resignation.check(game)
        self.game = game
        self.actor = Actor(game, model, num_rows)
        self.clock = clock
        self.resignation = resignation
        self.acting = acting
        self.others = others
        self.whole_games = whole_games
        self._after = game.new_observations(num_rows)
        self._everyone = np.zeros((num_rows, game.num_acting), np.int8)
        self._positions = np.zeros(num_rows * game.num_acting, np.int64)
        self._is_resting = np.zeros(num_rows, np.bool_)

    @torch.inference_mode()  # once per rollout: entering it costs microseconds
    def play(self, shard: Shard, slot: Slot, orders: Orders = NO_ORDERS) -> None:
        """Fill a slot with the shard's next steps."""
        rows, clock = shard.rows, self.clock
        is_plain = self.others is None and not self.whole_games  # everybody decides, by one policy
        self._begin(shard, slot, orders)
        clock.start()
        for time in range(slot.num_steps):
            if self.whole_games and self._is_resting.all():
                _leave_empty(slot, time)
                break
            observations, outcomes = slot.observations_at(time), slot.outcomes_at(time)
            actions, broken = slot.actions[time], None
            rows.observe(observations)
            if self.others is not None:
                self._seat(shard, slot.seated[time])
            clock.lap("observe")
            if is_plain:
                logits, values = self.actor.evaluate(observations.observation)
            else:
                logits, values = self._evaluate_own(shard, observations)
            clock.lap("evaluate")
            choose_into(slot, time, logits, values, rows, ACTION, self.acting, self._epsilon)
            clock.lap("choose")
            if self.others is not None:
                broken = self._let_others_choose(shard, observations, actions)
                clock.lap("opponents")
            if self.whole_games:
                self._step_those_who_play(rows, observations.legal, actions, outcomes)
            else:
                rows.step(actions, outcomes)
            self.resignation.apply(slot.values[time], observations.seats, rows.clock, rows.seed, outcomes)
            if broken is not None:
                _cut_off(broken, outcomes)
            clock.lap("step")
            if outcomes.truncated.any():
                self._look_at_truncated(shard, slot, time, broken)
            if self.whole_games:
                self._let_rest(rows, outcomes)
            else:
                rows.advance(outcomes)
            clock.lap("restart")
        self._end(shard, slot)

    def play_all(self, shard: Shard, slots: Sequence[Slot], orders: Orders = NO_ORDERS) -> None:
        """Fill the slot of the one policy there is."""
        (slot,) = slots
        self.play(shard, slot, orders)

    def _begin(self, shard: Shard, slot: Slot, orders: Orders) -> None:
        slot.bootstrap.fill(0.0)
        slot.final_at.fill(-1)
        self._epsilon = self.acting.epsilon(orders.epsilon, shard.index)
        self._num_final = 0
        self._is_resting.fill(False)
        if self.others is not None:
            self.others.begin(orders, shard.rows)

    def _seat(self, shard: Shard, seated: NDArray[np.int32]) -> None:
        """Who sits where from this step on; in games that are yet to begin, nobody."""
        assert self.others is not None
        self.others.seat(shard.rows, shard.seated)
        seated[:] = shard.seated
        if self.whole_games:
            seated[self._is_resting] = CURRENT

    def _evaluate_own(
        self, shard: Shard, observations: Observations
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Logits and values where the current policy decides; the other seats are blanked."""
        self._everyone[:] = observations.seats
        positions = keep_own(observations.seats, shard.seated, self._is_resting, self._positions)
        return self.actor.evaluate_some(observations.observation, positions)

    def _let_others_choose(
        self, shard: Shard, observations: Observations, actions: NDArray[np.int32]
    ) -> NDArray[np.int64] | None:
        assert self.others is not None
        everyone = self._everyone
        everyone[self._is_resting] = -1
        return self.others.choose(shard.rows, observations, everyone, shard.seated, actions)

    def _step_those_who_play(
        self, rows: Rows, legal: NDArray[np.uint64], actions: NDArray[np.int32], outcomes: Outcomes
    ) -> None:
        """The game knows no rest: those who have it step like the others, and are set back."""
        resting = np.flatnonzero(self._is_resting)
        states = rows.states[resting]
        first_allowed(legal, resting, actions)
        rows.step(actions, outcomes)
        rows.states[resting] = states
        outcomes.rewards[resting], actions[resting] = 0.0, 0
        outcomes.terminated[resting] = outcomes.truncated[resting] = False

    def _let_rest(self, rows: Rows, outcomes: Outcomes) -> None:
        """Whoever has finished a game waits for the next rollout to begin another."""
        clock = rows.clock[self._is_resting]
        ended = rows.advance(outcomes)
        rows.clock[self._is_resting] = clock
        self._is_resting[ended] = True

    def _end(self, shard: Shard, slot: Slot) -> None:
        """Value what goes on; leave nothing of an older rollout in the slot."""
        leave_empty_finals(slot, self._num_final)
        running = ~(slot.terminated[-1] | slot.truncated[-1] | self._is_resting)
        if self.acting.by == "policy" and running.any():
            self._value_positions(shard, running, slot.bootstrap[-1])

    def _look_at_truncated(
        self, shard: Shard, slot: Slot, time: int, broken: NDArray[np.int64] | None
    ) -> None:
        """Value or keep the positions in which games were cut, before any of them starts anew."""
        truncated = slot.truncated[time]
        if self.acting.by == "policy":
            self._value_positions(shard, truncated, slot.bootstrap[time])
        else:
            shard.rows.observe(self._after)
        known = truncated.copy()
        if broken is not None:
            slot.bootstrap[time, broken] = math.nan
            known[broken] = False
        room = len(slot.final_seats) - self._num_final
        chosen = np.flatnonzero(known)[:room]
        if len(chosen):
            finals = np.arange(self._num_final, self._num_final + len(chosen))
            slot.final_at[time, chosen] = finals
            slot.final_observation[finals] = self._after.observation[chosen]
            slot.final_legal[finals] = self._after.legal[chosen]
            slot.final_seats[finals] = self._after.seats[chosen]
            self._num_final += len(chosen)

    def _value_positions(
        self, shard: Shard, chosen: NDArray[np.bool_], bootstrap: NDArray[np.float32]
    ) -> None:
        """Value the rows' positions as they stand, before any of them starts anew."""
        shard.rows.observe(self._after)
        _, values = self.actor.evaluate(self._after.observation)
        _spread_values(values, self._after.seats, chosen, self.game.is_zero_sum, bootstrap)
        self.clock.lap("evaluate")


def choose_into(
    slot: Slot,
    time: int,
    logits: NDArray[np.float32],
    values: NDArray[np.float32],
    rows: Rows,
    stream: int,
    acting: Acting,
    epsilon: float,
) -> None:
    """Write what a policy does in the step whose observations lie in the slot."""
    who = (slot.legal[time], slot.seats[time], rows.clock, rows.seed, stream)
    out = slot.values[time]
    if acting.by == "action_values":
        how = (epsilon, acting.is_dueling)
        mostly_best_actions(logits, values, *who, *how, slot.actions[time], slot.explored[time], out)
    else:
        out[:] = values.reshape(out.shape)
        sample_actions(logits, *who, slot.actions[time], slot.log_probs[time])


def _cut_off(broken: NDArray[np.int64], outcomes: Outcomes) -> None:
    """End games that cannot go on; what they would have led to is not known."""
    outcomes.rewards[broken] = 0.0
    outcomes.terminated[broken], outcomes.truncated[broken] = False, True


def _leave_empty(slot: Slot, time: int) -> None:
    """Nobody acts in the rest of the rollout."""
    slot.seats[time:] = -1
    for column in _EMPTIED:
        getattr(slot, column)[time:] = 0


_WRITTEN_OTHERWISE = ("seats", "bootstrap", "final_at", "final_observation", "final_legal", "final_seats")
_EMPTIED = tuple(name for name in Slot._fields if name not in _WRITTEN_OTHERWISE)


def leave_empty_finals(slot: Slot, num_final: int) -> None:
    """Leave nothing of an older rollout where no truncated position was kept."""
    slot.final_observation[num_final:] = 0
    slot.final_legal[num_final:] = 0
    slot.final_seats[num_final:] = -1


def warm_up(game: Game, model: Model) -> None:
    """Compile, or load from the cache, every kernel that collecting needs; workers then find it all."""
    game.warm_up()
    ring = Ring(game, RingShape(1, 1, 1))
    ring.open(0, 0)
    shard, slot = Shard(game, 0, 1, 0), ring.slot(0, 0)
    greedy = Acting("action_values")
    RolloutPlayer(game, model, 1, StageClock(), acting=greedy, whole_games=True).play(shard, slot)
    player = RolloutPlayer(game, model, 1, StageClock())
    player.play(shard, slot)
    rows, no_rows = shard.rows, game.new_outcomes(0)
    Resignation(1.0).apply(slot.values[0, :0], slot.seats[0, :0], rows.clock[:0], rows.seed, no_rows)
    first_allowed(slot.legal[0], np.zeros(0, np.int64), slot.actions[0])
    everything = np.ones(1, np.bool_)
    rows.advance(slot.outcomes_at(0)._replace(truncated=everything))
    player._value_positions(shard, everything, slot.bootstrap[0])
