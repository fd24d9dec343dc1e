"""A worker: plays one rollout after another, in a thread or in a process of its own."""

import mmap
import traceback
from multiprocessing.connection import Connection
from time import monotonic, perf_counter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from senju.backends.arena import BEAT, FIRST_STAGE, Arena
from senju.backends.backend import Plan
from senju.backends.messages import Done, Failed, Ready, Stop, receive, send
from senju.backends.schedule import Task
from senju.collect.rollout import STAGES, RolloutPlayer, warm_up
from senju.collect.shard import Shard
from senju.errors import SenjuError
from senju.games import make_game
from senju.models import make_model
from senju.models.model import Model
from senju.models.weights import WeightBlock
from senju.timing import StageClock


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
        now, board = perf_counter(), self._board
        board[self._places[stage]] += now - self._last
        board[BEAT] += 1.0
        self._last = now


def new_acting_model(plan: Plan) -> Model:
    """The plan's network with the weights it starts from."""
    game = make_game(**plan.game)
    return make_model(plan.model, game.observation_shape, game.num_actions, plan.seed)


class Worker:
    """Plays tasks of a plan, from and into the arena's arrays.

    The shard under way is a private copy: what is shared changes only when the rollout is finished,
    and a worker that dies leaves the state it began with.
    """

    def __init__(
        self,
        plan: Plan,
        model: Model,
        block: mmap.mmap | NDArray[np.uint8],
        index: int,
    ) -> None:
        game = make_game(**plan.game)
        warm_up(game, model)
        self._block = WeightBlock(model)
        self._arena = Arena(plan, game, self._block.num_bytes, block)
        self._weights = np.empty(self._block.num_bytes, np.uint8)
        self._stamp, self._version = -1, 0
        clock = BoardClock(self._arena.boards[index])
        self._player = RolloutPlayer(game, model, plan.games_per_shard, clock, plan.resignation)
        self._shard = Shard(game, 0, plan.games_per_shard, plan.seed, plan.max_game_length)

    def play(self, task: Task) -> Done:
        """Play a rollout with the newest weights."""
        began = monotonic()
        version = self._take_weights()
        self._shard.restore(self._arena.state(task.shard, task.turn))
        self._player.play(self._shard, self._arena.slot(task.shard, task.turn))
        after = self._arena.state(task.shard, task.turn + 1)
        after.states[:], after.clock[:] = self._shard.rows.states, self._shard.rows.clock
        return Done(task, version, began, monotonic())

    def _take_weights(self) -> int:
        if self._arena.weights.stamp != self._stamp:
            self._stamp, self._version = self._arena.weights.read(self._weights)
            self._block.write(self._weights)
        return self._version


def serve(connection: "Connection[Any, Any]", worker: Worker) -> bool:
    """Play what the supervisor asks for, until it says stop (True) or is gone (False)."""
    try:
        send(connection, Ready())
        while not isinstance(message := receive(connection), Stop):
            assert isinstance(message, Task)
            send(connection, _answer(worker, message))
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the supervisor is gone, or waits no more
        return False
    return True


def _answer(worker: Worker, task: Task) -> Done | Failed:
    try:
        return worker.play(task)
    except Exception as error:  # noqa: BLE001  # travels to the supervisor, whoever raised it
        return describe_failure(error, task)


def describe_failure(error: Exception, task: Task | None) -> Failed:
    """An exception as a message."""
    text = "".join(traceback.format_exception(error))
    return Failed(task, type(error).__name__, str(error), text, isinstance(error, SenjuError))
