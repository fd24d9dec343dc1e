"""The network that a gradient step changes: one model with its optimizer, or rows of a stack of models.

The loss of an algorithm is written for both. A stack's tensors have one more axis, which comes first.

    logits, values = network(observation)
    network.backward(loss)
    gradient_norm = network.descend(max_norm=0.5)
    target.follow(network, share=0.01)
"""

from collections.abc import Sequence
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

    def tensors(self) -> list[Tensor]:
        """Everything that a step changes or reads from its settings: weights, buffers, moments, rates."""
        moments = [self._optimizer.state.get(parameter, {}) for parameter in self._parameters]
        rates = [group["lr"] for group in self._optimizer.param_groups]
        return [
            *self.model.parameters(),
            *self.model.buffers(),
            *(tensor for each in moments for tensor in each.values()),
            *(rate for rate in rates if isinstance(rate, Tensor)),
        ]

    def prepare(self) -> None:
        """Forget what a failed step may have left."""
        self._optimizer.zero_grad(set_to_none=True)

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
        self._leaves: Leaves | None = None

    def prepare(self) -> None:
        """Make the leaves of differentiation; a compiled loss cannot make them itself."""
        self._leaves = self._stack.leaves(self._rows)

    def __call__(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [row, sample, action] and values [row, sample]."""
        if self._leaves is None:
            self.prepare()
        assert self._leaves is not None
        return self._stack(self._leaves, self._rows, observation)

    def backward(self, loss: Loss) -> None:
        """Compute the gradients."""
        assert self._leaves is not None, "the loss was computed with them"
        self._gradient = self._stack.gradient(self._leaves, loss.outputs, loss.slopes)  # [row, number]

    def descend(self, max_norm: float) -> Tensor:
        """Take an Adam step along each gradient, clipped to `max_norm`; return the norms [row]."""
        return self._adam.step(self._rows, self._gradient, max_norm)

    def tensors(self) -> list[Tensor]:
        """Everything of the stack that steps change or read from their settings."""
        return [self._stack.weights, *self._stack.buffers.values(), *self._adam.tensors()]

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
        # on a GPU, the learning rates are numbers on the device too, where captured steps read them
        self._rates = _joined_rates(optimizers, networks.weights.device) if networks.weights.is_cuda else None
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

    def tensors(self) -> list[Tensor]:
        """The moments, the numbers of steps, and the learning rates on the device."""
        return [*self._moments.values(), self._steps, *([] if self._rates is None else [self._rates])]

    def step(self, rows: Sequence[int], gradient: Tensor, max_norm: float) -> Tensor:
        """Follow [row, number] gradients, each clipped by its own norm; return the norms [row]."""
        norms: Tensor = torch.linalg.vector_norm(gradient, dim=1)
        gradient.mul_((max_norm / (norms + 1e-6)).clamp(max=1.0).unsqueeze(1))  # as in clip_grad_norm_
        if self._rates is not None:
            self._step_on_device(rows, gradient, self._rates)
            return norms
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

    def _step_on_device(self, rows: Sequence[int], gradient: Tensor, rates: Tensor) -> None:
        """The same without a look at the rates; one computation, whichever rates the rows have."""
        wholes = (self._networks.weights, *self._moments.values(), self._steps[:, :1])
        chosen = [self._networks.chosen(whole, rows) for whole in wholes]
        own_rates = self._networks.chosen(rates, rows).unsqueeze(1)
        adam_step(AdamRows(*chosen), gradient, own_rates, self._settings["betas"], self._settings["eps"])
        for whole, part in zip(wholes, chosen, strict=True):
            if part.untyped_storage().data_ptr() != whole.untyped_storage().data_ptr():  # a copy
                whole.index_copy_(0, self._networks.index(rows), part)


class AdamRows(NamedTuple):
    """What Adam changes, for some rows."""

    weights: Tensor  # [row, number]
    first_moments: Tensor
    second_moments: Tensor
    steps: Tensor  # [row, 1]


@torch.no_grad()
def adam_step(
    rows: AdamRows, gradient: Tensor, rates: Tensor, betas: tuple[float, float], epsilon: float
) -> None:
    """Adam (Kingma 2015, algorithm 1) in place, with a learning rate [row, 1] for each row."""
    weights, first, second, steps = rows
    steps.add_(1.0)
    first.lerp_(gradient, 1.0 - betas[0])
    second.mul_(betas[1]).addcmul_(gradient, gradient, value=1.0 - betas[1])
    first_share, second_share = (1.0 - beta ** steps.double() for beta in betas)
    deviation = second.sqrt().div_(second_share.sqrt().float()).add_(epsilon)
    weights.sub_(first * (rates.double() / first_share).float() / deviation)


def _joined_rates(optimizers: Sequence[torch.optim.Adam], device: torch.device) -> Tensor:
    """The learning rates as one tensor [optimizer]; each optimizer's own becomes a part of it."""
    groups = [optimizer.param_groups[0] for optimizer in optimizers]
    rates = torch.stack(
        [torch.as_tensor(group["lr"], dtype=torch.float32, device=device) for group in groups]
    )
    for group, rate in zip(groups, rates, strict=True):
        group["lr"] = rate
    return rates
