"""Agents of one kind are trained as one computation, each on its own data; others one after another."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from senju.algorithms.captured_step import CapturedSteps, Objective, StepResult
from senju.algorithms.gradient_learner import (
    GradientLearner,
    GradientStep,
    Learning,
    Metrics,
    as_gradient_step,
    follow,
)
from senju.algorithms.learner import Learner, LearnerState
from senju.algorithms.learner_runner import (
    LearnerSettings,
    SequentialLearners,
    TrainingResult,
    TrainingTask,
    rollouts_of,
)
from senju.algorithms.networks import StackedAdam, StackedNetwork
from senju.collect.slots import Ring, Rollout
from senju.errors import SenjuError
from senju.games.game import Game, SeatView
from senju.machine import math_threads
from senju.models.stacked import ModelStack, can_stack
from senju.models.weights import Weights
from senju.timing import StageClock, add_seconds

logger = logging.getLogger(__name__)


Learners = Sequence[GradientLearner[Any, Any]]


class LearnerStack:
    """Learners with equal settings and models of one shape; row i of each stack belongs to learner i.

    Each learner chooses its own batches and the number of its steps. Learners whose next batches have one
    size take that step together, each on its own data.
    """

    def __init__(self, settings: Sequence[LearnerSettings], learners: Learners) -> None:
        self.seats, self._names = [each.seat for each in settings], [each.name for each in settings]
        self._learners = learners
        self._stacks = [
            ModelStack([network.model for network in networks])
            for networks in zip(*(each.networks for each in learners), strict=True)
        ]
        self.networks = self._stacks[0]
        self._adam = StackedAdam(self.networks, [each.optimizer for each in learners])
        self.clock = StageClock()  # of the common steps; learners time their own stages
        setup = learners[0].setup
        is_captured = learners[0].steps is not None
        self.steps = CapturedSteps(setup.device, setup.chosen_kernels) if is_captured else None

    def update(self, rollouts: Mapping[int, Sequence[Rollout]]) -> dict[int, Metrics]:
        """Train the learners of some rows, each on its own rollouts."""
        with self.steps.own_stream() if self.steps is not None else nullcontext():
            return self._update(rollouts)

    def _update(self, rollouts: Mapping[int, Sequence[Rollout]]) -> dict[int, Metrics]:
        self._adam.take_over(sorted(rollouts))
        learnings = {row: self._learners[row].learn(rollouts[row]) for row in sorted(rollouts)}
        metrics: dict[int, Metrics] = {}
        stepped: set[int] = set()
        steps: dict[int, GradientStep | None] = dict.fromkeys(learnings)
        while batches := self._next_batches(learnings, steps, metrics):
            steps = {}
            for rows in self._rows_by_size(batches):
                steps |= self._step(rows, batches)
                stepped.update(rows)
        self._adam.hand_over(sorted(stepped))
        return metrics

    def _next_batches(
        self,
        learnings: Mapping[int, Learning[Any]],
        steps: Mapping[int, GradientStep | None],
        metrics: dict[int, Metrics],
    ) -> dict[int, Any]:
        """Send each row the result of its step and return its next batch; take finished rows' metrics."""
        batches = {}
        for row, step in sorted(steps.items()):
            with self._named(row):
                try:
                    batches[row] = learnings[row].send(step)  # type: ignore[arg-type]  # None starts it
                except StopIteration as end:
                    metrics[row] = end.value
        return batches

    def _rows_by_size(self, batches: Mapping[int, Any]) -> list[list[int]]:
        sizes = {row: self._learners[row].size_of(batch) for row, batch in batches.items()}
        return [[row for row in sizes if sizes[row] == size] for size in sorted(set(sizes.values()))]

    def _step(self, rows: Sequence[int], batches: Mapping[int, Any]) -> dict[int, GradientStep]:
        """One gradient step of these rows, and of their target networks."""
        try:
            step = self._gradient_step(rows, batches)
        except SenjuError:  # take the rows' steps one by one, to name the row that fails
            for row in rows:
                with self._named(row):
                    self._gradient_step([row], batches)
            raise
        shares = {row: self._learners[row].target_share for row in rows}
        moved = [row for row in rows if shares[row]]
        # a captured step has moved the averaged targets already
        if moved and (self.steps is None or shares[moved[0]] == 1):
            follow(self._networks_of(moved), shares[moved[0]])
        self.clock.lap("optimise")
        errors = [None] * len(rows) if step.errors is None else step.errors
        return {
            row: GradientStep(step.report[i], step.gradient_norm[i], errors[i]) for i, row in enumerate(rows)
        }

    def _gradient_step(self, rows: Sequence[int], batches: Mapping[int, Any]) -> GradientStep:
        learner = self._learners[rows[0]]  # all have its settings
        self.clock.start()
        batch = learner.collate([batches[row] for row in rows])
        self.clock.lap("gather")
        if self.steps is None:
            return learner.gradient_step(self._networks_of(rows), batch, self.clock)
        share = learner.target_share if learner.target_share < 1 else 0.0
        key, step = (tuple(rows), share), partial(self._device_step, rows, share)
        return as_gradient_step(self.steps.take(key, learner.objective[0], batch, step, self._changed))

    def _device_step(self, rows: Sequence[int], share: float, objective: Objective, batch: Any) -> StepResult:
        # new leaves in each step: those of rows that are not adjacent are copies of the weights
        return self._learners[rows[0]].device_step(self._networks_of(rows), share, objective, batch)

    def _changed(self) -> list[Tensor]:
        return [tensor for network in self._networks_of([0]) for tensor in network.tensors()]

    def _networks_of(self, rows: Sequence[int]) -> list[StackedNetwork]:
        return [StackedNetwork(stack, rows, self._adam) for stack in self._stacks]

    @contextmanager
    def _named(self, row: int) -> Iterator[None]:
        """Errors name the agent whose learner failed."""
        try:
            yield
        except SenjuError as error:
            raise type(error)(f"{self._names[row]}: {error}") from error


class StackedLearners(SequentialLearners):
    """Agents with the same settings of model and algorithm take their gradient steps together.

    Nothing is shared: every agent keeps its own replay, moments, counters and schedule. The steps are the
    same as one after another, except for rounding: sums are taken in another order. Stacks compute with as
    many threads as torch has been given; agents alone in their kind compute as in `SequentialLearners`.
    """

    def __init__(self, settings: Sequence[LearnerSettings], learners: Sequence[Learner]) -> None:
        super().__init__(learners)
        self._settings = settings
        self._stacks: list[LearnerStack] = []
        self._blocks: dict[
            int, NDArray[np.uint8]
        ] = {}  # of agents whose weights were read since the last training

    def attach(self, rings: Sequence[Ring], view: Game | SeatView) -> None:
        """Attach each learner to its own ring, and stack learners of one kind."""
        super().attach(rings, view)
        kinds: dict[Any, list[LearnerSettings]] = {}
        for each, learner in zip(self._settings, self.learners, strict=True):
            if each.learns and isinstance(learner, GradientLearner):
                kind = json.dumps([each.model, each.algorithm, each.device], sort_keys=True)
                kinds.setdefault((type(learner), kind), []).append(each)
        self._stacks = []
        for alike in kinds.values():
            learners: list[Any] = [self.learners[each.seat] for each in alike]
            models = [learner.model for learner in learners]
            if len(alike) > 1 and can_stack(models, view.observation_shape):
                logger.info("%s are trained together", ", ".join(each.name for each in alike))
                self._stacks.append(LearnerStack(alike, learners))

    def learn(self, tasks: Sequence[TrainingTask]) -> list[TrainingResult]:
        """Train the due agents: those of one kind together, an agent alone of its kind by itself."""
        self._blocks.clear()
        learned: dict[int, TrainingResult] = {}
        for stack in self._stacks:
            together = [task for task in tasks if task.seat in stack.seats]
            if len(together) > 1:
                learned |= self._train_together(stack, together)
        with math_threads(1):
            learned |= {task.seat: self.train(task) for task in tasks if task.seat not in learned}
        return [learned[task.seat] for task in tasks]

    def _train_together(
        self, stack: LearnerStack, tasks: Sequence[TrainingTask]
    ) -> dict[int, TrainingResult]:
        began, rollouts = monotonic(), {}
        for task in tasks:
            task.apply(self.learners[task.seat])
            rollouts[stack.seats.index(task.seat)] = rollouts_of(self._rings[task.seat], task)
        metrics, ended = stack.update(rollouts), monotonic()
        seats = {row: stack.seats[row] for row in metrics}
        return {seat: TrainingResult(seat, metrics[row], began, ended) for row, seat in seats.items()}

    def load_state(self, seat: int, state: LearnerState) -> None:
        """Load the learner's state; its stack takes over the moments before the next step."""
        self._blocks.clear()
        super().load_state(seat, state)

    def weights(self, seat: int) -> Weights:
        """The learner's weights; those of a whole stack are read from the device at once."""
        if seat not in self._blocks:
            for stack in self._stacks:
                blocks = stack.networks.blocks() if seat in stack.seats else None
                if blocks is not None:
                    self._blocks |= zip(stack.seats, blocks, strict=True)
        return self._blocks[seat].copy() if seat in self._blocks else super().weights(seat)

    def take_timings(self) -> dict[str, float]:
        """The timings of all learners and stacks together."""
        total = super().take_timings()
        for stack in self._stacks:
            add_seconds(total, stack.clock.take())
        return total
