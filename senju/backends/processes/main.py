"""A worker process, from its first line to its last."""

import faulthandler
import json
import os
import signal
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from senju.backends.arena import map_shared
from senju.backends.backend import Plan
from senju.backends.messages import send
from senju.backends.script import forbid_training, import_script
from senju.backends.worker import BoardClock, Worker, describe_failure, new_acting_model, serve
from senju.memory import keep_freed_memory

STACK_SIGNAL = signal.SIGUSR1  # asks a worker to print where it is


class GuardedClock(BoardClock):
    """A clock that also ends a worker which hangs when nobody is left to notice.

    A thread of Python's cannot do that where a C function keeps Python's lock; the timer of
    `faulthandler` needs no lock. It is wound up again now and then, at a step's beginning.
    """

    def __init__(self, board: NDArray[np.float64], timeout: float) -> None:
        super().__init__(board)
        self._timeout = 2 * timeout + 1.0
        self._wound = 0.0

    def start(self) -> None:
        """Begin timing."""
        super().start()
        if not self._wound:
            self._wind()

    def lap(self, stage: str) -> None:
        """The time since the last lap was spent in `stage`."""
        super().lap(stage)
        if self._last - self._wound > self._timeout / 8:
            self._wind()

    def _wind(self) -> None:
        self._wound = self._last
        faulthandler.dump_traceback_later(self._timeout, exit=True)

    def rest(self) -> None:
        """Nothing to guard until the next start."""
        self._wound = 0.0
        faulthandler.cancel_dump_traceback_later()


def work(index: int, memory: int, connection_number: int) -> bool:
    """Take the start message, get ready, and serve; return whether the end was asked for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    faulthandler.register(STACK_SIGNAL)
    connection: Connection[Any, Any] = Connection(connection_number)
    try:
        told = json.loads(connection.recv_bytes())
    except EOFError:
        return False
    try:
        worker = _get_ready(told, index, memory)
    except Exception as error:  # noqa: BLE001  # travels to the supervisor
        send(connection, describe_failure(error, None))
        return True
    return serve(connection, worker)


def _get_ready(told: dict[str, Any], index: int, memory: int) -> Worker:
    torch.set_num_threads(1)
    keep_freed_memory()
    plan = Plan(**told["plan"])
    forbid_training(told["script"] or f"the module of {plan.game['name']} or of {plan.model['name']}")
    if told["script"]:
        import_script(told["script"])
    block = map_shared(memory, os.fstat(memory).st_size)
    new_clock = partial(GuardedClock, timeout=told["worker_timeout"])
    return Worker(plan, new_acting_model(plan), block, index, new_clock)
