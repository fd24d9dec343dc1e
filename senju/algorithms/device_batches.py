"""PPO's decisions on a device: what evaluation left there is not uploaded, and parts have a fixed size."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from senju.algorithms.returns import Advantages, generalised_advantages
from senju.algorithms.transitions import in_one_copy
from senju.collect.slots import Ring, Rollout, Slot

LARGE = 2**14  # decisions of a rollout from which a thread of its own is worth starting
MAX_THREADS = 8


class Frames(NamedTuple):
    """Where a device has the observations and legal actions of some rollouts' decisions."""

    observation: Tensor  # [frame, *observation_shape]
    legal: Tensor  # int64 bits [frame, words]
    indices: NDArray[np.int64]  # [decision]


def frames_on_device(ring: Ring, rollouts: Sequence[Rollout], device: torch.device) -> Frames | None:
    """The rollouts' frames in the ring's columns on this device; None if it lacks some of them."""
    columns = ring.on_device
    if columns is None or not is_same_device(columns.observation.device, device):
        return None
    # the slots of older turns may be written to while these rollouts are learned from
    oldest = max(rollout.turn for rollout in rollouts) + ring.shape.ahead - columns.turns + 1
    if not all(each.turn >= oldest and columns.has(each.shard, each.turn) for each in rollouts):
        return None
    firsts = [columns.first_decision(rollout.shard, rollout.turn) for rollout in rollouts]
    inner = np.arange(rollouts[0].data.seats.size)
    indices = (np.array(firsts, np.int64)[:, None] + inner).reshape(-1)
    return Frames(columns.observation.flatten(0, 4), columns.legal.flatten(0, 4), indices)


def is_same_device(one: torch.device, other: torch.device) -> bool:
    """Whether both are the same device; without an index, the current GPU is meant."""
    if one.type != other.type or one.type != "cuda":
        return one.type == other.type
    current = torch.cuda.current_device()
    return (current if one.index is None else one.index) == (current if other.index is None else other.index)


def uploaded(columns: dict[str, NDArray[Any]], device: torch.device) -> dict[str, Tensor]:
    """Columns on the device: small ones, sent together without waiting."""
    sent = in_one_copy({name: [column] for name, column in columns.items()}, device)
    return {name: column[0] for name, column in sent.items()}


def estimated(
    slots: Sequence[Slot], gamma: float, gae_lambda: float, executor: ThreadPoolExecutor | None
) -> list[Advantages]:
    """The advantages of each rollout; large rollouts are computed by several threads."""
    if executor is None or len(slots) < 2 or slots[0].seats.size < LARGE:
        return [generalised_advantages(slot, gamma, gae_lambda) for slot in slots]
    return list(executor.map(lambda slot: generalised_advantages(slot, gamma, gae_lambda), slots))


class Portion(NamedTuple):
    """The decisions of one gradient step."""

    indices: Tensor
    weights: Tensor | None  # 0 where a decision only fills the part up; None: all count


def equal_parts(order: Tensor, num_parts: int, size: int) -> list[Portion]:
    """An order in nearly equal parts, as on the CPU, each filled up to `size` with its own decisions."""
    parts = torch.tensor_split(order, num_parts)
    if all(len(part) == size for part in parts):
        return [Portion(part, None) for part in parts]
    weights: dict[int, Tensor] = {}
    filled = []
    for part in parts:
        if len(part) not in weights:
            weights[len(part)] = (torch.arange(size, device=order.device) < len(part)).float()
        filled.append(Portion(torch.cat([part, part[:1].expand(size - len(part))]), weights[len(part)]))
    return filled
