"""Disturbances: what may happen to workers, drawn from a seed."""

import random
import signal
from collections import Counter
from contextlib import suppress

from senju.backends.backend import Backend
from senju.errors import ConfigError
from senju.trials.signals import is_stopped, processes_of, strike

KINDS = {"kill": 3, "hang": 2, "pause": 2, "resize": 2, "reset": 1}  # with how often they come
SHORTEST, LONGEST = 0.05, 1.5  # seconds between two disturbances
_LONGEST_PAUSE = 2  # disturbances that may come before it ends


class Disturber:
    """Disturbs a backend again and again; what, whom and when comes from the seed.

    What a disturbance meets there depends on the clock: two runs of one seed are alike, not equal.
    """

    def __init__(self, backend: Backend, seed: int, most_workers: int) -> None:
        self._backend, self._most_workers = backend, most_workers
        self._chance = random.Random(seed)
        self._pause_left = 0  # disturbances until a pause ends
        self.counts: Counter[str] = Counter(dict.fromkeys(KINDS, 0))

    def next_wait(self) -> float:
        """Seconds until the next disturbance."""
        return self._chance.uniform(SHORTEST, LONGEST)

    def disturb(self) -> None:
        """Do something; counted where it met somebody."""
        if self._pause_left:
            self._pause_left -= 1
            if not self._pause_left:
                self._backend.resume()
        kind = self._chance.choices(list(KINDS), list(KINDS.values()))[0]
        if getattr(self, f"_{kind}")():
            self.counts[kind] += 1

    def calm(self) -> None:
        """Let everybody play."""
        self._pause_left = 0
        self._backend.resume()

    def _kill(self) -> bool:
        return self._strike_one(self._ready(), signal.SIGKILL)

    def _hang(self) -> bool:
        return self._strike_one([pid for pid in self._ready() if not is_stopped(pid)], signal.SIGSTOP)

    def _ready(self) -> list[int]:
        """Those that could play: five deaths in a row while starting would cost a worker its place."""
        return [pid for _, pid in processes_of(self._backend.status())]

    def _strike_one(self, pids: list[int], number: signal.Signals) -> bool:
        return bool(pids) and strike(self._chance.choice(pids), number)

    def _pause(self) -> bool:
        self._pause_left = self._chance.randint(1, _LONGEST_PAUSE)
        with suppress(ConfigError):  # the one chosen has left meanwhile
            self._backend.pause(self._one_or_all())
            return True
        return False

    def _resize(self) -> bool:
        self._backend.resize(self._chance.randint(1, self._most_workers))
        return True

    def _reset(self) -> bool:
        with suppress(ConfigError):  # the one chosen has left meanwhile
            self._backend.reset(self._one_or_all())
            return True
        return False

    def _one_or_all(self) -> list[int] | None:
        indices = [worker.index for worker in self._backend.status().workers]
        return self._chance.choice([None, *([index] for index in indices)])
