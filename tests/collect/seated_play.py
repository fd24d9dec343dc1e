"""Rollouts in which others sit too, and the same rollouts re-played by hand through the Game contract."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from senju.collect.exploration import BY_POLICY, Acting
from senju.collect.orders import NO_ORDERS, Orders
from senju.collect.policy import Policy
from senju.collect.rollout import RolloutPlayer
from senju.collect.shard import Shard
from senju.collect.slots import Slot, new_slot
from senju.games.game import Game, Observations, Outcomes
from senju.models.model import Model, ModelConfig, build_model
from senju.models.weights import WeightBlock, Weights
from senju.opponents.opponent_players import OpponentPlayers, OpponentSettings, OpponentSpec
from senju.timing import StageClock
from tests.collect.toy_models import ReadsObservation

SEED = 21


def reader(game: Game) -> Model:
    return build_model(ReadsObservation, game.observation_shape, game.num_actions, ModelConfig(), SEED)


def preferring(game: Game, preference: Sequence[float]) -> Weights:
    """Weights of `ReadsObservation` that give each action this logit."""
    block = WeightBlock(reader(game))
    weights = block.read()
    logits = np.array(preference, np.float32)
    weights[: logits.nbytes] = logits.view(np.uint8)  # comes first in the model
    return weights


def evenly(*ids: int, snapshots: int = 0, **others: Any) -> Orders:
    """Orders in which all opponents are as likely; the last `snapshots` of them have weights."""
    places = [-1] * (len(ids) - snapshots) + list(range(snapshots))
    return Orders(ids=ids, weight_indices=tuple(places), probabilities=(1 / len(ids),) * len(ids), **others)


class Seated:
    """A shard that is played with opponents."""

    def __init__(
        self,
        game: Game,
        *fixed: str,
        num_rows: int = 6,
        shard: int = 1,
        weights: Mapping[int, Weights] | None = None,
        model: Model | None = None,
        acting: Acting = BY_POLICY,
        whole_games: bool = False,
        max_game_length: int = 0,
        **settings: Any,
    ) -> None:
        specs = tuple(OpponentSpec(description) for description in fixed)
        self.game, self.num_rows = game, num_rows
        self.model = model or reader(game)
        self.opponents = OpponentPlayers(
            game,
            OpponentSettings(specs, **settings),
            [Policy(self.model, acting)],
            [],
            (weights or {}).__getitem__,
        )
        self.shard = Shard(game, shard, num_rows, SEED, max_game_length)
        self.player = RolloutPlayer(
            game,
            [Policy(self.model, acting)],
            num_rows,
            StageClock(),
            opponents=self.opponents,
            whole_games=whole_games,
        )

    def play(self, num_steps: int, orders: Orders = NO_ORDERS, keeps_final: bool = False) -> Slot:
        """The next rollout, in a slot full of other values: a test would see what is not written."""
        slot = new_slot(self.game, num_steps, self.num_rows, keeps_final)
        for array in slot:
            array.view(np.uint8).fill(1)
        self.player.play(self.shard, [slot], orders)
        return slot


class Step(NamedTuple):
    """One step of a rollout, beside what the game itself says of it."""

    slot: Slot
    time: int
    clock: NDArray[np.void]  # before the step
    seen: Observations
    came: Outcomes  # by the rules
    after: Observations  # before any new game


def replayed(game: Game, slots: Sequence[Slot], shard: int = 1, max_game_length: int = 0) -> Iterator[Step]:
    """The steps of consecutive rollouts, given the recorded actions; not for whole games."""
    num_rows = slots[0].seats.shape[1]
    rows = Shard(game, shard, num_rows, SEED, max_game_length).rows
    for slot in slots:
        for time in range(slot.num_steps):
            seen, after = game.new_observations(num_rows), game.new_observations(num_rows)
            came, clock = game.new_outcomes(num_rows), rows.clock.copy()
            rows.observe(seen)
            rows.step(slot.actions[time], came)
            rows.observe(after)
            yield Step(slot, time, clock, seen, came, after)
            ended = slot.terminated[time] | slot.truncated[time]  # also what was cut off
            rows.advance(came._replace(terminated=ended, truncated=np.zeros_like(ended)))
