"""The Learner contract: turns rollouts into new weights."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from senju.collect.exploration import BY_POLICY, Acting
from senju.collect.slots import Ring, Rollout
from senju.config import Part
from senju.cuda import Kernels, default_kernels
from senju.errors import CheckpointError
from senju.games.game import Game, SeatView
from senju.models.model import Model
from senju.models.weights import Weights

MAX_COUNT = 2**53  # of a saved counter


@dataclass(frozen=True)
class LearnerSetup:
    """The seed, length and device of the run that a learner belongs to."""

    seed: int
    total_updates: int  # the length of its schedules
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    kernels: Kernels | None = None  # of gradient steps on a GPU; None: the device's default

    @property
    def chosen_kernels(self) -> Kernels:
        """The kernels to learn with."""
        return self.kernels or default_kernels(self.device)


@dataclass(frozen=True)
class Demands:
    """A learner's requirements for collecting."""

    acting: Acting = BY_POLICY  # how its network acts
    kept_positions: int = 0  # that can be read again later; 0: only the newest rollouts

    @property
    def is_replaying(self) -> bool:
        """Whether rollouts are learned from more than once."""
        return self.kept_positions > 0


@dataclass(frozen=True)
class LearnerState:
    """Everything that a learner needs to resume exactly."""

    tensors: dict[str, Tensor]
    numbers: dict[str, Any]  # JSON

    def count(self, name: str) -> int:
        """A saved count; CheckpointError if it is not a valid one."""
        number = self.numbers.get(name)
        if type(number) is not int or not 0 <= number < MAX_COUNT:
            raise CheckpointError(
                f"the learner's saved {name} is {str(number)[:40]}; expected 0 to {MAX_COUNT}"
            )
        return number

    def amount(self, name: str) -> float:
        """A saved amount; CheckpointError if it is not a valid one."""
        number = self.numbers.get(name)
        if not isinstance(number, int | float) or not abs(number) < MAX_COUNT:
            raise CheckpointError(f"the learner's saved {name} is {str(number)[:40]}; expected a number")
        return float(number)


class Learner(ABC):
    """Owns the model that learns, one `update` per batch of rollouts.

    metrics = learner.update(backend.collect())
    backend.publish(learner.weights(), learner.version)
    """

    Config: ClassVar[type[Part]]

    version: int  # trainings that were due so far, also those that were skipped because it was busy
    training_share: float = 1.0  # factor on the gradient steps or epochs of the next update
    is_free_running: bool = False  # collecting does not wait: rollouts may be overwritten while they are read

    @abstractmethod
    def __init__(self, model: Model, config: Part, setup: LearnerSetup) -> None: ...

    @classmethod
    def demands(cls, config: Part) -> Demands:  # for algorithms whose requirements depend on it
        """What collecting must provide; by default, moves drawn from a policy, and the newest rollouts."""
        return Demands()

    def attach(self, ring: Ring, game: Game | SeatView) -> None:  # noqa: B027  # not all learners need it
        """Use this ring from now on, for a replay or with `is_free_running`."""

    @property
    def epsilon(self) -> float:
        """The share of random moves to be made with the current weights."""
        return 0.0

    @abstractmethod
    def update(self, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Learn from a batch; return metrics."""

    @abstractmethod
    def weights(self) -> Weights:
        """The weights to publish."""

    @abstractmethod
    def state(self) -> LearnerState:
        """Weights, optimizer and counters."""

    @abstractmethod
    def load_state(self, state: LearnerState) -> None:
        """Go on from a saved state; an attached ring must have its saved content already."""

    @abstractmethod
    def take_timings(self) -> dict[str, float]:
        """Seconds spent in each stage of learning since the last call."""
