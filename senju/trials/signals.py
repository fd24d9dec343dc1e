"""Signals to worker processes, from outside as an accident would send them."""

import os
import signal
from collections.abc import Iterable

import psutil

from senju.backends.backend import BackendStatus, WorkerStatus

READY = ("playing", "waiting", "paused")


def strike(pid: int, number: signal.Signals) -> bool:
    """Send a signal to a process of this one's; False where it is gone already."""
    try:
        forebears = [parent.pid for parent in psutil.Process(pid).parents()]
        if os.getpid() not in forebears:  # the number belongs to another process by now
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


def processes_of(status: BackendStatus, states: Iterable[str] = READY) -> list[tuple[WorkerStatus, int]]:
    """The workers that are processes and in one of these states, with their process numbers."""
    wanted = set(states)
    return [
        (worker, worker.pid) for worker in status.workers if worker.pid is not None and worker.state in wanted
    ]
