"""Agents of one kind are trained as one computation, each on its own data; others one after another."""

import json
import logging
from collections.abc import Sequence
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.algorithms.gradient_learner import GradientLearner
from senju.algorithms.learner import Learner, LearnerState
from senju.algorithms.learner_runner import (
    LearnerSettings,
    SequentialLearners,
    Trained,
    TrainingTask,
    rollouts_of,
    summed,
)
from senju.algorithms.learner_stack import LearnerStack
from senju.collect.slots import Ring
from senju.games.game import Game, SeatView
from senju.machine import math_threads
from senju.models.stacked import can_stack
from senju.models.weights import Weights

logger = logging.getLogger(__name__)


class StackedLearners(SequentialLearners):
    """Agents with the same settings of model and algorithm take their gradient steps together.

    Nothing is shared: every agent keeps its own replay, moments, counters and schedule. The steps are the
    same as one after another but for rounding: sums are taken in another order. Stacks compute with as
    many threads as torch has been given; agents alone in their kind compute as in `SequentialLearners`.
    """

    def __init__(self, seats: Sequence[LearnerSettings], learners: Sequence[Learner]) -> None:
        super().__init__(learners)
        self._seats = list(seats)
        self._stacks: list[tuple[list[int], LearnerStack]] = []  # the seats of their rows
        self._blocks: dict[int, NDArray[np.uint8]] = {}  # of agents whose weights were read since

    def attach(self, rings: Sequence[Ring], view: Game | SeatView) -> None:
        """Each learner gets its own ring, and those of a kind are stacked."""
        super().attach(rings, view)
        kinds: dict[Any, list[int]] = {}
        for seat, learner in zip(self._seats, self.learners, strict=True):
            if seat.learns and isinstance(learner, GradientLearner):
                settings = json.dumps([seat.model, seat.algorithm, seat.device], sort_keys=True)
                kinds.setdefault((type(learner), settings), []).append(seat.seat)
        self._stacks = []
        for members in kinds.values():
            learners: list[Any] = [self.learners[seat] for seat in members]
            models = [learner.model for learner in learners]
            if len(members) > 1 and can_stack(models, view.observation_shape):
                names = [self._seats[seat].name for seat in members]
                logger.info("%s are trained together", ", ".join(names))
                self._stacks.append((members, LearnerStack(learners, names)))

    def learn(self, tasks: Sequence[TrainingTask]) -> list[Trained]:
        """Train all; one that is alone of its kind this time, by itself."""
        self._blocks.clear()
        learned: dict[int, Trained] = {}
        for members, stack in self._stacks:
            together = [task for task in tasks if task.seat in members]
            if len(together) > 1:
                learned |= self._train_together(members, stack, together)
        with math_threads(1):
            learned |= {task.seat: self.train(task) for task in tasks if task.seat not in learned}
        return [learned[task.seat] for task in tasks]

    def _train_together(
        self, members: list[int], stack: LearnerStack, tasks: Sequence[TrainingTask]
    ) -> dict[int, Trained]:
        began = monotonic()
        rollouts = {}
        for task in tasks:
            task.apply(self.learners[task.seat])
            rollouts[members.index(task.seat)] = rollouts_of(self._rings[task.seat], task)
        metrics, ended = stack.update(rollouts), monotonic()
        return {members[row]: Trained(members[row], found, began, ended) for row, found in metrics.items()}

    def load_state(self, seat: int, state: LearnerState) -> None:
        """The learner's; its stack takes the moments over before the next step."""
        self._blocks.clear()
        super().load_state(seat, state)

    def weights(self, seat: int) -> Weights:
        """The learner's; those of a whole stack are read from the device at once."""
        if seat not in self._blocks:
            for members, stack in self._stacks:
                blocks = stack.networks.blocks() if seat in members else None
                if blocks is not None:
                    self._blocks |= zip(members, blocks, strict=True)
        return self._blocks[seat].copy() if seat in self._blocks else super().weights(seat)

    def take_timings(self) -> dict[str, float]:
        """Of all learners and stacks together."""
        return summed([super().take_timings(), *(stack.take_timings() for _, stack in self._stacks)])
