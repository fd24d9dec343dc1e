"""A learner by gradient descent: it says what to learn from, whoever drives it takes the steps."""

from abc import abstractmethod
from collections.abc import Generator, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from senju.algorithms.learner import Learner, LearnerSetup
from senju.algorithms.optimising import Schedule, scheduled, set_learning_rate
from senju.collect.slots import Rollout
from senju.models.model import Model
from senju.models.weights import WeightBlock, Weights
from senju.timing import StageClock

Metrics = dict[str, float]
BatchT = TypeVar("BatchT")


class Descent(Protocol):
    """The settings that every learner by gradient descent has."""

    @property
    def learning_rate(self) -> float:
        """Adam's step size at the start."""

    @property
    def schedule(self) -> Schedule:
        """How it falls."""

    @property
    def final_learning_rate(self) -> float:
        """Where it falls to, as a share of the first."""

    @property
    def max_gradient_norm(self) -> float:
        """Gradients longer than this are shortened to it."""


class Taken(NamedTuple):
    """What a gradient step found."""

    report: Tensor  # [number], where it was computed: nobody waits for the device
    errors: NDArray[np.float32] | None = None  # of the batch's decisions, where they are asked for


class GradientLearner(Learner, Generic[BatchT]):
    """A learner that takes gradient steps, one batch each.

    What it learns from, and for how long, is `learning`. How a step is taken is left to whoever drives
    it: `update` takes each by `step`, and a stack takes those of several learners as one.
    """

    def __init__(self, model: Model, descent: Descent, setup: LearnerSetup) -> None:
        self.setup, self.version, self._descent = setup, 0, descent
        self.model = model.to(setup.device)
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.Adam(self.parameters, lr=descent.learning_rate, eps=1e-5, fused=True)
        self._clock = StageClock()

    def update(self, rollouts: Sequence[Rollout]) -> Metrics:
        """Learn from a batch of rollouts, step by step."""
        learning, reports = self.learning(rollouts), []
        batch = next(learning, None)
        while batch is not None:
            taken = self.step(batch)
            reports.append(taken.report)
            batch = sent(learning, taken)
        numbers = torch.stack(reports).double().cpu().numpy() if reports else None
        self._clock.lap("optimise")
        return self.finished(numbers)

    @abstractmethod
    def learning(self, rollouts: Sequence[Rollout]) -> Generator[BatchT, Taken, None]:
        """Give one batch after another, and be told what the step on it found."""

    @abstractmethod
    def step(self, batch: BatchT) -> Taken:
        """Take one gradient step, alone."""

    @abstractmethod
    def finished(self, reports: NDArray[np.float64] | None) -> Metrics:
        """The update is over; what its steps reported, [step, number], becomes metrics."""

    @property
    def done(self) -> float:
        """The share of the run that is behind."""
        return min(self.version / max(self.setup.total_updates, 1), 1.0)

    @property
    def learning_rate(self) -> float:
        """Of the steps that are taken now."""
        return float(self.optimizer.param_groups[0]["lr"])

    def _set_learning_rate(self) -> float:
        descent = self._descent
        rate = scheduled(descent.learning_rate, descent.schedule, descent.final_learning_rate, self.done)
        set_learning_rate(self.optimizer, rate)
        return rate

    def _descend(self) -> Tensor:
        """Follow the gradients, shortened where they are too long; return how long they were."""
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self._descent.max_gradient_norm, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    def weights(self) -> Weights:
        """The weights to publish."""
        return WeightBlock(self.model).read()

    def take_timings(self) -> dict[str, float]:
        """Seconds per stage since the last call."""
        return self._clock.take()


def sent(learning: Generator[BatchT, Taken, None], taken: Taken) -> BatchT | None:
    """Tell what a step found; the next batch, or None where the update is over."""
    try:
        return learning.send(taken)
    except StopIteration:
        return None
