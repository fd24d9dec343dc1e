"""A multilayer perceptron over the flattened observation."""

from pydantic import Field, PositiveInt
from torch import Tensor, nn

from senju.config import Part
from senju.models.heads import PolicyAndValue, scaled_orthogonal
from senju.models.model import Model


class MlpConfig(Part):
    """Settings of the `mlp` model."""

    hidden: tuple[PositiveInt, ...] = Field(
        (256, 256), min_length=1, description="Width of each hidden layer."
    )


class Mlp(Model):
    """Linear layers with ReLU, then policy and value from the same features."""

    Config = MlpConfig

    def __init__(self, observation_shape: tuple[int, ...], num_actions: int, config: Part) -> None:
        super().__init__(observation_shape, num_actions, config)
        assert isinstance(config, MlpConfig)
        layers: list[nn.Module] = [nn.Flatten()]
        width = 1
        for size in observation_shape:
            width *= size
        for next_width in config.hidden:
            linear = nn.Linear(width, next_width)
            scaled_orthogonal(linear)
            layers += [linear, nn.ReLU(inplace=True)]
            width = next_width
        self.body = nn.Sequential(*layers)
        self.head = PolicyAndValue(width, num_actions)

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and value of a batch of observations."""
        return self.head.split(self.body(observation))
