"""The Learner contract: turns rollouts into new weights."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from senju.collect.slots import Rollout
from senju.config import Part
from senju.models.model import Model
from senju.models.weights import Weights


@dataclass(frozen=True)
class LearnerSetup:
    """What every learner is told about its run."""

    seed: int
    total_updates: int  # what schedules run over
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))


@dataclass(frozen=True)
class LearnerState:
    """All a learner needs to go on as if it had never stopped."""

    tensors: dict[str, Tensor]
    numbers: dict[str, Any]  # JSON


class Learner(ABC):
    """Owns the model that learns, one `update` per batch of rollouts.

    metrics = learner.update(backend.collect())
    backend.publish(learner.weights(), learner.version)
    """

    Config: ClassVar[type[Part]]

    version: int  # how many updates went into the weights

    @abstractmethod
    def __init__(self, model: Model, config: Part, setup: LearnerSetup) -> None: ...

    @abstractmethod
    def update(self, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Learn from a batch; return what happened, as numbers."""

    @abstractmethod
    def weights(self) -> Weights:
        """The weights to publish."""

    @abstractmethod
    def state(self) -> LearnerState:
        """Weights, optimizer and counters."""

    @abstractmethod
    def load_state(self, state: LearnerState) -> None:
        """Go on from a saved state."""

    @abstractmethod
    def take_timings(self) -> dict[str, float]:
        """Seconds spent in each stage of learning since the last call."""
