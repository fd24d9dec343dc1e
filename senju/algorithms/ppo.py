"""Proximal policy optimisation, after Schulman et al. 2017.

Read from the top: the settings, then one update in the order it happens.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from senju.algorithms.gradient_learner import GradientLearner, Metrics, Taken
from senju.algorithms.learner import LearnerSetup, LearnerState
from senju.algorithms.optimising import Schedule, load_network, refuse_divergence, saved_network
from senju.algorithms.ppo_loss import (
    Coefficients,
    Judge,
    LossReport,
    Minibatch,
    judge_compiled,
    judge_reference,
)
from senju.algorithms.returns import generalised_advantages
from senju.algorithms.ring_reader import RingReader
from senju.collect.slots import Ring, Rollout
from senju.config import Part
from senju.errors import ConfigError
from senju.games.game import Game, SeatView
from senju.models.model import Model


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


class Selection(NamedTuple):
    """Some decisions of a batch."""

    batch: Minibatch
    indices: Tensor  # [sample], on the CPU

    def minibatch(self) -> Minibatch:
        """Those decisions alone."""
        indices = self.indices.to(self.batch.actions.device)
        return Minibatch(*(column.index_select(0, indices) for column in self.batch))


class PPO(GradientLearner[Selection]):
    """Learns from the latest batch, a few epochs of clipped steps, then throws it away."""

    Config = PPOConfig

    def __init__(self, model: Model, config: Part, setup: LearnerSetup) -> None:
        assert isinstance(config, PPOConfig)
        super().__init__(model, config, setup)
        self.config = config
        self.judge: Judge = judge_compiled if setup.device.type == "cpu" else judge_reference
        self.coefficients = Coefficients(
            config.clip_range, config.value_coefficient, config.entropy_coefficient
        )
        self._reader: RingReader | None = None
        self._newest: dict[int, int] = {}  # turn of each shard that was learned from, where it follows
        self._metrics: Metrics = {}

    def attach(self, ring: Ring, game: Game | SeatView) -> None:
        """Look there whether rollouts are still what they were, where their writers do not wait."""
        self._reader = RingReader(ring)

    def learning(self, rollouts: Sequence[Rollout]) -> Generator[Selection, Taken, None]:
        """Estimate advantages, then ask for clipped steps on shuffled minibatches."""
        self._clock.start()
        self._metrics = {"learning_rate": self._set_learning_rate()}
        if self.is_following:
            given, rollouts = len(rollouts), self._still_whole(rollouts)
            self._metrics["rollouts_missed"] = float(given - len(rollouts))
        if not rollouts:  # all were written over, and nothing came after: there is nothing to learn from
            return
        batch, metrics = self._prepare(rollouts)
        self._metrics |= metrics
        self._clock.lap("advantages")
        for epoch in range(max(1, round(self.config.epochs * self.attention))):
            for indices in self._minibatches(len(batch.actions), epoch):
                taken = yield Selection(batch, indices)
                self._clock.start()  # others may have been served meanwhile
            if self.config.kl_stop is not None and float(taken.report[_KL]) > self.config.kl_stop:
                break
        self.version += 1

    def _still_whole(self, rollouts: Sequence[Rollout]) -> list[Rollout]:
        """Copies of the rollouts, or of as many of the youngest where those were written over.

        An agent that waits for others of its process would otherwise find nothing, time after time. No
        rollout is learned from twice.
        """
        assert self._reader is not None, "attach() comes first"
        found = []
        for shard in dict.fromkeys(rollout.shard for rollout in rollouts):
            asked = [rollout for rollout in rollouts if rollout.shard == shard]
            since = max(asked[0].turn, self._newest.get(shard, -1) + 1)
            sealed = [turn for turn in self._reader.sealed(shard) if turn >= since]
            are_there = sealed[:1] == [asked[0].turn]
            for turn in sealed[: len(asked)] if are_there else sealed[-len(asked) :]:
                data = self._reader.slot(shard, turn)
                if data is not None:
                    found.append(asked[0]._replace(data=data, turn=turn))
                    self._newest[shard] = turn
        return sorted(found, key=lambda rollout: (rollout.turn, rollout.shard))

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

    def _minibatches(self, num_decisions: int, epoch: int) -> Iterator[Tensor]:
        """All decisions, in an order that depends on (seed, update, epoch) alone."""
        counter = [0, 0, self.version, epoch]
        generator = np.random.Generator(np.random.Philox(key=self.setup.seed, counter=counter))
        order = torch.from_numpy(generator.permutation(num_decisions))
        num_parts = -(-num_decisions // self.config.minibatch_size)
        return iter(torch.tensor_split(order, num_parts))  # no small rest, which would weigh as much

    def step(self, batch: Selection) -> Taken:
        """One clipped step."""
        minibatch = batch.minibatch()
        self._clock.lap("gather")
        with self.matrix_precision():
            logits, values = self.model(minibatch.observation.float())
        self._clock.lap("forward")
        objective = self.judge(logits.float(), values.float(), minibatch, self.coefficients)
        objective.backward()
        self._clock.lap("backward")
        norm = self._descend()
        self._clock.lap("optimise")
        return Taken(torch.cat([objective.report, norm.unsqueeze(0)]))

    def matrix_precision(self) -> torch.autocast:
        """How exactly matrix products are computed while learning."""
        is_rounded = self.config.precision == "bfloat16"
        return torch.autocast(self.setup.device.type, torch.bfloat16, enabled=is_rounded)

    def finished(self, reports: NDArray[np.float64] | None) -> Metrics:
        """What the steps report, on average, and what the first found before anything had moved."""
        metrics, num_steps = self._metrics, 0 if reports is None else len(reports)
        if reports is not None:
            names = (*LossReport._fields, "gradient_norm")
            metrics |= dict(zip(names, reports.mean(axis=0).tolist(), strict=True))
            first = LossReport(*reports[0, :-1].tolist())
            metrics["largest_ratio_error"] = first.largest_ratio_error
            metrics["first_minibatch_kl"] = first.approximate_kl
        metrics["gradient_steps"] = float(num_steps)
        refuse_divergence(self.version, metrics)
        return metrics

    def state(self) -> LearnerState:
        """Copies of the weights and Adam's moments, and the version."""
        return LearnerState(saved_network(self.model, self.optimizer), {"version": self.version})

    def load_state(self, state: LearnerState) -> None:
        """Go on from a saved state."""
        self.version = state.count("version")
        load_network(self.model, self.optimizer, state.tensors, self.setup.device)


_KL = LossReport._fields.index("approximate_kl")


def _flat(arrays: Sequence[NDArray[Any]], trailing: int) -> NDArray[Any]:
    """Rollouts' arrays joined, with all but the last `trailing` axes folded into one."""
    shape = arrays[0].shape[len(arrays[0].shape) - trailing :]
    return np.concatenate([array.reshape(-1, *shape) for array in arrays])


def _describe(returns: NDArray[np.float32], values: NDArray[np.float32]) -> dict[str, float]:
    variance = float(returns.var())
    explained = 1.0 - float((returns - values).var()) / variance if variance > 0 else 0.0
    return {"explained_variance": explained, "mean_value": float(values.mean())}
