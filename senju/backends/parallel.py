"""The parallel backends: rollouts in one block of memory, a schedule, and a team of threads or processes."""

import contextlib
import logging
import os
import weakref
from abc import abstractmethod
from pathlib import Path
from time import monotonic
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from senju.backends.backend import Backend, BackendStatus
from senju.backends.building import importable_plan, new_models, new_shard, placed, warm_up_plan, with_modules
from senju.backends.evaluation_service import EvaluationService
from senju.backends.options import WorkerOptions
from senju.backends.plan import Plan
from senju.backends.reproduction import FAILED_SHARDS, Reproduction
from senju.backends.rollout_role import RolloutRole
from senju.backends.schedule import Finished, RolloutTask, TurnSchedule
from senju.backends.shared_block import FIRST_STAGE
from senju.collect.orders import Orders, pack_orders, unpack_orders
from senju.collect.rollout import STAGES
from senju.collect.shard import ShardState
from senju.collect.slots import Rollout
from senju.config import MOST_SECONDS, Part
from senju.errors import ConfigError, RunFolderError, WorkerError
from senju.games import make_game
from senju.machine import available_cores, resident_bytes
from senju.models.weights import Weights
from senju.workers.process import ProcessExecutor
from senju.workers.role import Executor, Limits, Report
from senju.workers.script import refuse_unguarded
from senju.workers.team import Team, weakly
from senju.workers.thread import ThreadExecutor

logger = logging.getLogger(__name__)


class ParallelBackendConfig(WorkerOptions):
    """Settings of the backends `threads` and `processes`."""

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


class ParallelBackend(Backend):
    """Workers play from and into one block of memory. Subclasses say where the workers run."""

    Config: ClassVar[type[Part]] = ParallelBackendConfig
    config: ParallelBackendConfig
    name: ClassVar[str]
    shares_memory: ClassVar[bool] = False  # whether the block must be visible to other processes
    team: Team
    _service: EvaluationService | None = None  # if it evaluates for worker processes

    def start(self, plan: Plan) -> None:
        """Lay out the memory, start the workers, and wait until they are ready."""
        refuse_unguarded()
        try:
            self._plan = plan = placed(plan, make_game(**plan.game))
            self._lay_out(plan)
            wanted = self.config.num_workers or min(available_cores(), plan.num_shards)
            self.team.start(self.team.affordable(wanted))
        except BaseException:
            self.close()
            raise

    def _lay_out(self, plan: Plan) -> None:
        """Prepare everything but the workers."""
        config, executor = self.config, self._new_executor()
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(executor.close)
            game = make_game(**plan.game)
            models = new_models(plan, game)
            plan.resignation.check(game)
            warm_up_plan(plan, game, models)
            is_shared = self.shares_memory or plan.is_shared
            self._lay_out_block(plan, game, models.sizes, is_shared)
            self.publish(models.read_weights(), version=0)
            self._published()  # compiled here, so that workers find it in the cache
            for index in range(plan.num_shards):
                self._block.state(index, 0).write(new_shard(plan, game, index).state)
            on_failure.pop_all()
        self._waited, self._taken = 0.0, list[Finished]()
        self._reported_stats = np.zeros_like(self._block.stats)
        self._schedule = TurnSchedule(plan.num_shards, self._block.depth, plan.num_parts)
        files = [] if self.shared_memory is None else [self.shared_memory]
        set_aside = weakly(self._set_aside)
        if self._program is not None and self.shares_memory:
            self._service = EvaluationService(
                plan, game, models.policies, self._block, self._program, weakly(self._fail)
            )
        role = RolloutRole(
            plan, models, self._block, set_aside, files, plan.sockets, self._program, self._service
        )
        limits = Limits(
            config.worker_timeout, config.start_timeout, config.shard_attempts, config.reset_interval
        )
        self.team = Team(role, self._schedule, executor, limits, has_prefetch=True)
        self._dropped = weakref.finalize(self, self.team.drop, list(files))
        self._dropped.atexit = False  # workers end by themselves when this process ends

    @abstractmethod
    def _new_executor(self) -> Executor:
        """An executor that starts the workers."""

    def _publish(self, weights: Weights, orders: Orders) -> None:
        """Write the weights where workers read them at the start of their next rollout."""
        packed = pack_orders(orders, self._plan.max_opponents, len(self._plan.policies))
        self._block.weights.write(np.concatenate([weights, packed]), orders.version)

    def _published(self) -> tuple[Weights, Orders]:
        """The newest weights and orders."""
        block = np.empty(self._block.weights.num_bytes, np.uint8)
        self._block.weights.read(block)
        orders = unpack_orders(block, self._plan.max_opponents, len(self._plan.policies))
        return block[: self._weight_bytes].copy(), orders

    def collect(self, timeout: float | None = None) -> list[Rollout]:
        began, team, schedule = monotonic(), self.team, self._schedule
        is_over = False
        # again after a turn without rollouts, whose last shards were set aside, or Ctrl-C that raised nothing
        while not self._taken and not is_over:
            with team.uninterrupted(), team.changed:
                team.require_running()
                schedule.release()
                team.open()
                left = None if timeout is None else max(began + timeout - monotonic(), 0.0)
                is_due = team.wait_for(schedule.is_due, left)
                if not team.is_interrupted:
                    self._taken, is_over = schedule.take(), not is_due
        self._waited += monotonic() - began
        rollouts, self._taken = [self._rollout(each) for each in self._taken], []
        return rollouts

    def _rollout(self, finished: Finished) -> Rollout:
        shard, turn = finished.shard, finished.turn
        slots = tuple(ring.slot(shard, turn) for ring in self.rings)
        clock = self._block.state(shard, turn).clock
        return Rollout(shard, finished.version, slots, clock, turn, finished.failures)

    def snapshot(self) -> list[ShardState]:
        """Copies of the shards' states; after a restore, rollouts not collected yet are played again."""
        with self.team.changed:
            turns = [self._schedule.next_turn(shard) for shard in range(self._plan.num_shards)]
            for finished in self._taken:  # an interrupted call of `collect` did not return them
                turns[finished.shard] = finished.turn
            return [self._block.state(shard, turn).copy() for shard, turn in enumerate(turns)]

    def restore(self, states: list[ShardState], turn: int | None = None) -> None:
        """Set every shard back, once the running rollouts have ended."""
        self.team.drain()
        with self.team.changed:
            self._taken = []
            self._schedule.rewind(turn)
            for ring in self.rings:
                ring.forget(self._schedule.turn)
            for shard, state in zip(range(self._plan.num_shards), states, strict=True):
                self._block.state(shard, self._schedule.turn).write(state)

    def status(self) -> BackendStatus:
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
            memory_bytes=resident_bytes() + sum(worker.memory_bytes for worker in team.workers),
        )

    def report(self) -> Report:
        return self.team.report()._replace(timings=self._take_timings())

    def _take_timings(self) -> dict[str, float]:
        """The time spent waiting for workers, divided among the stages that they played meanwhile.

        With n workers, n seconds of work pass in each second of waiting. The rest was idle time and is
        reported as "waiting".
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
        if hasattr(self, "team"):
            self.team.close()
        if self._service is None or self._service.close():
            self._release_device()
        else:
            logger.warning("a network did not finish evaluating; its device memory stays in use")
        memory, self.shared_memory = self.shared_memory, None
        if memory is not None:  # another thread may be closing too
            os.close(memory)

    def _fail(self, error: BaseException, where: str) -> None:
        self.team.fail(error, where)

    def _set_aside(self, task: RolloutTask, cause: str, attempts: int) -> str:
        """Save what is needed to play a failing rollout alone; decide whether to go on without it."""
        weights, orders = self._published()
        state = self._block.state(task.shard, task.turn)
        plan = self._plan
        with contextlib.suppress(ConfigError):  # a class inside a function has no name in its module
            plan = with_modules(plan)
        opponents = {index: self._block.opponents[index] for index in orders.weight_indices if index >= 0}
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
        if self.config.failing_shard == "stop":
            raise WorkerError(f"{message}\nbackend.failing_shard=set_aside would go on without it.")
        return f"{message}\nTraining goes on with {left} of {self._plan.num_shards} shards."


class Threads(ParallelBackend):
    """Workers are threads of this process."""

    name = "threads"

    def _new_executor(self) -> Executor:
        return ThreadExecutor()


class Processes(ParallelBackend):
    """Workers are processes of this machine; they share rollouts, states and weights in anonymous memory."""

    name = "processes"
    shares_memory = True

    def _new_executor(self) -> Executor:
        _, script = importable_plan(self._plan)
        names = [self._plan.game["name"], *(each.model["name"] for each in self._plan.policies)]
        return ProcessExecutor(self.config.worker_timeout, script, names)
