"""Workers as processes of this machine."""

import contextlib
import os
import signal
import socket
from collections.abc import Sequence
from time import monotonic
from typing import Any

from senju.machine import count_memory_kills, memory_available
from senju.trust import accepted
from senju.workers.channel import Kind, Message, SocketChannel
from senju.workers.fork_server import (
    ForkServerLease,
    ForkServerLostError,
    import_path,
    is_readable,
    start_process,
)
from senju.workers.records import PIPE_BYTES
from senju.workers.role import WORKER_BYTES, Executor, Role, WorkerEnding, WorkerHandle
from senju.workers.worker_main import STACK_SIGNAL

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_QUIET_SECONDS = 0.25  # after a pause this long the printed stack is complete
_STACK_SECONDS = 1.0  # for a hung worker to print its stack
_SPARE_FILES = 24  # still to be available after a start: for the worker, and to save a checkpoint


class ProcessHandle(WorkerHandle):
    """A worker process: its channel, its lifeline, and what it prints."""

    output: int

    def __init__(self, role: Role, index: int, options: dict[str, Any]) -> None:
        self._memory_kills = count_memory_kills()
        boot_info = options | {
            "index": index,
            "entry": role.new_handler,
            "path": import_path(),
            "sockets": list(role.sockets),
            "is_forkable": role.is_forkable,
            "accepted": accepted(),
        }
        try:
            self._start(boot_info, role, can_fork=role.is_forkable)
        except ForkServerLostError:
            self._start(boot_info, role, can_fork=False)
        self.pid = self._process.pid
        try:
            payload = role.start_payload(index)
            # the team notices its end next, which says more
            with contextlib.suppress(ConnectionError, BlockingIOError):
                self.channel.send(Message(Kind.START, 0, *payload))
        except BaseException:
            self.kill()
            self.wait()
            self.close()
            raise

    def _start(self, boot_info: dict[str, Any], role: Role, can_fork: bool) -> None:
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # keeps messages apart
            self.channel = SocketChannel(here, is_of_team=True)
            ours.callback(self.channel.close)
            theirs.callback(there.close)
            lifeline, self._lifeline = _pipe(theirs, ours)
            self.output, output = _pipe(ours, theirs)
            os.set_blocking(self.output, False)
            own = role.new_files(boot_info["index"])
            for number in own:
                theirs.callback(os.close, number)
            files = [there.fileno(), lifeline, *role.descriptors, *own]
            # a spawned process inherits blocked stop signals: it unblocks them when it can handle them
            blocked = () if role.is_forkable else STOP_SIGNALS
            before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
            try:
                self._process = start_process(boot_info, files, output, can_fork)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            ours.pop_all()  # the team's ends stay open

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, for example to ask it to stop."""
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> WorkerEnding:
        code = self._process.wait()
        if code is None:
            return WorkerEnding("did not end when it was killed")
        if code >= 0:
            return WorkerEnding(f"ended with exit code {code}")
        number, why, lacks_memory = -code, "", False
        if number == signal.SIGKILL:
            lacks_memory = count_memory_kills() > self._memory_kills
            why = ": the system was out of memory" if lacks_memory else ": by kill -9 or the like"
        was_killed = number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)
        name = next((each.name for each in signal.Signals if each == number), "a real-time signal")
        return WorkerEnding(f"was killed by signal {number} ({name}{why})", was_killed, lacks_memory)

    def stack(self) -> str:
        with contextlib.suppress(BlockingIOError):  # earlier output is not part of the stack
            while os.read(self.output, PIPE_BYTES):
                pass
        self._process.send_signal(STACK_SIGNAL)
        printed, deadline, patience = b"", monotonic() + _STACK_SECONDS, _STACK_SECONDS
        while is_readable(self.output, max(0.0, min(patience, deadline - monotonic()))):
            data = os.read(self.output, PIPE_BYTES)
            if not data:
                break
            printed += data  # one thread after another; only a pause shows that the last one is complete
            patience = _QUIET_SECONDS
        return printed.decode(errors="replace")

    def close(self) -> None:
        self._process.close()
        self.channel.close()
        os.close(self._lifeline)
        os.close(self.output)


class ProcessExecutor(Executor):
    """Starts worker processes, with the fork server where possible.

    `script` is the user's script, if classes of it are needed. `imports` are names of other things whose
    modules workers import, for an error message.
    Roles that are not forkable need no fork server.
    """

    def __init__(
        self,
        task_timeout: float,
        script: str | None = None,
        imports: Sequence[str] = (),
        can_fork: bool = True,
    ) -> None:
        modules = f"the module of {' or of '.join(dict.fromkeys(imports))}"
        self._options = {"task_timeout": task_timeout, "script": script, "imports": modules}
        self._lease = ForkServerLease() if can_fork else None

    def start(self, role: Role, index: int) -> ProcessHandle:
        _require_files(_SPARE_FILES)
        return ProcessHandle(role, index, self._options)

    def affordable(self, wanted: int, running: int) -> int:
        """Count memory for new workers only: running ones have theirs already."""
        return min(wanted, running + memory_available() // WORKER_BYTES)

    def close(self) -> None:
        if self._lease is not None:
            self._lease.close()


def _require_files(count: int) -> None:
    """Raise OSError if this process may not open `count` more files: it needs some to save its work."""
    with contextlib.ExitStack() as opened:
        for _ in range(count):
            opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))


def _pipe(reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[int, int]:
    """A pipe's two ends, each closed by its stack."""
    read, write = os.pipe()
    reader.callback(os.close, read)
    writer.callback(os.close, write)
    return read, write
