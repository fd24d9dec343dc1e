"""Proximal policy optimisation, after Schulman et al. 2017.

Read from the top: the settings, then one update in the order it happens.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from senju.algorithms.learner import Learner, LearnerSetup, LearnerState
from senju.algorithms.optimising import (
    Schedule,
    load_network,
    refuse_divergence,
    saved_network,
    scheduled,
    set_learning_rate,
)
from senju.algorithms.ppo_loss import (
    Coefficients,
    LossReport,
    Minibatch,
    backward_compiled,
    backward_reference,
)
from senju.algorithms.returns import generalised_advantages
from senju.collect.slots import Rollout
from senju.config import Part
from senju.errors import ConfigError
from senju.models.model import Model
from senju.models.weights import WeightBlock, Weights
from senju.timing import StageClock


class PPOConfig(Part):
    """Settings of the `ppo` algorithm."""

    learning_rate: float = Field(1e-3, gt=0, le=1, description="Adam's step size at the start.")
    schedule: Schedule = Field("linear", description="How the learning rate falls over the run.")
    final_learning_rate: float = Field(
        0.05, ge=0, le=1, description="Where it falls to, as a share of the first."
    )
    epochs: int = Field(4, ge=1, le=100, description="Passes over each batch.")
    minibatch_size: int = Field(2048, ge=1, description="Decisions per gradient step.")
    discount: float = Field(1.0, gt=0, le=1, description="Per decision of a seat (gamma).")
    trace: float = Field(0.95, ge=0, le=1, description="Mixes short and long returns (lambda).")
    clip_range: float = Field(0.2, gt=0, lt=1, description="How far a ratio may pay to move from 1.")
    value_coefficient: float = Field(1.0, ge=0, description="Weight of the value's error.")
    entropy_coefficient: float = Field(0.01, ge=0, description="Weight of the policy's entropy.")
    normalise_advantages: bool = Field(True, description="Give each batch's advantages mean 0, deviation 1.")
    max_gradient_norm: float = Field(0.5, gt=0, description="Gradients longer than this are shortened to it.")
    kl_stop: float | None = Field(
        None, gt=0, description="End the update after the epoch in which the policy moved this far."
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="Of the network's matrix products while learning."
    )


class PPO(Learner):
    """Learns from the latest batch, a few epochs of clipped steps, then throws it away."""

    Config = PPOConfig

    def __init__(self, model: Model, config: Part, setup: LearnerSetup) -> None:
        assert isinstance(config, PPOConfig)
        self.config, self.setup, self.version = config, setup, 0
        self.model = model.to(setup.device)
        self._parameters = [p for p in self.model.parameters() if p.requires_grad]
        self._optimizer = torch.optim.Adam(self._parameters, lr=config.learning_rate, eps=1e-5, fused=True)
        self._weights = WeightBlock(self.model)
        self._clock = StageClock()
        self._backward = backward_compiled if setup.device.type == "cpu" else backward_reference
        self._coefficients = Coefficients(
            config.clip_range, config.value_coefficient, config.entropy_coefficient
        )

    def update(self, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Estimate advantages, then take clipped steps on shuffled minibatches."""
        self._clock.start()
        learning_rate = self._set_learning_rate()
        batch, metrics = self._prepare(rollouts)
        self._clock.lap("advantages")
        reports: list[LossReport] = []
        norms: list[Tensor] = []
        for epoch in range(self.config.epochs):
            for minibatch in self._minibatches(batch, epoch):
                reports.append(self._accumulate_gradient(minibatch))
                norms.append(self._step())
            if self.config.kl_stop is not None and reports[-1].approximate_kl > self.config.kl_stop:
                break
        self.version += 1
        means = np.mean(reports, axis=0)
        metrics |= dict(zip(LossReport._fields, means.tolist(), strict=True))
        metrics["largest_ratio_error"] = reports[0].largest_ratio_error  # before the first step
        metrics |= {
            "first_minibatch_kl": reports[0].approximate_kl,
            "gradient_norm": float(torch.stack(norms).mean()),
            "gradient_steps": float(len(norms)),
            "learning_rate": learning_rate,
        }
        refuse_divergence(self.version, metrics)
        return metrics

    def _set_learning_rate(self) -> float:
        config = self.config
        done = min(self.version / max(self.setup.total_updates, 1), 1.0)
        rate = scheduled(config.learning_rate, config.schedule, config.final_learning_rate, done)
        set_learning_rate(self._optimizer, rate)
        return rate

    def _prepare(self, rollouts: Sequence[Rollout]) -> tuple[Minibatch, dict[str, float]]:
        """All decisions of the rollouts as one flat batch on the learner's device."""
        estimates = [
            generalised_advantages(rollout.data, self.config.discount, self.config.trace)
            for rollout in rollouts
        ]
        is_known = _flat([estimate.is_known for estimate in estimates], 0)
        if not is_known.any():
            raise ConfigError(
                f"none of the {is_known.size} decisions has a known outcome: the rollouts are too short "
                "for a seat to move twice; collect with a larger rollout_steps"
            )
        advantages = _flat([estimate.advantages for estimate in estimates], 0)
        returns = _flat([estimate.returns for estimate in estimates], 0)
        values = _flat([rollout.data.values for rollout in rollouts], 0)
        columns = [
            _flat([rollout.data.observation for rollout in rollouts], rollouts[0].data.observation.ndim - 3),
            _flat([rollout.data.legal for rollout in rollouts], 1).view(np.int64),
            _flat([rollout.data.actions for rollout in rollouts], 0),
            _flat([rollout.data.log_probs for rollout in rollouts], 0),
            advantages,
            returns,
        ]
        if not is_known.all():
            columns = [column[is_known] for column in columns]
            advantages, returns, values = columns[4], columns[5], values[is_known]
        metrics = _describe(returns, values)
        if self.config.normalise_advantages:
            columns[4] = (advantages - advantages.mean()) / (advantages.std() + np.float32(1e-8))
        return Minibatch(*(torch.from_numpy(c).to(self.setup.device) for c in columns)), metrics

    def _minibatches(self, batch: Minibatch, epoch: int) -> Iterator[Minibatch]:
        """The batch in an order that depends on (seed, update, epoch) alone."""
        counter = [0, 0, self.version, epoch]
        generator = np.random.Generator(np.random.Philox(key=self.setup.seed, counter=counter))
        order = torch.from_numpy(generator.permutation(len(batch.actions))).to(self.setup.device)
        num_parts = -(-len(order) // self.config.minibatch_size)
        for indices in torch.tensor_split(order, num_parts):  # no small rest, which would weigh as much
            yield Minibatch(*(column.index_select(0, indices) for column in batch))

    def _accumulate_gradient(self, minibatch: Minibatch) -> LossReport:
        self._clock.lap("gather")
        device = self.setup.device.type
        with torch.autocast(device, torch.bfloat16, enabled=self.config.precision == "bfloat16"):
            logits, values = self.model(minibatch.observation.float())
        self._clock.lap("forward")
        report = self._backward(logits.float(), values.float(), minibatch, self._coefficients)
        self._clock.lap("backward")
        return report

    def _step(self) -> Tensor:
        norm = torch.nn.utils.clip_grad_norm_(self._parameters, self.config.max_gradient_norm, foreach=True)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self._clock.lap("optimise")
        return norm

    def weights(self) -> Weights:
        """The weights to publish."""
        return self._weights.read()

    def state(self) -> LearnerState:
        """Copies of the weights and Adam's moments, and the version."""
        return LearnerState(saved_network(self.model, self._optimizer), {"version": self.version})

    def load_state(self, state: LearnerState) -> None:
        """Go on from a saved state."""
        self.version = int(state.numbers["version"])
        load_network(self.model, self._optimizer, state.tensors, self.setup.device)

    def take_timings(self) -> dict[str, float]:
        """Seconds per stage since the last call."""
        return self._clock.take()


def _flat(arrays: Sequence[NDArray[Any]], trailing: int) -> NDArray[Any]:
    """Rollouts' arrays joined, with all but the last `trailing` axes folded into one."""
    shape = arrays[0].shape[len(arrays[0].shape) - trailing :]
    return np.concatenate([array.reshape(-1, *shape) for array in arrays])


def _describe(returns: NDArray[np.float32], values: NDArray[np.float32]) -> dict[str, float]:
    variance = float(returns.var())
    explained = 1.0 - float((returns - values).var()) / variance if variance > 0 else 0.0
    return {"explained_variance": explained, "mean_value": float(values.mean())}
