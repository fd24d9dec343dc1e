"""Ctrl-C and SIGTERM: the first asks a run to finish its step and save, the second ends it at once."""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

logger = logging.getLogger(__name__)


class StopRequest:
    """Whether somebody asked to stop, and by which signal."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    @property
    def is_set(self) -> bool:
        """Whether to stop after the step under way."""
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """What a shell expects from a program stopped by that signal: 130 for Ctrl-C."""
        return 128 + self.signal if self.signal is not None else 0


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Turn the first SIGINT or SIGTERM into a request; only the main thread can.

    A second one raises KeyboardInterrupt wherever the program is.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if request.is_set:
            raise KeyboardInterrupt
        request.signal = signal.Signals(number)
        logger.warning("stopping: this step is finished and saved first; once more stops at once")

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
