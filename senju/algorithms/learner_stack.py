"""Several learners of one kind, whose gradient steps are taken as one.

Each says itself what to learn from next, and for how long; a step serves all that ask for one of the same
size, each by its own data.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from senju.algorithms.gradient_learner import BatchT, GradientLearner, Metrics, Taken, sent
from senju.algorithms.stacked_adam import StackedAdam
from senju.collect.slots import Rollout
from senju.errors import SenjuError
from senju.models.stacked import ModelStack
from senju.timing import StageClock

Errors = NDArray[np.float32]  # [row, sample]


class LearnerStack(ABC, Generic[BatchT]):
    """Learners with equal settings and models of one shape; row i of what is stacked is learner i's."""

    _learners: Sequence[GradientLearner[BatchT]]

    def __init__(self, learners: Sequence[GradientLearner[BatchT]], names: Sequence[str]) -> None:
        self.names = list(names)
        self.networks = ModelStack([learner.model for learner in learners])
        self._learners = learners
        self._adam = StackedAdam(self.networks, learners)
        self._clock = StageClock()

    def update(self, rollouts: Mapping[int, Sequence[Rollout]]) -> dict[int, Metrics]:
        """Train the learners of some rows, each from its own rollouts."""
        rows = sorted(rollouts)
        self._adam.take_over(rows)
        learning = {row: self._learners[row].learning(rollouts[row]) for row in rows}
        waiting: dict[int, BatchT] = {}
        for row in rows:
            with self._named(row):
                _note(waiting, row, next(learning[row], None))
        reports = _Reports()
        while waiting:
            asked, waiting = waiting, {}
            for row, taken in self._step_all(asked, reports):
                with self._named(row):
                    _note(waiting, row, sent(learning[row], taken))
        self._clock.start()
        self._adam.hand_over(reports.rows)
        found = reports.by_row()
        self._clock.lap("optimise")
        return self._finished(rows, found)

    def _step_all(self, batches: Mapping[int, BatchT], reports: "_Reports") -> Iterator[tuple[int, Taken]]:
        """A step for everyone; those whose batches are of one size take theirs together."""
        for size in sorted({self.size_of(batch) for batch in batches.values()}):
            rows = sorted(row for row, batch in batches.items() if self.size_of(batch) == size)
            self._clock.start()
            report, errors = self.step(rows, [batches[row] for row in rows])
            reports.note(rows, report)
            for place, row in enumerate(rows):
                yield row, Taken(report[place], errors[place] if errors is not None else None)

    @abstractmethod
    def size_of(self, batch: BatchT) -> int:
        """Decisions in a batch."""

    @abstractmethod
    def step(self, rows: Sequence[int], batches: Sequence[BatchT]) -> tuple[Tensor, Errors | None]:
        """One gradient step for each row; return [row, number] and, where asked for, decisions' errors."""

    def _finished(
        self, rows: Sequence[int], reports: Mapping[int, NDArray[np.float64]]
    ) -> dict[int, Metrics]:
        metrics = {}
        for row in rows:
            with self._named(row):
                metrics[row] = self._learners[row].finished(reports.get(row))
        return metrics

    @contextmanager
    def _named(self, row: int) -> Iterator[None]:
        """Say whose learner it was that could not go on."""
        try:
            yield
        except SenjuError as error:
            raise type(error)(f"{self.names[row]}: {error}") from error

    def take_timings(self) -> dict[str, float]:
        """Seconds per stage of the steps since the last call; learners time what they do alone."""
        return self._clock.take()


class _Reports:
    """What steps reported. It stays on the device until all are taken, and comes back at once."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._numbers: list[Tensor] = []

    def note(self, rows: Sequence[int], numbers: Tensor) -> None:
        """[row, number] of one step."""
        self._rows += rows
        self._numbers.append(numbers)

    @property
    def rows(self) -> list[int]:
        """Who took a step."""
        return sorted(set(self._rows))

    def by_row(self) -> dict[int, NDArray[np.float64]]:
        """[step, number] of everyone who took a step."""
        if not self._numbers:
            return {}
        numbers, owners = torch.cat(self._numbers).double().cpu().numpy(), np.array(self._rows)
        return {row: numbers[owners == row] for row in self.rows}


def _note(waiting: dict[int, BatchT], row: int, batch: BatchT | None) -> None:
    if batch is not None:
        waiting[row] = batch
