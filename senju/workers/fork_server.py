"""Starts processes: forked from a server that has loaded everything, or spawned, which takes seconds each.

A forked process inherits the server's settings instead of this process's. Where the two differ (environment,
limits, cores, import path), processes are spawned.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from senju import descendants
from senju.workers import boot

logger = logging.getLogger(__name__)

ONE_MATH_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
_BOOT = str(Path(boot.__file__).resolve())
_LOAD_SECONDS = 60.0  # for the fork server to load everything
_ANSWER_SECONDS = 5.0  # for its later answers: it forks within milliseconds, unless it was stopped
_END_SECONDS = 10.0  # for a killed process to end
_TRANSIENT = ("PYTEST_", "TORCHINDUCTOR_", "_TORCHINDUCTOR_", "TRITON_")
_OF_SETUPTOOLS = os.path.join("setuptools", "_vendor")
_LIMITS = [name for name in dir(resource) if name.startswith("RLIMIT_")]
_UNKNOWN_END = -signal.SIGKILL  # reported for a process whose fork server is lost


def _has_pidfds() -> bool:
    """Whether this system has pidfds, which are handles of processes, and permits them."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


CAN_FORK = _has_pidfds()


def name_files(files: Sequence[int]) -> dict[str, Any]:
    """The files of a worker process, in the order in which they are passed to it."""
    connection, lifeline, *descriptors = files
    return {"connection": connection, "lifeline": lifeline, "descriptors": descriptors}


def import_path() -> list[str]:
    """The entries of `sys.path` that are text; Python ignores all others too.

    Without the packages that setuptools brings along: it adds them when torch's compiler loads it.
    """
    return [each for each in sys.path if isinstance(each, str) and not each.endswith(_OF_SETUPTOOLS)]


class ForkServerLostError(Exception):
    """The fork server died, or did not answer in time, after a request for a process."""


class SpawnedProcess:
    """A fresh Python process."""

    def __init__(self, boot_info: dict[str, Any], files: Sequence[int], output: int) -> None:
        self._process = _start(boot_info | name_files(files), files, output)
        self.pid = self._process.pid

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, if the process has not ended."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once, after its descendants: without it they could not be found."""
        if self._process.returncode is None:  # not reaped yet, so its pid is not reused
            descendants.end_descendants(self.pid)
            _kill_group(self.pid)
            self._process.kill()

    def wait(self) -> int | None:
        """Its exit code, or below 0 the signal that ended it; None after some seconds: callers hold locks."""
        try:
            return self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        """Release its resources in this process; may be called twice."""


class ForkedProcess:
    """A process that the fork server has forked, with the methods of a spawned one."""

    def __init__(self, pid: int, handle: int, status: int, server: "ForkServer") -> None:
        """`handle` is a pidfd: unlike the pid it is never reused."""
        self.pid, self._handle, self._status, self._server = pid, handle, status, server
        self._open = [handle, status]
        self._code: int | None = None

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, if the process has not ended."""
        if self._open:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        """End its process group and the process; the fork server ends its other descendants."""
        if self._open:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, 0)  # it exists, so its pid is not reused
                _kill_group(self.pid)
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def wait(self) -> int | None:
        """Its exit code, from the fork server. A fork server that does not answer is replaced."""
        if self._code is None and is_readable(self._handle, _END_SECONDS):
            if not is_readable(self._status, _ANSWER_SECONDS):
                _shared.discard(self._server)  # ends the server, which closes the status pipe
            data = os.read(self._status, 4) if is_readable(self._status, 0) else b""
            self._code = array.array("i", data)[0] if data else _UNKNOWN_END
        return self._code

    def close(self) -> None:
        """Close its handle and status."""
        while self._open:
            os.close(self._open.pop())


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it has no group yet
        os.killpg(pid, signal.SIGKILL)


def is_readable(descriptor: int, seconds: float) -> bool:
    """Whether it can be read, or has ended, within this time."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(1000 * seconds))


def _start(boot_info: dict[str, Any], files: Sequence[int], output: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, _BOOT, json.dumps(boot_info)],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=files,
        env=os.environ | (ONE_MATH_THREAD if boot_info.get("is_forkable", True) else {}),
        process_group=0,  # Ctrl-C in the terminal is for the run to handle, not for its workers
    )


class ForkServer:
    """A process that has loaded everything, and forks others."""

    def __init__(self) -> None:
        self.inherited = inheritance()
        self.is_sound = True  # False in the middle of a request
        self.entries: set[str] = set()  # entry points that it has loaded, and started processes with
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, contextlib.ExitStack() as ours:
            ours.callback(self._connection.close)
            boot_info = {"fork_server": theirs.fileno(), "path": import_path()}
            self._process = _start(boot_info, [theirs.fileno()], subprocess.DEVNULL)
            ours.pop_all()

    def start(self, boot_info: dict[str, Any], files: Sequence[int], output: int) -> ForkedProcess:
        """Fork a process with these files; OSError: refused by the system, ForkServerLostError: no answer."""
        with contextlib.ExitStack() as ours:
            status, theirs = os.pipe()
            ours.callback(os.close, status)
            request = json.dumps(boot_info | {"environment": environment(is_transient=True)}).encode()
            self._connection.settimeout(
                _ANSWER_SECONDS if boot_info["entry"] in self.entries else _LOAD_SECONDS
            )
            self.is_sound = False
            try:
                try:
                    socket.send_fds(self._connection, [request], [theirs, output, *files])
                finally:
                    os.close(theirs)
                found, handles = self._answer()
            except (EOFError, ConnectionError, TimeoutError) as error:
                raise ForkServerLostError(str(error)) from error
            self.is_sound = True
            if "error" in found:
                raise OSError(found["errno"], found["error"])
            if not handles:  # the process ends with its lifeline
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            ours.pop_all()
        self.entries.add(boot_info["entry"])
        return ForkedProcess(found["pid"], handles[0], status, self)

    def _answer(self) -> tuple[dict[str, Any], list[int]]:
        """Its answer, and the handle of the process that it started."""
        answer, handles, _, _ = socket.recv_fds(self._connection, 4096, 1)
        if not answer:
            raise EOFError("it has ended")
        return json.loads(answer), handles

    def close(self) -> None:
        """End it; the processes that it forked keep running."""
        self._connection.close()
        self._process.kill()  # a stopped process, too
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)


def environment(is_transient: bool) -> dict[str, str]:
    """Transient environment variables, which change at run time and matter to no import, or the others."""
    return {name: value for name, value in os.environ.items() if name.startswith(_TRANSIENT) == is_transient}


def inheritance() -> tuple[object, ...]:
    """What a started process inherits besides files, as far as it may matter."""
    limits = [resource.getrlimit(getattr(resource, name)) for name in _LIMITS]
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    return sys.executable, import_path(), environment(is_transient=False), limits, cores, os.nice(0)


class _Shared:
    """The fork server of this process, and the number of its leases."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.num_leases = 0
        self.server: ForkServer | None = None
        self.is_unusable = False  # it failed before it started any process

    def open(self) -> ForkServer:
        if self.server is None:
            self.server = ForkServer()
        return self.server

    def close(self) -> None:
        server, self.server = self.server, None
        if server is not None:
            server.close()

    def discard(self, server: ForkServer) -> None:
        """End a server that no longer answers; the next process starts another one."""
        with self.lock:
            if self.server is server:
                logger.warning("the fork server no longer answers; it is replaced")
                self.close()


_shared = _Shared()


class ForkServerLease:
    """Keeps the fork server running. The first lease starts it, the last one ends it."""

    def __init__(self) -> None:
        self._is_closed = False
        with _shared.lock:
            _shared.num_leases += 1
            if CAN_FORK:
                with contextlib.suppress(OSError):  # tried again when it is needed
                    _shared.open()

    def close(self) -> None:
        """End the lease; may be called twice."""
        with _shared.lock:
            if self._is_closed:
                return
            self._is_closed = True
            _shared.num_leases -= 1
            if not _shared.num_leases:
                _shared.close()
                _shared.is_unusable = False


def start_process(
    boot_info: dict[str, Any], files: Sequence[int], output: int, can_fork: bool = True
) -> SpawnedProcess | ForkedProcess:
    """Start a process: `files` are its connection, its lifeline and its descriptors, in this order.

    After ForkServerLostError a process may have been forked without being reported. Close all files, which
    ends it, and start another with new files and `can_fork=False`.
    """
    with _shared.lock:
        can_fork = can_fork and CAN_FORK and bool(_shared.num_leases) and not _shared.is_unusable
        child = _fork(boot_info, files, output) if can_fork else None
    return child or SpawnedProcess(boot_info, files, output)


def _fork(boot_info: dict[str, Any], files: Sequence[int], output: int) -> ForkedProcess | None:
    """Fork a process; None if the fork server cannot be used."""
    server = _shared.open()
    try:
        folder = os.getcwd()
    except FileNotFoundError:  # it was removed; a spawned process can stay in it
        return None
    if server.inherited != inheritance():
        return None
    try:
        return server.start(boot_info | {"folder": folder}, files, output)
    except ForkServerLostError as error:
        logger.warning("the fork server is lost (%s); this process is spawned", error)
        _shared.is_unusable = not server.entries  # or every start would wait for a failing server
        raise
    finally:
        if not server.is_sound:  # for example after Ctrl-C: the next answer would belong to this request
            _shared.close()
