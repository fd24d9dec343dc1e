"""Several models of the same shape as one: their weights form one matrix, and one computation serves all."""

import copy
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call, vmap
from torch.overrides import TorchFunctionMode

from senju.models.mlp import Mlp
from senju.models.model import Model

logger = logging.getLogger(__name__)

Leaves = dict[str, Tensor]  # parameters of some models, [model, *shape] each


class ParameterSlice(NamedTuple):
    """The position of a parameter in a row of the matrix."""

    start: int
    end: int
    shape: torch.Size
    is_trained: bool


class ModelStack:
    """The weights of models with equal layers, as `weights` [model, number].

    The models' own parameters and buffers become views of this memory: each model keeps its weights, and a
    change to the model changes the stack.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        self.models = list(models)
        self.slices = _slices(self.models[0])
        width = max((part.end for part in self.slices.values()), default=0)
        first = next(self.models[0].parameters())
        self.weights = torch.empty(len(self.models), width, dtype=first.dtype, device=first.device)
        named = [dict(model.named_buffers()) for model in self.models]
        self.buffers = {name: torch.stack([buffers[name] for buffers in named]) for name in named[0]}
        self._rows: dict[tuple[int, ...], Tensor] = {}
        for row, model in enumerate(self.models):
            for name, parameter in model.named_parameters():
                view = self.view(self.weights[row], name)
                parameter.data = view.copy_(parameter.detach())
            for name, buffer in model.named_buffers():
                buffer.data = self.buffers[name][row]

    def view(self, numbers: Tensor, name: str) -> Tensor:
        """A parameter's slice of [..., number], in the parameter's shape."""
        start, end, shape, _ = self.slices[name]
        return numbers[..., start:end].view(*numbers.shape[:-1], *shape)

    def index(self, rows: Sequence[int]) -> Tensor:
        """Row indices as a tensor on the device, cached."""
        key = tuple(rows)
        if key not in self._rows:
            self._rows[key] = torch.tensor(key, device=self.weights.device)
        return self._rows[key]

    def chosen(self, numbers: Tensor, rows: Sequence[int]) -> Tensor:
        """Some rows (in ascending order): a view if they are adjacent, else a copy."""
        if rows[-1] - rows[0] + 1 == len(rows):
            return numbers[rows[0] : rows[-1] + 1]
        return numbers.index_select(0, self.index(rows))

    def leaves(self, rows: Sequence[int]) -> Leaves:
        """The parameters of some models, as leaves for autograd."""
        weights = self.chosen(self.weights, rows).detach()
        return {
            name: self.view(weights, name).detach().requires_grad_(part.is_trained)
            for name, part in self.slices.items()
        }

    def __call__(self, leaves: Leaves, rows: Sequence[int], observation: Tensor) -> tuple[Tensor, Tensor]:
        """[model, sample, *observation_shape] -> logits [model, sample, action], values [model, sample]."""
        if type(self.models[0]) is Mlp:
            return _mlp(leaves, observation)
        buffers = {name: self.chosen(buffer, rows) for name, buffer in self.buffers.items()}
        with _AnyLayout():
            logits, values = vmap(self._one)(leaves, buffers, observation)
        for name, buffer in buffers.items():  # a model may update its buffers
            if buffer.untyped_storage().data_ptr() != self.buffers[name].untyped_storage().data_ptr():
                self.buffers[name].index_copy_(0, self.index(rows), buffer)
        return logits, values

    def _one(self, leaves: Leaves, buffers: Leaves, observation: Tensor) -> tuple[Tensor, Tensor]:
        output: tuple[Tensor, Tensor] = functional_call(self.models[0], (leaves, buffers), (observation,))
        return output

    def blocks(self) -> NDArray[np.uint8] | None:
        """[model, byte], as each model's `WeightBlock` reads it; None if that holds more than parameters."""
        if list(self.models[0].state_dict()) != list(self.slices):
            return None
        return self.weights.detach().cpu().clone().view(torch.uint8).numpy()

    def gradient(self, leaves: Leaves, outputs: Sequence[Tensor], slopes: Sequence[Tensor] | None) -> Tensor:
        """[model, number]: the gradient of outputs by their leaves; 0 where a parameter is frozen."""
        trained = [leaf for leaf in leaves.values() if leaf.requires_grad]
        found = iter(torch.autograd.grad(outputs, trained, slopes, materialize_grads=True))
        parts = [next(found) if leaf.requires_grad else torch.zeros_like(leaf) for leaf in leaves.values()]
        return torch.cat([part.reshape(len(part), -1) for part in parts], 1)


class _AnyLayout(TorchFunctionMode):
    """Ignores requested memory layouts, which `vmap` does not support; the results are the same."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function is torch.Tensor.contiguous:
            return function(args[0])
        return function(*args, **(kwargs or {}))


def _slices(model: Model) -> dict[str, ParameterSlice]:
    slices, start = {}, 0
    for name, parameter in model.named_parameters():
        end = start + parameter.numel()
        slices[name] = ParameterSlice(start, end, parameter.shape, parameter.requires_grad)
        start = end
    return slices


def _mlp(leaves: Leaves, observation: Tensor) -> tuple[Tensor, Tensor]:
    """`Mlp.forward` for a stack, written out: `vmap` has ten times the overhead.

    The sample dimension comes last. Then the gradients have the weights' own layout without a transpose,
    and learning takes two thirds of the time.
    """
    features, tensors = observation.flatten(2).transpose(1, 2), list(leaves.values())
    *hidden, (weight, bias) = zip(tensors[::2], tensors[1::2], strict=True)
    for inner, inner_bias in hidden:
        features = torch.baddbmm(inner_bias.unsqueeze(2), inner, features).relu_()
    output = torch.baddbmm(bias.unsqueeze(2), weight, features)
    return output[:, :-1].transpose(1, 2), output[:, -1]


def have_one_shape(models: Sequence[Model]) -> bool:
    """Whether all models are of one class, with parameters of the same names, shapes and types."""
    forms = [
        [(type(model), name, t.requires_grad, t.shape, t.dtype) for name, t in model.named_parameters()]
        for model in models
    ]
    return all(form == forms[0] for form in forms)


def can_stack(models: Sequence[Model], observation_shape: tuple[int, ...]) -> bool:
    """Whether a stack of these models computes the same as the models."""
    first, copies = models[0], [copy.deepcopy(model) for model in models[:2]]
    if not have_one_shape(models) or len({parameter.dtype for parameter in first.parameters()}) != 1:
        return False
    generator, device = torch.Generator().manual_seed(0), next(first.parameters()).device
    seen = torch.rand(len(copies), 2, *observation_shape, generator=generator).to(device)
    expected = [model(batch) for model, batch in zip(copies, seen, strict=True)]
    stack, rows = ModelStack(copies), range(len(copies))
    leaves = stack.leaves(rows)
    try:
        found = stack(leaves, rows, seen)
        stack.gradient(leaves, [part.sum() for part in found], None)
    except RuntimeError as error:  # from vmap, for example if a model branches on computed values
        logger.info("%s cannot be stacked: %s", type(first).__name__, error)
        return False
    return all(
        torch.allclose(part[row], other, rtol=1e-4, atol=1e-5)
        for row, outputs in enumerate(expected)
        for part, other in zip(found, outputs, strict=True)
    )
