"""The user's own code: it may raise anything, and it may fork the process that runs it."""

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
    """Forks that led to this process, and how many there were when this thread called the user's code."""

    num = 0
    num_at_call: int | None = None


_forks = _Forks()


def _count_fork() -> None:
    _forks.num += 1  # of the thread that forked: it is the only one in the child


os.register_at_fork(after_in_child=_count_fork)


def passes_on(error: BaseException) -> bool:
    """Whether what the user's code raised is not to be reported as its error.

    That is Ctrl-C, which Python delivers to the main thread, where the process does not ignore it as
    workers do; and whatever is raised in a child that the code forked: `ending_forked_child` ends that.
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
    """Raise WorkerError in a child that the user's code forked; to be called between calls of that code."""
    if _is_forked_child():
        raise _came_back(None)


@contextmanager
def ending_forked_child(report: Callable[[WorkerError], object]) -> Iterator[None]:
    """Call the user's code. A child that it forked and that comes back here, however, is ended.

    In that child `report` is called before, unless the code left by `sys.exit()`: then it meant to end.
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
            report(error if isinstance(error, WorkerError) else _came_back(error))
    finally:
        os._exit(1)  # at once: everything else here belongs to the process that forked


def _came_back(error: BaseException | None) -> WorkerError:
    how = "returned from it" if error is None else f"raised {type(error).__name__}: {error}"
    return WorkerError(
        f"your code called os.fork() in process {os.getppid()}, and the child, process {os.getpid()}, {how}: "
        "two processes would do the same work; end the child inside your code by os._exit(), or start a "
        "helper by subprocess or multiprocessing"
    )


class ChildReport:
    """Where a forked child that came back leaves its report for the process that works on."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _REPORT_BYTES)  # shared with children

    def write(self, error: WorkerError) -> None:
        """In the child."""
        logger.error("%s", error)
        text = str(error).encode()[:_REPORT_BYTES]
        self._memory[: len(text)] = text

    def raise_written(self) -> None:
        """In the process that works on."""
        text = self._memory[:].rstrip(b"\0")
        if text:
            self._memory[:] = bytes(_REPORT_BYTES)
            raise WorkerError(text.decode(errors="ignore"))
