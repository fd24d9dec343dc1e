"""Models whose outputs are known without computing: no rounding, whatever the batch's shape."""

import torch
from torch import Tensor, nn

from senju.config import Part
from senju.models.model import Model


class ReadsObservation(Model):
    """The same logits everywhere; the value spells the observation in base 16, as a fraction.

    Sixteenths of small whole numbers are exact in float32, so two positions that look different
    have different values, and the value identifies the position.
    """

    def __init__(self, observation_shape: tuple[int, ...], num_actions: int, config: Part) -> None:
        super().__init__(observation_shape, num_actions, config)
        self.preference = nn.Parameter(torch.zeros(num_actions))
        size = int(torch.tensor(observation_shape).prod())
        self.register_buffer("place_values", 16.0 ** -torch.arange(1.0, size + 1.0))

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        value = (observation.flatten(1) * self.place_values).sum(-1)
        return self.preference.expand(len(observation), -1), value
