"""A worker: plays one rollout after another, in a thread or in a process of its own."""

import mmap
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from time import monotonic, perf_counter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from senju.backends.arena import BEAT, FIRST_STAGE, Arena
from senju.backends.backend import Plan
from senju.backends.building import (
    block_sizes,
    new_rollout_player,
    new_shard,
    warm_up_plan,
    weight_block,
)
from senju.backends.messages import Broken, Done, Failed, Ready, Stop, receive, send
from senju.backends.schedule import Task
from senju.collect.orders import NO_ORDERS, unpack_orders
from senju.collect.rollout import STAGES
from senju.errors import SenjuError
from senju.games import make_game
from senju.models.model import Model
from senju.timing import StageClock
from senju.usercode import ending_forked_child, refuse_forked_child


class BoardClock(StageClock):
    """Writes its times where the supervisor sees them; every reading is a sign of life."""

    def __init__(self, board: NDArray[np.float64]) -> None:
        super().__init__()
        self._board = cast("memoryview[float]", board.data)
        self._places = {stage: FIRST_STAGE + index for index, stage in enumerate(STAGES)}

    def start(self) -> None:
        """Begin timing."""
        super().start()
        self._board[BEAT] += 1.0

    def lap(self, stage: str) -> None:
        """The time since the last lap was spent in `stage`."""
        refuse_forked_child()
        now, board = perf_counter(), self._board
        board[self._places[stage]] += now - self._last
        board[BEAT] += 1.0
        self._last = now


class Worker:
    """Plays tasks of a plan, from and into the arena's arrays.

    The shard under way is a private copy: what is shared changes only when the rollout is finished,
    and a worker that dies leaves the state it began with.
    """

    def __init__(
        self,
        plan: Plan,
        models: Sequence[Model],
        block: mmap.mmap | NDArray[np.uint8],
        index: int,
    ) -> None:
        game = make_game(**plan.game)
        warm_up_plan(plan, game, models)
        self._plan = plan
        self._block = weight_block(plan, models)
        self._arena = Arena(plan, game, block_sizes(plan, models), block)
        self._published = np.empty(self._arena.weights.num_bytes, np.uint8)
        self._stamp, self._orders = -1, NO_ORDERS
        clock = BoardClock(self._arena.boards[index])
        self._player = new_rollout_player(plan, game, models, clock, self._arena.opponents.read)
        self._shard = new_shard(plan, game, 0)

    def play(self, task: Task) -> Done:
        """Play a rollout with the newest weights."""
        began = monotonic()
        self._take_weights()
        shard, rings = self._shard, self._arena.rings
        shard.index = task.shard
        shard.restore(self._arena.state(task.shard, task.turn))
        for ring in rings:
            ring.open(task.shard, task.turn)
        slots = [ring.slot(task.shard, task.turn) for ring in rings]
        self._player.play_all(shard, slots, self._orders)
        for ring in rings:
            ring.seal(task.shard, task.turn)
        self._arena.state(task.shard, task.turn + 1).write(shard.state)
        return Done(task, self._orders.version, began, monotonic())

    def _take_weights(self) -> None:
        if self._arena.weights.stamp != self._stamp:
            self._stamp, _ = self._arena.weights.read(self._published)
            self._block.write(self._published[: self._block.num_bytes])
            self._orders = unpack_orders(self._published, self._plan.most_opponents, len(self._plan.policies))

    def take_failures(self, task: Task) -> list[Broken]:
        """The opponents that failed in the rollout just played."""
        others = self._player.others
        return [Broken(task, failure) for failure in others.take_failures()] if others is not None else []


def serve(connection: "Connection[Any, Any]", worker: Worker) -> bool:
    """Play what the supervisor asks for, until it says stop (True) or is gone (False)."""
    try:
        send(connection, Ready())
        while not isinstance(message := receive(connection), Stop):
            assert isinstance(message, Task)
            answer = _answer(connection, worker, message)
            for broken in worker.take_failures(message):
                send(connection, broken)
            send(connection, answer)
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the supervisor is gone, or waits no more
        return False
    return True


def _answer(connection: "Connection[Any, Any]", worker: Worker, task: Task) -> Done | Failed:
    try:
        with ending_forked_child(lambda error: send(connection, describe_failure(error, task))):
            return worker.play(task)
    except BaseException as error:  # noqa: BLE001  # the user's code may raise anything; travels to the supervisor
        return describe_failure(error, task)


def describe_failure(error: BaseException, task: Task | None) -> Failed:
    """An exception as a message."""
    text = "".join(traceback.format_exception(error))
    return Failed(task, type(error).__name__, str(error), text, isinstance(error, SenjuError))
