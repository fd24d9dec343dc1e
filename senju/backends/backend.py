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
from dataclasses import dataclass, field
from time import time
from typing import Any, ClassVar, NamedTuple

from senju.collect.exploration import Acting
from senju.collect.orders import NO_ORDERS, Orders
from senju.collect.resignation import Resignation
from senju.collect.seating import Failure, Seating
from senju.collect.shard import ShardState
from senju.collect.slots import Ring, RingShape, Rollout
from senju.config import Part
from senju.models.weights import Weights
from senju.opponents.table import OpponentSpec, TableSettings


@dataclass(frozen=True)
class Policy:
    """A seat's own policy, and what is kept of what it did."""

    model: dict[str, Any]  # name and settings
    acting: dict[str, Any] = field(default_factory=dict)  # Acting
    kept_turns: int = 1
    keeps_final: bool = False
    passing_turns: int = 1  # of which all columns are kept


@dataclass(frozen=True)
class Plan:
    """What is to be played: plain data, so that it can be sent anywhere."""

    game: dict[str, Any]  # name and settings
    model: dict[str, Any]  # the current policy's; of the seating `independent`: the first seat's
    seed: int
    num_shards: int
    games_per_shard: int
    rollout_steps: int
    seating: Seating = "self_play"
    opponents: dict[str, Any] = field(default_factory=dict)  # of the seating `opponents`: TableSettings
    policies: tuple[dict[str, Any], ...] = ()  # of the seating `independent`: Policy of every seat
    is_shared: bool = False  # whether the rollouts lie in shared memory, since others learn from them
    num_snapshots: int = 0  # places for the weights of past policies
    acting: dict[str, Any] = field(default_factory=dict)  # how the current policy acts: Acting
    max_lag: int = 0  # rollouts a shard may be ahead of the learner; 0 is the `sync` mode
    kept_turns: int = 1  # collected rollouts that stay readable: the newest of each shard, or a replay
    keeps_final: bool = False  # whether the positions in which games were truncated stay as well
    whole_games: bool = False  # whether each rollout is one game of every row, from its start to its end
    max_game_length: int = 0  # steps after which a game is cut; 0: never
    resign_below: float = 0.0  # a mover whose value is below minus this gives up; 0: never
    resign_exempt: float = 0.1  # share of the games that are played to the end all the same
    folder: str | None = None  # where what a person must see is written, like a failing shard
    sockets: tuple[str, ...] = ()  # files that workers remove should this process be killed

    def __post_init__(self) -> None:
        for name in ("policies", "sockets"):  # JSON knows lists alone
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    def resignation(self) -> Resignation:
        """When games are given up."""
        return Resignation(self.resign_below, self.resign_exempt)

    @property
    def table(self) -> TableSettings:
        """How opponents are drawn and play."""
        fixed = (OpponentSpec(**spec) for spec in self.opponents.get("fixed", ()))
        return TableSettings(**{**self.opponents, "fixed": tuple(fixed)})

    @property
    def most_opponents(self) -> int:
        """How many opponents there can be at once."""
        return self.num_snapshots + len(self.opponents.get("fixed", ()))

    @property
    def how_to_act(self) -> tuple[Acting, ...]:
        """How each of the policies turns a network's outputs into actions."""
        policies = self.all_policies
        return tuple(Acting(**{**policy.acting, "rungs": self.num_shards}) for policy in policies)

    @property
    def all_policies(self) -> tuple["Policy", ...]:
        """Whose decisions are learned from: the current policy, or one for every seat."""
        if not self.policies:
            return (Policy(self.model, self.acting, self.kept_turns, self.keeps_final),)
        return tuple(Policy(**policy) for policy in self.policies)

    @property
    def ring_shapes(self) -> tuple[RingShape, ...]:
        """How many rollouts there is room for, for each of the policies."""
        return tuple(
            RingShape(
                num_shards=self.num_shards,
                num_steps=self.rollout_steps,
                num_rows=self.games_per_shard,
                kept=policy.kept_turns,
                ahead=self.max_lag,
                keeps_final=policy.keeps_final,
                passing=policy.passing_turns,
            )
            for policy in self.all_policies
        )


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
    memory_bytes: int  # of its process; 0 for a thread, or where it is not known


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
    memory_bytes: int  # of this process and its workers together, as far as it is known


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

    @property
    @abstractmethod
    def rings(self) -> tuple[Ring, ...]:
        """All rollouts that are kept, for each policy; valid until the backend is closed."""

    @property
    def ring(self) -> Ring:
        """The only one, where one policy is learned from."""
        (ring,) = self.rings
        return ring

    @property
    @abstractmethod
    def shared_memory(self) -> int | None:
        """A descriptor of the memory that holds the arena, where the plan has it shared."""

    @abstractmethod
    def publish(self, weights: Weights, version: int, orders: Orders = NO_ORDERS) -> None:
        """Make these the weights that act from the next rollout on, and these the orders."""

    @abstractmethod
    def publish_opponent(self, place: int, weights: Weights) -> None:
        """Put an opponent's weights into a place that no published orders name, before some do."""

    @abstractmethod
    def collect(self, timeout: float | None = None) -> list[Rollout]:
        """The next rollout of every shard, in order.

        They are valid until the next call, and all but their clock and the `PASSING` columns for
        `kept_turns` calls.

        Where `timeout` seconds are not enough, those that are finished come now and the rest of them
        with the next call: nothing is lost, and no shard gets ahead of another.
        """

    @abstractmethod
    def snapshot(self) -> list[ShardState]:
        """The state of every shard before its next rollout to be collected, in order."""

    @abstractmethod
    def restore(self, states: list[ShardState], turn: int | None = None) -> None:
        """Go back to a snapshot; rollouts are counted on from `turn`, if it is given."""

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
    def take_failures(self) -> list[Failure]:
        """The opponents that failed in rollouts collected since the last call."""

    @abstractmethod
    def take_activities(self) -> list[Activity]:
        """What the workers did since the last call."""

    @abstractmethod
    def take_events(self) -> list[Event]:
        """What happened since the last call that a person may want to know."""

    @abstractmethod
    def close(self) -> None:
        """Stop, and leave nothing behind; may be called twice."""
