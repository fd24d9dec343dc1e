"""A game that goes wrong on demand, in a chosen shard at a chosen step.

It looks for its orders in a folder, so that tests can change them while workers play. The process
that wrote them is spared: only workers are harmed.
"""

import ctypes
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

import senju.backends.worker
from senju.backends.messages import Done
from senju.config import Part
from senju.games.game import Observations, Outcomes, States
from senju.games.rows import GAME_KEY
from senju.kernels import random_word
from tests.collect.toy_games import Race

ALWAYS = 10**6
KINDS = ("raise", "exit", "segfault", "kill", "stop", "hang", "hang_in_c", "wait", "print")


def order(
    folder: Path, kind: str, row: int, at: int, seed: int, times: int = 1, where: str = "step"
) -> None:
    """Let the shard whose first row that is go wrong at that step, counted from the backend's start."""
    key = int(random_word(np.uint64(seed), row, 0, 0, GAME_KEY))
    orders = {"kind": kind, "key": key, "at": at, "times": times, "where": where, "spared": os.getpid()}
    written = folder / "written"
    written.write_text(json.dumps(orders))
    written.rename(folder / "orders")  # at once: workers are looking


def order_unsent(folder: Path, kind: str, turn: int) -> None:
    """Let a worker die when it has played a rollout of that turn and has not said so."""
    orders = {"kind": kind, "key": 0, "at": turn, "times": 1, "where": "sending", "spared": os.getpid()}
    (folder / "orders").write_text(json.dumps(orders))


def call_off(folder: Path) -> None:
    """Let nothing go wrong any more."""
    (folder / "orders").unlink(missing_ok=True)


def was_sprung(folder: Path) -> bool:
    return (folder / "sprung").exists()


class TrapConfig(Part):
    folder: str = Field("", description="Where the orders are; empty: nothing goes wrong.")


class Trap(Race):
    """The race, with a trap in it. Its state also counts each row's steps in all its games."""

    Config = TrapConfig

    name = "trap"
    state_dtype = np.dtype([*Race.state_dtype.descr, ("key", np.uint64), ("age", np.uint32)])

    def __init__(self, config: Part | None = None) -> None:
        super().__init__(config)
        assert isinstance(self.config, TrapConfig)
        self._folder = Path(self.config.folder or "/nowhere")
        if "senju.backends.processes.main" in sys.modules and (self._folder / "orders").exists():
            self._watch_sending()

    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        super().reset(states, rows, keys)
        states["key"][rows] = np.where(states["key"][rows] == 0, keys, states["key"][rows])

    def observe(self, states: States, out: Observations) -> None:
        self._look("observe", states)
        super().observe(states, out)

    def apply(self, states: States, actions: NDArray[np.int32], before: Observations, out: Outcomes) -> None:
        self._look("step", states)
        super().apply(states, actions, before, out)
        states["age"] += 1

    def _look(self, where: str, states: States) -> None:
        orders = self._orders(where)
        if orders and ((states["key"] == orders["key"]) & (states["age"] == orders["at"])).any():
            self._obey(orders)

    def _orders(self, where: str) -> dict[str, Any] | None:
        try:
            orders: dict[str, Any] = json.loads((self._folder / "orders").read_text())
        except OSError:
            return None
        is_meant = orders["where"] == where and orders["spared"] != os.getpid()
        return orders if is_meant else None

    def _obey(self, orders: dict[str, Any]) -> None:
        if orders["times"] == 1:
            (self._folder / "orders").rename(self._folder / "sprung")
        spring(orders["kind"], self._folder)

    def _watch_sending(self) -> None:
        """Die between a rollout's end and the message of it."""
        module: Any = senju.backends.worker
        send = module.send

        def send_or_die(connection: Any, message: Any) -> None:
            orders = self._orders("sending") if isinstance(message, Done) else None
            if orders and message.task.turn == orders["at"]:
                if orders["kind"] == "half_sent":
                    os.write(connection.fileno(), b"\0\0\0\x40half of i")
                self._obey(orders | {"kind": "kill"})
            send(connection, message)

        module.send = send_or_die


def spring(kind: str, folder: Path) -> None:
    """Go wrong, here and now."""
    if kind == "raise":
        raise RuntimeError("the trap is sprung")
    if kind == "exit":
        os._exit(3)
    if kind == "segfault":
        ctypes.string_at(0)
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if kind == "hang":
        time.sleep(3600)
    if kind == "hang_in_c":
        ctypes.PyDLL(None).sleep(3600)  # keeps Python's lock
    if kind == "wait":
        while not (folder / "go").exists():
            time.sleep(0.002)
    if kind == "print":
        print("x" * 1000, flush=True)  # noqa: T201  # workers may print, and the supervisor hears it
