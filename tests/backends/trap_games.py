"""A game that goes wrong on demand, in a chosen shard at a chosen step.

It looks for its orders in a folder, so that tests can change them while workers play.
"""

import ctypes
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from senju.backends.backend import Plan
from senju.config import Part
from senju.games.game import Observations, Outcomes, States
from senju.games.rows import GAME_KEY
from senju.kernels import random_word
from senju.workers.channel import Kind, Message, SocketChannel
from tests.backends.common import new_plan
from tests.collect.toy_games import Race
from tests.environments.traps import HELPERS, start_helper


def trap_plan(folder: Path, spared: int | None = None) -> Plan:
    """A small plan; nothing ever goes wrong in the process `spared`, by default this one."""
    return new_plan(
        game={
            "name": "tests.backends.trap_games:Trap",
            "folder": str(folder),
            "spared": os.getpid() if spared is None else spared,
        },
        model={"name": "mlp", "hidden": [8]},
        seed=8,
        num_shards=3,
        games_per_shard=2,
        rollout_steps=4,
        folder=str(folder),
    )


def order(plan: Plan, kind: str, shard: int, at: int, *, always: bool = False, where: str = "step") -> None:
    """Let a shard go wrong at a step, counted from the backend's start: once, or whenever it comes there.

    Where it is "sending", a worker is harmed that has played the shard and has not said so.
    """
    row = shard * plan.games_per_shard
    key = int(random_word(np.uint64(plan.seed), row, 0, 0, GAME_KEY))
    orders = {"kind": kind, "key": key, "shard": shard, "at": at, "always": always, "where": where}
    folder = Path(plan.game["folder"])
    written = folder / "written"
    written.write_text(json.dumps(orders))
    written.rename(folder / "orders")  # at once: workers are looking


def call_off(plan: Plan) -> None:
    """Let nothing go wrong any more, and forget what did."""
    for name in ("orders", "sprung", "go"):
        (Path(plan.game["folder"]) / name).unlink(missing_ok=True)


def was_sprung(plan: Plan) -> bool:
    return (Path(plan.game["folder"]) / "sprung").exists()


class TrapConfig(Part):
    folder: str = Field("", description="Where the orders are; empty: nothing goes wrong.")
    spared: int = Field(0, description="The process that is never harmed.")


class Trap(Race):
    """The race, with a trap in it. Its state also counts each row's steps in all its games."""

    Config = TrapConfig

    name = "trap"
    state_dtype = np.dtype([*Race.state_dtype.descr, ("key", np.uint64), ("age", np.uint32)])

    def __init__(self, config: Part | None = None) -> None:
        super().__init__(config)
        assert isinstance(self.config, TrapConfig)
        self._folder = Path(self.config.folder or "/nowhere")
        self._spared = self.config.spared
        if os.getpid() != self._spared:
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
        is_meant = orders["where"] == where and self._spared != os.getpid()
        return orders if is_meant else None

    def _obey(self, orders: dict[str, Any]) -> None:
        self._take(orders)
        spring(orders["kind"], self._folder)

    def _take(self, orders: dict[str, Any]) -> None:
        if not orders["always"]:
            (self._folder / "orders").rename(self._folder / "sprung")

    def _watch_sending(self) -> None:
        """Die between a rollout's end and the done message."""
        send, receive, last = SocketChannel.send, SocketChannel.receive, [-1]

        def remember_shard(channel: SocketChannel) -> Message | None:
            message = receive(channel)
            last[0] = message.values[0] if message is not None and message.kind == Kind.TASK else -1
            return message

        def send_or_die(channel: SocketChannel, message: Message) -> None:
            orders = self._orders("sending") if message.kind == Kind.DONE else None
            if orders and last[0] == orders["shard"]:
                self._take(orders)  # first: the team kills a worker that sends half a message
                if orders["kind"] == "half_sent":
                    os.write(channel.fileno(), b'[4, "half of i')
                spring("kill", self._folder)
            send(channel, message)

        SocketChannel.send, SocketChannel.receive = send_or_die, remember_shard  # type: ignore[method-assign]


def spring(kind: str, folder: Path) -> None:
    """Go wrong, here and now."""
    if kind == "raise":
        raise RuntimeError("the trap is sprung")
    if kind == "leave":
        raise SystemExit(4)
    if kind == "interrupt":
        raise KeyboardInterrupt("the trap is sprung")
    if kind == "generator":
        raise GeneratorExit("the trap is sprung")
    if kind == "fork":
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
    if kind == "helpers":
        for how in HELPERS:
            (folder / f"helper-{start_helper(how)}").touch()
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
        for _ in range(300):  # more than a pipe holds
            print("x" * 1000, flush=True)  # noqa: T201  # workers may print; the team logs it
