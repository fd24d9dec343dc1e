"""DQN learners of one kind as one."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from senju.algorithms.dqn import DQN
from senju.algorithms.dqn_loss import judge, transitions
from senju.algorithms.learner_stack import Errors, LearnerStack
from senju.algorithms.ring_reader import Sample
from senju.models.stacked import ModelStack


class StackedDQN(LearnerStack[Sample]):
    """Networks and targets of several learners, each drawing from its own replay."""

    _learners: Sequence[DQN]

    def __init__(self, learners: Sequence[DQN], names: Sequence[str]) -> None:
        super().__init__(learners, names)
        self._targets = ModelStack([learner.target for learner in learners])

    def size_of(self, batch: Sample) -> int:
        """Decisions drawn."""
        return len(batch.frames)

    def step(self, rows: Sequence[int], batches: Sequence[Sample]) -> tuple[Tensor, Errors | None]:
        """As `DQN.step`, for all rows at once."""
        learner = self._learners[rows[0]]  # all have its settings
        batch = transitions(batches, learner.num_actions, learner.setup.device)
        self._clock.lap("gather")
        leaves = self.networks.leaves(rows)
        network = partial(self.networks, leaves, rows)
        target = partial(self._targets, self._targets.leaves(rows), rows)
        judged = judge(network, target, batch, learner.rules, self._clock)
        gradient = self.networks.gradient(leaves, [judged.losses.sum()], None)
        self._clock.lap("backward")
        norms = self._adam.step(rows, gradient, learner.config.max_gradient_norm)
        self._move_targets(rows)
        errors = judged.errors.cpu().numpy() if learner.config.prioritised else None
        self._clock.lap("optimise")
        return torch.cat([judged.report, norms.unsqueeze(1)], 1), errors

    def _move_targets(self, rows: Sequence[int]) -> None:
        share = self._learners[rows[0]].config.target_averaging
        moved = rows if share else [row for row in rows if self._learners[row].is_target_due]
        if not moved:
            return
        chosen: list[int | slice] = [slice(None)] if len(moved) == len(self._learners) else list(moved)
        targets, networks = self._targets, self.networks
        for some in chosen:
            if share:
                targets.weights[some].lerp_(networks.weights[some], share)
            else:
                targets.weights[some].copy_(networks.weights[some])
            for name, buffer in targets.buffers.items():
                buffer[some].copy_(networks.buffers[name][some])
