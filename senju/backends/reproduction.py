"""A rollout that failed, in one file: everything needed to play it alone, and nothing that can run code."""

import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from safetensors import SafetensorError
from safetensors.numpy import load, save

from senju.backends.building import new_models, new_program, new_rollout_player, new_shard
from senju.backends.plan import Plan
from senju.collect.device_actor import DeviceProgram
from senju.collect.orders import Orders
from senju.collect.rollout import policy_view
from senju.collect.shard import ShardState, new_shard_state
from senju.collect.slots import new_slot
from senju.errors import CheckpointError, RunFolderError, SenjuError
from senju.files import describe_os_error, make_folder, read_file, replace_durably
from senju.games import make_game
from senju.models.weights import Weights
from senju.timing import StageClock
from senju.trust import require_trust

logger = logging.getLogger(__name__)

FAILED_SHARDS = "failed-shards"  # the folder, in the run's
_WRONG = (LookupError, TypeError, ValueError, ArithmeticError, RecursionError)  # raised by damaged content


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
    opponents: dict[int, Weights] = field(default_factory=dict)  # by the index of their weights

    @property
    def version(self) -> int:
        """The version of the weights that act."""
        return self.orders.version

    def save(self, folder: Path) -> Path:
        """Write the file and return its path."""
        path = folder / f"shard-{self.shard}-rollout-{self.turn}-version-{self.version}.safetensors"
        facts = {
            "plan": self.plan.model_dump(mode="json"),
            "shard": self.shard,
            "turn": self.turn,
            "orders": self.orders._asdict(),
            "cause": self.cause,
        }
        tensors = {
            **{
                name: np.ascontiguousarray(array).view(np.uint8)
                for name, array in self.state._asdict().items()
            },
            "weights": self.weights,
            **{f"opponent.{index}": weights for index, weights in self.opponents.items()},
        }
        try:
            make_folder(folder, folder.parent)  # which refuses a link
            replace_durably(path, save(tensors, {"senju": json.dumps(facts)}), folder.parent)
        except OSError as error:
            raise RunFolderError(f"{path} cannot be written: {describe_os_error(error)}") from None
        return path

    @classmethod
    def load(cls, path: Path) -> "Reproduction":
        """Read a file that `save` wrote; TrustError where it names code that is not trusted."""
        try:
            data = read_file(path)
            text = _header(data)["__metadata__"]["senju"]
            arrays = load(data)
            found = _Facts.model_validate_json(text)
            require_trust(path, json.loads(text)["plan"])
            plan, orders = found.plan, found.orders
            weights = _flat(arrays.pop("weights"))
            opponents = {
                int(name.removeprefix("opponent.")): _flat(arrays.pop(name))
                for name in list(arrays)
                if name.startswith("opponent.")
            }
            state = _read_state(plan, arrays)
        except OSError as error:
            problem = describe_os_error(error)
        except SenjuError:
            raise
        except (*_WRONG, SafetensorError) as error:
            problem = f"{type(error).__name__}: {error}"
        else:
            if found.fits(opponents):
                return cls(plan, found.shard, found.turn, orders, found.cause, state, weights, opponents)
            problem = "its shard or its opponents are not those of its plan"
        raise CheckpointError(f"{path} is not a failing shard's file: {problem}")

    def play(self) -> None:
        """Play the rollout in this process; any exception is raised unchanged."""
        plan, game = self.plan, make_game(**self.plan.game)
        models = new_models(plan, game)
        shard = new_shard(plan, game, self.shard)
        shard.restore(self.state)
        weights_at, program = self.opponents.__getitem__, _program_here(plan)
        player = new_rollout_player(plan, game, models, StageClock(), weights_at, program)
        player.write_weights(self.weights)
        view, steps, rows = policy_view(game, len(plan.policies)), plan.rollout_steps, plan.games_per_shard
        slots = [new_slot(view, steps, rows, policy.keeps_final) for policy in plan.policies]
        player.play(shard, slots, self.orders)


_Id = Annotated[int, Field(ge=-1, lt=2**31)]
_Share = Annotated[float, Field(ge=0, le=1.0001)]


class _SavedOrders(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    version: int = Field(ge=0, lt=2**53)
    epsilons: tuple[_Share, ...]
    ids: tuple[_Id, ...]
    weight_indices: tuple[_Id, ...]
    probabilities: tuple[_Share, ...]


class _Facts(BaseModel):
    """The content of a file besides its arrays."""

    model_config = ConfigDict(strict=True)

    plan: Plan
    shard: int = Field(ge=0)
    turn: int = Field(ge=0, lt=2**53)
    saved_orders: _SavedOrders = Field(alias="orders")
    cause: str

    @property
    def orders(self) -> Orders:
        """The orders of the rollout."""
        return Orders(**self.saved_orders.model_dump())

    def fits(self, opponents: dict[int, Weights]) -> bool:
        """Whether the shard is one of the plan's, and all opponents' weights are there."""
        orders, plan = self.orders, self.plan
        is_whole = len(orders.ids) == len(orders.weight_indices) == len(orders.probabilities)
        is_for_all = len(orders.epsilons) in (0, len(plan.policies))
        needed = {index for index in orders.weight_indices if index >= 0}
        return self.shard < plan.num_shards and is_whole and is_for_all and needed <= set(opponents)


def _program_here(plan: Plan) -> DeviceProgram | None:
    """What evaluates as it did in the workers; None, with a warning, if this machine has no such device."""
    evaluation = plan.evaluation
    if evaluation is None or torch.device(evaluation.device).type == "cpu" or torch.cuda.is_available():
        return new_program(plan)
    logger.warning(
        "this rollout was evaluated on %s, which is not available here; it is played on a core, which rounds "
        "differently, so it may not fail in the same way",
        evaluation.device,
    )
    return None


def _header(data: bytes) -> Any:
    """The header of a safetensors file, which follows its length."""
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


def _read_state(plan: Plan, arrays: dict[str, NDArray[Any]]) -> ShardState:
    """A shard's state; its arrays are allocated only if the file's arrays have the expected sizes."""
    game = make_game(**plan.game)
    row = new_shard_state(game, 1)
    for name, array in row._asdict().items():
        if arrays[name].nbytes != array.nbytes * plan.games_per_shard:
            raise ValueError(f"{name} is not of {plan.games_per_shard} games")
    state = new_shard_state(game, plan.games_per_shard)
    for name, array in state._asdict().items():
        array[:] = _flat(arrays[name]).view(array.dtype).reshape(array.shape)
    return state


def _flat(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
