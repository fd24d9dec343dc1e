"""Shared parts of the built-in models: initial weights, and the head for policy and value."""

import math

import torch
from torch import Tensor, nn

from senju.errors import ModelError


def scaled_orthogonal(layer: nn.Linear | nn.Conv2d, gain: float = math.sqrt(2.0)) -> None:
    """Orthogonal weights, zero bias; a gain of √2 keeps the scale through a ReLU."""
    nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def require_planes(model: str, observation_shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of observations that are planes; ModelError for others."""
    if len(observation_shape) != 3:
        raise ModelError(
            f"the model {model!r} needs observations [plane, height, width], not of shape "
            f"{observation_shape}; try the model 'mlp'"
        )
    return observation_shape


class PolicyAndValue(nn.Linear):
    """Logits and value from one matrix product; the last output is the value.

    The policy starts close to uniform (gain 0.01), so that early games explore.
    """

    def __init__(self, num_features: int, num_actions: int) -> None:
        super().__init__(num_features, num_actions + 1)
        nn.init.orthogonal_(self.weight, 1.0)
        with torch.no_grad():
            self.weight[:-1] *= 0.01
        nn.init.zeros_(self.bias)

    def split(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [batch, actions] and value [batch]."""
        output = nn.functional.linear(features, self.weight, self.bias)
        return output[:, :-1], output[:, -1]
