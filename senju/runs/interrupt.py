"""Ctrl-C and SIGTERM: the first asks a run to finish its step and save, the second ends it at once."""

import logging
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from selectors import EVENT_READ, DefaultSelector
from types import FrameType

logger = logging.getLogger(__name__)


class StopRequest:
    """Whether a stop was requested, and by which signal."""

    def __init__(self, arrivals: socket.socket | None = None) -> None:
        """`arrivals` becomes readable when a signal arrives; without it, `wait` ignores signals."""
        self.signal: signal.Signals | None = None
        self._arrivals = arrivals

    @property
    def is_set(self) -> bool:
        """Whether to stop after the current step."""
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """The exit code that a shell expects after that signal: 130 for Ctrl-C."""
        return 128 + self.signal if self.signal is not None else 0

    def wait(self, wake: socket.socket) -> None:
        """Sleep until a byte is sent to `wake` or a signal arrives, even just before; then read it."""
        with DefaultSelector() as selector:
            for source in (wake, self._arrivals):
                if source is not None:
                    selector.register(source, EVENT_READ, data=source)
            for key, _ in selector.select():
                key.data.recv(2**16)


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Turn the first SIGINT or SIGTERM into a request; only the main thread can.

    A second one raises KeyboardInterrupt wherever the program is.
    """
    if threading.current_thread() is not threading.main_thread():
        yield StopRequest()
        return
    arrivals, arrive = socket.socketpair()
    arrivals.setblocking(False)
    arrive.setblocking(False)
    request = StopRequest(arrivals)

    def handle(number: int, frame: FrameType | None) -> None:
        if request.is_set:
            raise KeyboardInterrupt
        request.signal = signal.Signals(number)
        logger.warning("stopping after this step is finished and saved; a second signal stops at once")

    with arrivals, arrive:  # closed last: signals are written to this descriptor
        previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
        # Written to at once, from whichever thread the signal came to. `handle` only runs when the main
        # thread continues: too late for a sleep that begins just after the signal.
        previous_wake = signal.set_wakeup_fd(arrive.fileno(), warn_on_full_buffer=False)
        try:
            yield request
        finally:
            signal.set_wakeup_fd(previous_wake)
            for number, handler in previous.items():
                signal.signal(number, handler)
