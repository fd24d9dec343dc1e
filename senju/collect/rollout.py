"""The hot loop: T steps of one shard, written into a slot. Nothing here runs per row in Python."""

import math

import numpy as np
import torch
from numpy.typing import NDArray

from senju.collect.exploration import sample_actions
from senju.collect.resignation import NEVER, Resignation
from senju.collect.shard import Shard
from senju.collect.slots import Slot, new_slot
from senju.games.game import Game
from senju.games.rows import ACTION
from senju.kernels import compiled
from senju.models.model import Model
from senju.timing import StageClock

STAGES = ("observe", "evaluate", "choose", "step", "restart")  # of every step of a shard


class Actor:
    """A model that evaluates batches of one fixed shape, without gradients.

    The shape is fixed because another one may round differently: equal bits need equal shapes.
    """

    def __init__(self, game: Game, model: Model, num_rows: int) -> None:
        self.model = model.eval().requires_grad_(False)
        self._batch = num_rows * game.num_acting
        self._input = torch.zeros(self._batch, *game.observation_shape)

    def evaluate(self, observation: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Logits [row * acting, actions] and values [row * acting] of a batch of observations."""
        self._input.copy_(torch.from_numpy(observation).view(self._input.shape))
        logits, values = self.model(self._input)
        return logits.numpy(), values.numpy()


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
    """Plays rollouts of shards with one actor; one per worker."""

    def __init__(
        self,
        game: Game,
        model: Model,
        num_rows: int,
        clock: StageClock,
        resignation: Resignation = NEVER,
    ) -> None:
        resignation.check(game)
        self.game = game
        self.actor = Actor(game, model, num_rows)
        self.clock = clock
        self.resignation = resignation
        self._after = game.new_observations(num_rows)

    @torch.inference_mode()  # once per rollout: entering it costs microseconds
    def play(self, shard: Shard, slot: Slot) -> None:
        """Fill a slot with the shard's next steps."""
        rows, clock = shard.rows, self.clock
        slot.bootstrap.fill(0.0)
        clock.start()
        for time in range(slot.num_steps):
            observations, outcomes = slot.observations_at(time), slot.outcomes_at(time)
            rows.observe(observations)
            clock.lap("observe")
            logits, values = self.actor.evaluate(observations.observation)
            slot.values[time] = values.reshape(slot.values[time].shape)
            clock.lap("evaluate")
            actions = slot.actions[time]
            sample_actions(
                logits,
                observations.legal,
                observations.seats,
                rows.clock,
                rows.seed,
                ACTION,
                actions,
                slot.log_probs[time],
            )
            clock.lap("choose")
            rows.step(actions, outcomes)
            self.resignation.apply(slot.values[time], observations.seats, rows.clock, rows.seed, outcomes)
            clock.lap("step")
            if outcomes.truncated.any():
                self._value_positions(shard, outcomes.truncated, slot.bootstrap[time])
            rows.advance(outcomes)
            clock.lap("restart")
        running = ~(slot.terminated[-1] | slot.truncated[-1])
        self._value_positions(shard, running, slot.bootstrap[-1])

    def _value_positions(
        self, shard: Shard, chosen: NDArray[np.bool_], bootstrap: NDArray[np.float32]
    ) -> None:
        """Value the rows' positions as they stand, before any of them starts anew."""
        shard.rows.observe(self._after)
        _, values = self.actor.evaluate(self._after.observation)
        _spread_values(values, self._after.seats, chosen, self.game.is_zero_sum, bootstrap)
        self.clock.lap("evaluate")


def warm_up(game: Game, model: Model) -> None:
    """Compile, or load from the cache, every kernel that collecting needs; workers then find it all."""
    game.warm_up()
    player = RolloutPlayer(game, model, 1, StageClock())
    shard = Shard(game, 0, 1, 0)
    slot = new_slot(game, 1, 1)
    player.play(shard, slot)
    rows, no_rows = shard.rows, game.new_outcomes(0)
    Resignation(1.0).apply(slot.values[0, :0], slot.seats[0, :0], rows.clock[:0], rows.seed, no_rows)
    everything = np.ones(1, np.bool_)
    rows.advance(slot.outcomes_at(0)._replace(truncated=everything))
    player._value_positions(shard, everything, slot.bootstrap[0])
