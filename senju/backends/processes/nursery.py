"""Where processes come from: forked of one that has loaded everything, or spawned, which takes seconds each.

    kept = Kept()  # by whoever has processes
    child = bear(told, files, output)
    kept.close()

The nursery is there for as long as somebody keeps it. What a spawned process would inherit is compared
with what the nursery has; where that has changed, processes are spawned.
"""

import array
import contextlib
import errno
import json
import logging
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from senju.backends.processes import boot

logger = logging.getLogger(__name__)

ONE_MATH_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
_BOOT = str(Path(boot.__file__).resolve())
_PATIENCE = 60.0  # seconds for the nursery to load everything
_PASSING = ("PYTEST_", "TORCHINDUCTOR_", "TRITON_")
_LIMITS = [name for name in dir(resource) if name.startswith("RLIMIT_")]
_UNKNOWN_END = -signal.SIGKILL  # of a process whose nursery is lost


def _has_handles() -> bool:
    """Whether this system has handles for processes, and lets us use them."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


CAN_FORK = _has_handles()


def import_path() -> list[str]:
    """`sys.path` without what is no text, which Python passes over too."""
    return [folder for folder in sys.path if isinstance(folder, str)]


class Child(ABC):
    """A process of ours, as its starter sees it."""

    pid: int

    @abstractmethod
    def send_signal(self, number: signal.Signals) -> None:
        """To it, if it has not ended."""

    @abstractmethod
    def wait(self) -> int:
        """Wait for its end: the exit code, or below 0 the signal that ended it; may be called again."""

    @abstractmethod
    def close(self) -> None:
        """Give back what belongs to it here; may be called twice."""


class Spawned(Child):
    """A process of a fresh Python."""

    def __init__(self, told: dict[str, Any], files: Sequence[int], output: int) -> None:
        connection, lifeline, *descriptors = files
        told = told | {"connection": connection, "lifeline": lifeline, "descriptors": descriptors}
        self._process = _start(told, files, output)
        self.pid = self._process.pid

    def send_signal(self, number: signal.Signals) -> None:
        """To it."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """Its exit code."""
        return self._process.wait()

    def close(self) -> None:
        """There is nothing."""


class Forked(Child):
    """A process that the nursery has forked."""

    def __init__(self, pid: int, handle: int, status: int) -> None:
        """`handle` names the process for ever, where its number may be taken by another one."""
        self.pid, self._handle, self._status = pid, handle, status
        self._open = [handle, status]
        self._code: int | None = None

    def send_signal(self, number: signal.Signals) -> None:
        """To it."""
        if self._open:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def wait(self) -> int:
        """What the nursery says; where that is lost, it is not known how it ended."""
        if self._code is None:
            said = os.read(self._status, 4)
            if not said:
                _wait_for_end(self._handle)
            self._code = array.array("i", said)[0] if said else _UNKNOWN_END
        return self._code

    def close(self) -> None:
        """Its handle and status."""
        while self._open:
            os.close(self._open.pop())


def _wait_for_end(handle: int) -> None:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    poll.poll()


def _start(told: dict[str, Any], files: Sequence[int], output: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, _BOOT, json.dumps(told)],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=files,
        env=os.environ | ONE_MATH_THREAD,
        process_group=0,  # Ctrl-C in the terminal is for the run to handle, not for its workers
    )


class Nursery:
    """A process that has loaded everything, and of which others are forked."""

    def __init__(self) -> None:
        self.inherited = inheritance()
        self.is_sound = True  # not in the middle of a request
        self.num_born = 0
        with contextlib.ExitStack() as ours:
            self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.callback(self._connection.close)
            self._connection.settimeout(_PATIENCE)
            with theirs:
                told = {"nursery": theirs.fileno(), "path": import_path()}
                self._process = _start(told, [theirs.fileno()], subprocess.DEVNULL)
            ours.pop_all()

    def bear(self, told: dict[str, Any], files: Sequence[int], output: int) -> Forked:
        """A process with these files; OSError where there can be none, EOFError where the nursery is lost."""
        with contextlib.ExitStack() as ours:
            status, theirs = os.pipe()
            ours.callback(os.close, status)
            try:
                request = json.dumps(told | {"environment": environment(is_passing=True)}).encode()
                self.is_sound = False
                socket.send_fds(self._connection, [request], [theirs, output, *files])
            finally:
                os.close(theirs)
            answer, handles, _, _ = socket.recv_fds(self._connection, 4096, 1)
            if not answer:
                raise EOFError("the nursery is lost")
            self.is_sound = True
            found = json.loads(answer)
            if "error" in found:
                raise OSError(found["errno"], found["error"])
            if not handles:  # the process ends with its lifeline
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            ours.pop_all()
        self.num_born += 1
        return Forked(found["pid"], handles[0], status)

    def close(self) -> None:
        """End it; those that were forked of it live on."""
        self._connection.close()
        self._process.kill()
        self._process.wait()


def environment(is_passing: bool) -> dict[str, str]:
    """Variables that programs set while they run and nothing reads when it is loaded, or all others."""
    return {name: value for name, value in os.environ.items() if name.startswith(_PASSING) == is_passing}


def inheritance() -> tuple[object, ...]:
    """What a process of ours inherits besides files, as far as it may matter."""
    limits = [resource.getrlimit(getattr(resource, name)) for name in _LIMITS]
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    return sys.executable, import_path(), environment(is_passing=False), limits, cores, os.nice(0)


class _Shared:
    """The one nursery of this process, and how many keep it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.num_keepers = 0
        self.nursery: Nursery | None = None
        self.is_useless = False  # it was tried, and came to nothing

    def open(self) -> Nursery:
        if self.nursery is None:
            self.nursery = Nursery()
        return self.nursery

    def close(self) -> None:
        if self.nursery is not None:
            self.nursery.close()
        self.nursery = None


_shared = _Shared()


class Kept:
    """Keeps the nursery for as long as it is not closed; the first starts it, the last ends it."""

    def __init__(self) -> None:
        self._is_closed = False
        with _shared.lock:
            _shared.num_keepers += 1
            if CAN_FORK:
                with contextlib.suppress(OSError):  # tried again when it is needed
                    _shared.open()

    def close(self) -> None:
        """May be called twice."""
        if self._is_closed:
            return
        self._is_closed = True
        with _shared.lock:
            _shared.num_keepers -= 1
            if not _shared.num_keepers:
                _shared.close()
                _shared.is_useless = False


def bear(told: dict[str, Any], files: Sequence[int], output: int) -> Child:
    """A process of ours: `files` are its connection, its lifeline and its descriptors, in this order."""
    with _shared.lock:
        can_fork = CAN_FORK and _shared.num_keepers and not _shared.is_useless
        child = _fork(told, files, output) if can_fork else None
    return child or Spawned(told, files, output)


def _fork(told: dict[str, Any], files: Sequence[int], output: int) -> Forked | None:
    """None where the nursery cannot be used."""
    nursery = _shared.open()
    try:
        folder = os.getcwd()
    except FileNotFoundError:  # it was removed; a spawned process can stay in it
        return None
    if nursery.inherited != inheritance():
        return None
    try:
        return nursery.bear(told | {"folder": folder}, files, output)
    except (EOFError, ConnectionError, TimeoutError) as error:
        logger.warning("the process of which others are forked is lost (%s); this one is spawned", error)
        _shared.is_useless = not nursery.num_born  # or every one would wait for another that fails
        return None
    finally:
        if not nursery.is_sound:  # be it by Ctrl-C: the next answer would be to this request
            _shared.close()
