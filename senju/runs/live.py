"""The answers of a run in training to commands from other terminals."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from senju.backends.backend import Backend
from senju.errors import ControlError
from senju.runs.control import ControlServer
from senju.runs.pause import PauseGate
from senju.workers.role import Event, new_event

logger = logging.getLogger(__name__)


class LiveRun:
    """Answers `status`, `pause`, `resume`, `reset` and `workers` from the control server's threads."""

    def __init__(
        self, backend: Backend, report: Callable[[], dict[str, Any]], note: Callable[[Event], None]
    ) -> None:
        self.gate = PauseGate()
        self.is_started = self.is_ending = False
        self._backend, self._report, self._note = backend, report, note

    @contextmanager
    def listening(self, folder: Path) -> Iterator[None]:
        """Answer commands meanwhile; if no socket can be made, training goes on without."""
        server = ControlServer(folder, self.answer)
        try:
            server.__enter__()
        except ControlError as error:
            logger.warning("this run cannot be controlled while it trains: %s", error)
            yield
            return
        try:
            yield
        finally:
            self.gate.open()  # commands that wait for a pause return
            server.close()

    def answer(self, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Execute a command and return its result."""
        if not self.is_started or self.is_ending:
            state = "ending" if self.is_ending else "starting"
            if command == "status":
                return {"state": state, "pid": os.getpid()}
            raise ControlError(f"the run is {state}; try again in a moment")
        answer: dict[str, Any] = getattr(self, f"_{command}")(**arguments)
        return answer

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
