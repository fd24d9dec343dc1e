"""The answers of a run in training to commands from other terminals, and the gate at which it pauses."""

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from senju.backends.backend import Backend
from senju.errors import ControlError
from senju.events import Event, new_event
from senju.runs.control import ControlServer
from senju.runs.interrupt import StopRequest

logger = logging.getLogger(__name__)


class PauseGate:
    """Where the training loop stops between two updates while the run is paused."""

    def __init__(self) -> None:
        self._changed = threading.Condition()  # guards the two below; no signal handler takes it
        self.is_closed = False  # whether the run is pausing or paused
        self._wake: socket.socket | None = None  # of the training loop while it waits

    @property
    def is_waiting(self) -> bool:
        """Whether the training loop waits at the gate."""
        return self._wake is not None

    def close(self) -> None:
        """Let the training loop stop when it reaches the gate."""
        with self._changed:
            self.is_closed = True

    def open(self) -> None:
        """Let the training loop go on."""
        with self._changed:
            self.is_closed = False
            self._changed.notify_all()
            if self._wake is not None:
                with suppress(BlockingIOError):  # enough was sent already to wake it
                    self._wake.send(b".")

    def pass_through(self, stop: StopRequest) -> None:
        """Wait while the gate is closed; a requested stop opens it."""
        if not self.is_closed:
            return
        woken, wake = socket.socketpair()
        with woken, wake:
            wake.setblocking(False)
            try:
                while self._must_wait(stop, wake):
                    stop.wait(woken)
            finally:  # also when a second signal interrupts
                with self._changed:
                    self._wake = None
                    self._changed.notify_all()

    def _must_wait(self, stop: StopRequest, wake: socket.socket) -> bool:
        # Decided under the lock: a later `close` either stops the loop here, or sees that it has left.
        with self._changed:
            self.is_closed = self.is_closed and not stop.is_set
            self._wake = wake if self.is_closed else None
            self._changed.notify_all()
            return self.is_closed

    def wait_until_reached(self, timeout: float) -> bool:
        """Wait until the training loop is at the gate; False if the gate opens before, or at the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_waiting or not self.is_closed, timeout)
            return self.is_waiting and self.is_closed


class LiveRun:
    """Answers `status`, `pause`, `resume`, `reset` and `workers` from the control server's threads."""

    def __init__(
        self, backend: Backend, report: Callable[[], dict[str, Any]], note: Callable[[Event], None]
    ) -> None:
        self.gate = PauseGate()
        self.is_started = self.is_ending = False
        self._backend, self._report, self._note = backend, report, note
        self._commands: dict[str, Callable[..., dict[str, Any]]] = {
            "status": self._status,
            "pause": self._pause,
            "resume": self._resume,
            "reset": self._reset,
            "workers": self._workers,
        }

    @contextmanager
    def listening(self, folder: Path) -> Iterator[None]:
        """Answer commands inside the block; without a socket, training continues and answers none."""
        with ExitStack() as end:
            try:
                end.enter_context(ControlServer(folder, self.answer))
            except ControlError as error:
                logger.warning("this run cannot be controlled while it trains: %s", error)
            end.callback(self.gate.open)  # before the server closes: commands that wait for a pause return
            yield

    def answer(self, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Execute a command and return its result."""
        if not self.is_started or self.is_ending:
            state = "ending" if self.is_ending else "starting"
            if command == "status":
                return {"state": state, "pid": os.getpid()}
            raise ControlError(f"the run is {state}; try again in a moment")
        return self._commands[command](**arguments)

    @property
    def state(self) -> str:
        """running, pausing or paused."""
        if not self.gate.is_closed:
            return "running"
        return "paused" if self.gate.is_waiting else "pausing"

    def _status(self) -> dict[str, Any]:
        backend = self._backend.status().as_dict()
        return {"state": self.state, "pid": os.getpid(), **self._report(), "backend": backend}

    def _pause(self, wait: float) -> dict[str, Any]:
        was_closed = self.gate.is_closed
        self.gate.close()
        is_reached = self.gate.wait_until_reached(wait)
        update = self._report()["update"]
        if is_reached and not was_closed:
            self._note(new_event("paused", f"paused after update {update}"))
        return {"state": self.state, "update": update}

    def _resume(self) -> dict[str, Any]:
        self.gate.open()
        self._note(new_event("resumed", "resumed"))
        return {"state": self.state, "update": self._report()["update"]}

    def _reset(self, workers: tuple[int, ...] | None) -> dict[str, Any]:
        self._backend.team.reset(workers)
        chosen = [w.index for w in self._backend.status().workers if workers is None or w.index in workers]
        self._note(new_event("reset", f"workers {chosen} are replaced by fresh ones"))
        return {"workers": chosen}

    def _workers(self, num_workers: int) -> dict[str, Any]:
        self._backend.team.resize(num_workers)
        wanted = self._backend.team.status().wanted_workers
        self._note(new_event("resized", f"going on with {wanted} workers"))
        return {"workers": wanted}
