"""Signals to worker processes, sent from outside, as in an accident."""

import os
import signal
from collections.abc import Sequence

import psutil

from senju.backends.backend import BackendStatus

READY = ("playing", "waiting", "paused")


def send_signal(pid: int, number: signal.Signals) -> bool:
    """Send a signal to a descendant of this process; False where it is gone already."""
    try:
        ancestors = [parent.pid for parent in psutil.Process(pid).parents()]
        if os.getpid() not in ancestors:  # the number belongs to another process by now
            return False
        os.kill(pid, number)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return False
    return True


def is_stopped(pid: int) -> bool:
    """Whether a process stands still by a signal, or is gone."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_STOPPED
    except psutil.NoSuchProcess:
        return True


def processes_of(status: BackendStatus, states: Sequence[str] = READY) -> list[int]:
    """The process numbers of the workers that are processes and in one of these states."""
    return [worker.pid for worker in status.workers if worker.pid is not None and worker.state in states]
