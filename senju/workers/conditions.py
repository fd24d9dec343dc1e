"""Conditions that threads wait for, also in the main thread, which Ctrl-C interrupts."""

import contextlib
import socket
import threading


class SafeCondition(threading.Condition):
    """`with` calls the methods of its lock, which are C functions: Ctrl-C never leaves it locked."""

    __enter__ = property(lambda self: self._lock.__enter__)
    __exit__ = property(lambda self: self._lock.__exit__)


class WakingCondition(SafeCondition):
    """A condition that also writes to a socket, for callers that wait for other files too."""

    def __init__(self, waker: socket.socket) -> None:
        super().__init__()
        waker.setblocking(False)
        self._waker = waker

    def notify_all(self) -> None:
        super().notify_all()
        with contextlib.suppress(BlockingIOError):  # the socket is full, so its reader will wake
            self._waker.send(b".")
