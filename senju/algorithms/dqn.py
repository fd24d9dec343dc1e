"""Deep Q-learning, after Mnih 2015, with what came after: double, dueling, n-step, prioritised.

Read from the top: the settings, then one update in the order it happens.
"""

import copy
import math
from collections.abc import Generator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator

from senju.algorithms.dqn_loss import REPORT, Rules, Transitions, judge, transitions
from senju.algorithms.gradient_learner import GradientLearner, Metrics, Taken
from senju.algorithms.learner import Demands, LearnerSetup, LearnerState
from senju.algorithms.optimising import (
    Schedule,
    load_network,
    load_weights,
    refuse_divergence,
    saved_network,
)
from senju.algorithms.replay import Priorities, Replay
from senju.algorithms.ring_reader import Sample
from senju.collect.slots import Ring, Rollout
from senju.config import Part
from senju.errors import ConfigError
from senju.games.game import Game, SeatView
from senju.models.model import Model


class DQNConfig(Part):
    """Settings of the `dqn` algorithm."""

    learning_rate: float = Field(5e-4, gt=0, le=1, description="Adam's step size at the start.")
    schedule: Schedule = Field("linear", description="How the learning rate falls over the run.")
    final_learning_rate: float = Field(
        0.05, ge=0, le=1, description="Where it falls to, as a share of the first."
    )
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
        if self.largest_batch is not None and self.largest_batch < self.batch_size:
            raise ConfigError(
                f"largest_batch={self.largest_batch} is below batch_size={self.batch_size}, which is the "
                "smallest batch; raise the one or lower the other"
            )
        return self


class DQN(GradientLearner[Sample]):
    """Learns action values from decisions of long ago and of just now."""

    Config = DQNConfig

    def __init__(self, model: Model, config: Part, setup: LearnerSetup) -> None:
        assert isinstance(config, DQNConfig)
        super().__init__(model, config, setup)
        self.config = config
        self.rules = Rules(config.double, config.dueling, config.huber_delta)
        self.target = copy.deepcopy(self.model).requires_grad_(False)
        self.gradient_steps = 0
        self.num_actions = 0
        self._num_turns = 0  # of every shard, up to the newest that was taken in
        self._owed = 0.0  # gradient steps that were asked for and not taken yet
        self._replay: Replay | None = None
        self._metrics: Metrics = {}

    @classmethod
    def demands(cls, config: Part) -> Demands:
        """Action values, and rollouts that stay."""
        assert isinstance(config, DQNConfig)
        acting = {"by": "action_values", "is_dueling": config.dueling, "ladder": config.epsilon_ladder}
        return Demands(acting, kept_positions=config.replay_size)

    def attach(self, ring: Ring, game: Game | SeatView) -> None:
        """Learn from the rollouts in this ring."""
        config = self.config
        self.num_actions = game.num_actions
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

    def learning(self, rollouts: Sequence[Rollout]) -> Generator[Sample, Taken, None]:
        """Take in a batch, then ask for the gradient steps that are due."""
        self._clock.start()
        epsilon, learning_rate = self.epsilon, self._set_learning_rate()
        collected = self._take_in(rollouts)
        batch_size = self._batch_size(collected)
        num_steps = self._steps_due(collected, batch_size)
        self._clock.lap("store")
        correction = self.config.correction + (1.0 - self.config.correction) * self.done
        for _ in range(num_steps):
            sample = self.replay.sample(batch_size, self.gradient_steps, correction, self.is_following)
            self.gradient_steps += 1
            self._clock.lap("sample")
            taken = yield sample
            self._clock.start()  # others may have been served meanwhile
            if taken.errors is not None:
                self.replay.learn_priorities(sample.frames, taken.errors)
                self._clock.lap("priorities")
        self.version += 1
        self._metrics = {
            "epsilon": epsilon,
            "learning_rate": learning_rate,
            "gradient_steps": float(num_steps),
            "replay_decisions": float(len(self.replay)),
        }
        if self.config.largest_batch is not None:
            self._metrics["batch_size"] = float(batch_size)

    def _take_in(self, rollouts: Sequence[Rollout]) -> int:
        """The replay takes in what is new; return how many decisions of its own that is."""
        before = self.replay.num_collected
        if self.is_following:
            self.replay.follow()
        else:
            self.replay.add(rollouts)
        self._num_turns = max(self._num_turns, self.replay.newest_turn + 1)
        return self.replay.num_collected - before

    def _batch_size(self, collected: int) -> int:
        """Decisions per step: all that are to be learned from at once, or divided by the steps asked for."""
        smallest, largest = self.config.batch_size, self.config.largest_batch
        if largest is None:
            return smallest
        wanted = round(collected * self.config.replay_ratio / (self.config.steps_per_batch or 1))
        return min(max(wanted, smallest), largest)

    def _steps_due(self, collected: int, batch_size: int) -> int:
        """Gradient steps after so many collected decisions; what is less than a step is owed to the next.

        What was collected before learning starts is not made up for.
        """
        config = self.config
        if not self._has_enough():
            return 0
        asked = config.steps_per_batch or collected * config.replay_ratio / batch_size
        self._owed += asked * self.attention
        due = math.floor(self._owed)
        self._owed -= due
        return due

    def _has_enough(self) -> bool:
        """Whether to learn; a full replay will do, since some of it is others' or has no outcome yet."""
        num_ready, is_full = len(self.replay), self._num_turns >= self.replay.ring.shape.kept
        if is_full and not num_ready:
            raise ConfigError(
                "none of the decisions in the full replay has a known outcome: they are forgotten too early; "
                "raise algorithm.replay_size or collect.rollout_steps"
            )
        return is_full or num_ready >= self.config.learning_starts

    def step(self, batch: Sample) -> Taken:
        """One gradient step; the report stays where it was computed, so that nobody waits for the device."""
        moved = transitions([batch], self.num_actions, self.setup.device)
        alone = Transitions(*(column.squeeze(0) for column in moved))
        judged = judge(self.model, self.target, alone, self.rules, self._clock)
        judged.losses.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
        self._clock.lap("backward")
        norm = self._descend()
        self._move_target()
        errors = judged.errors.cpu().numpy() if self.config.prioritised else None
        self._clock.lap("optimise")
        return Taken(torch.cat([judged.report, norm.unsqueeze(0)]), errors)

    @property
    def is_target_due(self) -> bool:
        """Whether the target becomes the network after the step under way."""
        return not self.config.target_averaging and self.gradient_steps % self.config.target_interval == 0

    def _move_target(self) -> None:
        share = self.config.target_averaging
        if share:
            with torch.no_grad():
                pairs = zip(self.target.parameters(), self.model.parameters(), strict=True)
                for target, parameter in pairs:
                    target.lerp_(parameter, share)
                for kept, buffer in zip(self.target.buffers(), self.model.buffers(), strict=True):
                    kept.copy_(buffer)  # counters and tables have no average
        elif self.is_target_due:
            self.target.load_state_dict(self.model.state_dict())

    def finished(self, reports: NDArray[np.float64] | None) -> Metrics:
        """What the steps report, on average; nothing where there was none."""
        names, means = (*REPORT, "gradient_norm"), [] if reports is None else reports.mean(axis=0).tolist()
        metrics = dict(zip(names, means, strict=False)) | self._metrics
        refuse_divergence(self.version, metrics)
        return metrics

    def state(self) -> LearnerState:
        """Both networks, Adam's moments, priorities and counters; the rollouts are the ring's matter."""
        tensors = saved_network(self.model, self.optimizer)
        tensors |= {f"target.{name}": t.detach().clone() for name, t in self.target.state_dict().items()}
        tensors |= {f"replay.{name}": torch.from_numpy(a) for name, a in self.replay.state().items()}
        numbers = {
            "version": self.version,
            "turns": self._num_turns,
            "gradient_steps": self.gradient_steps,
            "owed": self._owed,
        }
        return LearnerState(tensors, numbers)

    def load_state(self, state: LearnerState) -> None:
        """Go on from a saved state, with the rollouts that lie in the ring."""
        self.version = state.count("version")
        self._num_turns = state.count("turns", self.version)  # once, each update was a turn
        self.gradient_steps, self._owed = state.count("gradient_steps"), state.amount("owed")
        load_network(self.model, self.optimizer, state.tensors, self.setup.device)
        load_weights(self.target, state.tensors, "target.")
        prefix = "replay."
        kept = {n.removeprefix(prefix): t.numpy() for n, t in state.tensors.items() if n.startswith(prefix)}
        self.replay.rebuild(last_turn=self._num_turns - 1)
        self.replay.load_state(kept, self.is_following)
