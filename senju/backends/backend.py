"""The Backend contract: collects rollouts.

backend.start(plan)
backend.publish(weights, version=0)
while training:
    rollouts = backend.collect()          # one per shard, in the order of the shards
    ...learn...
    backend.publish(weights, version)
backend.close()
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from senju.backends.building import WeightSizes, add_device_columns, new_program
from senju.backends.plan import Plan
from senju.backends.shared_block import RolloutBlock, require_room
from senju.collect.device_actor import DeviceProgram
from senju.collect.orders import NO_ORDERS, Orders
from senju.collect.shard import ShardState
from senju.collect.slots import Ring, Rollout
from senju.config import Part
from senju.cuda import RegisteredMemory
from senju.errors import ModelError
from senju.games.game import Game
from senju.models.weights import Weights
from senju.workers.role import Report, TeamControl, TeamStatus, WorkerStatus
from senju.workers.shared_memory import map_shared, new_private_block, open_anonymous


@dataclass(frozen=True)
class BackendStatus:
    """A backend now. Slots are ready (finished, not yet collected), playing, held (by the caller) or free."""

    backend: str
    team: TeamStatus
    slots_ready: int
    slots_playing: int
    slots_held: int
    slots_free: int
    version: int
    set_aside: tuple[int, ...]  # shards that failed too often
    shared_bytes: int
    memory_bytes: int  # of this process and its workers together, as far as it is known

    @property
    def workers(self) -> tuple[WorkerStatus, ...]:
        """The workers of the team."""
        return self.team.workers

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        found: dict[str, Any] = asdict(self)
        found |= found.pop("team")
        found["workers"] = list(found["workers"])
        for worker in found["workers"]:
            task = worker.pop("task")
            worker["shard"] = task.shard if task else None
            worker["rollouts"] = worker.pop("num_finished")
        return found


class Backend(ABC):
    """Collects rollouts with the newest published weights. The trainer uses all backends in the same way."""

    Config: ClassVar[type[Part]] = Part  # without settings by default

    team: TeamControl  # the workers: pause, resume, reset, resize; made by `start`
    rings: tuple[Ring, ...]  # all rollouts that are kept, for each policy; valid until the backend is closed
    _block: RolloutBlock  # made by `start`
    shared_memory: int | None = None  # a descriptor of the block's memory, if it is shared
    _program: DeviceProgram | None = None  # if a device evaluates
    _registered: RegisteredMemory | None = None

    def __init__(self, config: Part | None = None) -> None:
        self.config = config if config is not None else self.Config()
        self._publishing = threading.Lock()

    @abstractmethod
    def start(self, plan: Plan) -> None:
        """Get ready to collect."""

    def _lay_out_block(self, plan: Plan, game: Game, sizes: WeightSizes, is_shared: bool) -> None:
        """Make the block, in memory of this process alone or in shared memory."""
        self._weight_bytes = sizes.policies
        num_bytes = require_room(plan, game, sizes)
        self.shared_memory = shared = open_anonymous(num_bytes) if is_shared else None
        memory = new_private_block(num_bytes) if shared is None else map_shared(shared, num_bytes)
        self._block = RolloutBlock(plan, game, sizes, memory)
        self.rings = self._block.rings
        self._program = new_program(plan)
        if self._program is not None:
            add_device_columns(plan, game, self.rings, self._program.device)
            if self._program.is_cuda:
                self._registered = RegisteredMemory(np.frombuffer(memory, np.uint8))

    def _release_device(self) -> None:
        """Release what a device holds; no worker may use it any more."""
        if self._registered is not None:
            self._registered.release()

    @property
    def _shared_bytes(self) -> int:
        """The size of the block, if it is in shared memory."""
        return self._block.num_bytes if self.shared_memory is not None else 0

    def publish(
        self,
        weights: Weights,
        version: int,
        orders: Orders = NO_ORDERS,
        opponents: Mapping[int, Weights] | None = None,
    ) -> None:
        """Use these weights and orders from the next rollout on.

        `opponents` are weights by their index, at indices that earlier orders do not name.
        """
        if weights.nbytes != self._weight_bytes:
            raise ModelError(f"the weights have {weights.nbytes} bytes; the model needs {self._weight_bytes}")
        with self._publishing:
            for index, block in (opponents or {}).items():
                self._block.write_opponent(index, block)
            self._publish(weights, orders._replace(version=version))

    @abstractmethod
    def _publish(self, weights: Weights, orders: Orders) -> None:
        """Put the weights and orders where rollouts read them."""

    @abstractmethod
    def collect(self, timeout: float | None = None) -> list[Rollout]:
        """The next rollout of every shard, in order.

        They are valid until the next call. All columns stay valid for `kept_turns` calls, except the clock
        and the transient ones. After `timeout` seconds the finished rollouts are returned, and the others by
        the next call: no rollout is lost, and no shard gets ahead of another.
        """

    @abstractmethod
    def snapshot(self) -> list[ShardState]:
        """The state of every shard before its next rollout to be collected, in order."""

    @abstractmethod
    def restore(self, states: list[ShardState], turn: int | None = None) -> None:
        """Go back to a snapshot; the next rollouts have number `turn`, if it is given."""

    @abstractmethod
    def status(self) -> BackendStatus:
        """The workers and the slots now; may be called from any thread."""

    @abstractmethod
    def report(self) -> Report:
        """Timings, activities and events since the last report; timings add up to the time in `collect`."""

    @abstractmethod
    def close(self) -> None:
        """Stop, and leave nothing behind; may be called twice."""
