"""A multilayer perceptron over the flattened observation."""

import math
from collections.abc import Iterable
from itertools import pairwise

from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from senju.config import Part, shown
from senju.errors import ConfigError
from senju.models.heads import PolicyAndValue, scaled_orthogonal
from senju.models.model import Model

_MAX_WEIGHTS = 2**28  # a GiB of float32


class MlpConfig(Part):
    """Settings of the `mlp` model."""

    hidden: tuple[PositiveInt, ...] = Field(
        (256, 256), min_length=1, max_length=256, description="Layer widths."
    )

    @model_validator(mode="after")
    def _fits_into_memory(self) -> "MlpConfig":
        num_weights = sum(math.prod(pair) for pair in pairwise((1, *self.hidden)))
        if num_weights > _MAX_WEIGHTS:
            raise ConfigError(
                f"model.hidden={shown(list(self.hidden))} has {shown(num_weights)} weights; "
                f"expected at most {_MAX_WEIGHTS}"
            )
        return self


class Mlp(Model):
    """Linear layers with ReLU, then policy and value from the same features."""

    Config = MlpConfig

    def __init__(self, observation_shape: tuple[int, ...], num_actions: int, config: Part) -> None:
        super().__init__(observation_shape, num_actions, config)
        assert isinstance(config, MlpConfig)
        widths = (math.prod(observation_shape), *config.hidden)
        layers = [nn.Linear(*pair) for pair in pairwise(widths)]
        for layer in layers:
            scaled_orthogonal(layer)
        self.layers: Iterable[nn.Linear] = nn.ModuleList(layers)  # type: ignore[assignment]  # it is one
        self.head = PolicyAndValue(widths[-1], num_actions)

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        features = observation.flatten(1)
        for layer in self.layers:  # functional: calling a module costs microseconds
            features = nn.functional.relu_(nn.functional.linear(features, layer.weight, layer.bias))
        return self.head.split(features)
