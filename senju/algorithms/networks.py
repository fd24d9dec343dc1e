"""The network that a gradient step changes: one model with its optimizer, or rows of a stack of models.

The loss of an algorithm is written for both. A stack's tensors have one more axis, which comes first.

    logits, values = network(observation)
    network.backward(loss)
    gradient_norm = network.descend(max_norm=0.5)
    target.follow(network, share=0.01)
"""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from senju.models.model import Model
from senju.models.stacked import Leaves, ModelStack


class Loss(NamedTuple):
    """Where differentiation begins: `torch.autograd.backward(outputs, slopes)`."""

    outputs: tuple[Tensor, ...]
    slopes: tuple[Tensor, ...] | None  # None: the output is the loss itself
    report: Tensor  # [..., number], what the algorithm reports of a step
    errors: Tensor | None = None  # [..., sample], only where priorities need them

    def backward(self) -> None:
        """Send the gradient into the graph."""
        torch.autograd.backward(self.outputs, self.slopes)


class SingleNetwork:
    """One model and its optimizer."""

    def __init__(self, model: Model, optimizer: torch.optim.Optimizer) -> None:
        self.model, self._optimizer = model, optimizer
        self._parameters = [p for p in model.parameters() if p.requires_grad]

    def __call__(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [sample, action] and values [sample]."""
        output: tuple[Tensor, Tensor] = self.model(observation)
        return output

    def backward(self, loss: Loss) -> None:
        """Compute the gradient."""
        loss.backward()

    def descend(self, max_norm: float) -> Tensor:
        """Take an Adam step along the gradient, clipped to `max_norm`; return the gradient's norm."""
        norm = torch.nn.utils.clip_grad_norm_(self._parameters, max_norm, foreach=True)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return norm

    @torch.no_grad()
    def follow(self, other: "SingleNetwork", share: float) -> None:
        """Move a target's weights towards another network's by a share (Polyak); copy its buffers."""
        for target, parameter in zip(self.model.parameters(), other.model.parameters(), strict=True):
            target.lerp_(parameter, share) if share < 1 else target.copy_(parameter)
        for own, buffer in zip(self.model.buffers(), other.model.buffers(), strict=True):
            own.copy_(buffer)  # counters and tables have no average


class StackedNetwork:
    """Some rows of a stack, for one gradient step."""

    def __init__(self, stack: ModelStack, rows: Sequence[int], adam: "StackedAdam") -> None:
        self._stack, self._rows, self._adam = stack, rows, adam

    @cached_property
    def _leaves(self) -> Leaves:
        return self._stack.leaves(self._rows)

    def __call__(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [row, sample, action] and values [row, sample]."""
        return self._stack(self._leaves, self._rows, observation)

    def backward(self, loss: Loss) -> None:
        """Compute the gradients."""
        self._gradient = self._stack.gradient(self._leaves, loss.outputs, loss.slopes)  # [row, number]

    def descend(self, max_norm: float) -> Tensor:
        """Take an Adam step along each gradient, clipped to `max_norm`; return the norms [row]."""
        return self._adam.step(self._rows, self._gradient, max_norm)

    def follow(self, other: "StackedNetwork", share: float) -> None:
        """Move these rows of a target towards another stack's by a share (Polyak); copy their buffers."""
        target, source, are_all = self._stack, other._stack, len(self._rows) == len(self._stack.models)
        rows: list[int | slice] = [slice(None)] if are_all else list(self._rows)
        for row in rows:
            weights = target.weights[row]
            weights.lerp_(source.weights[row], share) if share < 1 else weights.copy_(source.weights[row])
            for name, buffer in target.buffers.items():
                buffer[row].copy_(source.buffers[name][row])


Network = SingleNetwork | StackedNetwork


class StackedAdam:
    """Adam for a stack of networks: one fused step over the rows of all that learn.

    The moments of all learners are matrices like the weights'. The states of the learners' own optimizers
    become views of these, so that a learner can be saved, or take steps of its own, as if it were alone.
    """

    def __init__(self, networks: ModelStack, optimizers: Sequence[torch.optim.Adam]) -> None:
        self._networks, self._optimizers = networks, optimizers
        self._names = [name for name, part in networks.slices.items() if part.is_trained]
        self._moments = {kind: torch.zeros_like(networks.weights) for kind in ("exp_avg", "exp_avg_sq")}
        # each parameter counts its own steps; all of a row are equal, and Adam itself counts in the first
        self._steps = torch.zeros(len(optimizers), len(self._names), device=networks.weights.device)
        self._rows = [nn.Parameter(row) for row in networks.weights]
        self._adam = torch.optim.Adam(self._rows, fused=True)
        (group,) = optimizers[0].param_groups  # all have its settings, except for the learning rate
        self._settings = {name: value for name, value in group.items() if name not in ("params", "lr")}
        for row, parameter in enumerate(self._rows):
            moments = {kind: matrix[row] for kind, matrix in self._moments.items()}
            self._adam.state[parameter] = {"step": self._steps[row, 0], **moments}
        # the first parameter shows whether a learner's optimizer has these moments
        self._firsts = [
            (self._parameters(row)[0], self._views(row)[0]["exp_avg"].data_ptr())
            for row in range(len(optimizers))
        ]

    def take_over(self, rows: Sequence[int]) -> None:
        """If a learner's optimizer has other moments than these (a state was loaded), take them."""
        for row in rows:
            if self._is_known(row):
                continue
            state = self._optimizers[row].state
            with torch.no_grad():
                for view, parameter in zip(self._views(row), self._parameters(row), strict=True):
                    for kind, tensor in view.items():
                        tensor.copy_(state[parameter][kind]) if parameter in state else tensor.zero_()

    def hand_over(self, rows: Sequence[int]) -> None:
        """Give the current moments to the optimizers of learners that took steps."""
        self._steps.copy_(self._steps[:, :1].expand_as(self._steps).clone())
        for row in rows:
            if not self._is_known(row):
                state = self._optimizers[row].state
                state |= zip(self._parameters(row), self._views(row), strict=True)

    def _is_known(self, row: int) -> bool:
        """Whether the learner's optimizer has these moments; it has none before its first step."""
        parameter, address = self._firsts[row]
        known = self._optimizers[row].state.get(parameter, {})
        return "exp_avg" in known and known["exp_avg"].data_ptr() == address

    def _parameters(self, row: int) -> list[nn.Parameter]:
        model = self._networks.models[row]
        return [model.get_parameter(name) for name in self._names]

    def _views(self, row: int) -> list[dict[str, Tensor]]:
        """The state of a learner's own optimizer for each of its parameters."""
        return [
            {"step": self._steps[row, number]}
            | {kind: self._networks.view(matrix[row], name) for kind, matrix in self._moments.items()}
            for number, name in enumerate(self._names)
        ]

    def step(self, rows: Sequence[int], gradient: Tensor, max_norm: float) -> Tensor:
        """Follow [row, number] gradients, each clipped by its own norm; return the norms [row]."""
        norms: Tensor = torch.linalg.vector_norm(gradient, dim=1)
        gradient.mul_((max_norm / (norms + 1e-6)).clamp(max=1.0).unsqueeze(1))  # as in clip_grad_norm_
        by_rate: dict[float, list[nn.Parameter]] = {}
        for row, slope in zip(rows, gradient, strict=True):
            self._rows[row].grad = slope
            rate = float(self._optimizers[row].param_groups[0]["lr"])
            by_rate.setdefault(rate, []).append(self._rows[row])
        self._adam.param_groups[:] = [
            {**self._settings, "params": chosen, "lr": rate} for rate, chosen in by_rate.items()
        ]
        self._adam.step()
        self._adam.zero_grad(set_to_none=True)
        return norms
