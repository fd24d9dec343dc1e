"""The contract of actors that evaluate and choose for a whole step: on a device, or in another process."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from senju.collect.device_columns import DeviceSlot
from senju.collect.exploration import Acting
from senju.games.game import Game, Observations, SeatView
from senju.models.model import Model


class Results(NamedTuple):
    """What one step decided; all [policy, position]."""

    actions: NDArray[np.int32]  # -1: no valid choice
    log_probs: NDArray[np.float32]
    values: NDArray[np.float32]
    explored: NDArray[np.bool_]


class StepActor(ABC):
    """Evaluates and chooses for one or more policies of one shape, one batch of fixed shape each."""

    @abstractmethod
    def begin(self, seed: np.uint64, epsilons: Sequence[float]) -> None:
        """Prepare for steps with this seed, and a share of random moves for each policy."""

    @abstractmethod
    def act(
        self, seen: Sequence[Observations], clock: NDArray[np.void], kept: Sequence[DeviceSlot], time: int
    ) -> Results:
        """Evaluate and choose for what each policy sees; keep the uploads at `time` of the device's slots.

        The results are valid until the next call.
        """

    @abstractmethod
    def evaluate(self, observations: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        """[policy, position]: the values of at most one batch of observations for each policy."""

    @abstractmethod
    def logits_at(self, policy: int, position: int) -> NDArray[np.float32]:
        """[1, action]: the logits of a position of the last step, for an error's message."""

    @abstractmethod
    def finish(self) -> None:
        """Wait until everything is where the learner reads it."""

    @abstractmethod
    def refresh(self) -> None:
        """Take over the models' weights after a change."""


class StepProgram(ABC):
    """Makes the actors of a rollout player."""

    @abstractmethod
    def new_actor(
        self,
        view: Game | SeatView,
        models: Sequence[Model],
        acting: Acting,
        streams: Sequence[int],  # of each policy's first acting index
        num_rows: int,
    ) -> StepActor:
        """An actor for these models."""
