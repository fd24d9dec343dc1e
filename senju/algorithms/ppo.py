"""Proximal policy optimisation, after Schulman et al. 2017.

Read from the top: the settings, then one update in the order it happens.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from senju.algorithms.captured_step import Objective
from senju.algorithms.device_batches import (
    LARGE,
    MAX_THREADS,
    Frames,
    Portion,
    equal_parts,
    estimated,
    frames_on_device,
    uploaded,
)
from senju.algorithms.gradient_learner import GradientConfig, GradientLearner, GradientStep, Learning
from senju.algorithms.learner import LearnerSetup
from senju.algorithms.networks import Loss, Network
from senju.algorithms.optimising import refuse_divergence
from senju.algorithms.ppo_loss import (
    AnyMinibatch,
    Coefficients,
    LossFunction,
    LossReport,
    Minibatch,
    WeightedMinibatch,
    compiled_loss,
    explain_loss,
    ppo_loss,
    reference_loss,
)
from senju.algorithms.returns import Advantages
from senju.algorithms.ring_reader import RingReader
from senju.algorithms.transitions import take_rows
from senju.collect.slots import Ring, Rollout, Slot
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


class Batch(NamedTuple):
    """All decisions of an update."""

    columns: Minibatch  # on the learner's device
    frames: Tensor | None  # [decision], its row of observations and legal actions; None: they are in order
    capacity: int  # decisions in the rollouts, whether their outcomes are known or not


class Selection(NamedTuple):
    """A minibatch: the chosen decisions of a batch."""

    batch: Batch
    indices: Tensor  # [sample], on the learner's device
    weights: Tensor | None = None  # [sample], where some only fill the minibatch up


class LossSettings(NamedTuple):
    """The settings of the loss on a GPU."""

    coefficients: Coefficients
    is_rounded: bool  # the network computes in bfloat16


def device_loss(networks: Sequence[Network], batch: AnyMinibatch, settings: LossSettings) -> Loss:
    """The loss of a minibatch, with the network's evaluation, without a look at a number."""
    device = batch.observation.device.type
    # without a cache of rounded weights, which would outlive a captured step
    with torch.autocast(device, torch.bfloat16, enabled=settings.is_rounded, cache_enabled=False):
        logits, values = networks[0](batch.observation.float())
    loss, numbers = ppo_loss(logits.float(), values.float(), batch, settings.coefficients, is_checked=False)
    return Loss((loss.sum(),), None, numbers)


class PPO(GradientLearner[Selection, AnyMinibatch]):
    """Learns from the latest batch in a few epochs of clipped steps, then drops it."""

    Config = PPOConfig
    config: PPOConfig

    def __init__(self, model: Model, config: Part, setup: LearnerSetup) -> None:
        assert isinstance(config, PPOConfig)
        super().__init__(model, config, setup)
        self.loss: LossFunction = compiled_loss if setup.device.type == "cpu" else reference_loss
        self.coefficients: Coefficients = Coefficients(
            config.clip_range, config.value_coefficient, config.entropy_coefficient
        )
        self._reader: RingReader | None = None
        self._newest: dict[int, int] = {}  # shard -> the last turn learned from, with `is_free_running`
        self._joined: tuple[Sequence[Batch], Sequence[Tensor]] = ((), ())  # batches, their columns
        self._first_order: NDArray[np.int64] | None = None  # of the next update, computed ahead

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
        selections: list[Selection] = []
        for epoch in range(max(1, round(self.config.epochs * self.training_share))):
            for indices, weights in self._shuffled(batch, epoch):
                selections.append(Selection(batch, indices, weights))
                step = yield selections[-1]  # a gradient step is taken on it
                self.clock.start()  # a stack trains other learners in between
                steps.append(step)
            if self.config.kl_stop is not None and float(steps[-1].report[_KL]) > self.config.kl_stop:
                break
        self.version += 1
        self._joined = ((), ())
        if self.steps is not None:
            self._refuse_bad_loss(selections, steps)
        first = LossReport(*steps[0].report.tolist())  # computed before the policy changed
        metrics |= self._means(steps, LossReport._fields) | {
            "largest_ratio_error": first.largest_ratio_error,
            "first_minibatch_kl": first.approximate_kl,
            "gradient_steps": float(len(steps)),
        }
        refuse_divergence(self.version, metrics)
        return metrics

    def _refuse_bad_loss(self, selections: Sequence[Selection], steps: Sequence[GradientStep]) -> None:
        """Explain the first loss that was not finite; captured steps do not look. Waits for the device."""
        is_finite = torch.stack([step.report for step in steps]).isfinite().all(-1).tolist()
        if all(is_finite):
            return
        batch = self.collate([selections[is_finite.index(False)]])
        self._joined = ((), ())
        with torch.no_grad():
            logits, _ = self.networks[0](batch.observation[0].float())
        explain_loss(logits, Minibatch(*(column[0] for column in batch[: len(Minibatch._fields)])))

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

    def _prepare(self, rollouts: Sequence[Rollout]) -> tuple[Batch, dict[str, float]]:
        """All decisions of the rollouts as one flat batch on the learner's device."""
        slots = [rollout.data for rollout in rollouts]
        advantages, returns, is_known = map(_flat, zip(*self._estimates(slots), strict=True))
        if not is_known.any():
            raise ConfigError(
                f"none of the {is_known.size} decisions has a known outcome: the rollouts are too short "
                "for a seat to move twice; collect with a larger rollout_steps"
            )
        columns = {
            name: _flat([getattr(s, name) for s in slots]) for name in ("actions", "log_probs", "values")
        }
        columns |= {"advantages": advantages, "returns": returns}
        frames = self._frames(rollouts)
        if frames is not None:
            columns["frames"] = frames.indices
        else:
            columns |= {
                name: _flat([getattr(slot, name) for slot in slots]) for name in ("observation", "legal")
            }
        if not is_known.all():
            columns = {name: column[is_known] for name, column in columns.items()}
        advantages, returns, values = (columns[name] for name in ("advantages", "returns", "values"))
        variance = float(returns.var())
        explained = 1.0 - float((returns - values).var()) / variance if variance > 0 else 0.0
        metrics = {"explained_variance": explained, "mean_value": float(values.mean())}
        if self.config.normalise_advantages:
            columns["advantages"] = (advantages - advantages.mean()) / (advantages.std() + np.float32(1e-8))
        return self._sent(columns, frames, is_known.size), metrics

    def _estimates(self, slots: Sequence[Slot]) -> list[Advantages]:
        """The advantages of each rollout; before a GPU learns, several threads compute them and the order."""
        gamma, gae_lambda = self.config.gamma, self.config.gae_lambda
        num_decisions = sum(slot.seats.size for slot in slots)
        self._first_order = None
        if self.steps is None or num_decisions < LARGE:
            return estimated(slots, gamma, gae_lambda, None)
        with ThreadPoolExecutor(MAX_THREADS) as executor:
            order = executor.submit(self._order, num_decisions, 0)
            estimates = estimated(slots, gamma, gae_lambda, executor)
            self._first_order = order.result()
        return estimates

    def _frames(self, rollouts: Sequence[Rollout]) -> Frames | None:
        """Where the device has the observations; not in free runs, in which they may be overwritten."""
        if self._reader is None or self.is_free_running:
            return None
        ring = self._reader.ring
        frames = frames_on_device(ring, rollouts, self.setup.device)
        assert frames is not None or ring.shape.keeps_uploaded, "neither host nor device has the observations"
        return frames

    def _sent(self, columns: dict[str, NDArray[Any]], frames: Frames | None, capacity: int) -> Batch:
        """The columns on the learner's device."""
        device = self.setup.device
        if frames is None:
            seen = [columns["observation"], columns["legal"].view(np.int64)]
            observation, legal = (torch.from_numpy(column).to(device) for column in seen)
        else:
            observation, legal = frames.observation, frames.legal
        names = [*Minibatch._fields[2:], *(["frames"] if frames is not None else [])]
        if device.type == "cpu":
            sent = {name: torch.from_numpy(columns[name]) for name in names}
        else:
            sent = uploaded({name: columns[name] for name in names}, device)
        rest = (sent[name] for name in Minibatch._fields[2:])
        return Batch(Minibatch(observation, legal, *rest), sent.get("frames"), capacity)

    def _order(self, num_decisions: int, epoch: int) -> NDArray[np.int64]:
        """All decisions in an order that depends only on (seed, update, epoch)."""
        counter = [0, 0, self.version, epoch]
        generator = np.random.Generator(np.random.Philox(key=self.setup.seed, counter=counter))
        return generator.permutation(num_decisions)

    def _shuffled(self, batch: Batch, epoch: int) -> Iterable[Portion]:
        """The decisions of each gradient step of an epoch."""
        num_decisions = len(batch.columns.actions)
        order = self._first_order if epoch == 0 else None
        if order is None or len(order) != num_decisions:
            order = self._order(num_decisions, epoch)
        num_parts = -(-num_decisions // self.config.minibatch_size)
        if self.steps is None:  # equal parts: a small last one would count as much
            return [Portion(part, None) for part in torch.tensor_split(torch.from_numpy(order), num_parts)]
        # graphs have a fixed size: of equal parts, or of any part where the number of decisions changes
        is_whole = num_decisions == batch.capacity
        size = -(-num_decisions // num_parts) if is_whole else self.config.minibatch_size
        sent = uploaded({"order": order}, self.setup.device)["order"]
        return equal_parts(sent, num_parts, min(size, batch.capacity))

    def size_of(self, batch: Selection) -> int:
        return len(batch.indices)

    def collate(self, batches: Sequence[Selection]) -> AnyMinibatch:
        """[batch, sample, …]; whole batches are joined once for all steps that choose from them."""
        whole = [selection.batch for selection in batches]
        if list(map(id, self._joined[0])) != list(map(id, whole)):
            self._joined = (whole, _joined_columns(whole))
        starts = np.cumsum([0, *(len(batch.columns.actions) for batch in whole[:-1])]).tolist()
        chosen = [selection.indices + start for selection, start in zip(batches, starts, strict=True)]
        indices = torch.cat(chosen).to(whole[0].columns.actions.device)
        # joined columns have their rows in order
        own_frames = whole[0].frames if len(whole) == 1 else None
        frames = own_frames.index_select(0, indices) if own_frames is not None else indices
        rows = (frames, frames, *[indices] * (len(Minibatch._fields) - 2))
        shape = (len(batches), len(batches[0].indices))
        columns = [take_rows(column, own) for column, own in zip(self._joined[1], rows, strict=True)]
        found = Minibatch(*(column.view(*shape, *column.shape[1:]) for column in columns))
        if all(selection.weights is None for selection in batches):
            return found
        every = torch.ones_like(found.advantages[0])
        weights = [each.weights if each.weights is not None else every for each in batches]
        return WeightedMinibatch(*found, torch.stack(weights))

    @property
    def objective(self) -> tuple[Objective, LossSettings]:
        return device_loss, LossSettings(self.coefficients, self.config.precision == "bfloat16")

    def compute_loss(self, networks: Sequence[Network], batch: AnyMinibatch, clock: StageClock) -> Loss:
        is_rounded = self.config.precision == "bfloat16"
        with torch.autocast(self.setup.device.type, torch.bfloat16, enabled=is_rounded):
            logits, values = networks[0](batch.observation.float())
        clock.lap("forward")
        assert isinstance(batch, Minibatch), "only captured steps have weights"
        return self.loss(logits.float(), values.float(), batch, self.coefficients)


def _joined_columns(whole: Sequence[Batch]) -> Sequence[Tensor]:
    """The columns of all batches one after another."""
    if len(whole) == 1:
        return whole[0].columns
    in_order = [
        batch.columns
        if batch.frames is None
        else batch.columns._replace(
            observation=take_rows(batch.columns.observation, batch.frames),
            legal=take_rows(batch.columns.legal, batch.frames),
        )
        for batch in whole
    ]
    return [torch.cat(columns) for columns in zip(*in_order, strict=True)]


def _flat(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Rollouts' arrays [time, row, acting, …] joined as [decision, …]."""
    return np.concatenate([array.reshape(-1, *array.shape[3:]) for array in arrays])
