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
from collections.abc import Collection
from dataclasses import dataclass
from time import time
from typing import Any, ClassVar, NamedTuple

from senju.collect.resignation import Resignation
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
    max_lag: int = 0  # rollouts a shard may be ahead of the learner; 0 is the `sync` mode
    max_game_length: int = 0  # steps after which a game is cut; 0: never
    resign_below: float = 0.0  # a mover whose value is below minus this gives up; 0: never
    resign_exempt: float = 0.1  # share of the games that are played to the end all the same
    folder: str | None = None  # where what a person must see is written, like a failing shard
    sockets: tuple[str, ...] = ()  # files that workers remove should this process be killed

    @property
    def resignation(self) -> Resignation:
        """When games are given up."""
        return Resignation(self.resign_below, self.resign_exempt)


class Activity(NamedTuple):
    """What a worker did for a while: one rollout of one shard. Times are of `time.monotonic`."""

    worker: int
    shard: int
    turn: int  # the shard's rollouts, counted from 0 at the backend's start
    began: float
    ended: float


class Event(NamedTuple):
    """Something a person may want to know of: a worker lost or replaced, fewer than asked for, …"""

    kind: str
    message: str
    worker: int | None
    time: float  # of `time.time`


def happened(kind: str, message: str, worker: int | None = None) -> Event:
    """An event of this moment."""
    return Event(kind, message, worker, time())


@dataclass(frozen=True)
class WorkerStatus:
    """One worker now."""

    index: int
    state: str  # starting, waiting, playing, paused
    pid: int | None  # None for a thread
    shard: int | None  # what it plays
    rollouts: int  # finished since the start
    restarts: int
    busy_share: float  # of its time since the start
    memory_bytes: int  # of its process; 0 for a thread


@dataclass(frozen=True)
class BackendStatus:
    """A backend now. Slots are ready (finished, not yet collected), playing, held (by the caller) or free."""

    backend: str
    wanted_workers: int
    workers: tuple[WorkerStatus, ...]
    slots_ready: int
    slots_playing: int
    slots_held: int
    slots_free: int
    version: int
    restarts: int
    set_aside: tuple[int, ...]  # shards that failed too often
    shared_bytes: int
    memory_bytes: int  # of this process and its workers together


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
    def collect(self, timeout: float | None = None) -> list[Rollout]:
        """The next rollout of every shard, in order; they stay valid until the next call.

        Where `timeout` seconds are not enough, those that are finished come now and the rest of them
        with the next call: nothing is lost, and no shard gets ahead of another.
        """

    @abstractmethod
    def snapshot(self) -> list[ShardState]:
        """The state of every shard before its next rollout to be collected, in order."""

    @abstractmethod
    def restore(self, states: list[ShardState]) -> None:
        """Go back to a snapshot."""

    @abstractmethod
    def pause(self, workers: Collection[int] | None = None) -> None:
        """Let these workers (None: all) finish their rollout and begin no other."""

    @abstractmethod
    def resume(self, workers: Collection[int] | None = None) -> None:
        """Let paused workers play on."""

    @abstractmethod
    def reset(self, workers: Collection[int] | None = None) -> None:
        """Replace these workers by fresh ones; the games go on where they were."""

    @abstractmethod
    def resize(self, num_workers: int) -> None:
        """Go on with another number of workers; the result stays the same."""

    @abstractmethod
    def status(self) -> BackendStatus:
        """What the workers and the slots are doing now; may be asked from any thread."""

    @abstractmethod
    def take_timings(self) -> dict[str, float]:
        """Seconds of each stage of collecting since the last call; they add up to the time spent here."""

    @abstractmethod
    def take_activities(self) -> list[Activity]:
        """What the workers did since the last call."""

    @abstractmethod
    def take_events(self) -> list[Event]:
        """What happened since the last call that a person may want to know."""

    @abstractmethod
    def close(self) -> None:
        """Stop, and leave nothing behind; may be called twice."""
