"""The Model contract: a network from observation to (logits, value), independent of games."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from senju.config import Part
from senju.errors import ModelError
from senju.machine import math_threads


class ModelConfig(Part):
    """The settings of a model without settings."""


class Model(nn.Module, ABC):
    """A policy and a value for an observation.

    A model must compute the same in training mode and in evaluation mode: dropout and batch
    normalisation are refused, since PPO would compare two different policies.
    """

    Config: ClassVar[type[Part]] = ModelConfig
    settings_text = ""  # the settings that it was made with

    def __init__(self, observation_shape: tuple[int, ...], num_actions: int, config: Part) -> None:
        super().__init__()

    @abstractmethod
    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """float32 [batch, *observation_shape] -> logits [batch, num_actions], value [batch]."""


def settings_of(model: Model) -> str:
    """The settings of a model, to tell models of equal weights apart; its layers if it was made otherwise."""
    return model.settings_text or repr(model)


def build_model(
    cls: type[Model], observation_shape: tuple[int, ...], num_actions: int, config: Part, seed: int
) -> Model:
    """Make a model with initial weights drawn from `seed` alone, and check the contract."""
    # one thread: orthogonal initialisation rounds differently with more
    with math_threads(1), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # only the CPU's: fork_rng does not restore the GPUs'
        model = cls(observation_shape, num_actions, config)
    model.settings_text = config.model_dump_json()
    _refuse_mode_dependent_layers(model)
    _check_shapes(model, observation_shape, num_actions)
    _check_modes(model, observation_shape)
    return model


def _refuse_mode_dependent_layers(model: Model) -> None:
    refused = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm)
    for name, module in model.named_modules():
        if isinstance(module, refused):
            raise ModelError(
                f"{type(model).__name__}.{name} is a {type(module).__name__}, which differs between training "
                "mode and evaluation mode; use LayerNorm or GroupNorm, or remove it"
            )


def _check_shapes(model: Model, observation_shape: tuple[int, ...], num_actions: int) -> None:
    with torch.no_grad():
        output = model(torch.zeros(2, *observation_shape))
    expected = [(2, num_actions), (2,)]
    shapes = [tuple(part.shape) for part in output] if isinstance(output, tuple) else [type(output).__name__]
    if shapes != expected:
        raise ModelError(
            f"{type(model).__name__} returns {shapes} for 2 observations of shape {observation_shape}; "
            f"expected logits and value of shapes {expected}"
        )


def _check_modes(model: Model, observation_shape: tuple[int, ...]) -> None:
    """Compare the outputs in both modes, which finds functional dropout and running statistics."""
    batch = torch.rand(2, *observation_shape, generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        acting, learning = model.eval()(batch), model.train()(batch)
    for one, other in zip(acting, learning, strict=True):
        if not torch.allclose(one, other, equal_nan=True):
            raise ModelError(
                f"{type(model).__name__} computes different outputs in training mode and in evaluation mode; "
                "remove everything that depends on the mode"
            )
