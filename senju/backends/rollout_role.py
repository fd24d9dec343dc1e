"""The role of workers that play rollouts: one task is one rollout of one shard."""

import copy
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from senju.backends.building import (
    PlanModels,
    device_slots,
    importable_plan,
    new_models,
    new_rollout_player,
    new_shard,
    warm_up_plan,
)
from senju.backends.evaluation_service import EvaluationService
from senju.backends.plan import Plan
from senju.backends.remote_actor import RemoteProgram
from senju.backends.schedule import Finished, RolloutTask
from senju.backends.shared_block import FIRST_STAGE, HEARTBEAT, RolloutBlock
from senju.collect.device_actor import DeviceProgram
from senju.collect.orders import NO_ORDERS, unpack_orders
from senju.collect.rollout import STAGES
from senju.collect.seating import Failure
from senju.collect.step_actor import StepProgram
from senju.cuda import reporting_memory
from senju.games import make_game
from senju.games.game import Game
from senju.timing import StageClock
from senju.usercode import refuse_forked_child
from senju.workers.role import Handler, Payload, Role, Start
from senju.workers.shared_memory import map_shared

logger = logging.getLogger(__name__)

_LONGEST_FAILURE = 1_000  # characters of what an opponent raised


@dataclass(frozen=True)
class RolloutRole(Role):
    """Plays rollouts from and into shared arrays."""

    activity = "playing"
    repeats = "It is played again, with the same result."
    new_handler = "senju.backends.rollout_role:new_player"

    plan: Plan
    models: PlanModels
    block: RolloutBlock
    set_aside: Callable[[RolloutTask, str, int], str]
    descriptors: Sequence[int]  # of the block's memory, if it is shared
    sockets: Sequence[str]
    program: DeviceProgram | None = None  # of this process, if a device evaluates
    service: EvaluationService | None = None  # evaluates for worker processes

    @cached_property
    def _importable_plan(self) -> Plan:
        return importable_plan(self.plan)[0]

    def start_payload(self, index: int) -> Payload:
        return Payload(self._importable_plan.model_dump(mode="json"))

    def new_files(self, index: int) -> Sequence[int]:
        return self.service.connect(index) if self.service is not None else ()

    def local_handler(self, start: Start) -> Handler:
        """A player with copies of the models: building them would use this process's random numbers."""
        game, models = make_game(**self.plan.game), copy.deepcopy(self.models)
        return RolloutHandler(self.plan, game, models, self.block, start.index, self.program)

    def task_payload(self, task: RolloutTask, worker: dict[str, Any]) -> Payload:
        return Payload((task.shard, task.turn, task.part, task.end, task.number))

    def result(self, task: RolloutTask, payload: Payload) -> Finished:
        version, failures, seconds, stamp = payload.values
        failed = tuple(Failure(*failure) for failure in failures)
        return Finished(task.shard, task.turn, version, failed, seconds, stamp)

    def describe(self, task: RolloutTask) -> str:
        first = task.shard * self.plan.games_per_shard
        rows = f"rows {first} to {first + self.plan.games_per_shard - 1}"
        return f"shard {task.shard} ({rows}), rollout {task.turn}, seed {self.plan.seed}"

    def is_counted(self, task: RolloutTask) -> bool:
        """Count rollouts, not their parts."""
        return task.end == self.plan.num_parts

    def heartbeat(self, index: int) -> float:
        beats = float(self.block.stats[index, HEARTBEAT])
        return beats + self.service.sign_of_life(index) if self.service is not None else beats

    def on_exhausted(self, task: RolloutTask, cause: str, attempts: int) -> str:
        return self.set_aside(task, cause, attempts)

    def useful_workers(self, wanted: int) -> int:
        useful = min(wanted, self.plan.num_shards)
        if useful < wanted:
            logger.warning(
                "%d of %d workers are started: there are no more shards; smaller games_per_shard gives more",
                useful,
                wanted,
            )
        return useful


class StatsClock(StageClock):
    """Writes its times to shared memory; every reading is a heartbeat."""

    def __init__(self, stats: NDArray[np.float64]) -> None:
        super().__init__()
        self._stats = cast("memoryview[float]", stats.data)
        self._columns = {stage: FIRST_STAGE + index for index, stage in enumerate(STAGES)}

    def start(self) -> None:
        super().start()
        self._stats[HEARTBEAT] += 1.0

    def lap(self, stage: str) -> None:
        refuse_forked_child()
        now, stats = perf_counter(), self._stats
        stats[self._columns[stage]] += now - self._last
        stats[HEARTBEAT] += 1.0
        self._last = now


class RolloutHandler(Handler):
    """Plays a plan's rollouts.

    The current shard is a private copy. The shared state changes only when the rollout is finished, so a
    worker that dies leaves the state that the rollout began with.
    """

    def __init__(
        self,
        plan: Plan,
        game: Game,
        models: PlanModels,
        block: RolloutBlock,
        index: int,
        program: StepProgram | None = None,
    ) -> None:
        warm_up_plan(plan, game, models)
        self._plan, self._block, self._is_on_device = plan, block, program is not None
        self._published = np.empty(block.weights.num_bytes, np.uint8)
        self._stamp, self._orders = -1, NO_ORDERS
        self._remote = program if isinstance(program, RemoteProgram) else None
        clock = StatsClock(block.stats[index])
        self._player = new_rollout_player(plan, game, models, clock, block.opponents.__getitem__, program)
        self._shard = new_shard(plan, game, 0)

    def execute(self, task: Payload) -> Payload:
        """Play a rollout, or parts of it, with the newest weights."""
        began = perf_counter()
        index, turn, part, end, attempt = task.values
        if self._remote is None:
            self._take_weights()
        else:
            self._take_orders(self._remote, self._remote.take_weights(index, turn, attempt))
        shard, rings, plan = self._shard, self._block.rings, self._plan
        shard.index = index
        shard.restore(self._block.state(index, turn, part))
        for ring in rings:
            ring.open(index, turn)
        slots = [ring.slot(index, turn) for ring in rings]
        steps = range(plan.first_step(part), plan.first_step(end))
        kept = device_slots(rings, index, turn) if self._is_on_device else []
        with reporting_memory():
            self._player.play(shard, slots, self._orders, steps, kept)
        if end == plan.num_parts:
            for ring in rings:
                ring.complete(index, turn)
                if kept and ring.on_device is not None:
                    ring.on_device.complete(index, turn)
        if self._remote is not None:
            self._remote.end(is_complete=end == plan.num_parts)
        self._block.state(index, turn, end).write(shard.state)
        seconds = perf_counter() - began
        return Payload((self._orders.version, self._take_failures(), seconds, self._stamp))

    def _take_weights(self) -> None:
        if self._block.weights.stamp != self._stamp:
            self._stamp, _ = self._block.weights.read(self._published)
            self._player.write_weights(self._published[: self._player.weights.num_bytes])
            self._orders = unpack_orders(self._published, self._plan.max_opponents, len(self._plan.policies))

    def _take_orders(self, remote: RemoteProgram, stamp: int) -> None:
        """Take over the orders of the weights that another process evaluates with."""
        if stamp != self._stamp:
            self._stamp, plan = stamp, self._plan
            self._orders = unpack_orders(remote.exchange.orders, plan.max_opponents, len(plan.policies))

    def _take_failures(self) -> list[Failure]:
        opponents = self._player.opponents
        failures = opponents.take_failures() if opponents is not None else []
        return [failure._replace(what=failure.what[:_LONGEST_FAILURE]) for failure in failures]


def new_player(start: Start) -> RolloutHandler:
    """The handler of a worker process."""
    plan = Plan.model_validate(start.payload.values)
    descriptor, *remote = start.descriptors
    memory = map_shared(descriptor, os.fstat(descriptor).st_size)
    game = make_game(**plan.game)
    models = new_models(plan, game)
    block = RolloutBlock(plan, game, models.sizes, memory)
    program = RemoteProgram(plan, game, *remote) if remote else None
    return RolloutHandler(plan, game, models, block, start.index, program)
