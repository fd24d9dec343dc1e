"""Proximal policy optimisation, after Schulman et al. 2017.

Read from the top: the settings, then one update in the order it happens.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from senju.algorithms.gradient_learner import GradientConfig, GradientLearner, GradientStep, Learning
from senju.algorithms.learner import LearnerSetup
from senju.algorithms.networks import Loss, Network
from senju.algorithms.optimising import refuse_divergence
from senju.algorithms.ppo_loss import (
    Coefficients,
    LossFunction,
    LossReport,
    Minibatch,
    compiled_loss,
    reference_loss,
)
from senju.algorithms.returns import generalised_advantages
from senju.algorithms.ring_reader import RingReader
from senju.collect.slots import Ring, Rollout
from senju.config import Part
from senju.errors import ConfigError
from senju.games.game import Game, SeatView
from senju.models.model import Model
from senju.timing import StageClock

_KL = LossReport._fields.index("approximate_kl")


class PPOConfig(GradientConfig):
    """Settings of the `ppo` algorithm."""

    epochs: int = Field(4, ge=1, le=100, description="Passes over each batch.")
    minibatch_size: int = Field(2048, ge=1, description="Decisions per gradient step.")
    gamma: float = Field(1.0, gt=0, le=1, description="Discount per decision of a seat.")
    gae_lambda: float = Field(0.95, ge=0, le=1, description="Mixes short and long returns.")
    clip_range: float = Field(0.2, gt=0, lt=1, description="Probability ratios are clipped to 1 ± this.")
    value_coefficient: float = Field(1.0, ge=0, description="Weight of the value's error.")
    entropy_coefficient: float = Field(0.01, ge=0, description="Weight of the policy's entropy.")
    normalise_advantages: bool = Field(True, description="Give each batch's advantages mean 0, deviation 1.")
    kl_stop: float | None = Field(
        None, gt=0, description="End the update after the epoch in which the policy moved this far."
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="Precision of the network's matrix products while learning."
    )


class Selection(NamedTuple):
    """A minibatch: the chosen decisions of a batch."""

    batch: Minibatch
    indices: Tensor  # [sample], on the CPU


class PPO(GradientLearner[Selection, Minibatch]):
    """Learns from the latest batch in a few epochs of clipped steps, then drops it."""

    Config = PPOConfig
    config: PPOConfig

    def __init__(self, model: Model, config: Part, setup: LearnerSetup) -> None:
        assert isinstance(config, PPOConfig)
        super().__init__(model, config, setup)
        self.loss: LossFunction = compiled_loss if setup.device.type == "cpu" else reference_loss
        self.coefficients = Coefficients(
            config.clip_range, config.value_coefficient, config.entropy_coefficient
        )
        self._reader: RingReader | None = None
        self._newest: dict[int, int] = {}  # shard -> the last turn learned from, with `is_free_running`
        self._joined: tuple[Sequence[Minibatch], Sequence[Tensor]] = ((), ())  # batches, their columns

    def attach(self, ring: Ring, game: Game | SeatView) -> None:
        """Use the ring to check that rollouts have not been overwritten, with `is_free_running`."""
        self._reader = RingReader(ring)

    def learn(self, rollouts: Sequence[Rollout]) -> Learning[Selection]:
        """Estimate advantages, then take a clipped step on each minibatch of some epochs."""
        self.clock.start()
        metrics = {"learning_rate": self._set_learning_rate()}
        if self.is_free_running:
            num_given, rollouts = len(rollouts), self._copy_complete(rollouts)
            metrics["rollouts_missed"] = float(num_given - len(rollouts))
        if not rollouts:  # all were overwritten, and no newer ones are complete
            return metrics | {"gradient_steps": 0.0}
        batch, described = self._prepare(rollouts)
        metrics |= described
        self.clock.lap("advantages")
        steps: list[GradientStep] = []
        for epoch in range(max(1, round(self.config.epochs * self.training_share))):
            for indices in self._shuffled(len(batch.actions), epoch):
                step = yield Selection(batch, indices)  # a gradient step is taken on it
                self.clock.start()  # a stack trains other learners in between
                steps.append(step)
            if self.config.kl_stop is not None and float(steps[-1].report[_KL]) > self.config.kl_stop:
                break
        self.version += 1
        self._joined = ((), ())
        first = LossReport(*steps[0].report.tolist())  # computed before the policy changed
        metrics |= self._means(steps, LossReport._fields) | {
            "largest_ratio_error": first.largest_ratio_error,
            "first_minibatch_kl": first.approximate_kl,
            "gradient_steps": float(len(steps)),
        }
        refuse_divergence(self.version, metrics)
        return metrics

    def _copy_complete(self, rollouts: Sequence[Rollout]) -> list[Rollout]:
        """Copies of the rollouts; overwritten ones are replaced by as many of the newest.

        Otherwise an agent that waits for others in its process might never find a rollout. No rollout is
        used twice.
        """
        assert self._reader is not None, "attach() comes first"
        found = []
        for shard in dict.fromkeys(rollout.shard for rollout in rollouts):
            asked = [rollout for rollout in rollouts if rollout.shard == shard]
            since = max(asked[0].turn, self._newest.get(shard, -1) + 1)
            complete = [turn for turn in self._reader.ring.complete_turns(shard) if turn >= since]
            is_intact = complete[:1] == [asked[0].turn]
            for turn in complete[: len(asked)] if is_intact else complete[-len(asked) :]:
                data = self._reader.slot(shard, turn)
                if data is not None:
                    found.append(asked[0]._replace(slots=(data,), turn=turn))
                    self._newest[shard] = turn
        return sorted(found, key=lambda rollout: (rollout.turn, rollout.shard))

    def _prepare(self, rollouts: Sequence[Rollout]) -> tuple[Minibatch, dict[str, float]]:
        """All decisions of the rollouts as one flat batch on the learner's device."""
        slots = [rollout.data for rollout in rollouts]
        estimates = [generalised_advantages(s, self.config.gamma, self.config.gae_lambda) for s in slots]
        advantages, returns, is_known = map(_flat, zip(*estimates, strict=True))
        if not is_known.any():
            raise ConfigError(
                f"none of the {is_known.size} decisions has a known outcome: the rollouts are too short "
                "for a seat to move twice; collect with a larger rollout_steps"
            )
        names = ("observation", "legal", "actions", "log_probs", "values")
        columns = [_flat([getattr(slot, name) for slot in slots]) for name in names]
        columns += [advantages, returns]
        if not is_known.all():
            columns = [column[is_known] for column in columns]
        observation, legal, actions, log_probs, values, advantages, returns = columns
        variance = float(returns.var())
        explained = 1.0 - float((returns - values).var()) / variance if variance > 0 else 0.0
        metrics = {"explained_variance": explained, "mean_value": float(values.mean())}
        if self.config.normalise_advantages:
            advantages = (advantages - advantages.mean()) / (advantages.std() + np.float32(1e-8))
        batch = (observation, legal.view(np.int64), actions, log_probs, advantages, returns)
        return Minibatch(*(torch.from_numpy(column).to(self.setup.device) for column in batch)), metrics

    def _shuffled(self, num_decisions: int, epoch: int) -> Iterator[Tensor]:
        """Indices of all decisions; their order depends only on (seed, update, epoch)."""
        counter = [0, 0, self.version, epoch]
        generator = np.random.Generator(np.random.Philox(key=self.setup.seed, counter=counter))
        order = torch.from_numpy(generator.permutation(num_decisions))
        num_parts = -(-num_decisions // self.config.minibatch_size)
        return iter(torch.tensor_split(order, num_parts))  # equal parts: a small last one would count as much

    def size_of(self, batch: Selection) -> int:
        return len(batch.indices)

    def collate(self, batches: Sequence[Selection]) -> Minibatch:
        """[batch, sample, …]; whole batches are joined once for all steps that choose from them."""
        whole = [selection.batch for selection in batches]
        if list(map(id, self._joined[0])) != list(map(id, whole)):
            joined = (
                [torch.cat(columns) for columns in zip(*whole, strict=True)] if len(whole) > 1 else whole[0]
            )
            self._joined = (whole, joined)
        starts = np.cumsum([0, *(len(batch.actions) for batch in whole[:-1])]).tolist()
        chosen = [selection.indices + start for selection, start in zip(batches, starts, strict=True)]
        indices = torch.cat(chosen).to(whole[0].actions.device)
        shape = (len(batches), len(batches[0].indices))
        columns = (column.index_select(0, indices) for column in self._joined[1])
        return Minibatch(*(column.view(*shape, *column.shape[1:]) for column in columns))

    def compute_loss(self, networks: Sequence[Network], batch: Minibatch, clock: StageClock) -> Loss:
        is_rounded = self.config.precision == "bfloat16"
        with torch.autocast(self.setup.device.type, torch.bfloat16, enabled=is_rounded):
            logits, values = networks[0](batch.observation.float())
        clock.lap("forward")
        return self.loss(logits.float(), values.float(), batch, self.coefficients)


def _flat(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Rollouts' arrays [time, row, acting, …] joined as [decision, …]."""
    return np.concatenate([array.reshape(-1, *array.shape[3:]) for array in arrays])
