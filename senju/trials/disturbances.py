"""Random disturbances of workers: kills, hangs, pauses, resizes, resets."""

import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

import psutil

from senju.backends.backend import Backend, BackendStatus
from senju.errors import ConfigError

READY = ("playing", "waiting", "paused")
KINDS = {"kill": 3, "hang": 2, "pause": 2, "resize": 2, "reset": 1}  # by kind: its relative frequency
SHORTEST, LONGEST = 0.05, 1.5  # seconds between two disturbances
_LONGEST_PAUSE = 2  # other disturbances until a pause ends, at most


def send_signal(pid: int, number: signal.Signals) -> bool:
    """Send a signal to a descendant of this process; False if it has ended already."""
    try:
        ancestors = [parent.pid for parent in psutil.Process(pid).parents()]
        if os.getpid() not in ancestors:  # the pid belongs to another process by now
            return False
        os.kill(pid, number)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return False
    return True


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped by a signal, or has ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_STOPPED
    except psutil.NoSuchProcess:
        return True


def processes_of(status: BackendStatus, states: Sequence[str] = READY) -> list[int]:
    """The process numbers of the workers that are processes and in one of these states."""
    return [worker.pid for worker in status.workers if worker.pid is not None and worker.state in states]


class Disturber:
    """Disturbs a backend at random by a seed; what its workers do at that moment depends on the clock."""

    def __init__(self, backend: Backend, seed: int, most_workers: int) -> None:
        self._backend, self._most_workers = backend, most_workers
        self._chance = random.Random(seed)
        self._pause_left = 0  # disturbances until a pause ends
        self.counts: Counter[str] = Counter(dict.fromkeys(KINDS, 0))

    def next_wait(self) -> float:
        """Seconds until the next disturbance."""
        return self._chance.uniform(SHORTEST, LONGEST)

    def disturb(self) -> None:
        """Apply one disturbance; count it if it reached a worker."""
        if self._pause_left:
            self._pause_left -= 1
            if not self._pause_left:
                self._backend.team.resume()
        kind = self._chance.choices(list(KINDS), list(KINDS.values()))[0]
        self.counts[kind] += self._apply(kind)

    def end_pause(self) -> None:
        """End the pause, so that all workers play."""
        self._pause_left = 0
        self._backend.team.resume()

    def _apply(self, kind: str) -> bool:
        """Disturb; return whether that reached a worker."""
        # only workers that have started: one that dies five times in a row while it starts is given up
        team, pids = self._backend.team, processes_of(self._backend.status())
        if kind == "kill":
            return self._signal_one(pids, signal.SIGKILL)
        if kind == "hang":
            return self._signal_one([pid for pid in pids if not is_stopped(pid)], signal.SIGSTOP)
        if kind == "resize":
            team.resize(self._chance.randint(1, self._most_workers))
            return True
        if kind == "reset":
            return self._reached(team.reset)
        self._pause_left = self._chance.randint(1, _LONGEST_PAUSE)
        return self._reached(team.pause)

    def _signal_one(self, pids: list[int], number: signal.Signals) -> bool:
        return bool(pids) and send_signal(self._chance.choice(pids), number)

    def _reached(self, disturb: Callable[[list[int] | None], None]) -> bool:
        """Disturb one worker or all; False where the chosen one has left meanwhile."""
        indices = [worker.index for worker in self._backend.status().workers]
        with suppress(ConfigError):
            disturb(self._chance.choice([None, *([index] for index in indices)]))
            return True
        return False
