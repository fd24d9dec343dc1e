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

from senju import descendants
from senju.backends.processes import boot

logger = logging.getLogger(__name__)

ONE_MATH_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
_BOOT = str(Path(boot.__file__).resolve())
_PATIENCE = 60.0  # seconds for the nursery to load everything
_ANSWER_SECONDS = 5.0  # for its answers once it has: it forks within milliseconds, unless it was stopped
_END_SECONDS = 10.0  # for the system to end a process that was killed
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


class ForkServerLostError(Exception):
    """The nursery died, or gave no answer in time, after it was asked for a process."""


class Child(ABC):
    """A process of ours, as its starter sees it."""

    pid: int

    @abstractmethod
    def send_signal(self, number: signal.Signals) -> None:
        """To it, if it has not ended."""

    @abstractmethod
    def kill(self) -> None:
        """End it at once, and what it has started."""

    @abstractmethod
    def wait(self) -> int | None:
        """Wait for its end: the exit code, or below 0 the signal that ended it; may be called again.

        None where it has not ended after some seconds: callers hold locks, and must not wait for ever.
        """

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

    def kill(self) -> None:
        """Its descendants first, which could not be found without it."""
        if self._process.returncode is None:  # not waited for: its number is still its own
            descendants.end_descendants(self.pid)
            _kill_group(self.pid)
            self._process.kill()

    def wait(self) -> int | None:
        """Its exit code."""
        try:
            return self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        """There is nothing."""


class Forked(Child):
    """A process that the nursery has forked."""

    def __init__(self, pid: int, handle: int, status: int, nursery: "Nursery") -> None:
        """`handle` names the process for ever, where its number may be taken by another one."""
        self.pid, self._handle, self._status, self._nursery = pid, handle, status, nursery
        self._open = [handle, status]
        self._code: int | None = None

    def send_signal(self, number: signal.Signals) -> None:
        """To it."""
        if self._open:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        """The nursery ends what it has started; should that be lost, at least its group ends."""
        if self._open:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, 0)  # it is there, so its number is still its own
                _kill_group(self.pid)
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def wait(self) -> int | None:
        """What the nursery says. A nursery that has stopped says nothing, and is replaced."""
        if self._code is None and _is_readable(self._handle, _END_SECONDS):
            if not _is_readable(self._status, _ANSWER_SECONDS):
                _shared.discard(self._nursery)  # which ends it, and so closes the status
            said = os.read(self._status, 4) if _is_readable(self._status, 0) else b""
            self._code = array.array("i", said)[0] if said else _UNKNOWN_END
        return self._code

    def close(self) -> None:
        """Its handle and status."""
        while self._open:
            os.close(self._open.pop())


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it has none yet
        os.killpg(pid, signal.SIGKILL)


def _is_readable(descriptor: int, seconds: float) -> bool:
    """Whether it can be read, or has ended, within so many seconds."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(1000 * seconds))


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
        self._entries: set[str] = set()  # whose modules it has loaded
        with contextlib.ExitStack() as ours:
            self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.callback(self._connection.close)
            with theirs:
                told = {"nursery": theirs.fileno(), "path": import_path()}
                self._process = _start(told, [theirs.fileno()], subprocess.DEVNULL)
            ours.pop_all()

    def bear(self, told: dict[str, Any], files: Sequence[int], output: int) -> Forked:
        """A process with these files. OSError: there can be none; ForkServerLostError: no answer."""
        with contextlib.ExitStack() as ours:
            status, theirs = os.pipe()
            ours.callback(os.close, status)
            request = json.dumps(told | {"environment": environment(is_passing=True)}).encode()
            self._connection.settimeout(_ANSWER_SECONDS if told["entry"] in self._entries else _PATIENCE)
            self.is_sound = False
            try:
                socket.send_fds(self._connection, [request], [theirs, output, *files])
                os.close(theirs)
                theirs = -1
                found, handles = self._answer()
            except (EOFError, ConnectionError, TimeoutError) as error:
                raise ForkServerLostError(str(error)) from error
            finally:
                if theirs >= 0:
                    os.close(theirs)
            self.is_sound = True
            if "error" in found:
                raise OSError(found["errno"], found["error"])
            if not handles:  # the process ends with its lifeline
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            ours.pop_all()
        self.num_born += 1
        self._entries.add(told["entry"])
        return Forked(found["pid"], handles[0], status, self)

    def _answer(self) -> tuple[dict[str, Any], list[int]]:
        """What it says, and the handle of the process that it started."""
        answer, handles, _, _ = socket.recv_fds(self._connection, 4096, 1)
        if not answer:
            raise EOFError("it has ended")
        return json.loads(answer), handles

    def close(self) -> None:
        """End it; those that were forked of it live on."""
        self._connection.close()
        self._process.kill()  # a stopped process, too
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)


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

    def discard(self, nursery: Nursery) -> None:
        """End one that no longer answers, unless that was done; the next process gets another one."""
        with self.lock:
            if self.nursery is nursery:
                logger.warning("the process of which others are forked no longer answers; it is replaced")
                self.close()


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


def bear(told: dict[str, Any], files: Sequence[int], output: int, can_fork: bool = True) -> Child:
    """A process of ours: `files` are its connection, its lifeline and its descriptors, in this order.

    ForkServerLostError means that a process may have been forked, and not reported. Close all files, on
    which it ends, and start another with new ones and `can_fork=False`.
    """
    with _shared.lock:
        can_fork = can_fork and CAN_FORK and bool(_shared.num_keepers) and not _shared.is_useless
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
    except ForkServerLostError as error:
        logger.warning("the process of which others are forked is lost (%s); this one is spawned", error)
        _shared.is_useless = not nursery.num_born  # or every one would wait for another that fails
        raise
    finally:
        if not nursery.is_sound:  # be it by Ctrl-C: the next answer would be to this request
            _shared.close()
