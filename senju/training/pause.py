"""Pausing: the training loop stands between two updates until it may go on, or until it is to stop."""

import contextlib
import socket
import threading

from senju.training.interrupt import StopRequest


class PauseGate:
    """Where the training loop stops between two updates while the run is paused."""

    def __init__(self) -> None:
        self._changed = threading.Condition()  # guards the two below; no signal handler takes it
        self._is_closed = False
        self._wake: socket.socket | None = None  # of the training loop while it waits

    @property
    def is_closed(self) -> bool:
        """Whether the run is to pause, or does."""
        return self._is_closed

    @property
    def is_waiting(self) -> bool:
        """Whether the training loop stands at the gate."""
        return self._wake is not None

    def close(self) -> None:
        """Let the training loop stop when it gets here."""
        with self._changed:
            self._is_closed = True

    def open(self) -> None:
        """Let the training loop go on."""
        with self._changed:
            self._is_closed = False
            self._changed.notify_all()
            if self._wake is not None:
                with contextlib.suppress(BlockingIOError):  # so much lies there that it will wake
                    self._wake.send(b".")

    def pass_through(self, stop: StopRequest) -> None:
        """Wait while the gate is closed. A requested stop opens it: what ends need not pause."""
        if not self._is_closed:
            return
        told, tell = socket.socketpair()
        with told, tell:
            tell.setblocking(False)
            try:
                while self._must_wait(stop, tell):
                    stop.wait(told)
            finally:  # also when a second signal interrupts
                self._stand_until_woken_by(None)

    def _must_wait(self, stop: StopRequest, tell: socket.socket) -> bool:
        # Decided under the lock: whoever closes the gate again either holds the loop here, or sees that
        # it has left.
        with self._changed:
            self._is_closed = self._is_closed and not stop.is_set
            self._stand_until_woken_by(tell if self._is_closed else None)
            return self._is_closed

    def _stand_until_woken_by(self, wake: socket.socket | None) -> None:
        with self._changed:  # reentrant
            self._wake = wake
            self._changed.notify_all()

    def wait_until_reached(self, timeout: float) -> bool:
        """Wait until the training loop stands at the gate; False if it is opened first, or too late."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_waiting or not self._is_closed, timeout)
            return self.is_waiting and self._is_closed
