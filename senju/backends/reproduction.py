"""A rollout that failed, in one file: everything needed to play it alone, and nothing that can run code."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from senju.backends.backend import Plan
from senju.collect.rollout import RolloutPlayer
from senju.collect.shard import Shard, ShardState
from senju.collect.slots import new_slot
from senju.errors import CheckpointError, RunFolderError
from senju.games import make_game
from senju.games.rows import CLOCK
from senju.models import make_model
from senju.models.weights import WeightBlock, Weights
from senju.timing import StageClock


@dataclass(frozen=True)
class Reproduction:
    """A shard before a rollout that fails, with the weights that act in it."""

    plan: Plan
    shard: int
    turn: int
    version: int
    cause: str
    state: ShardState
    weights: Weights

    def save(self, folder: Path) -> Path:
        """Write the file and return its path."""
        path = folder / f"shard-{self.shard}-rollout-{self.turn}-version-{self.version}.safetensors"
        facts = {
            "plan": dataclasses.asdict(self.plan),
            "shard": self.shard,
            "turn": self.turn,
            "version": self.version,
            "cause": self.cause,
        }
        tensors = {
            "states": _as_tensor(self.state.states),
            "clock": _as_tensor(self.state.clock),
            "weights": torch.from_numpy(self.weights),
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
                states, clock, weights = (file.get_tensor(name) for name in ("states", "clock", "weights"))
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path} is not a failing shard's file: {error}") from None
        plan = Plan(**facts["plan"])
        game = make_game(**plan.game)
        state = ShardState(states.view(game.state_dtype), clock.view(CLOCK))
        return cls(plan, facts["shard"], facts["turn"], facts["version"], facts["cause"], state, weights)

    def play(self) -> None:
        """Play the rollout here; whatever goes wrong comes as it comes."""
        plan, game = self.plan, make_game(**self.plan.game)
        model = make_model(plan.model, game.observation_shape, game.num_actions, plan.seed)
        WeightBlock(model).write(self.weights)
        shard = Shard(game, self.shard, plan.games_per_shard, plan.seed, plan.max_game_length)
        shard.restore(self.state)
        player = RolloutPlayer(game, model, plan.games_per_shard, StageClock(), plan.resignation)
        player.play(shard, new_slot(game, plan.rollout_steps, plan.games_per_shard))


def _as_tensor(array: NDArray[np.void]) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array).view(np.uint8).copy())
