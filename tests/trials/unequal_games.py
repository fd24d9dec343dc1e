"""Games that depend on more than their state, and one that fails: what a trial must find."""

import itertools
import os
import threading

import numpy as np
from numpy.typing import NDArray

from senju.games.game import Observations, Outcomes, States
from tests.collect.toy_games import Race

_looks = itertools.count()


class SeesCounter(Race):
    """Shows how often `observe` was called in this process."""

    name = "sees_counter"

    def observe(self, states: States, out: Observations) -> None:
        super().observe(states, out)
        out.observation[:, 0, 0] = next(_looks) % 251


class SeesProcess(Race):
    """Shows the number of the process that plays, in two bytes."""

    name = "sees_process"
    observation_shape = (5,)

    def observe(self, states: States, out: Observations) -> None:
        narrow = out._replace(observation=np.zeros((len(states), 1, 3), np.uint8))
        super().observe(states, narrow)
        out.observation[..., :3] = narrow.observation
        out.observation[..., 3:] = self.process(states)[:, None, :]

    def process(self, states: States) -> NDArray[np.uint8]:
        pid = os.getpid()
        return np.tile(np.array([pid & 255, pid >> 8 & 255], np.uint8), (len(states), 1))


class SeesProcessLate(SeesProcess):
    """The same, but only from its rows' forty-first step on: the third update with 16 steps each."""

    AGE = 40
    LIMIT = 250  # no game is cut: a cut position would be looked at a step earlier, for its value

    name = "sees_process_late"
    state_dtype = np.dtype([*Race.state_dtype.descr, ("age", np.uint16)])

    def process(self, states: States) -> NDArray[np.uint8]:
        return np.where(states["age"][:, None] >= self.AGE, super().process(states), 0).astype(np.uint8)

    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        super().step(states, actions, out)
        states["age"] += 1  # never set back, not even by a new game


class Failing(Race):
    """Raises at the third move of the first game that gets so far."""

    name = "failing"

    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        if (states["moves"] >= 2).any():
            raise ZeroDivisionError("a bug in the game")
        super().step(states, actions, out)


class FailsElsewhere(Race):
    """Raises at the third move, wherever it is not played by a process's main thread."""

    name = "fails_elsewhere"

    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        is_elsewhere = threading.current_thread() is not threading.main_thread()
        if is_elsewhere and (states["moves"] >= 2).any():
            raise ZeroDivisionError("a bug in the game")
        super().step(states, actions, out)
