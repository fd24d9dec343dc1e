"""Adam for a stack of networks: one fused step over the rows of all that learn."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from senju.models.stacked import ModelStack


class Optimised(Protocol):
    """A learner as its optimizer sees it."""

    optimizer: torch.optim.Adam

    @property
    def learning_rate(self) -> float:
        """The learning rate of the current update."""


class StackedAdam:
    """Adam's moments of all learners of a stack, as matrices like the weights'.

    What the learners' own optimizers know becomes views of these, so that a learner can be saved, or take
    steps of its own, as if it were alone.
    """

    def __init__(self, networks: ModelStack, learners: Sequence[Optimised]) -> None:
        self._networks, self._learners = networks, list(learners)
        self._names = [name for name, part in networks.slices.items() if part.is_trained]
        self._moments = {kind: torch.zeros_like(networks.weights) for kind in ("exp_avg", "exp_avg_sq")}
        # each parameter counts its own steps; all of a row are equal, and Adam itself counts in the first
        self._steps = torch.zeros(len(learners), len(self._names), device=networks.weights.device)
        self._rows = [nn.Parameter(row) for row in networks.weights]
        self._adam = torch.optim.Adam(self._rows, fused=True)
        (group,) = learners[0].optimizer.param_groups  # all have its settings, but for the learning rate
        self._settings = {name: value for name, value in group.items() if name not in ("params", "lr")}
        for row, parameter in enumerate(self._rows):
            moments = {kind: matrix[row] for kind, matrix in self._moments.items()}
            self._adam.state[parameter] = {"step": self._steps[row, 0], **moments}
        # by its first parameter it is told whether a learner's optimizer knows these moments
        self._firsts = [
            (self._parameters(row)[0], self._views(row)[0]["exp_avg"].data_ptr())
            for row in range(len(learners))
        ]

    def take_over(self, rows: Sequence[int]) -> None:
        """Where a learner's optimizer knows other moments than these (a state was loaded), take them."""
        for row in rows:
            if self._is_known(row):
                continue
            state = self._learners[row].optimizer.state
            with torch.no_grad():
                for view, parameter in zip(self._views(row), self._parameters(row), strict=True):
                    for kind, tensor in view.items():
                        tensor.copy_(state[parameter][kind]) if parameter in state else tensor.zero_()

    def hand_over(self, rows: Sequence[int]) -> None:
        """Let the optimizers of learners that took steps know the moments of now."""
        self._steps.copy_(self._steps[:, :1].expand_as(self._steps).clone())
        for row in rows:
            if not self._is_known(row):
                state = self._learners[row].optimizer.state
                state |= zip(self._parameters(row), self._views(row), strict=True)

    def _is_known(self, row: int) -> bool:
        """Whether the learner's optimizer knows these moments; it knows none before its first step."""
        parameter, address = self._firsts[row]
        known = self._learners[row].optimizer.state.get(parameter, {})
        return "exp_avg" in known and known["exp_avg"].data_ptr() == address

    def _parameters(self, row: int) -> list[nn.Parameter]:
        model = self._networks.models[row]
        return [model.get_parameter(name) for name in self._names]

    def _views(self, row: int) -> list[dict[str, Tensor]]:
        """What a learner's own optimizer knows of each of its parameters."""
        return [
            {"step": self._steps[row, number]}
            | {kind: self._networks.view(matrix[row], name) for kind, matrix in self._moments.items()}
            for number, name in enumerate(self._names)
        ]

    def step(self, rows: Sequence[int], gradient: Tensor, max_norm: float) -> Tensor:
        """Follow [row, number] gradients, each shortened where it is too long; return how long they were."""
        norms: Tensor = torch.linalg.vector_norm(gradient, dim=1)
        gradient.mul_((max_norm / (norms + 1e-6)).clamp(max=1.0).unsqueeze(1))  # as clip_grad_norm_ has it
        by_rate: dict[float, list[nn.Parameter]] = {}
        for row, slope in zip(rows, gradient, strict=True):
            self._rows[row].grad = slope
            by_rate.setdefault(self._learners[row].learning_rate, []).append(self._rows[row])
        self._adam.param_groups[:] = [
            {**self._settings, "params": chosen, "lr": rate} for rate, chosen in by_rate.items()
        ]
        self._adam.step()
        self._adam.zero_grad(set_to_none=True)
        return norms
