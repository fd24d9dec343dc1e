"""What the parallel backends share: an arena of slots, a schedule, and a supervisor with its workers."""

import contextlib
import dataclasses
import logging
import os
import weakref
from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar, Literal, ParamSpec, TypeVar

import numpy as np
from pydantic import Field

from senju.backends.arena import FIRST_STAGE, Arena
from senju.backends.backend import Activity, Backend, BackendStatus, Event, Plan, WorkerStatus
from senju.backends.building import (
    block_sizes,
    new_acting_models,
    new_shard,
    warm_up_plan,
    weight_block,
)
from senju.backends.member import Hand, State
from senju.backends.reproduction import FAILED_SHARDS, Reproduction
from senju.backends.schedule import Schedule, Task
from senju.backends.script import refuse_unguarded
from senju.backends.supervisor import Patience, Supervisor
from senju.collect.orders import NO_ORDERS, Orders, pack_orders, unpack_orders
from senju.collect.rollout import STAGES
from senju.collect.seating import Failure
from senju.collect.shard import ShardState
from senju.collect.slots import Ring, Rollout
from senju.config import MOST_SECONDS, Part
from senju.errors import ConfigError, ControlError, ModelError, RunFolderError, WorkerError
from senju.games import GAMES, make_game
from senju.games.game import Game
from senju.machine import available_cores, private_bytes, resident_bytes
from senju.models import MODELS
from senju.models.weights import Weights

logger = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")


class PoolConfig(Part):
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


class Pool(Backend):
    """Workers that play from and into one arena. Subclasses say what a worker is."""

    Config: ClassVar[type[Part]] = PoolConfig
    name: ClassVar[str]
    _descriptor: int = -1  # of the arena's memory, where it is shared

    def start(self, plan: Plan) -> None:
        """Lay out the arena, start the workers, and wait until they are ready."""
        refuse_unguarded()
        config = self.config
        assert isinstance(config, PoolConfig)
        self._plan = plan
        try:
            self._lay_out(plan)
            self._supervisor.start(self._how_many(config.num_workers or available_cores()))
        except BaseException:
            self.close()
            raise

    def _lay_out(self, plan: Plan) -> None:
        """Everything but the workers."""
        config = self.config
        assert isinstance(config, PoolConfig)
        game = make_game(**plan.game)
        self._models = new_acting_models(plan, game)
        plan.resignation.check(game)
        warm_up_plan(plan, game, self._models)
        sizes = block_sizes(plan, self._models)
        self._weight_bytes = sizes[0]
        self._arena, self._shared_bytes = self._open_arena(game, sizes)
        self.publish(weight_block(plan, self._models).read(), version=0)
        self._published()  # compiled here, so that workers find it in the cache
        self._lay_out_shards(game)
        self._waited = 0.0
        self._taken_seconds = np.zeros_like(self._arena.boards)
        patience = Patience(
            config.worker_timeout, config.start_timeout, config.shard_attempts, config.reset_interval
        )
        self._supervisor = Supervisor(
            Schedule(plan.num_shards, self._arena.depth),
            self._arena.boards,
            patience,
            _weakly(self._hire),
            _weakly(self._hire_here),
            _weakly(self._describe),
            _weakly(self._set_aside),
        )
        files = [self._descriptor] if self._descriptor >= 0 else []
        self._dropped = weakref.finalize(self, self._supervisor.ending.drop, files)
        self._dropped.atexit = False  # workers notice the end of this process by themselves

    @abstractmethod
    def _open_arena(self, game: Game, sizes: Sequence[int]) -> tuple[Arena, int]:
        """The shared arrays, and how many bytes of shared memory they take."""

    @abstractmethod
    def _hire(self, index: int) -> Hand:
        """Start a worker."""

    @abstractmethod
    def _hire_here(self, index: int) -> Hand:
        """Start a worker in this process, where no other can be had."""

    def _affordable(self, wanted: int) -> int:
        """How many workers this machine has room for, at least 1."""
        return wanted

    def _lay_out_shards(self, game: Game) -> None:
        for index in range(self._plan.num_shards):
            self._arena.state(index, 0).write(new_shard(self._plan, game, index).state)

    def _how_many(self, wanted: int) -> int:
        """As many workers as asked for, or fewer, and then it says so."""
        useful = min(wanted, self._plan.num_shards)
        if useful < wanted and (not isinstance(self.config, PoolConfig) or self.config.num_workers):
            logger.warning(
                "%d of %d workers are started: there are no more shards; smaller games_per_shard gives more",
                useful,
                wanted,
            )
        affordable = max(1, self._affordable(useful))
        if affordable < useful:
            logger.warning("%d of %d workers are started: there is no memory for more", affordable, useful)
        return affordable

    @property
    def rings(self) -> tuple[Ring, ...]:
        """Memory that the workers write to."""
        return self._arena.rings

    @property
    def shared_memory(self) -> int | None:
        """The arena's, where it is shared."""
        return self._descriptor if self._descriptor >= 0 else None

    def publish(self, weights: Weights, version: int, orders: Orders = NO_ORDERS) -> None:
        """Write the weights where workers take them at the start of their next rollout."""
        if weights.nbytes != self._weight_bytes:
            raise ModelError(f"a block of {weights.nbytes} bytes for a model of {self._weight_bytes} bytes")
        orders = orders._replace(version=version)
        packed = pack_orders(orders, self._plan.most_opponents, len(self._plan.policies))
        self._arena.weights.write(np.concatenate([weights, packed]), version)

    def publish_opponent(self, place: int, weights: Weights) -> None:
        """Write the weights where workers take them when they need them."""
        self._arena.opponents.write(place, weights)

    def _published(self) -> tuple[Weights, Orders]:
        """The newest weights and orders."""
        block = np.empty(self._arena.weights.num_bytes, np.uint8)
        self._arena.weights.read(block)
        orders = unpack_orders(block, self._plan.most_opponents, len(self._plan.policies))
        return block[: self._weight_bytes].copy(), orders

    def collect(self, timeout: float | None = None) -> list[Rollout]:
        """Wait for the workers' rollouts of this turn."""
        began = monotonic()
        finished = self._supervisor.take(timeout)
        self._waited += monotonic() - began
        return [self._rollout(shard, turn, version) for shard, turn, version in finished]

    def _rollout(self, shard: int, turn: int, version: int) -> Rollout:
        first, *others = (ring.slot(shard, turn) for ring in self.rings)
        slots = (first, *others) if self._plan.policies else ()
        return Rollout(shard, version, first, self._arena.state(shard, turn).clock, turn, slots)

    def snapshot(self) -> list[ShardState]:
        """Copies of the shards' states; rollouts that are not collected yet will be played again."""
        with self._supervisor.changed:
            turns = [self._supervisor.schedule.next_turn(shard) for shard in range(self._plan.num_shards)]
            states = [self._arena.state(shard, turn) for shard, turn in enumerate(turns)]
            return [state.copy() for state in states]

    def restore(self, states: list[ShardState], turn: int | None = None) -> None:
        """Set every shard back, after the rollouts under way."""
        supervisor = self._supervisor
        supervisor.rest()
        with supervisor.changed:
            supervisor.rewind(turn)
            for ring in self.rings:
                ring.forget(supervisor.schedule.turn)
            for shard, state in zip(range(self._plan.num_shards), states, strict=True):
                self._arena.state(shard, supervisor.schedule.turn).write(state)

    def pause(self, workers: Collection[int] | None = None) -> None:
        """Begin no other rollout."""
        self._supervisor.pause(workers, is_paused=True)

    def resume(self, workers: Collection[int] | None = None) -> None:
        """Play on."""
        self._supervisor.pause(workers, is_paused=False)

    def reset(self, workers: Collection[int] | None = None) -> None:
        """Replace workers by fresh ones."""
        self._supervisor.reset(workers)

    def resize(self, num_workers: int) -> None:
        """Go on with so many workers."""
        if num_workers < 1:
            raise ConfigError(f"num_workers={num_workers}: expected 1 or more")
        self._supervisor.resize(self._how_many(num_workers))

    def status(self) -> BackendStatus:
        """Workers and slots now."""
        supervisor = self._supervisor
        with supervisor.changed:
            members = dict(supervisor.members)
            workers = [self._worker_status(index) for index in sorted(supervisor.places)]
            ready, playing, held, free = supervisor.schedule.counts()
            set_aside = tuple(sorted(supervisor.schedule.set_aside))
            wanted, restarts = supervisor.wanted, supervisor.restarts
        memory = {index: private_bytes(member.hand.pid) for index, member in members.items()}
        workers = [dataclasses.replace(w, memory_bytes=memory.get(w.index, 0)) for w in workers]
        return BackendStatus(
            backend=self.name,
            wanted_workers=wanted,
            workers=tuple(workers),
            slots_ready=ready,
            slots_playing=playing,
            slots_held=held,
            slots_free=free,
            version=self._arena.weights.version,
            restarts=restarts,
            set_aside=set_aside,
            shared_bytes=self._shared_bytes,
            memory_bytes=resident_bytes() + sum(memory.values()),
        )

    def _worker_status(self, index: int) -> WorkerStatus:
        place, member = self._supervisor.places[index], self._supervisor.members.get(index)
        state = member.state if member else State.STARTING
        is_paused = place.is_paused and state == State.WAITING
        return WorkerStatus(
            index=index,
            state="paused" if is_paused else state.value,
            pid=member.hand.pid if member else None,
            shard=member.task.shard if member and member.task else None,
            rollouts=place.rollouts,
            restarts=place.restarts,
            busy_share=place.busy_seconds / max(monotonic() - place.began, 1e-9),
            memory_bytes=0,
        )

    def take_timings(self) -> dict[str, float]:
        """The time spent waiting here, shared out by what the workers did meanwhile.

        With n workers, n seconds of work pass in each second of waiting; what is missing of that was
        idle, and is called "waiting".
        """
        boards = self._arena.boards.copy()
        spent = (boards - self._taken_seconds)[:, FIRST_STAGE : FIRST_STAGE + len(STAGES)].sum(axis=0)
        self._taken_seconds, waited, self._waited = boards, self._waited, 0.0
        busy = float(spent.sum())
        num_workers = max(len(self._supervisor.members), 1)
        played = min(waited, busy / num_workers)
        if not waited:
            return {}
        share = played / busy if busy else 0.0
        stages = dict(zip(STAGES, (spent * share).tolist(), strict=True))
        return {**stages, "waiting": waited - played}

    def take_failures(self) -> list[Failure]:
        """The opponents that failed in what was collected."""
        return self._supervisor.take_failures()

    def take_activities(self) -> list[Activity]:
        """What the workers did since the last call."""
        return self._supervisor.take_activities()

    def take_events(self) -> list[Event]:
        """What happened since the last call."""
        return self._supervisor.take_events()

    def close(self) -> None:
        """End the workers, and let go of the shared memory."""
        if hasattr(self, "_dropped"):
            self._dropped.detach()
        if hasattr(self, "_supervisor"):
            self._supervisor.stop()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _describe(self, task: Task) -> str:
        plan = self._plan
        first = task.shard * plan.games_per_shard
        rows = f"rows {first} to {first + plan.games_per_shard - 1}"
        return f"shard {task.shard} ({rows}), rollout {task.turn}, seed {plan.seed}"

    def _set_aside(self, task: Task, cause: str) -> str:
        """Write what is needed to play a failing rollout alone; decide whether to go on without it."""
        weights, orders = self._published()
        state = self._arena.state(task.shard, task.turn)
        plan = self._plan_for_others()
        opponents = {place: self._arena.opponents.read(place) for place in orders.places if place >= 0}
        reproduction = Reproduction(plan, task.shard, task.turn, orders, cause, state, weights, opponents)
        folder = Path(plan.folder or os.curdir) / FAILED_SHARDS
        try:
            advice = f"Run it alone with: senju reproduce {reproduction.save(folder)}"
        except RunFolderError as error:
            advice = f"What is needed to run it alone is lost: {error}"
        assert isinstance(self.config, PoolConfig)
        message = (
            f"shard {task.shard} failed {self.config.shard_attempts} times and is set aside; the last time: "
            f"{cause.rstrip()}\n{advice}"
        )
        left = self._plan.num_shards - len(self._supervisor.schedule.set_aside)
        if not left:
            raise WorkerError(f"{message}\nNo shard is left to play.")
        if self.config.failing_shard == "stop":
            raise WorkerError(f"{message}\nbackend.failing_shard=set_aside would go on without it.")
        return f"{message}\nTraining goes on with {left} of {self._plan.num_shards} shards."

    def _plan_for_others(self) -> Plan:
        """The plan with names by which another process finds the classes, where there are such names."""
        plan = self._plan
        with contextlib.suppress(ConfigError):  # a class inside a function has none
            plan = with_models(plan, MODELS.importable_name)
            game = plan.game | {"name": GAMES.importable_name(plan.game["name"])}
            plan = dataclasses.replace(plan, game=game)
        return plan


def _weakly(method: Callable[P, T]) -> Callable[P, T]:
    """The method as one that does not hold its object."""
    reference = weakref.WeakMethod(method)

    def call(*given: P.args, **named: P.kwargs) -> T:
        found = reference()
        if found is None:
            raise ControlError("the backend was dropped without close()")
        return found(*given, **named)

    return call


def with_models(plan: Plan, name_of: Callable[[str], str]) -> Plan:
    """The plan with other names of its networks."""

    def renamed(model: dict[str, Any]) -> dict[str, Any]:
        return model | {"name": name_of(model["name"])}

    policies = tuple(policy | {"model": renamed(policy["model"])} for policy in plan.policies)
    return dataclasses.replace(plan, model=renamed(plan.model), policies=policies)
