"""What a plan says, as objects: whoever plays builds the same ones."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from senju.backends.backend import Plan
from senju.collect.exploration import BY_POLICY
from senju.collect.orders import Orders
from senju.collect.rollout import RolloutPlayer, warm_up
from senju.collect.shard import Shard
from senju.collect.slots import Allocate, new_slot
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
    """The plan's network with the weights it starts from, and one for each fixed agent."""
    game = game or make_game(**plan.game)
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


def block_sizes(models: Sequence[Model]) -> list[int]:
    """How many bytes each one's weights take."""
    return [WeightBlock(model).num_bytes for model in models]


def new_rollout_player(
    plan: Plan,
    game: Game,
    models: Sequence[Model],
    clock: StageClock,
    weights_at: Callable[[int], Weights],
) -> RolloutPlayer:
    """Whoever plays the plan's shards; the first of the models acts."""
    acting, num_rows = plan.how_to_act, plan.games_per_shard
    others = None
    if plan.seating == "opponents":
        others = OpponentTable(game, num_rows, plan.table, models, acting, weights_at)
    return RolloutPlayer(game, models[0], num_rows, clock, plan.resignation, acting, others, plan.whole_games)


def new_shard(plan: Plan, game: Game, index: int) -> Shard:
    """One of the plan's shards, at its start."""
    return Shard(game, index, plan.games_per_shard, plan.seed, plan.max_game_length)
