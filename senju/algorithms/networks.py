"""The network that a gradient step changes: one model with its optimizer, or rows of a stack of models.

The loss of an algorithm is written for both. A stack's tensors have one more axis, which comes first.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from senju.algorithms.stacked_adam import StackedAdam
from senju.models.model import Model
from senju.models.stacked import ModelStack


class Network(ABC):
    """What a gradient step does with a network.

    logits, values = network(observation)
    gradient_norm = network.descend([loss], None, max_norm=0.5)
    """

    @abstractmethod
    def __call__(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [..., sample, action] and values [..., sample]."""

    @abstractmethod
    def backward(self, outputs: Sequence[Tensor], slopes: Sequence[Tensor] | None) -> None:
        """Compute the gradient, as `torch.autograd.backward(outputs, slopes)` does."""

    @abstractmethod
    def descend(self, max_norm: float) -> Tensor:
        """Take an Adam step along the gradient, clipped to `max_norm`; return the gradient's norm [...]."""


class SingleNetwork(Network):
    """One model and its optimizer."""

    def __init__(self, model: Model, optimizer: torch.optim.Optimizer) -> None:
        self._model, self._optimizer = model, optimizer
        self._parameters = [p for p in model.parameters() if p.requires_grad]

    def __call__(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [sample, action] and values [sample]."""
        output: tuple[Tensor, Tensor] = self._model(observation)
        return output

    def backward(self, outputs: Sequence[Tensor], slopes: Sequence[Tensor] | None) -> None:
        """The gradient is added to the parameters' `grad`."""
        torch.autograd.backward(outputs, slopes)

    def descend(self, max_norm: float) -> Tensor:
        """One step of the model's own optimizer."""
        norm = torch.nn.utils.clip_grad_norm_(self._parameters, max_norm, foreach=True)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return norm


class StackedNetwork(Network):
    """Some rows of a stack, for one gradient step."""

    def __init__(self, stack: ModelStack, rows: Sequence[int], adam: StackedAdam | None = None) -> None:
        self._stack, self._rows, self._adam = stack, rows, adam
        self._leaves = stack.leaves(rows)

    def __call__(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [row, sample, action] and values [row, sample]."""
        return self._stack(self._leaves, self._rows, observation)

    def backward(self, outputs: Sequence[Tensor], slopes: Sequence[Tensor] | None) -> None:
        """The gradient [row, number] is kept for `descend`."""
        self._gradient = self._stack.gradient(self._leaves, outputs, slopes)

    def descend(self, max_norm: float) -> Tensor:
        """One fused step for all rows; each row's gradient is clipped by its own norm."""
        assert self._adam is not None, "a target network has no optimizer"
        return self._adam.step(self._rows, self._gradient, max_norm)
