"""DQN's objective, for one network or for a stack of them: axes before the samples' are carried along."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from senju.algorithms.masked_categorical import unpack_legal_bits
from senju.algorithms.ring_reader import Sample
from senju.timing import StageClock

Evaluate = Callable[[Tensor], tuple[Tensor, Tensor]]  # observation -> logits [..., action], value [...]

REPORT = ("loss", "mean_error", "mean_value", "mean_target")


class Transitions(NamedTuple):
    """Decisions to learn from, as tensors on one device; all [..., sample] and what follows."""

    observation: Tensor
    is_legal: Tensor
    actions: Tensor
    returns: Tensor
    next_observation: Tensor
    is_next_legal: Tensor
    factors: Tensor
    weights: Tensor


class Rules(NamedTuple):
    """The choices in the objective."""

    is_double: bool
    is_dueling: bool
    huber_delta: float


class DQNLoss(NamedTuple):
    """What a batch says of its network."""

    losses: Tensor  # [...], to be minimised
    errors: Tensor  # [..., sample]
    report: Tensor  # [..., number], those that REPORT names


def transitions(samples: Sequence[Sample], num_actions: int, device: torch.device) -> Transitions:
    """Samples of one size, one for each network: [network, sample, …]."""
    columns = {
        name: [_with_signed_bits(getattr(sample, name)) for sample in samples]
        for name in Sample._fields
        if name != "frames"
    }
    if device.type == "cpu":
        moved = {name: _stacked(arrays) for name, arrays in columns.items()}
    else:
        moved = in_one_copy(columns, device)
    return Transitions(
        moved["observation"].float(),  # after the move: bytes are fewer
        unpack_legal_bits(moved["legal"], num_actions),
        moved["actions"].long(),
        moved["returns"],
        moved["next_observation"].float(),
        unpack_legal_bits(moved["next_legal"], num_actions),
        moved["factors"],
        moved["weights"],
    )


def _with_signed_bits(array: NDArray[Any]) -> NDArray[Any]:
    return array.view(np.int64) if array.dtype == np.uint64 else array  # torch shifts no uint64


def _stacked(arrays: Sequence[NDArray[Any]]) -> Tensor:
    return torch.from_numpy(arrays[0][None] if len(arrays) == 1 else np.stack(arrays))


def in_one_copy(columns: dict[str, list[NDArray[Any]]], device: torch.device) -> dict[str, Tensor]:
    """Each column's arrays stacked, all columns sent to a device together.

    The memory they are sent from is pinned, so that the copy is asynchronous; torch keeps it until the
    copy is done. The widest numbers lie first, so that all are aligned.
    """
    shapes = {name: (len(arrays), *arrays[0].shape) for name, arrays in columns.items()}
    names = sorted(columns, key=lambda name: -columns[name][0].itemsize)
    ends = np.cumsum([len(columns[name]) * columns[name][0].nbytes for name in names]).tolist()
    parts = dict(zip(names, zip([0, *ends[:-1]], ends, strict=True), strict=True))
    host = torch.empty(ends[-1], dtype=torch.uint8, pin_memory=device.type == "cuda")
    memory = host.numpy()
    for name, (start, end) in parts.items():
        room = memory[start:end].view(columns[name][0].dtype).reshape(shapes[name])
        np.stack(columns[name], out=room)
    sent = host.to(device, non_blocking=True)
    return {
        name: sent[start:end].view(torch.from_numpy(columns[name][0]).dtype).view(shapes[name])
        for name, (start, end) in parts.items()
    }


def dqn_loss(
    network: Evaluate, target_network: Evaluate, batch: Transitions, rules: Rules, clock: StageClock
) -> DQNLoss:
    """How wrong the network's values are, and the loss to minimise."""
    with torch.no_grad():
        after = _next_values(network, target_network, batch, rules)
        targets = batch.returns + batch.factors * after
    clock.lap("targets")
    logits, positions = network(batch.observation)
    values = chosen_values(logits, positions, batch.is_legal, batch.actions, rules.is_dueling)
    losses = torch.nn.functional.huber_loss(values, targets, reduction="none", delta=rules.huber_delta)
    loss = (batch.weights * losses).mean(-1)
    clock.lap("forward")
    values = values.detach()
    errors = values - targets
    numbers = [loss.detach(), errors.abs().mean(-1), values.mean(-1), targets.mean(-1)]
    return DQNLoss(loss, errors, torch.stack(numbers, -1))


def _next_values(network: Evaluate, target_network: Evaluate, batch: Transitions, rules: Rules) -> Tensor:
    """The value of the best legal action, by the target network."""
    observation, is_legal = batch.next_observation, batch.is_next_legal
    logits, positions = target_network(observation)
    judged = network(observation)[0] if rules.is_double else logits
    # the best logit is the best value, dueling or not
    best = judged.masked_fill(~is_legal, -torch.inf).argmax(-1)
    values = chosen_values(logits, positions, is_legal, best, rules.is_dueling)
    # where a limit ended the game, no action may be legal any more
    otherwise = positions if rules.is_dueling else logits.amax(-1)
    return torch.where(is_legal.any(-1), values, otherwise)


def chosen_values(
    logits: Tensor, values: Tensor, is_legal: Tensor, actions: Tensor, is_dueling: bool
) -> Tensor:
    """The value [..., sample] of one action each, by a network's outputs.

    A dueling network's logits are advantages: the mean of the legal ones is taken off (Wang 2016, eq. 9).
    """
    chosen = logits.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    if not is_dueling:
        return chosen
    mean = (logits * is_legal).sum(-1) / is_legal.sum(-1).clamp(min=1)
    return values + chosen - mean
