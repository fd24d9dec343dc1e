"""A residual convolutional network over planes."""

from pydantic import Field
from torch import Tensor, nn

from senju.config import Part
from senju.models.heads import PolicyAndValue, require_planes, scaled_orthogonal
from senju.models.model import Model


class ResNetConfig(Part):
    """Settings of the `resnet` model."""

    channels: int = Field(32, ge=4, le=1024, description="Channels of the convolutions.")
    blocks: int = Field(2, ge=1, le=100, description="Residual blocks, two convolutions each.")
    head_width: int = Field(128, ge=8, le=4096, description="Width of the layer before policy and value.")


class Excitation(nn.Module):
    """Scales each channel by a function of all channels' means (squeeze-and-excitation, Hu et al. 2018).

    It gives every square information about the whole board, while a 3×3 convolution sees the neighbours.
    """

    def __init__(self, channels: int, squeeze: int) -> None:
        super().__init__()
        width = max(1, channels // squeeze)
        self.squeeze, self.excite = nn.Linear(channels, width), nn.Linear(width, channels)
        scaled_orthogonal(self.squeeze)
        scaled_orthogonal(self.excite, gain=1.0)

    def forward(self, planes: Tensor) -> Tensor:
        squeezed = nn.functional.relu_(self.squeeze(planes.mean(dim=(2, 3))))
        weights: Tensor = self.excite(squeezed).sigmoid()
        return planes * weights[:, :, None, None]


class ResidualBlock(nn.Module):
    """Two 3×3 convolutions with a skip connection; with `squeeze`, channels are scaled before the addition.

    The second convolution starts at zero, so that a new block is the identity: this keeps deep networks
    stable without batch normalisation, which would differ between acting and learning.
    """

    def __init__(self, channels: int, squeeze: int = 0) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        scaled_orthogonal(self.first)
        nn.init.zeros_(self.second.weight)
        nn.init.zeros_(self.second.bias)  # type: ignore[arg-type]  # a Conv2d made above has one
        self.excitation = Excitation(channels, squeeze) if squeeze else nn.Identity()

    def forward(self, planes: Tensor) -> Tensor:
        change = self.excitation(self.second(nn.functional.relu_(self.first(planes))))
        return nn.functional.relu_(planes + change)


class ResNet(Model):
    """Convolution, residual blocks, one hidden layer, then policy and value."""

    Config = ResNetConfig

    def __init__(self, observation_shape: tuple[int, ...], num_actions: int, config: Part) -> None:
        super().__init__(observation_shape, num_actions, config)
        assert isinstance(config, ResNetConfig)
        planes, height, width = require_planes("resnet", observation_shape)
        self.stem = nn.Conv2d(planes, config.channels, 3, padding=1)
        self.blocks = nn.Sequential(*(ResidualBlock(config.channels) for _ in range(config.blocks)))
        self.hidden = nn.Linear(config.channels * height * width, config.head_width)
        self.head = PolicyAndValue(config.head_width, num_actions)
        scaled_orthogonal(self.stem)
        scaled_orthogonal(self.hidden)

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        planes = self.blocks(nn.functional.relu(self.stem(observation)))
        features = nn.functional.relu(self.hidden(planes.flatten(1)))
        return self.head.split(features)
