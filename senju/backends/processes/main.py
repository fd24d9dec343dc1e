"""A worker process, once it is booted: getting ready, and serving until the end."""

import faulthandler
import json
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import numpy as np
import torch

from senju.backends.arena import map_shared
from senju.backends.backend import Plan
from senju.backends.building import new_acting_models
from senju.backends.messages import send
from senju.backends.script import forbid_training, import_script
from senju.backends.worker import Worker, describe_failure, serve
from senju.kernels import random_word
from senju.memory import keep_freed_memory
from senju.usercode import ending_forked_child

STACK_SIGNAL = signal.SIGUSR1  # asks a worker to print where it is


T = TypeVar("T")
Told = dict[str, Any]  # the start message


def preload() -> None:
    """Load what every compiled function needs, which takes half a second."""
    random_word(np.uint64(0), 0, 0, 0, 0)


def work(index: int, connection: int, memory: int) -> bool:
    """Play rollouts; return whether the end was asked for."""
    return run(connection, lambda told: _get_ready(told, index, memory), serve)


def run(
    connection_number: int,
    get_ready: Callable[[Told], T],
    serve_with: "Callable[[Connection[Any, Any], T], bool]",
) -> bool:
    """Take the start message, get ready, and serve; return whether the end was asked for.

    The message's `worker_timeout` is how long the parent waits for a sign of life.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    faulthandler.register(STACK_SIGNAL)
    connection: Connection[Any, Any] = Connection(connection_number)
    try:
        told = json.loads(connection.recv_bytes())
    except EOFError:
        return False
    patience = 2 * told["worker_timeout"] + 3.0  # the supervisor, if there is one, is sooner
    threading.Thread(target=_end_if_stuck, args=(patience,), daemon=True).start()
    try:
        with ending_forked_child(lambda error: send(connection, describe_failure(error, None))):
            ready = get_ready(told)
    except BaseException as error:  # noqa: BLE001  # the user's code may raise anything; travels to the supervisor
        send(connection, describe_failure(error, None))
        return True
    return serve_with(connection, ready)


def prepare_for_work(script: str | None, otherwise: str) -> None:
    """One math thread, and what the user's classes need; training must not start while they are imported."""
    torch.set_num_threads(1)
    keep_freed_memory()
    forbid_training(script or otherwise)
    if script:
        import_script(script)


def _get_ready(told: Told, index: int, memory: int) -> Worker:
    plan = Plan(**told["plan"])
    prepare_for_work(told["script"], f"the module of {plan.game['name']} or of {plan.model['name']}")
    block = map_shared(memory, os.fstat(memory).st_size)
    return Worker(plan, new_acting_models(plan), block, index)


def _end_if_stuck(seconds: float) -> None:
    """End this process should a C function keep Python's lock for so long.

    No thread of Python's can notice that, nor that the parent is gone meanwhile. So this one winds up
    a timer that needs no lock, again and again; where it cannot, the timer runs out.
    """
    pause = threading.Event()
    while True:
        faulthandler.dump_traceback_later(seconds, exit=True)
        pause.wait(seconds / 4)
