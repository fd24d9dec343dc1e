"""A worker: makes its handler and serves tasks, in a process or in a thread."""

import faulthandler
import importlib
import math
import signal
import socket
import threading
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any, TypeVar

import numpy as np
import torch

from senju.kernels import random_word
from senju.memory import keep_freed_memory
from senju.trust import accept
from senju.usercode import ChildReport, ending_forked_child
from senju.workers.channel import Channel, Kind, Message, SocketChannel, failed
from senju.workers.role import Handler, Payload, Start
from senju.workers.script import forbid_training, import_script

T = TypeVar("T")
STACK_SIGNAL = signal.SIGUSR1  # asks a worker to print its stack


def preload() -> None:
    """Load what every compiled function needs, which takes half a second."""
    random_word(np.uint64(0), 0, 0, 0, 0)


def run(boot_info: dict[str, Any]) -> bool:
    """Serve in this process; return whether the team asked for its end."""
    faulthandler.enable()
    faulthandler.register(STACK_SIGNAL)
    channel = SocketChannel(socket.socket(fileno=boot_info["connection"]))
    message = channel.receive()
    if message is None:
        return False
    if boot_info["is_forkable"]:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        torch.set_num_threads(1)
        keep_freed_memory()
    if math.isfinite(boot_info["task_timeout"]):
        seconds = 2 * boot_info["task_timeout"] + 3.0  # a team that still runs acts sooner
        threading.Thread(target=_end_if_stuck, args=(seconds,), daemon=True).start()
    start = Start(boot_info["index"], Payload(message.values, message.blocks), boot_info["descriptors"])
    return serve(channel, start, partial(_new_handler, boot_info))


def _new_handler(boot_info: dict[str, Any], start: Start) -> Handler:
    accept(boot_info["accepted"])
    if boot_info["is_forkable"]:
        forbid_training(boot_info["script"] or boot_info["imports"])
    if boot_info["script"]:
        import_script(boot_info["script"])
    module, _, function = boot_info["entry"].partition(":")
    handler: Handler = getattr(importlib.import_module(module), function)(start)
    return handler


def serve(channel: Channel, start: Start, prepare: Callable[[Start], Handler]) -> bool:
    """Execute tasks until the team says stop (True) or is gone (False)."""
    start.note = lambda values: channel.send(Message(Kind.NOTE, 0, values))
    child = ChildReport()
    try:
        try:
            handler = _call_user_code(child, partial(prepare, start))
        except BaseException as error:  # noqa: BLE001  # the user's code may raise anything; the team raises it
            channel.send(failed(error))
            return True
        channel.send(Message(Kind.READY))
        while (message := channel.receive()) is not None and message.kind != Kind.STOP:
            _send(channel, _answer(child, handler, message))
            del message  # and so its blocks
    except OSError:  # the team is gone, or no longer listens
        return False
    return message is not None


def _send(channel: Channel, answer: Message) -> None:
    """Send an answer, or the error of this process that keeps it from being sent."""
    try:
        channel.send(answer)
    except ConnectionError:  # the team is gone
        raise
    except OSError as error:  # for example, the user's code has opened too many files
        channel.send(failed(error, answer.number))


def _answer(child: ChildReport, handler: Handler, task: Message) -> Message:
    began = monotonic()
    try:
        execute = partial(handler.execute, Payload(task.values, task.blocks))
        values, blocks = _call_user_code(child, execute)
    except BaseException as error:  # noqa: BLE001  # the user's code may raise anything; the team raises it
        return failed(error, task.number)
    return Message(Kind.DONE, task.number, [began, monotonic(), values], blocks)


def _call_user_code(child: ChildReport, call: Callable[[], T]) -> T:
    """Call the user's code; raise the error that a child process forked by it has reported."""
    with ending_forked_child(child.write):
        result = call()
    child.raise_written()
    return result


def _end_if_stuck(seconds: float) -> None:
    """End this process if a C function keeps Python's lock for `seconds`.

    No Python thread can notice that, nor that the parent has ended. So this thread restarts a timer, which
    needs no lock, again and again. If the thread cannot run, the timer ends the process.
    """
    pause = threading.Event()
    while True:
        faulthandler.dump_traceback_later(seconds, exit=True)
        pause.wait(seconds / 4)
