"""A lock that serves threads in the order in which they asked."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from senju.workers.conditions import SafeCondition


class FairLock:
    """A first-in, first-out lock; waiting can time out or be cancelled."""

    def __init__(self) -> None:
        self._changed = SafeCondition()
        self._queue: deque[object] = deque()  # the first holds the lock

    @contextmanager
    def acquire(self, timeout: float | None, require: Callable[[], None]) -> Iterator[bool]:
        """Wait for the lock, at most `timeout` seconds; yields False after a timeout.

        `require` raises an error when waiting has become useless; each `wake` calls it again.
        """
        mine = object()

        def is_mine() -> bool:
            require()
            return self._queue[0] is mine

        try:
            with self._changed:
                self._queue.append(mine)
                has_lock = self._changed.wait_for(is_mine, timeout)
            yield has_lock
        finally:
            with self._changed:
                with suppress(ValueError):  # Ctrl-C may come before it is in the queue
                    self._queue.remove(mine)
                self._changed.notify_all()

    def wake(self) -> None:
        """Make all waiting threads call `require` again."""
        with self._changed:
            self._changed.notify_all()
