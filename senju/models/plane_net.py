"""A residual network over planes whose policy head has planes too, for games with moves to squares."""

import torch
from pydantic import Field
from torch import Tensor, nn

from senju.config import Part
from senju.errors import ModelError
from senju.models.heads import require_planes, scaled_orthogonal
from senju.models.model import Model
from senju.models.resnet import ResidualBlock


class PlaneNetConfig(Part):
    """Settings of the `plane_net` model."""

    channels: int = Field(32, ge=4, le=1024, description="Channels of the convolutions.")
    blocks: int = Field(2, ge=0, le=100, description="Residual blocks, two convolutions each.")
    squeeze: int = Field(0, ge=0, le=64, description="Squeeze-and-excitation ratio; 0: without.")
    value_planes: int = Field(16, ge=1, le=64, description="Channels of the value head.")
    value_width: int = Field(64, ge=1, le=4096, description="Width of the value head's hidden layer.")


class PlaneNet(Model):
    """A 1×1 convolution, residual blocks, and one plane of logits per kind of move.

    The logit of action `kind * height * width + square` is at that square of that kind's plane, so all
    squares share the weights of a kind of move.

    The input is replaced by its square root: 0 and 1 stay the same, 16 becomes 4, so that planes of large
    counts do not dominate planes of bits. This loses no information, and rounds equally on every machine.
    """

    Config = PlaneNetConfig

    def __init__(self, observation_shape: tuple[int, ...], num_actions: int, config: Part) -> None:
        super().__init__(observation_shape, num_actions, config)
        assert isinstance(config, PlaneNetConfig)
        kinds = _count_kinds(observation_shape, num_actions)
        planes, height, width = observation_shape
        channels = config.channels
        # 1×1: a 3×3 stem over many input planes would take as long as a block
        self.stem = nn.Conv2d(planes, channels, 1)
        self.place = nn.Parameter(torch.zeros(channels, height, width))  # a bias per square
        self.blocks = nn.Sequential(*(ResidualBlock(channels, config.squeeze) for _ in range(config.blocks)))
        self.policy = nn.Conv2d(channels, kinds, 1)
        self.value_planes = nn.Conv2d(channels, config.value_planes, 1)
        self.value_hidden = nn.Linear(config.value_planes * height * width, config.value_width)
        self.value = nn.Linear(config.value_width, 1)
        for layer in (self.stem, self.value_planes, self.value_hidden):
            scaled_orthogonal(layer)
        scaled_orthogonal(self.policy, gain=0.01)  # close to uniform, so that early games explore
        scaled_orthogonal(self.value, gain=1.0)

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        relu = nn.functional.relu_  # in place: a tenth faster
        signals = observation.abs().sqrt_().copysign_(observation)
        signals = signals.contiguous(memory_format=torch.channels_last)  # a quarter faster on a CPU
        planes = self.stem(signals)
        planes = self.blocks(
            relu(planes + self.place.to(planes.dtype))
        )  # rounded like the planes, if they are
        features = relu(self.value_hidden(relu(self.value_planes(planes)).flatten(1)))
        return self.policy(planes).flatten(1), self.value(features).squeeze(1)


def _count_kinds(observation_shape: tuple[int, ...], num_actions: int) -> int:
    """The number of planes of logits."""
    _, height, width = require_planes("plane_net", observation_shape)
    if num_actions % (height * width):
        raise ModelError(
            f"the model 'plane_net' needs a multiple of {height}×{width} = {height * width} actions, "
            f"not {num_actions}; try the model 'resnet'"
        )
    return num_actions // (height * width)
