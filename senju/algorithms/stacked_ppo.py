"""PPO learners of one kind as one."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from senju.algorithms.gradient_learner import Metrics
from senju.algorithms.learner_stack import Errors, LearnerStack
from senju.algorithms.ppo import PPO, Selection
from senju.algorithms.ppo_loss import Minibatch, Objective
from senju.collect.slots import Rollout
from senju.errors import SenjuError


class StackedPPO(LearnerStack[Selection]):
    """Policies of several learners, each learning from its own latest batch."""

    _learners: Sequence[PPO]

    def __init__(self, learners: Sequence[PPO], names: Sequence[str]) -> None:
        super().__init__(learners, names)
        self._batches: list[Minibatch] = []
        self._joined: Sequence[Tensor] = ()  # the columns of those batches, one batch after another

    def update(self, rollouts: Mapping[int, Sequence[Rollout]]) -> dict[int, Metrics]:
        """Train the learners of some rows; what they learned from is thrown away."""
        metrics = super().update(rollouts)
        self._batches, self._joined = [], ()
        return metrics

    def size_of(self, batch: Selection) -> int:
        """Decisions chosen."""
        return len(batch.indices)

    def step(self, rows: Sequence[int], batches: Sequence[Selection]) -> tuple[Tensor, Errors | None]:
        """As `PPO.step`, for all rows at once."""
        learner = self._learners[rows[0]]  # all have its settings
        minibatch = self._gathered(batches)
        self._clock.lap("gather")
        leaves = self.networks.leaves(rows)
        with learner.matrix_precision():
            logits, values = self.networks(leaves, rows, minibatch.observation.float())
        self._clock.lap("forward")
        objective = self._judged(rows, logits.float(), values.float(), minibatch)
        gradient = self.networks.gradient(leaves, objective.outputs, objective.slopes)
        self._clock.lap("backward")
        norms = self._adam.step(rows, gradient, learner.config.max_gradient_norm)
        self._clock.lap("optimise")
        return torch.cat([objective.report, norms.unsqueeze(1)], 1), None

    def _gathered(self, selections: Sequence[Selection]) -> Minibatch:
        """[row, sample, …]; batches are joined once for all steps that choose from them."""
        batches = [selection.batch for selection in selections]
        if not _are_same(self._batches, batches):
            self._batches = batches
            self._joined = [torch.cat(columns) for columns in zip(*batches, strict=True)]
        starts = np.cumsum([0, *(len(batch.actions) for batch in batches[:-1])]).tolist()
        chosen = [selection.indices + start for selection, start in zip(selections, starts, strict=True)]
        indices = torch.cat(chosen).to(batches[0].actions.device)
        shape = (len(selections), len(selections[0].indices))
        columns = (column.index_select(0, indices) for column in self._joined)
        return Minibatch(*(column.view(*shape, *column.shape[1:]) for column in columns))

    def _judged(self, rows: Sequence[int], logits: Tensor, values: Tensor, batch: Minibatch) -> Objective:
        judge, coefficients = self._learners[rows[0]].judge, self._learners[rows[0]].coefficients
        try:
            return judge(logits, values, batch, coefficients)
        except SenjuError:  # one of them cannot be judged: find out whose it is
            for place, row in enumerate(rows):
                own = Minibatch(*(column[place] for column in batch))
                with self._named(row):
                    judge(logits[place], values[place], own, coefficients)
            raise


def _are_same(some: Sequence[Minibatch], others: Sequence[Minibatch]) -> bool:
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))
