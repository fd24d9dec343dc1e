"""The serial backend: all shards in this process, one after another. It is the reference."""

import os
import threading
import weakref
from collections.abc import Collection
from time import monotonic

from senju.backends.backend import Backend, BackendStatus
from senju.backends.building import device_slots, new_models, new_rollout_player, new_shard, placed
from senju.backends.plan import Plan
from senju.backends.schedule import RolloutTask
from senju.collect.orders import NO_ORDERS, Orders
from senju.collect.shard import ShardState
from senju.collect.slots import Rollout
from senju.errors import ConfigError, ControlError, WorkerError
from senju.games import make_game
from senju.machine import math_threads, resident_bytes
from senju.models.weights import Weights
from senju.timing import StageClock
from senju.usercode import ChildReport, ending_forked_child, must_propagate, refuse_forked_child
from senju.workers.role import Activity, Report, TeamControl, TeamStatus, WorkerStatus


class _GuardedClock(StageClock):
    """Every lap also checks for a child that the user's code forked."""

    def lap(self, stage: str) -> None:
        refuse_forked_child()
        super().lap(stage)


class InProcessTeam(TeamControl):
    """The current process as the only worker."""

    def __init__(self) -> None:
        self.can_play = threading.Event()
        self.can_play.set()
        self.activities: list[Activity] = []
        self._began, self._busy, self._num_finished = monotonic(), 0.0, 0
        self.task: RolloutTask | None = None

    def pause(self, workers: Collection[int] | None = None) -> None:
        if workers is None or 0 in workers:
            self.can_play.clear()

    def resume(self, workers: Collection[int] | None = None) -> None:
        if workers is None or 0 in workers:
            self.can_play.set()

    def reset(self, workers: Collection[int] | None = None) -> None:
        """Nothing to do: there is no worker to replace."""

    def resize(self, num_workers: int) -> None:
        """Refuse any number but 1."""
        if num_workers != 1:
            raise ConfigError(
                f"num_workers={num_workers}: the serial backend is one worker; "
                "resume the run with --workers to give it processes"
            )

    def finish(self, task: RolloutTask, began: float) -> None:
        """Record a finished rollout."""
        ended = monotonic()
        self._busy += ended - began
        self._num_finished += 1
        self.activities.append(Activity(0, task, began, ended))

    def status(self) -> TeamStatus:
        task, is_paused = self.task, not self.can_play.is_set()
        worker = WorkerStatus(
            index=0,
            state="playing" if task else "paused" if is_paused else "waiting",
            pid=None,
            task=task,
            num_finished=self._num_finished,
            restarts=0,
            busy_share=self._busy / max(monotonic() - self._began, 1e-9),
            memory_bytes=0,
        )
        return TeamStatus(1, (worker,), 0)

    def report(self) -> Report:
        """The rollouts since the last report; there are no events."""
        taken, self.activities = self.activities, []
        return Report({}, taken, [])


class Serial(Backend):
    """Plays every shard in this process."""

    team: InProcessTeam

    def start(self, plan: Plan) -> None:
        game = make_game(**plan.game)
        plan = placed(plan, game)
        game.warm_up()
        models = new_models(plan, game)
        self._lay_out_block(plan, game, models.sizes, plan.is_shared)
        if self.shared_memory is not None:
            self._dropped = weakref.finalize(self, os.close, self.shared_memory)
        self._orders = NO_ORDERS
        self._clock, self._child = _GuardedClock(), ChildReport()
        self._player = new_rollout_player(
            plan, game, models, self._clock, self._block.opponents.__getitem__, self._program
        )
        self._shards = [new_shard(plan, game, index) for index in range(plan.num_shards)]
        self._plan = plan
        # of each shard: the rows' clocks at the start of its newest rollout
        self._first_clocks = [shard.rows.clock.copy() for shard in self._shards]
        self._next, self._turn = 0, 0  # the shard to play next, and the number of complete turns
        self._finished: list[Rollout] = []  # not returned yet
        self._before: dict[int, ShardState] = {}  # by shard: its state before its rollout in `_finished`
        self.team = InProcessTeam()
        self._is_closed = False

    def _publish(self, weights: Weights, orders: Orders) -> None:
        self._player.write_weights(weights)
        self._orders = orders

    def collect(self, timeout: float | None = None) -> list[Rollout]:
        """Play one rollout of each shard in turn."""
        deadline = None if timeout is None else monotonic() + timeout
        rollouts = self._finished  # an interrupted call may have left some
        with math_threads(1):  # as workers have: small batches round differently with more
            while self._next < len(self._shards) and self._may_play(deadline, is_first=not rollouts):
                with self._publishing:  # weights and opponents do not change during a rollout
                    rollouts.append(self._play(self._next))
                self._next += 1
        self._finished, self._before = [], {}
        if self._next == len(self._shards):
            self._next, self._turn = 0, self._turn + 1
        return rollouts

    def _may_play(self, deadline: float | None, is_first: bool) -> bool:
        """Whether there is time to play; each call plays at least one rollout."""
        left = None if deadline is None else max(deadline - monotonic(), 0.0)
        can_play = self.team.can_play.wait(left)
        if self._is_closed:
            raise ControlError("the workers were stopped; they cannot be started again")
        return can_play and (left != 0.0 or is_first)

    def _play(self, index: int) -> Rollout:
        shard, began = self._shards[index], monotonic()
        before = self._before[index] = shard.state.copy()
        slots = tuple(ring.slot(index, self._turn) for ring in self.rings)
        self._first_clocks[index][:] = shard.rows.clock
        task = self.team.task = RolloutTask(0, index, self._turn)
        for ring in self.rings:
            ring.open(index, self._turn)
        try:
            with ending_forked_child(self._child.write):
                kept = device_slots(self.rings, index, self._turn) if self._program is not None else []
                self._player.play(shard, slots, self._orders, kept=kept)
            self._child.raise_written()
            for ring in self.rings:
                ring.complete(index, self._turn)
                if kept and ring.on_device is not None:
                    ring.on_device.complete(index, self._turn)
            opponents = self._player.opponents
            failures = tuple(opponents.take_failures()) if opponents is not None else ()
            rollout = Rollout(
                index, self._orders.version, slots, self._first_clocks[index], self._turn, failures
            )
            self.team.finish(task, began)
        except BaseException as error:  # SystemExit, for example, would end this process without a message
            shard.restore(before)  # the next call plays this rollout from its start
            if isinstance(error, Exception) or must_propagate(error):
                raise
            where = f"shard {index}, rollout {self._turn}, seed {self._plan.seed}"
            raise WorkerError(
                f"{where}: a game, model or opponent raised {type(error).__name__}: {error}"
            ) from error
        finally:
            self.team.task = None
        return rollout

    def snapshot(self) -> list[ShardState]:
        return [self._before.get(shard.index, shard.state).copy() for shard in self._shards]

    def restore(self, states: list[ShardState], turn: int | None = None) -> None:
        for shard, state in zip(self._shards, states, strict=True):
            shard.restore(state)
        self._finished, self._before = [], {}
        self._next, self._turn = 0, self._turn if turn is None else turn
        for ring in self.rings:
            ring.forget(self._turn)

    def status(self) -> BackendStatus:
        team = self.team.status()
        playing = int(team.workers[0].task is not None)
        return BackendStatus(
            backend="serial",
            team=team,
            slots_ready=0,
            slots_playing=playing,
            slots_held=len(self._shards) - playing,
            slots_free=0,
            version=self._orders.version,
            set_aside=(),
            shared_bytes=self._shared_bytes,
            memory_bytes=resident_bytes(),
        )

    def report(self) -> Report:
        return self.team.report()._replace(timings=self._clock.take())

    def close(self) -> None:
        """Release the shared memory; wake callers that wait."""
        self._is_closed = True
        if hasattr(self, "team"):
            self.team.can_play.set()
        self._release_device()
        if self.shared_memory is not None:
            self._dropped()
            self.shared_memory = None
