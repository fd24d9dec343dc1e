"""Deep Q-learning, after Mnih 2015, with later additions: double, dueling, n-step, prioritised.

Read from the top: the settings, then one update in the order it happens.
"""

import copy
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from pydantic import Field, model_validator
from torch import Tensor

from senju.algorithms.captured_step import Objective
from senju.algorithms.device_batches import is_same_device
from senju.algorithms.device_replay import Located
from senju.algorithms.gradient_learner import (
    GradientConfig,
    GradientLearner,
    GradientNorm,
    GradientStep,
    Learning,
    LearningRate,
)
from senju.algorithms.learner import Demands, LearnerSetup, LearnerState
from senju.algorithms.masked_categorical import unpack_legal_bits
from senju.algorithms.networks import Loss, Network, SingleNetwork
from senju.algorithms.optimising import load_weights, refuse_divergence
from senju.algorithms.replay import Priorities, Replay
from senju.algorithms.ring_reader import Sample
from senju.algorithms.transitions import Transitions, gathered_transitions, transitions
from senju.collect.exploration import Acting
from senju.collect.slots import Ring, Rollout
from senju.config import Part
from senju.errors import ConfigError
from senju.games.game import Game, SeatView
from senju.models.model import Model
from senju.timing import StageClock

REPORT = ("loss", "mean_error", "mean_value", "mean_target")  # of each gradient step


class DQNConfig(GradientConfig):
    """Settings of the `dqn` algorithm."""

    learning_rate: LearningRate = 5e-4
    max_gradient_norm: GradientNorm = 10.0
    batch_size: int = Field(256, ge=1, le=2**20, description="Decisions per gradient step.")
    replay_size: int = Field(
        200_000, ge=1, le=2**50, description="Positions that are kept, rounded up to whole rollouts."
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
    largest_batch: int | None = Field(
        None, ge=1, description="Batches grow with what was collected, up to this; none: always batch_size."
    )
    n_step: int = Field(
        1, ge=1, le=1000, description="Own decisions whose rewards a target sums before it bootstraps."
    )
    stop_at_exploration: bool = Field(
        True,
        description="End a target before a random move, its own or (zero-sum) the learner's other seat's.",
    )
    gamma: float = Field(1.0, gt=0, le=1, description="Discount per decision of a seat.")
    double: bool = Field(True, description="Choose the next action by the network, value it by the target.")
    dueling: bool = Field(True, description="Value of the position plus advantage of the action.")
    huber_delta: float = Field(1.0, gt=0, description="Errors beyond this count linearly.")
    target_interval: int = Field(
        250, ge=1, description="Gradient steps after which the target becomes the network."
    )
    target_averaging: float = Field(
        0.0, ge=0, le=1, description="Share of the network in the target after each step, instead; 0: none."
    )
    prioritised: bool = Field(
        False, description="Draw decisions by priority: those with larger errors more often."
    )
    priority_exponent: float = Field(
        0.6, ge=0, le=1, description="0: all are equally likely; 1: in proportion to the error (alpha)."
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
        0.0,
        ge=0,
        le=100,
        description="Shards explore less and less, down to epsilon to the power of 1 + this.",
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
        if self.largest_batch is not None and self.largest_batch < self.batch_size:
            raise ConfigError(
                f"largest_batch={self.largest_batch} is below batch_size={self.batch_size}, which is the "
                "smallest batch; raise the one or lower the other"
            )
        return self


class LossSettings(NamedTuple):
    """The settings of the loss."""

    is_double: bool
    is_dueling: bool
    huber_delta: float
    needs_errors: bool  # for priorities


class DQN(GradientLearner[Sample | Located, Transitions]):
    """Learns action values from old and new decisions in a replay."""

    Config = DQNConfig
    config: DQNConfig

    def __init__(self, model: Model, config: Part, setup: LearnerSetup) -> None:
        assert isinstance(config, DQNConfig)
        super().__init__(model, config, setup)
        self.target = copy.deepcopy(self.model).requires_grad_(False)
        self.networks = (*self.networks, SingleNetwork(self.target, self.optimizer))
        self.gradient_steps = 0
        self._num_turns = 0  # the newest turn in the replay so far, plus 1
        self._owed = 0.0  # fractions of gradient steps, carried over to the next update
        self._replay: Replay | None = None

    @classmethod
    def demands(cls, config: Part) -> Demands:
        """Actions by action values, and a replay."""
        assert isinstance(config, DQNConfig)
        acting = Acting("action_values", config.dueling, config.epsilon_ladder)
        return Demands(acting, kept_positions=config.replay_size)

    def attach(self, ring: Ring, game: Game | SeatView) -> None:
        """Learn from the rollouts in this ring."""
        config = self.config
        priorities = Priorities(config.priority_exponent) if config.prioritised else None
        self._replay = Replay(
            ring,
            self.setup.seed,
            config.n_step,
            config.gamma,
            game.is_zero_sum,
            priorities,
            config.stop_at_exploration,
        )

    @property
    def replay(self) -> Replay:
        """The decisions to learn from; it exists once the learner is attached to a ring."""
        assert self._replay is not None, "attach() comes first"
        return self._replay

    @property
    def epsilon(self) -> float:
        """The current share of random moves."""
        config = self.config
        whole = config.epsilon_decay * max(self.setup.total_updates, 1)
        done = min(self.version / whole, 1.0) if whole else 1.0
        return config.epsilon_start + (config.epsilon_end - config.epsilon_start) * done

    def learn(self, rollouts: Sequence[Rollout]) -> Learning[Sample | Located]:
        """Store the new rollouts, then take the gradient steps that are due, on samples of the replay."""
        self.clock.start()
        epsilon, learning_rate = self.epsilon, self._set_learning_rate()
        num_collected = self._store(rollouts)
        batch_size = self._batch_size(num_collected)
        num_steps = self._steps_due(num_collected, batch_size)
        self.clock.lap("store")
        correction = self.config.correction + (1.0 - self.config.correction) * self.progress
        steps: list[GradientStep] = []
        for _ in range(num_steps):
            sample = self._sample(batch_size, correction)
            self.gradient_steps += 1
            is_due = self.gradient_steps % self.config.target_interval == 0
            self.target_share = self.config.target_averaging or float(is_due)
            self.clock.lap("sample")
            step = yield sample  # the network takes a step on it; then the target moves by `target_share`
            self.clock.start()  # a stack trains other learners in between
            steps.append(step)
            if step.errors is not None:
                self.replay.learn_priorities(sample.frames, step.errors)
                self.clock.lap("priorities")
        self.version += 1
        metrics = self._means(steps, REPORT) | {
            "epsilon": epsilon,
            "learning_rate": learning_rate,
            "gradient_steps": float(num_steps),
            "replay_decisions": float(len(self.replay)),
        }
        if self.config.largest_batch is not None:
            metrics["batch_size"] = float(batch_size)
        refuse_divergence(self.version, metrics)
        return metrics

    def _sample(self, batch_size: int, correction: float) -> Sample | Located:
        """Decisions for the next step; the device gathers those that it has."""
        columns, device = self.replay.ring.on_device, self.setup.device
        if self.is_free_running or columns is None or not is_same_device(columns.observation.device, device):
            return self.replay.sample(batch_size, self.gradient_steps, correction, self.is_free_running)
        return self.replay.locate(batch_size, self.gradient_steps, correction)

    def _store(self, rollouts: Sequence[Rollout]) -> int:
        """Add new rollouts to the replay; return how many of the learner's own decisions they hold."""
        before = self.replay.num_collected
        if self.is_free_running:
            self.replay.follow()
        else:
            self.replay.add(rollouts)
        self._num_turns = max(self._num_turns, self.replay.newest_turn + 1)
        return self.replay.num_collected - before

    def _batch_size(self, collected: int) -> int:
        """Decisions per step: all that are due in one batch, or divided among `steps_per_batch` steps."""
        smallest, largest = self.config.batch_size, self.config.largest_batch
        if largest is None:
            return smallest
        wanted = round(collected * self.config.replay_ratio / (self.config.steps_per_batch or 1))
        return min(max(wanted, smallest), largest)

    def _steps_due(self, collected: int, batch_size: int) -> int:
        """Gradient steps for the collected decisions; a fraction is carried over to the next update.

        Decisions that were collected before learning starts lead to no steps.
        """
        config = self.config
        if not self._has_enough():
            return 0
        asked = config.steps_per_batch or collected * config.replay_ratio / batch_size
        self._owed += asked * self.training_share
        due = math.floor(self._owed)
        self._owed -= due
        return due

    def _has_enough(self) -> bool:
        """Whether to learn; also if the replay is full and many decisions have no known outcome yet."""
        num_ready, is_full = len(self.replay), self._num_turns >= self.replay.ring.shape.kept
        if is_full and not num_ready:
            raise ConfigError(
                "none of the decisions in the full replay has a known outcome: they are forgotten too early; "
                "raise algorithm.replay_size or collect.rollout_steps"
            )
        return is_full or num_ready >= self.config.learning_starts

    def size_of(self, batch: Sample | Located) -> int:
        return len(batch.frames)

    def collate(self, batches: Sequence[Sample | Located]) -> Transitions:
        located = [batch for batch in batches if isinstance(batch, Located)]
        if located:
            assert len(located) == len(batches), "the rings of all learners are on the device, or none"
            return gathered_transitions(located, self.setup.device)
        return transitions([batch for batch in batches if isinstance(batch, Sample)], self.setup.device)

    @property
    def objective(self) -> tuple[Objective, LossSettings]:
        config = self.config
        return device_loss, LossSettings(
            config.double, config.dueling, config.huber_delta, config.prioritised
        )

    def compute_loss(self, networks: Sequence[Network], batch: Transitions, clock: StageClock) -> Loss:
        settings = self.objective[1]
        targets = compute_targets(networks, batch, settings)
        clock.lap("targets")
        loss = huber_loss(networks[0], batch, targets, settings)
        clock.lap("forward")
        return loss

    def state(self) -> LearnerState:
        """Both networks, Adam's moments, priorities and counters; the rollouts are saved with the ring."""
        state = super().state()
        target = {f"target.{name}": t.detach().clone() for name, t in self.target.state_dict().items()}
        replay = {f"replay.{name}": torch.from_numpy(a) for name, a in self.replay.state().items()}
        counters = {"turns": self._num_turns, "gradient_steps": self.gradient_steps, "owed": self._owed}
        return LearnerState(state.tensors | target | replay, state.numbers | counters)

    def load_state(self, state: LearnerState) -> None:
        """Go on from a saved state, with the rollouts that lie in the ring."""
        super().load_state(state)
        self._num_turns = state.count("turns")
        self.gradient_steps, self._owed = state.count("gradient_steps"), state.amount("owed")
        load_weights(self.target, state.tensors, "target.")
        prefix = "replay."
        kept = {n.removeprefix(prefix): t.numpy() for n, t in state.tensors.items() if n.startswith(prefix)}
        self.replay.rebuild(last_turn=self._num_turns - 1)
        self.replay.load_state(kept, self.is_free_running)


def device_loss(networks: Sequence[Network], batch: Transitions, settings: LossSettings) -> Loss:
    """Targets and loss in one function, which can be compiled and captured."""
    return huber_loss(networks[0], batch, compute_targets(networks, batch, settings), settings)


def huber_loss(network: Network, batch: Transitions, targets: Tensor, settings: LossSettings) -> Loss:
    """The Huber loss of the action values, summed over the networks of a stack."""
    logits, positions = network(batch.observation.float())
    is_legal = unpack_legal_bits(batch.legal, logits.shape[-1])
    values = chosen_values(logits, positions, is_legal, batch.actions.long(), settings.is_dueling)
    delta = settings.huber_delta
    losses = torch.nn.functional.huber_loss(values, targets, reduction="none", delta=delta)
    loss = (batch.weights * losses).mean(-1)
    values = values.detach()
    errors = values - targets
    numbers = [loss.detach(), errors.abs().mean(-1), values.mean(-1), targets.mean(-1)]
    report = torch.stack(numbers, -1)
    return Loss((loss.sum(),), None, report, errors if settings.needs_errors else None)


@torch.no_grad()
def compute_targets(networks: Sequence[Network], batch: Transitions, settings: LossSettings) -> Tensor:
    """The returns, with the value of the best legal next action by the target network."""
    network, target = networks
    observation = batch.next_observation.float()
    logits, positions = target(observation)
    is_legal = unpack_legal_bits(batch.next_legal, logits.shape[-1])
    scores = network(observation)[0] if settings.is_double else logits
    # the best logit is the best value, dueling or not
    best = scores.masked_fill(~is_legal, -torch.inf).argmax(-1)
    values = chosen_values(logits, positions, is_legal, best, settings.is_dueling)
    # a truncated game's last position may have no legal action
    otherwise = positions if settings.is_dueling else logits.amax(-1)
    return batch.returns + batch.factors * torch.where(is_legal.any(-1), values, otherwise)


def chosen_values(
    logits: Tensor, values: Tensor, is_legal: Tensor, actions: Tensor, is_dueling: bool
) -> Tensor:
    """The value [..., sample] of one action each, by a network's outputs.

    A dueling network's logits are advantages: the mean of the legal ones is subtracted (Wang 2016, eq. 9).
    """
    chosen = logits.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    if not is_dueling:
        return chosen
    mean = (logits * is_legal).sum(-1) / is_legal.sum(-1).clamp(min=1)
    return values + chosen - mean
