"""Shared by learners with gradient steps: schedules, saved optimizers, and a check for divergence."""

import math
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from senju.errors import ModelError
from senju.models.model import Model

Schedule = Literal["constant", "linear", "cosine"]


def scheduled(rate: float, schedule: Schedule, final_share: float, done: float) -> float:
    """The learning rate after a share `done` of the run; it falls to `final_share` of the first.

    >>> scheduled(0.5, "linear", 0.5, 0.5)
    0.375
    """
    if schedule == "constant":
        return rate
    falls = {"linear": 1.0 - done, "cosine": 0.5 * (1.0 + math.cos(math.pi * done))}
    return rate * (final_share + (1.0 - final_share) * falls[schedule])


def saved_network(model: Model, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Copies of the weights (`model.…`) and of the optimizer's moments (`optimizer.…`)."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for name, parameter in model.named_parameters():
        moments = optimizer.state.get(parameter, {})
        tensors |= {f"optimizer.{name}.{kind}": tensor for kind, tensor in moments.items()}
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def load_weights(model: Model, tensors: Mapping[str, Tensor], prefix: str) -> None:
    """Write the weights whose names begin with `prefix` into a model, in place."""
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            tensor.copy_(tensors[f"{prefix}{name}"])


def load_network(
    model: Model, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], device: torch.device
) -> None:
    """Load the weights and moments that `saved_network` returned."""
    load_weights(model, tensors, "model.")
    optimizer.state.clear()  # a state saved before the first update has no moments
    for name, parameter in model.named_parameters():
        prefix = f"optimizer.{name}."
        moments = {
            key.removeprefix(prefix): tensor.to(device, copy=True)
            for key, tensor in tensors.items()
            if key.startswith(prefix)
        }
        if moments:
            optimizer.state[parameter] = moments


def refuse_divergence(version: int, metrics: Mapping[str, float]) -> None:
    """Raise an error if a metric is not a finite number."""
    wrong = [name for name, value in metrics.items() if not math.isfinite(value)]
    if wrong:
        raise ModelError(
            f"update {version}: {', '.join(wrong)} not finite: training has diverged; "
            "try a smaller learning_rate or max_gradient_norm"
        )


def load_optimizers() -> None:
    """Load what torch loads when it first makes an optimizer, which takes a second."""
    torch.optim.Adam([torch.zeros(1)])
