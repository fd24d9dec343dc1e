"""Wakes a team's thread, and closes its files when the team's owner is garbage collected."""

import contextlib
import os
import selectors
from functools import partial


class Wakeup:
    """State that the team's thread and the garbage collector share. It holds neither team nor owner.

    The garbage collector may call in any thread and at any time, so nothing here takes a lock.
    """

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()  # for all that the thread waits for
        self.is_dropped = False
        self._may_close = self._is_over = False
        wake_out, self._wake_in = os.pipe()
        self._files = [wake_out, self._wake_in]
        os.set_blocking(self._wake_in, False)
        self.selector.register(wake_out, selectors.EVENT_READ, partial(os.read, wake_out, 4096))

    def wake(self) -> None:
        """Let the thread look at what has changed."""
        with contextlib.suppress(BlockingIOError):  # the pipe is full, so the thread will wake
            os.write(self._wake_in, b".")

    def drop(self, files: list[int]) -> None:
        """The owner was dropped: let the thread end all workers; then `files` are closed too."""
        self._files += files
        self.is_dropped = True
        self.wake()
        self._may_close = True
        if self._is_over:
            self.close_files()

    def on_thread_over(self) -> None:
        """The thread no longer needs its files."""
        self._is_over = True
        if self._may_close:
            self.close_files()

    def close_files(self) -> None:
        """Close all files, except those that another thread is closing."""
        self.selector.close()
        with contextlib.suppress(IndexError):
            while True:
                os.close(self._files.pop())
