"""One thread at a time, first come, first served."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Turns:
    """A lock that threads get in the order in which they asked; waiting for it can be given up."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()  # the first has its turn

    @contextmanager
    def turn(self, timeout: float | None, require: Callable[[], None]) -> Iterator[bool]:
        """Wait for this thread's turn, so many seconds at most; False where they were not enough.

        `require` raises what makes waiting useless; it is called again at each `wake`.
        """
        mine = object()

        def is_mine() -> bool:
            require()
            return self._queue[0] is mine

        with self._changed:
            self._queue.append(mine)
        try:
            with self._changed:
                is_here = self._changed.wait_for(is_mine, timeout)
            yield is_here
        finally:
            with self._changed:
                self._queue.remove(mine)
                self._changed.notify_all()

    def wake(self) -> None:
        """Let all who wait look again whether they still can."""
        with self._changed:
            self._changed.notify_all()
