"""The Backend contract: runs rollouts somewhere.

backend.start(plan)
backend.publish(weights, version=0)
while training:
    rollouts = backend.collect()          # one per shard, in the order of the shards
    ...learn...
    backend.publish(weights, version)
backend.close()
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from senju.collect.seating import Seating
from senju.collect.shard import ShardState
from senju.collect.slots import Rollout
from senju.config import Part
from senju.models.weights import Weights


@dataclass(frozen=True)
class Plan:
    """What is to be played: plain data, so that it can be sent anywhere."""

    game: dict[str, Any]  # name and settings
    model: dict[str, Any]
    seed: int
    num_shards: int
    games_per_shard: int
    rollout_steps: int
    seating: Seating = "self_play"


class BackendConfig(Part):
    """The settings of a backend that has none of its own."""


class Backend(ABC):
    """Plays shards with the weights it was given last. The trainer cannot tell one from another."""

    Config: ClassVar[type[Part]] = BackendConfig

    def __init__(self, config: Part | None = None) -> None:
        self.config = config if config is not None else self.Config()

    @abstractmethod
    def start(self, plan: Plan) -> None:
        """Get ready to collect."""

    @abstractmethod
    def publish(self, weights: Weights, version: int) -> None:
        """Make these the weights that act from the next rollout on."""

    @abstractmethod
    def collect(self) -> list[Rollout]:
        """One rollout of every shard, in order; they stay valid until the next call."""

    @abstractmethod
    def snapshot(self) -> list[ShardState]:
        """The state of every shard between two rollouts, in order."""

    @abstractmethod
    def restore(self, states: list[ShardState]) -> None:
        """Go back to a snapshot."""

    @abstractmethod
    def take_timings(self) -> dict[str, float]:
        """Seconds spent in each stage of collecting since the last call."""

    @abstractmethod
    def close(self) -> None:
        """Stop, and leave nothing behind; may be called twice."""
