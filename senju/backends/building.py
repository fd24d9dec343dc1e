"""What a plan says, as objects: whoever plays builds the same ones."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import nn

from senju.backends.backend import Plan
from senju.collect.exploration import BY_POLICY
from senju.collect.independent import IndependentPlayer, warm_up_independent
from senju.collect.orders import Orders
from senju.collect.rollout import RolloutPlayer, warm_up
from senju.collect.seating import seat_seed
from senju.collect.shard import Shard
from senju.collect.slots import Allocate, Ring, new_slot
from senju.errors import ModelError
from senju.games import make_game
from senju.games.game import Game
from senju.models import make_model
from senju.models.model import Model
from senju.models.weights import WeightBlock, Weights
from senju.opponents.table import OpponentSpec, OpponentTable, TableSettings
from senju.timing import StageClock


def warm_up_plan(plan: Plan, game: Game, models: Sequence[Model]) -> None:
    """Compile, or load from the cache, what playing the plan needs; workers then find it all."""
    if plan.policies:
        warm_up_independent(game, models, plan.how_to_act)
        return
    warm_up(game, models[0])
    if plan.seating == "opponents":
        settings = TableSettings(fixed=(OpponentSpec("random"),) * 2, in_play=1)
        orders = Orders(ids=(1, 2), places=(-1, -1), odds=(0.5, 0.5))
        others = OpponentTable(game, 1, settings, models, BY_POLICY, _no_weights)
        player = RolloutPlayer(game, models[0], 1, StageClock(), others=others)
        player.play(Shard(game, 0, 1, 0), new_slot(game, _WARM_UP_STEPS, 1), orders)


_WARM_UP_STEPS = 4  # enough for everybody to move


def _no_weights(place: int) -> Weights:
    raise AssertionError(f"nobody's weights lie in place {place}")


def new_acting_models(plan: Plan, game: Game | None = None) -> list[Model]:
    """The plan's network with the weights it starts from, and one for each fixed agent.

    Where every seat has a policy of its own, the networks of all seats.
    """
    game = game or make_game(**plan.game)
    if plan.policies:
        return [
            make_model(policy.model, game.observation_shape, game.num_actions, seat_seed(plan.seed, seat))
            for seat, policy in enumerate(plan.all_policies)
        ]
    settings = [plan.model, *(spec.model for spec in plan.table.fixed if spec.model is not None)]
    return [make_model(each, game.observation_shape, game.num_actions, plan.seed) for each in settings]


class OpponentWeights:
    """Places for the weights of opponents: of snapshots first, then of each fixed agent."""

    def __init__(self, plan: Plan, sizes: Sequence[int], allocate: Allocate = np.zeros) -> None:
        own, *fixed = sizes
        self._places: list[NDArray[np.uint8]] = [
            allocate(size, np.uint8) for size in [own] * plan.num_snapshots + fixed
        ]

    def write(self, place: int, weights: Weights) -> None:
        """Fill a place."""
        if weights.nbytes != self._places[place].nbytes:
            raise ModelError(
                f"an opponent's weights of {weights.nbytes} bytes for a network of "
                f"{self._places[place].nbytes} bytes: it is of another architecture"
            )
        self._places[place][:] = weights

    def read(self, place: int) -> Weights:
        """What lies there, not a copy."""
        return self._places[place]


def weight_block(plan: Plan, models: Sequence[Model]) -> WeightBlock:
    """What is published: the current policy's weights, or those of all seats one after another."""
    return WeightBlock(nn.ModuleList(models) if plan.policies else models[0])


def block_sizes(plan: Plan, models: Sequence[Model]) -> list[int]:
    """How many bytes what is published takes, and each fixed opponent's weights."""
    others = () if plan.policies else models[1:]
    return [weight_block(plan, models).num_bytes, *(WeightBlock(model).num_bytes for model in others)]


def new_rings(plan: Plan, game: Game, allocate: Allocate = np.zeros) -> tuple[Ring, ...]:
    """A ring for each policy; what one seat sees is a game of one seat."""
    view = game.seat_view if plan.policies else game
    return tuple(Ring(view, shape, allocate) for shape in plan.ring_shapes)


def new_rollout_player(
    plan: Plan,
    game: Game,
    models: Sequence[Model],
    clock: StageClock,
    weights_at: Callable[[int], Weights],
) -> RolloutPlayer | IndependentPlayer:
    """Whoever plays the plan's shards; the first of the models acts, or each of them in its seat."""
    num_rows = plan.games_per_shard
    if plan.policies:
        return IndependentPlayer(game, models, num_rows, clock, plan.how_to_act)
    (acting,), others = plan.how_to_act, None
    if plan.seating == "opponents":
        others = OpponentTable(game, num_rows, plan.table, models, acting, weights_at)
    return RolloutPlayer(game, models[0], num_rows, clock, plan.resignation, acting, others, plan.whole_games)


def new_shard(plan: Plan, game: Game, index: int) -> Shard:
    """One of the plan's shards, at its start."""
    return Shard(game, index, plan.games_per_shard, plan.seed, plan.max_game_length)
