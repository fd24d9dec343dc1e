"""A rollout that failed, in one file: everything needed to play it alone, and nothing that can run code."""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from senju.backends.backend import Plan
from senju.backends.building import new_acting_models, new_rollout_player, new_shard, weight_block
from senju.collect.orders import Orders
from senju.collect.shard import ShardState, new_shard_state
from senju.collect.slots import Ring
from senju.errors import CheckpointError, RunFolderError
from senju.games import make_game
from senju.models.weights import Weights
from senju.timing import StageClock


@dataclass(frozen=True)
class Reproduction:
    """A shard before a rollout that fails, with the weights that act in it."""

    plan: Plan
    shard: int
    turn: int
    orders: Orders
    cause: str
    state: ShardState
    weights: Weights
    opponents: dict[int, Weights] = field(default_factory=dict)  # by place

    @property
    def version(self) -> int:
        """Of the weights that act."""
        return self.orders.version

    def save(self, folder: Path) -> Path:
        """Write the file and return its path."""
        path = folder / f"shard-{self.shard}-rollout-{self.turn}-version-{self.version}.safetensors"
        facts = {
            "plan": dataclasses.asdict(self.plan),
            "shard": self.shard,
            "turn": self.turn,
            "orders": self.orders,
            "cause": self.cause,
        }
        tensors = {
            **{name: _as_tensor(array) for name, array in self.state._asdict().items()},
            "weights": torch.from_numpy(self.weights),
            **{f"opponent.{place}": _as_tensor(weights) for place, weights in self.opponents.items()},
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            save_file(tensors, path, {"senju": json.dumps(facts)})
        except (OSError, SafetensorError) as error:
            raise RunFolderError(f"{path} cannot be written: {error}") from None
        return path

    @classmethod
    def load(cls, path: Path) -> "Reproduction":
        """Read a file that `save` wrote."""
        try:
            with safe_open(path, "np") as file:
                facts = json.loads(file.metadata()["senju"])
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # no dict
                weights = arrays.pop("weights")
                opponents = {
                    int(name.removeprefix("opponent.")): arrays.pop(name)
                    for name in list(arrays)
                    if name.startswith("opponent.")
                }
                version, epsilon, *lists = facts["orders"]
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path} is not a failing shard's file: {error}") from None
        plan = Plan(**facts["plan"])
        game = make_game(**plan.game)
        state = new_shard_state(game, plan.games_per_shard)
        for name, array in state._asdict().items():
            array[:] = arrays[name].view(array.dtype).reshape(array.shape)
        orders = Orders(version, epsilon, *map(tuple, lists))
        return cls(plan, facts["shard"], facts["turn"], orders, facts["cause"], state, weights, opponents)

    def play(self) -> None:
        """Play the rollout here; whatever goes wrong comes as it comes."""
        plan, game = self.plan, make_game(**self.plan.game)
        models = new_acting_models(plan, game)
        weight_block(plan, models).write(self.weights)
        shard = new_shard(plan, game, self.shard)
        shard.restore(self.state)
        player = new_rollout_player(plan, game, models, StageClock(), self.opponents.__getitem__)
        shapes = [dataclasses.replace(shape, num_shards=1, kept=1, ahead=0) for shape in plan.ring_shapes]
        view = game.seat_view if plan.policies else game
        slots = [Ring(view, shape).slot(0, 0) for shape in shapes]
        player.play_all(shard, slots, self.orders)


def _as_tensor(array: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array).view(np.uint8).copy())
