"""Deep Q-learning, after Mnih 2015, with what came after: double, dueling, n-step, prioritised.

Read from the top: the settings, then one update in the order it happens.
"""

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor

from senju.algorithms.learner import Demands, Learner, LearnerSetup, LearnerState
from senju.algorithms.masked_categorical import unpack_legal_bits
from senju.algorithms.optimising import (
    Schedule,
    load_network,
    load_weights,
    refuse_divergence,
    saved_network,
    scheduled,
    set_learning_rate,
)
from senju.algorithms.replay import Priorities, Replay
from senju.algorithms.ring_reader import Sample
from senju.collect.slots import Ring, Rollout
from senju.config import Part
from senju.errors import ConfigError
from senju.games.game import Game
from senju.models.model import Model
from senju.models.weights import WeightBlock, Weights
from senju.timing import StageClock


class DQNConfig(Part):
    """Settings of the `dqn` algorithm."""

    learning_rate: float = Field(5e-4, gt=0, le=1, description="Adam's step size at the start.")
    schedule: Schedule = Field("linear", description="How the learning rate falls over the run.")
    final_learning_rate: float = Field(
        0.05, ge=0, le=1, description="Where it falls to, as a share of the first."
    )
    batch_size: int = Field(256, ge=1, le=2**20, description="Decisions per gradient step.")
    replay_size: int = Field(
        200_000, ge=1, description="Positions that are kept, rounded up to whole rollouts."
    )
    learning_starts: int = Field(
        2_000, ge=1, description="Decisions with a known outcome before the first gradient step."
    )
    replay_ratio: float = Field(
        2.0, gt=0, le=1000, description="How often each collected decision is learned from."
    )
    steps_per_batch: int | None = Field(
        None, ge=1, description="Gradient steps per update, instead of those that replay_ratio asks for."
    )
    n_step: int = Field(1, ge=1, le=1000, description="Own decisions whose rewards a target counts itself.")
    stop_at_exploration: bool = Field(
        True,
        description="End a target before a random move, its own or (zero-sum) the learner's other seat's.",
    )
    discount: float = Field(1.0, gt=0, le=1, description="Per decision of a seat (gamma).")
    double: bool = Field(True, description="Choose the next action by the network, value it by the target.")
    dueling: bool = Field(True, description="Value of the position plus advantage of the action.")
    huber_delta: float = Field(1.0, gt=0, description="Errors beyond this count linearly.")
    target_interval: int = Field(
        250, ge=1, description="Gradient steps after which the target becomes the network."
    )
    target_averaging: float = Field(
        0.0, ge=0, le=1, description="Share of the network in the target after each step, instead; 0: none."
    )
    prioritised: bool = Field(False, description="Draw decisions by how wrong they were found.")
    priority_exponent: float = Field(
        0.6, ge=0, le=1, description="0 draws all alike, 1 by the error (alpha)."
    )
    correction: float = Field(
        0.4, ge=0, le=1, description="Exponent of the importance weights at the start; it ends at 1 (beta)."
    )
    epsilon_start: float = Field(1.0, ge=0, le=1, description="Share of random moves at the start.")
    epsilon_end: float = Field(0.05, ge=0, le=1, description="Share of random moves after the decay.")
    epsilon_decay: float = Field(
        0.5, ge=0, le=1, description="Share of the run over which epsilon falls, update by update."
    )
    epsilon_ladder: float = Field(
        0.0, ge=0, le=100, description="Shards explore less and less: up to the power 1 + this of epsilon."
    )
    max_gradient_norm: float = Field(
        10.0, gt=0, description="Gradients longer than this are shortened to it."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> "DQNConfig":
        if self.epsilon_end > self.epsilon_start:
            raise ConfigError(
                f"epsilon_end={self.epsilon_end:g} is above "
                f"epsilon_start={self.epsilon_start:g}: it only falls"
            )
        if self.learning_starts > self.replay_size:
            raise ConfigError(
                f"learning_starts={self.learning_starts} is more than replay_size={self.replay_size} ever "
                "holds; lower the one or raise the other"
            )
        return self


class DQN(Learner):
    """Learns action values from decisions of long ago and of just now."""

    Config = DQNConfig

    def __init__(self, model: Model, config: Part, setup: LearnerSetup) -> None:
        assert isinstance(config, DQNConfig)
        self.config, self.setup, self.version = config, setup, 0
        self.model = model.to(setup.device)
        self.target = copy.deepcopy(self.model).requires_grad_(False)
        self.gradient_steps = 0
        self._owed = 0.0  # gradient steps that the replay ratio asks for and that were not taken yet
        self._parameters = [p for p in self.model.parameters() if p.requires_grad]
        self._optimizer = torch.optim.Adam(self._parameters, lr=config.learning_rate, eps=1e-5, fused=True)
        self._weights = WeightBlock(self.model)
        self._clock = StageClock()
        self._replay: Replay | None = None
        self._num_actions = 0

    @classmethod
    def demands(cls, config: Part) -> Demands:
        """Action values, and rollouts that stay."""
        assert isinstance(config, DQNConfig)
        acting = {"by": "action_values", "is_dueling": config.dueling, "ladder": config.epsilon_ladder}
        return Demands(acting, kept_positions=config.replay_size)

    def attach(self, ring: Ring, game: Game) -> None:
        """Learn from the rollouts in this ring."""
        config = self.config
        self._num_actions = game.num_actions
        priorities = Priorities(config.priority_exponent) if config.prioritised else None
        self._replay = Replay(
            ring,
            self.setup.seed,
            config.n_step,
            config.discount,
            game.is_zero_sum,
            priorities,
            config.stop_at_exploration,
        )

    @property
    def replay(self) -> Replay:
        """What is learned from; there is one as soon as the learner was attached to a ring."""
        assert self._replay is not None, "attach() comes first"
        return self._replay

    @property
    def epsilon(self) -> float:
        """The share of random moves that is asked for now."""
        config = self.config
        whole = config.epsilon_decay * max(self.setup.total_updates, 1)
        done = min(self.version / whole, 1.0) if whole else 1.0
        return config.epsilon_start + (config.epsilon_end - config.epsilon_start) * done

    def update(self, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Take in a batch, then take the gradient steps it asks for."""
        self._clock.start()
        epsilon, learning_rate = self.epsilon, self._set_learning_rate()
        self.replay.add(rollouts)
        collected = sum(int((rollout.data.seats >= 0).sum()) for rollout in rollouts)
        self._clock.lap("store")
        reports = [self._learn_once() for _ in range(self._steps_due(collected))]
        self.version += 1
        metrics = _means(reports) | {
            "epsilon": epsilon,
            "learning_rate": learning_rate,
            "gradient_steps": float(len(reports)),
            "replay_decisions": float(len(self.replay)),
        }
        self._clock.lap("optimise")
        refuse_divergence(self.version, metrics)
        return metrics

    def _set_learning_rate(self) -> float:
        config = self.config
        done = min(self.version / max(self.setup.total_updates, 1), 1.0)
        rate = scheduled(config.learning_rate, config.schedule, config.final_learning_rate, done)
        set_learning_rate(self._optimizer, rate)
        return rate

    def _steps_due(self, collected: int) -> int:
        """Gradient steps after so many collected decisions; what is less than a step is owed to the next.

        What was collected before learning starts is not made up for.
        """
        config = self.config
        if not self._has_enough():
            return 0
        if config.steps_per_batch is not None:
            return config.steps_per_batch
        self._owed += collected * config.replay_ratio / config.batch_size
        due = math.floor(self._owed)
        self._owed -= due
        return due

    def _has_enough(self) -> bool:
        """Whether to learn; a full replay will do, since some of it is others' or has no outcome yet."""
        num_ready, is_full = len(self.replay), self.version + 1 >= self.replay.ring.shape.kept
        if is_full and not num_ready:
            raise ConfigError(
                "none of the decisions in the full replay has a known outcome: they are forgotten too early; "
                "raise algorithm.replay_size or collect.rollout_steps"
            )
        return is_full or num_ready >= self.config.learning_starts

    def _learn_once(self) -> Tensor:
        """One gradient step; the report stays where it was computed, so that nobody waits for the device."""
        sample = self.replay.sample(self.config.batch_size, self.gradient_steps, self._correction())
        self._clock.lap("sample")
        report, errors = self._step(sample)
        if self.config.prioritised:
            self.replay.learn_priorities(sample.frames, errors.cpu().numpy())
            self._clock.lap("priorities")
        self.gradient_steps += 1
        self._move_target()
        return report

    def _correction(self) -> float:
        done = min(self.version / max(self.setup.total_updates, 1), 1.0)
        return self.config.correction + (1.0 - self.config.correction) * done

    def _step(self, sample: Sample) -> tuple[Tensor, Tensor]:
        config = self.config
        observation, next_observation = map(self._observed, (sample.observation, sample.next_observation))
        is_legal, is_next_legal = map(self._unpacked, (sample.legal, sample.next_legal))
        actions, returns, factors, weights = map(
            self._moved, (sample.actions, sample.returns, sample.factors, sample.weights)
        )
        with torch.no_grad():
            targets = returns + factors * self._next_values(next_observation, is_next_legal)
        self._clock.lap("targets")
        logits, positions = self.model(observation)
        values = chosen_values(logits, positions, is_legal, actions.long(), config.dueling)
        losses = torch.nn.functional.huber_loss(values, targets, reduction="none", delta=config.huber_delta)
        loss = (weights * losses).mean()
        self._clock.lap("forward")
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
        self._clock.lap("backward")
        norm = torch.nn.utils.clip_grad_norm_(self._parameters, config.max_gradient_norm, foreach=True)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        loss, values = loss.detach(), values.detach()
        errors = values - targets
        report = torch.stack([loss, errors.abs().mean(), values.mean(), targets.mean(), norm])
        self._clock.lap("optimise")
        return report, errors

    def _moved(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.setup.device)

    def _observed(self, array: NDArray[Any]) -> Tensor:
        return self._moved(array).float()  # after the move: bytes are fewer

    def _unpacked(self, legal: NDArray[np.uint64]) -> Tensor:
        return unpack_legal_bits(self._moved(legal.view(np.int64)), self._num_actions)

    def _next_values(self, observation: Tensor, is_legal: Tensor) -> Tensor:
        """The value of the best legal action, by the target network."""
        is_dueling = self.config.dueling
        logits, positions = self.target(observation)
        judged = self.model(observation)[0] if self.config.double else logits
        # the best logit is the best value, dueling or not
        best = judged.masked_fill(~is_legal, -torch.inf).argmax(1)
        values = chosen_values(logits, positions, is_legal, best, is_dueling)
        # where a limit ended the game, no action may be legal any more
        otherwise = positions if is_dueling else logits.amax(1)
        return torch.where(is_legal.any(1), values, otherwise)

    def _move_target(self) -> None:
        config = self.config
        if config.target_averaging:
            with torch.no_grad():
                pairs = zip(self.target.parameters(), self.model.parameters(), strict=True)
                for target, parameter in pairs:
                    target.lerp_(parameter, config.target_averaging)
                for kept, buffer in zip(self.target.buffers(), self.model.buffers(), strict=True):
                    kept.copy_(buffer)  # counters and tables have no average
        elif self.gradient_steps % config.target_interval == 0:
            self.target.load_state_dict(self.model.state_dict())

    def weights(self) -> Weights:
        """The weights to publish."""
        return self._weights.read()

    def state(self) -> LearnerState:
        """Both networks, Adam's moments, priorities and counters; the rollouts are the ring's matter."""
        tensors = saved_network(self.model, self._optimizer)
        tensors |= {f"target.{name}": t.detach().clone() for name, t in self.target.state_dict().items()}
        tensors |= {f"replay.{name}": torch.from_numpy(a) for name, a in self.replay.state().items()}
        numbers = {"version": self.version, "gradient_steps": self.gradient_steps, "owed": self._owed}
        return LearnerState(tensors, numbers)

    def load_state(self, state: LearnerState) -> None:
        """Go on from a saved state, with the rollouts that lie in the ring."""
        self.version = int(state.numbers["version"])
        self.gradient_steps, self._owed = int(state.numbers["gradient_steps"]), float(state.numbers["owed"])
        load_network(self.model, self._optimizer, state.tensors, self.setup.device)
        load_weights(self.target, state.tensors, "target.")
        prefix = "replay."
        kept = {n.removeprefix(prefix): t.numpy() for n, t in state.tensors.items() if n.startswith(prefix)}
        self.replay.rebuild(last_turn=self.version - 1)
        self.replay.load_state(kept)

    def take_timings(self) -> dict[str, float]:
        """Seconds per stage since the last call."""
        return self._clock.take()


_REPORT = ("loss", "mean_error", "mean_value", "mean_target", "gradient_norm")


def _means(reports: Sequence[Tensor]) -> dict[str, float]:
    """What the steps of an update report, on average; nothing where there was none."""
    if not reports:
        return {}
    return dict(zip(_REPORT, torch.stack(list(reports)).double().mean(0).tolist(), strict=True))


def chosen_values(
    logits: Tensor, values: Tensor, is_legal: Tensor, actions: Tensor, is_dueling: bool
) -> Tensor:
    """The value [batch] of one action each, by a network's outputs.

    A dueling network's logits are advantages: the mean of the legal ones is taken off (Wang 2016, eq. 9).
    """
    chosen = logits.gather(1, actions.unsqueeze(1)).squeeze(1)
    if not is_dueling:
        return chosen
    mean = (logits * is_legal).sum(1) / is_legal.sum(1).clamp(min=1)
    return values + chosen - mean
