"""Pausing: the training loop waits between two updates until it is resumed or stopped."""

import contextlib
import socket
import threading

from senju.runs.interrupt import StopRequest


class PauseGate:
    """Where the training loop stops between two updates while the run is paused."""

    def __init__(self) -> None:
        self._changed = threading.Condition()  # guards the two below; no signal handler takes it
        self._is_closed = False
        self._wake: socket.socket | None = None  # of the training loop while it waits

    @property
    def is_closed(self) -> bool:
        """Whether the run is pausing or paused."""
        return self._is_closed

    @property
    def is_waiting(self) -> bool:
        """Whether the training loop waits at the gate."""
        return self._wake is not None

    def close(self) -> None:
        """Let the training loop stop when it reaches the gate."""
        with self._changed:
            self._is_closed = True

    def open(self) -> None:
        """Let the training loop go on."""
        with self._changed:
            self._is_closed = False
            self._changed.notify_all()
            if self._wake is not None:
                with contextlib.suppress(BlockingIOError):  # enough was sent already to wake it
                    self._wake.send(b".")

    def pass_through(self, stop: StopRequest) -> None:
        """Wait while the gate is closed; a requested stop opens it."""
        if not self._is_closed:
            return
        woken, wake = socket.socketpair()
        with woken, wake:
            wake.setblocking(False)
            try:
                while self._must_wait(stop, wake):
                    stop.wait(woken)
            finally:  # also when a second signal interrupts
                self._set_wake(None)

    def _must_wait(self, stop: StopRequest, wake: socket.socket) -> bool:
        # Decided under the lock: a later `close` either stops the loop here, or sees that it has left.
        with self._changed:
            self._is_closed = self._is_closed and not stop.is_set
            self._set_wake(wake if self._is_closed else None)
            return self._is_closed

    def _set_wake(self, wake: socket.socket | None) -> None:
        with self._changed:  # reentrant
            self._wake = wake
            self._changed.notify_all()

    def wait_until_reached(self, timeout: float) -> bool:
        """Wait until the training loop is at the gate; False if the gate opens before, or at the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_waiting or not self._is_closed, timeout)
            return self.is_waiting and self._is_closed
