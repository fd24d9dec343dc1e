"""Several learners with equal settings, whose gradient steps are computed as one.

Each learner chooses its own batches and the number of its steps. Learners whose next batches have one
size take that step together, each on its own data.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from senju.algorithms.gradient_learner import GradientLearner, GradientStep, Learning, Metrics
from senju.algorithms.networks import Network, StackedNetwork
from senju.algorithms.stacked_adam import StackedAdam
from senju.collect.slots import Rollout
from senju.errors import SenjuError
from senju.models.stacked import ModelStack
from senju.timing import StageClock

Learners = Sequence[GradientLearner[Any, Any]]


class LearnerStack:
    """Learners with equal settings and models of one shape; row i of each stack belongs to learner i."""

    def __init__(self, learners: Learners, names: Sequence[str]) -> None:
        self.names, self._learners = list(names), learners
        self._stacks = [
            ModelStack(models) for models in zip(*(each.models for each in learners), strict=True)
        ]
        self.networks = self._stacks[0]
        self._adam = StackedAdam(self.networks, learners)
        self._clock = StageClock()

    def update(self, rollouts: Mapping[int, Sequence[Rollout]]) -> dict[int, Metrics]:
        """Train the learners of some rows, each on its own rollouts."""
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
        self._move_targets(rows)
        self._clock.lap("optimise")
        errors = [None] * len(rows) if step.errors is None else step.errors
        return {row: GradientStep(step.report[i], errors[i]) for i, row in enumerate(rows)}

    def _gradient_step(self, rows: Sequence[int], batches: Mapping[int, Any]) -> GradientStep:
        learner = self._learners[rows[0]]  # all have its settings
        self._clock.start()
        batch = learner.collate([batches[row] for row in rows])
        self._clock.lap("gather")
        networks: list[Network] = [StackedNetwork(stack, rows, self._adam) for stack in self._stacks]
        return learner.gradient_step(networks, batch, self._clock)

    def _move_targets(self, rows: Sequence[int]) -> None:
        shares = {row: self._learners[row].target_share for row in rows}
        moved = [row for row in rows if shares[row]]
        if moved:
            self._stacks[1].follow(self.networks, moved, shares[moved[0]])

    @contextmanager
    def _named(self, row: int) -> Iterator[None]:
        """Errors name the agent whose learner failed."""
        try:
            yield
        except SenjuError as error:
            raise type(error)(f"{self.names[row]}: {error}") from error

    def take_timings(self) -> dict[str, float]:
        """Seconds per stage of the common steps since the last call; learners time their own stages."""
        return self._clock.take()
