"""Columns of a ring on a device: what was uploaded to be evaluated stays there and is learned from."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from senju.collect.slots import RingShape, Slot
from senju.games.game import Game, SeatView
from senju.kernels import legal_words


class DeviceSlot(NamedTuple):
    """The columns of one rollout on the device."""

    observation: Tensor  # [time, row, acting, *observation_shape]
    legal: Tensor  # int64 bits [time, row, acting, words]


class DeviceColumns:
    """Observations and legal actions of the newest turns of every shard, on one device.

    Turn t of a shard is at index t % turns. `stored` says which turn is complete there; -1: none.
    """

    def __init__(self, game: Game | SeatView, shape: RingShape, turns: int, device: torch.device) -> None:
        self.device, self.turns = device, turns
        steps = (shape.num_shards, turns, shape.num_steps, shape.num_rows, game.num_acting)
        dtype = torch.from_numpy(np.zeros(0, game.observation_dtype)).dtype
        self.observation = torch.zeros(*steps, *game.observation_shape, dtype=dtype, device=device)
        self.legal = torch.zeros(*steps, legal_words(game.num_actions), dtype=torch.int64, device=device)
        self.stored: NDArray[np.int64] = np.full((shape.num_shards, turns), -1, np.int64)

    def slot(self, shard: int, turn: int) -> DeviceSlot:
        """The columns of that rollout."""
        index = turn % self.turns
        return DeviceSlot(self.observation[shard, index], self.legal[shard, index])

    def open(self, shard: int, turn: int) -> None:
        """Mark the rollout as being written."""
        self.stored[shard, turn % self.turns] = -1

    def complete(self, shard: int, turn: int) -> None:
        """Mark the rollout as complete."""
        self.stored[shard, turn % self.turns] = turn

    def forget(self, turn: int) -> None:
        """Forget rollouts from that turn on."""
        self.stored[self.stored >= turn] = -1

    def has(self, shard: int, turn: int) -> bool:
        """Whether the whole rollout is on the device."""
        return bool(self.stored[shard, turn % self.turns] == turn)

    def first_decision(self, shard: int, turn: int) -> int:
        """The index of the rollout's first decision when all axes before the contents are one."""
        per_slot = self.legal[0, 0, ..., 0].numel()
        return (shard * self.turns + turn % self.turns) * per_slot

    def upload(self, shard: int, turn: int, slot: Slot) -> None:
        """Copy a complete rollout from the host, as after a resume."""
        observation, legal = self.slot(shard, turn)
        observation.copy_(torch.from_numpy(slot.observation))
        legal.copy_(torch.from_numpy(slot.legal.view(np.int64)))
        self.complete(shard, turn)

    @staticmethod
    def bytes_per_turn(game: Game | SeatView, shape: RingShape) -> int:
        """The size of one turn of all shards."""
        decisions = shape.num_shards * shape.num_steps * shape.num_rows * game.num_acting
        observation = int(np.prod(game.observation_shape)) * np.dtype(game.observation_dtype).itemsize
        return decisions * (observation + 8 * legal_words(game.num_actions))
