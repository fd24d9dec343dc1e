"""Calls of the user's code, which may raise anything, and may fork the process that runs it."""

import logging
import mmap
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from senju.errors import WorkerError

logger = logging.getLogger(__name__)

_REPORT_BYTES = 4096


class _Forks(threading.local):
    """The number of forks that led to this process, now and when this thread called the user's code."""

    num = 0
    num_at_call: int | None = None


_forks = _Forks()


def _count_fork() -> None:
    _forks.num += 1  # thread-local: the thread that forked is the only one in the child


os.register_at_fork(after_in_child=_count_fork)


def must_propagate(error: BaseException) -> bool:
    """Whether an exception from the user's code must propagate, instead of being reported as its error.

    These are Ctrl-C, which Python delivers to the main thread (workers ignore it), and any exception in a
    child that the code forked, which `ending_forked_child` ends.
    """
    may_be_ctrl_c = (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    )
    return may_be_ctrl_c or _is_forked_child()


def _is_forked_child() -> bool:
    return _forks.num_at_call is not None and _forks.num != _forks.num_at_call


def refuse_forked_child() -> None:
    """Raise WorkerError in a child that the user's code forked; call this between calls of that code."""
    if _is_forked_child():
        raise _fork_error(None)


@contextmanager
def ending_forked_child(report: Callable[[WorkerError], object]) -> Iterator[None]:
    """Run the user's code, and end a child process that it forked and that returns here.

    The child calls `report` first, unless the code called `sys.exit()`, which ends it on purpose.
    """
    pid, before, _forks.num_at_call = os.getpid(), _forks.num_at_call, _forks.num
    try:
        yield
    except BaseException as error:
        if os.getpid() != pid:
            _end_child(error, report)
        raise
    finally:
        _forks.num_at_call = before
    if os.getpid() != pid:
        _end_child(None, report)


def _end_child(error: BaseException | None, report: Callable[[WorkerError], object]) -> None:
    try:
        if not isinstance(error, SystemExit):
            report(error if isinstance(error, WorkerError) else _fork_error(error))
    finally:
        os._exit(1)  # without clean-up: all files and objects belong to the parent


def _fork_error(error: BaseException | None) -> WorkerError:
    how = "returned from it" if error is None else f"raised {type(error).__name__}: {error}"
    return WorkerError(
        f"your code called os.fork() in process {os.getppid()}, and the child, process {os.getpid()}, {how}; "
        "two processes would do the same work. End the child inside your code with os._exit(), or start a "
        "helper with subprocess or multiprocessing"
    )


class ChildReport:
    """Shared memory in which a forked child leaves its report for its parent."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _REPORT_BYTES)  # shared with children

    def write(self, error: WorkerError) -> None:
        """Write the report, in the child."""
        logger.error("%s", error)
        text = str(error).encode()[:_REPORT_BYTES]
        self._memory[: len(text)] = text

    def raise_written(self) -> None:
        """Raise the child's report as WorkerError, in the parent."""
        text = self._memory[:].rstrip(b"\0")
        if text:
            self._memory[:] = bytes(_REPORT_BYTES)
            raise WorkerError(text.decode(errors="ignore"))
