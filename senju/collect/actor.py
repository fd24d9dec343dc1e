"""Actors: networks that evaluate batches of observations, without gradients.

The shapes of a shard's batches follow from the shard alone, because another shape may round differently:
equal bits need equal shapes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from senju.games.game import Game, SeatView
from senju.models.model import Model
from senju.models.stacked import ModelStack

NetworkOutput = tuple[NDArray[np.float32], NDArray[np.float32]]  # logits [sample, action], values [sample]


class Actor:
    """One model, which evaluates batches of at most one size."""

    def __init__(self, game: Game | SeatView, model: Model, num_rows: int) -> None:
        self.model = model.eval().requires_grad_(False)
        self.num_rows = num_rows
        self._batch = num_rows * game.num_acting
        self._input = torch.zeros(self._batch, *game.observation_shape)
        self._logits = np.zeros((self._batch, game.num_actions), np.float32)
        self._values = np.zeros(self._batch, np.float32)

    def evaluate(self, observation: NDArray[Any]) -> NetworkOutput:
        """The outputs for at most `num_rows * num_acting` observations."""
        batch = self._input
        if observation.size != batch.numel():
            batch = batch[: len(observation)]
        batch.copy_(torch.from_numpy(observation).view(batch.shape))
        logits, values = self.model(batch)
        return logits.numpy(), values.numpy()

    def evaluate_some(self, observation: NDArray[Any], positions: NDArray[np.int64]) -> NetworkOutput:
        """Evaluate only some positions (row * num_acting + acting_index); the values of the others are 0."""
        if len(positions) == self._batch:
            return self.evaluate(observation)
        self._values.fill(0.0)
        if len(positions):
            chosen = observation.reshape(self._input.shape)[positions]
            self._logits[positions], self._values[positions] = self.evaluate(chosen)
        return self._logits, self._values


class StackedActor:
    """Several multilayer perceptrons of one shape, which evaluate a batch each in one computation.

    The models' weights become rows of one matrix. Writing to a model changes the matrix.
    """

    def __init__(self, view: SeatView, models: Sequence[Model], num_rows: int) -> None:
        for model in models:
            model.eval().requires_grad_(False)
        self._stack, self._rows = ModelStack(models), range(len(models))
        self._leaves = self._stack.leaves(self._rows)
        self._input = torch.zeros(len(models), num_rows, *view.observation_shape)

    def evaluate(self, observations: Sequence[NDArray[Any]]) -> list[NetworkOutput]:
        """The evaluation of one batch [row, 1, *observation_shape] for each model."""
        for batch, observation in zip(self._input, observations, strict=True):
            batch.copy_(torch.from_numpy(observation).view(batch.shape))
        logits, values = self._stack(self._leaves, self._rows, self._input)
        outputs = zip(logits.contiguous().numpy(), values.numpy(), strict=True)
        return list(outputs)
