"""Learners that take gradient steps: their shared settings, and what a stack of learners needs from them."""

from abc import abstractmethod
from collections.abc import Generator, Hashable, Sequence
from functools import partial
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from senju.algorithms.captured_step import CapturedSteps, Objective, StepResult
from senju.algorithms.learner import Learner, LearnerSetup, LearnerState
from senju.algorithms.networks import Loss, Network, SingleNetwork
from senju.algorithms.optimising import Schedule, load_network, saved_network, scheduled
from senju.collect.slots import Rollout
from senju.config import Part
from senju.models.model import Model
from senju.models.weights import WeightBlock, Weights
from senju.timing import StageClock

Metrics = dict[str, float]
BatchT = TypeVar("BatchT")
TensorsT = TypeVar("TensorsT")

LearningRate = Annotated[float, Field(gt=0, le=1, description="Adam's step size at the start.")]
GradientNorm = Annotated[float, Field(gt=0, description="Longer gradients are clipped to this norm.")]


class GradientConfig(Part):
    """The settings that every learner with gradient steps has."""

    learning_rate: LearningRate = 1e-3
    schedule: Schedule = Field("linear", description="How the learning rate falls over the run.")
    final_learning_rate: float = Field(
        0.05, ge=0, le=1, description="The last learning rate, as a share of the first."
    )
    max_gradient_norm: GradientNorm = 0.5


class GradientStep(NamedTuple):
    """The result of one gradient step; a stack's tensors have an axis for its rows first."""

    report: Tensor  # [..., number], still on the device, so that the next step need not wait for it
    gradient_norm: Tensor  # [...], before clipping
    errors: NDArray[np.float32] | None = None  # [..., sample], only where priorities need them


Learning = Generator[BatchT, GradientStep, Metrics]  # yields batches, receives steps, returns metrics


class GradientLearner(Learner, Generic[BatchT, TensorsT]):
    """A learner that takes gradient steps, one batch each.

    `learn` is the algorithm: it yields a batch, and receives the result of the gradient step on it. A learner
    alone takes the step by itself; a stack of learners takes one step for all of them. After the step the
    target network, if there is one, moves by `target_share`:

        def learn(self, rollouts):
            for batch in ...:
                step = yield batch
            return metrics

    On a GPU each step is a captured graph (`captured_step`), and the host reads no number before the update
    ends, except for errors that priorities need.
    """

    target_share = 0.0  # how far the target moves towards the first network after the step on a yielded batch

    def __init__(self, model: Model, config: GradientConfig, setup: LearnerSetup) -> None:
        self.setup, self.version, self.config = setup, 0, config
        self.model = model.to(setup.device)
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = new_adam(trained, config.learning_rate, setup.device)
        # the first one learns; a target network follows it
        self.networks: tuple[SingleNetwork, ...] = (SingleNetwork(self.model, self.optimizer),)
        self.clock = StageClock()
        is_captured = setup.device.type == "cuda"
        self.steps = CapturedSteps(setup.device, setup.chosen_kernels) if is_captured else None

    @abstractmethod
    def learn(self, rollouts: Sequence[Rollout]) -> "Learning[BatchT]":
        """One update."""

    @abstractmethod
    def size_of(self, batch: BatchT) -> int:
        """How many decisions a batch has; batches of one size can be collated."""

    @abstractmethod
    def collate(self, batches: Sequence[BatchT]) -> TensorsT:
        """Batches of one size as tensors [batch, sample, …] on the learner's device."""

    @abstractmethod
    def compute_loss(self, networks: Sequence[Network], batch: TensorsT, clock: StageClock) -> Loss:
        """The first network's loss on a batch; with a stack, `networks` and the batch are stacked."""

    @property
    @abstractmethod
    def objective(self) -> tuple[Objective, Hashable]:
        """The loss for a GPU, a function of a module, and its settings: equal ones are compiled once."""

    def device_step(
        self, networks: Sequence[Network], share: float, objective: Objective, batch: TensorsT
    ) -> StepResult:
        """The same as `gradient_step`, and moving the target by a share, without waiting for a number."""
        for network in networks:
            network.prepare()
        loss = objective(networks, batch, self.objective[1])
        networks[0].backward(loss)
        norm = networks[0].descend(self.config.max_gradient_norm)
        if share:
            follow(networks, share)
        return torch.cat([loss.report.float(), norm.unsqueeze(-1)], -1), loss.errors

    def gradient_step(self, networks: Sequence[Network], batch: TensorsT, clock: StageClock) -> GradientStep:
        """Change the first network by one step on a batch."""
        loss = self.compute_loss(networks, batch, clock)
        networks[0].backward(loss)
        clock.lap("backward")
        norm = networks[0].descend(self.config.max_gradient_norm)
        errors = loss.errors.cpu().numpy() if loss.errors is not None else None
        clock.lap("optimise")
        return GradientStep(loss.report, norm, errors)

    def update(self, rollouts: Sequence[Rollout]) -> Metrics:
        """Run `learn`, and take each gradient step alone."""
        if self.steps is None:
            return self._update(rollouts)
        with self.steps.own_stream():
            self.steps.verify(self._changed())
            return self._update(rollouts)

    def _update(self, rollouts: Sequence[Rollout]) -> Metrics:
        learning, step = self.learn(rollouts), None
        while True:
            try:
                batch = learning.send(step)  # type: ignore[arg-type]  # None starts it
            except StopIteration as end:
                metrics: Metrics = end.value
                return metrics
            stacked: Any = self.collate([batch])
            tensors = type(stacked)(*(column[0] for column in stacked))
            self.clock.lap("gather")
            if self.steps is None:
                step = self.gradient_step(self.networks, tensors, self.clock)
                if self.target_share:
                    follow(self.networks, self.target_share)
            else:
                step = self._captured_step(self.steps, tensors)
            self.clock.lap("optimise")

    def _captured_step(self, steps: CapturedSteps, batch: TensorsT) -> GradientStep:
        """Averaging belongs to the captured step; a target that becomes the network does so after it."""
        share = self.target_share if self.target_share < 1 else 0.0
        step = partial(self.device_step, self.networks, share)
        result = steps.take(share, self.objective[0], batch, step, self._changed)
        if self.target_share == 1:
            follow(self.networks, 1.0)
        return as_gradient_step(result)

    def _changed(self) -> list[Tensor]:
        """Every tensor that a step changes."""
        return [tensor for network in self.networks for tensor in network.tensors()]

    def _means(self, steps: Sequence[GradientStep], names: Sequence[str]) -> Metrics:
        """The means of an update's reports, by name; empty without a step. Waits for the device."""
        if not steps:
            return {}
        self.clock.start()
        reports = torch.stack([step.report for step in steps])
        norms = torch.stack([step.gradient_norm for step in steps])
        numbers = torch.cat([reports, norms.unsqueeze(-1)], -1).double().cpu().numpy()
        means = numbers.mean(axis=0).tolist()
        self.clock.lap("optimise")
        return dict(zip((*names, "gradient_norm"), means, strict=True))

    @property
    def progress(self) -> float:
        """The finished share of the run, 0 to 1."""
        return min(self.version / max(self.setup.total_updates, 1), 1.0)

    def _set_learning_rate(self) -> float:
        config = self.config
        rate = scheduled(config.learning_rate, config.schedule, config.final_learning_rate, self.progress)
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)  # in place: captured steps read it there
            else:
                group["lr"] = rate
        return rate

    def state(self) -> LearnerState:
        """Copies of the weights and Adam's moments, and the version."""
        return LearnerState(saved_network(self.model, self.optimizer), {"version": self.version})

    def load_state(self, state: LearnerState) -> None:
        self.version = state.count("version")
        load_network(self.model, self.optimizer, state.tensors, self.setup.device)

    def weights(self) -> Weights:
        return WeightBlock(self.model).read()

    def take_timings(self) -> dict[str, float]:
        return self.clock.take()


def new_adam(parameters: Sequence[torch.nn.Parameter], rate: float, device: torch.device) -> torch.optim.Adam:
    """Adam that can be captured where the parameters are on a GPU."""
    if device.type != "cuda":
        return torch.optim.Adam(parameters, lr=rate, eps=1e-5, fused=True)
    on_device = torch.tensor(rate, device=device)
    return torch.optim.Adam(parameters, lr=on_device, eps=1e-5, fused=True, capturable=True)


def follow(networks: Sequence[Any], share: float) -> None:
    """Move the target network towards the first by a share."""
    network, target = networks
    target.follow(network, share)


def as_gradient_step(result: StepResult) -> GradientStep:
    """The result of a captured step; errors are waited for, where priorities need them."""
    numbers, errors = result
    return GradientStep(
        numbers[..., :-1], numbers[..., -1], errors.cpu().numpy() if errors is not None else None
    )
