"""The serial backend: all shards in this process, one after another. It is the oracle."""

import os
import threading
import weakref
from collections.abc import Collection, Sequence
from time import monotonic

from senju.backends.arena import Arena, map_shared, open_anonymous, require_room
from senju.backends.backend import Activity, Backend, BackendStatus, Event, Plan, WorkerStatus
from senju.backends.building import (
    OpponentWeights,
    block_sizes,
    new_acting_models,
    new_rings,
    new_rollout_player,
    new_shard,
    weight_block,
)
from senju.collect.orders import NO_ORDERS, Orders
from senju.collect.seating import Failure
from senju.collect.shard import ShardState
from senju.collect.slots import Ring, Rollout
from senju.errors import ConfigError, ControlError, WorkerError
from senju.games import make_game
from senju.games.game import Game
from senju.machine import math_threads, resident_bytes
from senju.models.weights import Weights
from senju.timing import StageClock
from senju.usercode import ChildReport, ending_forked_child, passes_on, refuse_forked_child


class _GuardedClock(StageClock):
    """Every lap also notices a child that the user's code forked."""

    def lap(self, stage: str) -> None:
        """The time since the last lap was spent in `stage`."""
        refuse_forked_child()
        super().lap(stage)


class Serial(Backend):
    """Plays every shard here, as its one worker."""

    _descriptor: int = -1  # of the arena's memory, where it is shared

    def start(self, plan: Plan) -> None:
        """Build the game, the acting copy of the model, the shards and their slots."""
        game = make_game(**plan.game)
        game.warm_up()
        models = new_acting_models(plan, game)
        sizes = block_sizes(plan, models)
        num_bytes = require_room(plan, game, sizes)
        self._weights = weight_block(plan, models)
        self._opponents = OpponentWeights(plan, sizes)
        self._orders = NO_ORDERS
        self._clock, self._child = _GuardedClock(), ChildReport()
        self._player = new_rollout_player(plan, game, models, self._clock, self._opponents.read)
        self._shards = [new_shard(plan, game, index) for index in range(plan.num_shards)]
        self._plan, self._rings = plan, self._lay_out(plan, game, sizes, num_bytes)
        self._first = [shard.rows.clock.copy() for shard in self._shards]  # of the rollout collected last
        self._next, self._turn = 0, 0  # the shard to play next, and how often all were played
        self._can_play = threading.Event()
        self._can_play.set()
        self._changing = threading.Lock()  # of weights and opponents, which is not done within a rollout
        self._is_closed = False
        self._activities: list[Activity] = []
        self._began, self._busy, self._playing, self._rollouts = monotonic(), 0.0, False, 0

    def _lay_out(self, plan: Plan, game: Game, sizes: Sequence[int], num_bytes: int) -> tuple[Ring, ...]:
        if not plan.is_shared:
            return new_rings(plan, game)
        self._descriptor = open_anonymous(num_bytes)
        self._dropped = weakref.finalize(self, os.close, self._descriptor)
        return Arena(plan, game, sizes, map_shared(self._descriptor, num_bytes)).rings

    @property
    def rings(self) -> tuple[Ring, ...]:
        """Memory of this process, or memory that learners share."""
        return self._rings

    @property
    def shared_memory(self) -> int | None:
        """The arena's, where it is shared."""
        return self._descriptor if self._descriptor >= 0 else None

    def publish(self, weights: Weights, version: int, orders: Orders = NO_ORDERS) -> None:
        """Copy the weights into the acting model."""
        with self._changing:
            self._weights.write(weights)
            self._orders = orders._replace(version=version)

    def publish_opponent(self, place: int, weights: Weights) -> None:
        """Copy the weights."""
        with self._changing:
            self._opponents.write(place, weights)

    def collect(self, timeout: float | None = None) -> list[Rollout]:
        """Play one rollout of each shard in turn."""
        deadline = None if timeout is None else monotonic() + timeout
        rollouts: list[Rollout] = []
        with math_threads(1):  # as workers have: small batches round differently with more
            while self._next < len(self._shards) and self._may_play(deadline, is_first=not rollouts):
                with self._changing:
                    rollouts.append(self._play(self._next))
                self._next += 1
        if self._next == len(self._shards):
            self._next, self._turn = 0, self._turn + 1
        return rollouts

    def _may_play(self, deadline: float | None, is_first: bool) -> bool:
        """Whether there is time; each call plays one rollout at least, since nobody plays between them."""
        left = None if deadline is None else max(deadline - monotonic(), 0.0)
        can_play = self._can_play.wait(left)
        if self._is_closed:
            raise ControlError("the workers were stopped; start another backend to go on")
        return can_play and (left != 0.0 or is_first)

    def _play(self, index: int) -> Rollout:
        shard, began = self._shards[index], monotonic()
        slots = tuple(ring.slot(index, self._turn) for ring in self._rings)
        self._first[index][:] = shard.rows.clock
        self._playing = True
        for ring in self._rings:
            ring.open(index, self._turn)
        try:
            with ending_forked_child(self._child.write):
                self._player.play_all(shard, slots, self._orders)
        except Exception:
            raise
        except BaseException as error:  # it would end this process, and without a word
            if passes_on(error):
                raise
            where = f"shard {index}, rollout {self._turn}, seed {self._plan.seed}"
            raise WorkerError(
                f"{where}: a game, model or opponent raised {type(error).__name__}: {error}"
            ) from error
        finally:
            self._playing = False
        self._child.raise_written()
        for ring in self._rings:
            ring.seal(index, self._turn)
        ended = monotonic()
        self._busy += ended - began
        self._rollouts += 1
        self._activities.append(Activity(0, index, self._turn, began, ended))
        own = slots if self._plan.policies else ()
        return Rollout(index, self._orders.version, slots[0], self._first[index], self._turn, own)

    def snapshot(self) -> list[ShardState]:
        """Copies of the shards' states."""
        return [shard.state.copy() for shard in self._shards]

    def restore(self, states: list[ShardState], turn: int | None = None) -> None:
        """Set every shard back."""
        for shard, state in zip(self._shards, states, strict=True):
            shard.restore(state)
        self._next, self._turn = 0, self._turn if turn is None else turn
        for ring in self._rings:
            ring.forget(self._turn)

    def pause(self, workers: Collection[int] | None = None) -> None:
        """Begin no other rollout until resumed (by another thread)."""
        if workers is None or 0 in workers:
            self._can_play.clear()

    def resume(self, workers: Collection[int] | None = None) -> None:
        """Play on."""
        if workers is None or 0 in workers:
            self._can_play.set()

    def reset(self, workers: Collection[int] | None = None) -> None:
        """Nothing to do: there is no worker to replace."""

    def resize(self, num_workers: int) -> None:
        """Refused, but for 1: this process is the only worker there is."""
        if num_workers != 1:
            raise ConfigError(
                f"num_workers={num_workers}: the serial backend is one worker; "
                "resume the run with --workers to give it processes"
            )

    def status(self) -> BackendStatus:
        """The one worker, and its slots."""
        memory = resident_bytes()
        is_paused = not self._can_play.is_set()
        state = "playing" if self._playing else "paused" if is_paused else "waiting"
        rollouts = self._rollouts
        worker = WorkerStatus(
            index=0,
            state=state,
            pid=None,
            shard=self._next if self._playing else None,
            rollouts=rollouts,
            restarts=0,
            busy_share=self._busy / max(monotonic() - self._began, 1e-9),
            memory_bytes=0,
        )
        playing = int(self._playing)
        return BackendStatus(
            backend="serial",
            wanted_workers=1,
            workers=(worker,),
            slots_ready=0,
            slots_playing=playing,
            slots_held=len(self._shards) - playing,
            slots_free=0,
            version=self._orders.version,
            restarts=0,
            set_aside=(),
            shared_bytes=0,
            memory_bytes=memory,
        )

    def take_timings(self) -> dict[str, float]:
        """Seconds per stage since the last call."""
        return self._clock.take()

    def take_failures(self) -> list[Failure]:
        """The opponents that failed since the last call."""
        return self._player.others.take_failures() if self._player.others is not None else []

    def take_activities(self) -> list[Activity]:
        """The rollouts played since the last call."""
        taken, self._activities = self._activities, []
        return taken

    def take_events(self) -> list[Event]:
        """Nothing happens here that does not raise."""
        return []

    def close(self) -> None:
        """Let go of the shared memory, and of those who wait; all else here belongs to this process."""
        self._is_closed = True
        if hasattr(self, "_can_play"):
            self._can_play.set()
        if self._descriptor >= 0:
            self._dropped()
            self._descriptor = -1
