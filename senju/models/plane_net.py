"""A residual tower over planes whose policy is read off planes too: for games of moves to squares."""

import torch
from pydantic import Field
from torch import Tensor, nn

from senju.config import Part
from senju.errors import ModelError
from senju.models.heads import scaled_orthogonal
from senju.models.model import Model
from senju.models.resnet import ResidualBlock


class PlaneNetConfig(Part):
    """Settings of the `plane_net` model."""

    channels: int = Field(32, ge=4, le=1024, description="Planes inside the network.")
    blocks: int = Field(2, ge=0, le=100, description="Residual blocks, two convolutions each.")
    squeeze: int = Field(
        0, ge=0, le=64, description="Squeeze-and-excitation: channels per squeezed one; 0: without."
    )
    value_planes: int = Field(16, ge=1, le=64, description="Planes that the value is computed from.")
    value_width: int = Field(64, ge=1, le=4096, description="Features before the value.")


class PlaneNet(Model):
    """Squares seen one by one, residual blocks that connect them, and one plane of logits per kind of move.

    Action `kind * height * width + square` is the logit at that square of that kind's plane, so that
    all squares share what is learned of a kind of move.

    Counts among the input's bytes enter by their square root: 0 and 1 stay what they are, 16 becomes 4,
    and a plane of large numbers does not drown one of bits. It loses nothing, and it rounds alike on
    every machine.
    """

    Config = PlaneNetConfig

    def __init__(self, observation_shape: tuple[int, ...], num_actions: int, config: Part) -> None:
        super().__init__(observation_shape, num_actions, config)
        assert isinstance(config, PlaneNetConfig)
        kinds = _count_kinds(observation_shape, num_actions)
        planes, height, width = observation_shape
        channels = config.channels
        # 1×1: most of the input is one bit per square, and a 3×3 stem over many planes would take as
        # long as a block
        self.stem = nn.Conv2d(planes, channels, 1)
        self.place = nn.Parameter(torch.zeros(channels, height, width))  # convolutions know no squares
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
        """Logits and value of a batch of observations."""
        relu = nn.functional.relu_  # in place: a tenth faster
        signals = observation.abs().sqrt_().copysign_(observation)
        signals = signals.contiguous(memory_format=torch.channels_last)  # learns a quarter faster on a CPU
        planes = self.blocks(relu(self.stem(signals) + self.place))
        features = relu(self.value_hidden(relu(self.value_planes(planes)).flatten(1)))
        return self.policy(planes).flatten(1), self.value(features).squeeze(1)


def _count_kinds(observation_shape: tuple[int, ...], num_actions: int) -> int:
    """How many planes of logits there are."""
    if len(observation_shape) != 3:
        raise ModelError(
            f"the model 'plane_net' needs planes [plane, height, width], the observation has "
            f"shape {observation_shape}; try the model 'mlp'"
        )
    _, height, width = observation_shape
    if num_actions % (height * width):
        raise ModelError(
            f"the model 'plane_net' reads its policy off planes of {height}×{width} = {height * width} "
            f"squares; {num_actions} actions are no multiple of that; try the model 'resnet'"
        )
    return num_actions // (height * width)
