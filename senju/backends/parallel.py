"""What the parallel backends share: rollouts in one block of memory, a schedule, and a team of workers."""

import contextlib
import logging
import mmap
import os
import weakref
from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from senju.backends.backend import Backend, BackendReport, BackendStatus
from senju.backends.building import new_models, new_shard, warm_up_plan, weight_sizes
from senju.backends.plan import Plan, PolicyPlan
from senju.backends.reproduction import FAILED_SHARDS, Reproduction
from senju.backends.rollout_role import RolloutRole
from senju.backends.schedule import Finished, RolloutTask, TurnSchedule
from senju.backends.shared_block import FIRST_STAGE, RolloutBlock, require_room
from senju.collect.orders import NO_ORDERS, Orders, pack_orders, unpack_orders
from senju.collect.rollout import STAGES
from senju.collect.shard import ShardState
from senju.collect.slots import Ring, Rollout
from senju.config import MOST_SECONDS, Part
from senju.errors import ConfigError, ModelError, RunFolderError, WorkerError
from senju.games import GAMES, make_game
from senju.games.game import Game
from senju.machine import available_cores, resident_bytes
from senju.models import MODELS
from senju.models.weights import Weights
from senju.workers.role import Executor, Limits
from senju.workers.script import refuse_unguarded
from senju.workers.shared_memory import map_shared, new_private_block, open_anonymous
from senju.workers.team import Team, weakly

logger = logging.getLogger(__name__)


class ParallelBackendConfig(Part):
    """Settings of the backends `threads` and `processes`."""

    num_workers: int = Field(0, ge=0, le=4096, description="Workers that play; 0: one for each core.")
    worker_timeout: float = Field(
        60.0,
        gt=0,
        le=MOST_SECONDS,
        description="Seconds without a sign of life after which a worker counts as hung.",
    )
    start_timeout: float = Field(
        120.0, gt=0, le=MOST_SECONDS, description="Seconds that a worker may take to get ready."
    )
    shard_attempts: int = Field(
        3, ge=1, le=1000, description="Times that one rollout may fail before its shard is set aside."
    )
    failing_shard: Literal["set_aside", "stop"] = Field(
        "set_aside", description="Whether training goes on without a shard that fails, or stops."
    )
    reset_interval: int = Field(
        0, ge=0, description="Rollouts after which a worker is replaced by a fresh one; 0: never."
    )


class RolloutTeam(Team):
    """A team that plays shards: more workers than shards would be idle."""

    num_shards: int

    def affordable(self, wanted: int) -> int:
        """As many workers as there are shards and memory for."""
        useful = min(wanted, self.num_shards)
        if useful < wanted:
            logger.warning(
                "%d of %d workers are started: there are no more shards; smaller games_per_shard gives more",
                useful,
                wanted,
            )
        return super().affordable(useful)


class ParallelBackend(Backend):
    """Workers play from and into one block of memory. Subclasses say where the workers run."""

    Config: ClassVar[type[Part]] = ParallelBackendConfig
    name: ClassVar[str]
    shares_memory: ClassVar[bool] = False  # whether the block must be visible to other processes
    _descriptor: int = -1  # of the block's memory, if it is shared
    _plan_for_processes: Plan | None = None
    _team: RolloutTeam | None = None

    @property
    def _config(self) -> ParallelBackendConfig:
        assert isinstance(self.config, ParallelBackendConfig)
        return self.config

    def start(self, plan: Plan) -> None:
        """Lay out the memory, start the workers, and wait until they are ready."""
        refuse_unguarded()
        self._plan = plan
        try:
            team = self._lay_out(plan)
            wanted = self._config.num_workers or min(available_cores(), plan.num_shards)
            team.start(team.affordable(wanted))
        except BaseException:
            self.close()
            raise

    def _lay_out(self, plan: Plan) -> RolloutTeam:
        """Everything but the workers."""
        executor = self._new_executor()
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(executor.close)
            game = make_game(**plan.game)
            self._models = new_models(plan, game)
            plan.resignation.check(game)
            warm_up_plan(plan, game, self._models)
            sizes = weight_sizes(self._models)
            self._weight_bytes = sizes.policies
            memory = self._open_memory(require_room(plan, game, sizes))
            self._block = RolloutBlock(plan, game, sizes, memory)
            self.publish(self._models.read_weights(), version=0)
            self._published()  # compiled here, so that workers find it in the cache
            self._lay_out_shards(game)
            on_failure.pop_all()
        self._waited = 0.0
        self._reported_stats = np.zeros_like(self._block.stats)
        self._schedule = TurnSchedule(plan.num_shards, self._block.depth)
        role = RolloutRole(
            plan,
            self._models,
            memory,
            self._block,
            weakly(self._set_aside),
            self._descriptor,
            self._plan_for_processes,
        )
        config = self._config
        limits = Limits(
            config.worker_timeout, config.start_timeout, config.shard_attempts, config.reset_interval
        )
        self._team = RolloutTeam(role, self._schedule, executor, limits, has_prefetch=True)
        self._team.num_shards = plan.num_shards
        files = [self._descriptor] if self._descriptor >= 0 else []
        self._dropped = weakref.finalize(self, self._team.drop, files)
        self._dropped.atexit = False  # workers notice the end of this process by themselves
        return self._team

    @abstractmethod
    def _new_executor(self) -> Executor:
        """Where the workers run."""

    def _open_memory(self, num_bytes: int) -> mmap.mmap | NDArray[np.uint8]:
        if not (self.shares_memory or self._plan.is_shared):
            self._shared_bytes = 0
            return new_private_block(num_bytes)
        self._shared_bytes = num_bytes
        self._descriptor = open_anonymous(num_bytes)
        return map_shared(self._descriptor, num_bytes)

    def _lay_out_shards(self, game: Game) -> None:
        for index in range(self._plan.num_shards):
            self._block.state(index, 0).write(new_shard(self._plan, game, index).state)

    @property
    def team(self) -> Team:
        """The workers."""
        assert self._team is not None, "start() comes first"
        return self._team

    @property
    def rings(self) -> tuple[Ring, ...]:
        """Memory that the workers write to."""
        return self._block.rings

    @property
    def shared_memory(self) -> int | None:
        """The block's, if it is shared."""
        return self._descriptor if self._descriptor >= 0 else None

    def publish(
        self,
        weights: Weights,
        version: int,
        orders: Orders = NO_ORDERS,
        opponents: Mapping[int, Weights] | None = None,
    ) -> None:
        """Write the weights where workers read them at the start of their next rollout."""
        if weights.nbytes != self._weight_bytes:
            raise ModelError(f"a block of {weights.nbytes} bytes for a model of {self._weight_bytes} bytes")
        for place, block in (opponents or {}).items():
            self._block.opponents.write(place, block)
        orders = orders._replace(version=version)
        packed = pack_orders(orders, self._plan.most_opponents, len(self._plan.policies))
        self._block.weights.write(np.concatenate([weights, packed]), version)

    def _published(self) -> tuple[Weights, Orders]:
        """The newest weights and orders."""
        block = np.empty(self._block.weights.num_bytes, np.uint8)
        self._block.weights.read(block)
        orders = unpack_orders(block, self._plan.most_opponents, len(self._plan.policies))
        return block[: self._weight_bytes].copy(), orders

    def collect(self, timeout: float | None = None) -> list[Rollout]:
        """Wait for the rollouts of this turn."""
        began, team, schedule = monotonic(), self.team, self._schedule
        with team.changed:
            team.require_running()
            schedule.release()
            team.open()
            team.wait_for(schedule.is_complete, timeout)
            finished = schedule.take()
        self._waited += monotonic() - began
        return [self._rollout(each) for each in finished]

    def _rollout(self, finished: Finished) -> Rollout:
        shard, turn = finished.shard, finished.turn
        slots = tuple(ring.slot(shard, turn) for ring in self.rings)
        clock = self._block.state(shard, turn).clock
        return Rollout(shard, finished.version, slots, clock, turn, finished.failures)

    def snapshot(self) -> list[ShardState]:
        """Copies of the shards' states; rollouts that are not collected yet will be played again."""
        with self.team.changed:
            turns = [self._schedule.next_turn(shard) for shard in range(self._plan.num_shards)]
            return [self._block.state(shard, turn).copy() for shard, turn in enumerate(turns)]

    def restore(self, states: list[ShardState], turn: int | None = None) -> None:
        """Set every shard back, after the running rollouts."""
        self.team.drain()
        with self.team.changed:
            self._schedule.rewind(turn)
            for ring in self.rings:
                ring.forget(self._schedule.turn)
            for shard, state in zip(range(self._plan.num_shards), states, strict=True):
                self._block.state(shard, self._schedule.turn).write(state)

    def status(self) -> BackendStatus:
        """Workers and slots now."""
        team = self.team.status()
        with self.team.changed:
            ready, playing, held, free = self._schedule.counts()
            set_aside = tuple(sorted(self._schedule.set_aside))
        return BackendStatus(
            backend=self.name,
            team=team,
            slots_ready=ready,
            slots_playing=playing,
            slots_held=held,
            slots_free=free,
            version=self._block.weights.version,
            set_aside=set_aside,
            shared_bytes=self._shared_bytes,
            memory_bytes=resident_bytes() + team.memory_bytes,
        )

    def report(self) -> BackendReport:
        """Timings, activities and events since the last report."""
        report = self.team.report()
        return BackendReport(self._take_timings(), report.activities, report.events)

    def _take_timings(self) -> dict[str, float]:
        """The time spent waiting here, divided by what the workers did meanwhile.

        With n workers, n seconds of work pass in each second of waiting. The rest was idle, and is called
        "waiting".
        """
        stats = self._block.stats.copy()
        spent = (stats - self._reported_stats)[:, FIRST_STAGE : FIRST_STAGE + len(STAGES)].sum(axis=0)
        self._reported_stats, waited, self._waited = stats, self._waited, 0.0
        if not waited:
            return {}
        busy = float(spent.sum())
        played = min(waited, busy / max(len(self.team.handles()), 1))
        share = played / busy if busy else 0.0
        stages = dict(zip(STAGES, (spent * share).tolist(), strict=True))
        return {**stages, "waiting": waited - played}

    def close(self) -> None:
        """End the workers, and release the shared memory."""
        if hasattr(self, "_dropped"):
            self._dropped.detach()
        if self._team is not None:
            self._team.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _set_aside(self, task: RolloutTask, cause: str, attempts: int) -> str:
        """Save what is needed to play a failing rollout alone; decide whether to go on without it."""
        weights, orders = self._published()
        state = self._block.state(task.shard, task.turn)
        plan = self._plan_for_others()
        opponents = {place: self._block.opponents.read(place) for place in orders.places if place >= 0}
        reproduction = Reproduction(plan, task.shard, task.turn, orders, cause, state, weights, opponents)
        folder = Path(plan.folder or os.curdir) / FAILED_SHARDS
        try:
            advice = f"Run it alone with: senju reproduce {reproduction.save(folder)}"
        except RunFolderError as error:
            advice = f"The files to run it alone could not be written: {error}"
        message = (
            f"shard {task.shard} failed {attempts} times and is set aside; the last time: "
            f"{cause.rstrip()}\n{advice}"
        )
        left = self._plan.num_shards - len(self._schedule.set_aside)
        if not left:
            raise WorkerError(f"{message}\nNo shard is left to play.")
        if self._config.failing_shard == "stop":
            raise WorkerError(f"{message}\nbackend.failing_shard=set_aside would go on without it.")
        return f"{message}\nTraining goes on with {left} of {self._plan.num_shards} shards."

    def _plan_for_others(self) -> Plan:
        """The plan with names by which another process finds the classes, if there are such names."""
        plan = self._plan
        with contextlib.suppress(ConfigError):  # a class inside a function has none
            plan = with_models(plan, MODELS.importable_name)
            game = plan.game | {"name": GAMES.importable_name(plan.game["name"])}
            plan = plan.model_copy(update={"game": game})
        return plan


def with_models(plan: Plan, name_of: Callable[[str], str]) -> Plan:
    """The plan with other names of its networks."""

    def renamed(policy: PolicyPlan) -> PolicyPlan:
        return policy.model_copy(update={"model": policy.model | {"name": name_of(policy.model["name"])}})

    return plan.model_copy(update={"policies": tuple(map(renamed, plan.policies))})
