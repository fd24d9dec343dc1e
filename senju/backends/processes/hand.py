"""A worker process, seen from the process that started it."""

import contextlib
import os
import select
import signal
import socket
import struct
from collections.abc import Sequence
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any

from senju.backends.member import Hand
from senju.backends.processes.main import STACK_SIGNAL
from senju.backends.processes.nursery import ForkServerLostError, bear, import_path
from senju.backends.threads import connected_pair
from senju.machine import count_memory_kills

_SILENCE_SECONDS = 0.25  # after this long no more of a stack comes
_STACK_SECONDS = 1.0  # for a hung worker to tell where it is
_MESSAGE_SECONDS = 5.0  # for the rest of a message


def limit_waiting(connection: "Connection[Any, Any]") -> None:
    """Let neither sending nor receiving wait for ever for a process that stops in the middle of a message."""
    whole, fraction = divmod(_MESSAGE_SECONDS, 1.0)
    limit = struct.pack("@ll", int(whole), int(fraction * 1e6))
    with socket.socket(fileno=os.dup(connection.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)


def _pipe(reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[int, int]:
    """A pipe's two ends, each to be closed with what it belongs to."""
    read, write = os.pipe()
    reader.callback(os.close, read)
    writer.callback(os.close, write)
    return read, write


class ChildHand(Hand):
    """A process of ours: its connection, its lifeline, and what it prints.

    `entry` (package.module:function) is called there with the index, the connection's number and the
    descriptors, which the process inherits.
    """

    def __init__(
        self,
        index: int,
        entry: str,
        descriptors: Sequence[int],
        sockets: tuple[str, ...],
        start_message: bytes,
    ) -> None:
        self._memory_kills = count_memory_kills()
        told = {"index": index, "entry": entry, "path": import_path(), "sockets": sockets}
        try:
            self._start(told, descriptors, can_fork=True)
        except ForkServerLostError:
            self._start(told, descriptors, can_fork=False)
        self.pid = self._process.pid
        limit_waiting(self.connection)
        with contextlib.suppress(BrokenPipeError, BlockingIOError):  # its end, or its silence, tells more
            self.connection.send_bytes(start_message)

    def _start(self, told: dict[str, Any], descriptors: Sequence[int], can_fork: bool) -> None:
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            self.connection, connection = connected_pair()
            ours.callback(self.connection.close)
            theirs.callback(connection.close)
            lifeline, self._lifeline = _pipe(theirs, ours)
            self.output, output = _pipe(ours, theirs)
            os.set_blocking(self.output, False)
            self._process = bear(told, [connection.fileno(), lifeline, *descriptors], output, can_fork)
            ours.pop_all()  # they stay open

    def kill(self) -> None:
        """End it at once, and what it has started."""
        self._process.kill()

    def wait(self) -> str:
        """Wait for its end and say how it ended."""
        code = self._process.wait()
        if code is None:
            return "did not end when it was killed"
        if code >= 0:
            return f"ended with exit code {code}"
        name = signal.Signals(-code).name
        self.was_killed = -code in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)
        if -code != signal.SIGKILL:
            return f"was killed by signal {-code} ({name})"
        self.lacks_memory = count_memory_kills() > self._memory_kills
        why = "the system was out of memory" if self.lacks_memory else "by kill -9 or the like"
        return f"was killed by signal {-code} ({name}: {why})"

    def where(self) -> str:
        """Ask for its stack, and give it a moment to answer."""
        assert self.output is not None
        with contextlib.suppress(BlockingIOError):  # what it said before is another matter
            while os.read(self.output, 65536):
                pass
        self._process.send_signal(STACK_SIGNAL)
        said, deadline, patience = b"", monotonic() + _STACK_SECONDS, _STACK_SECONDS
        while select.select([self.output], [], [], max(0.0, min(patience, deadline - monotonic())))[0]:
            data = os.read(self.output, 65536)
            if not data:
                break
            said += data  # thread by thread, and nothing marks the last: silence does
            patience = _SILENCE_SECONDS
        return said.decode(errors="replace")

    def close(self) -> None:
        """Close this process's ends."""
        self._process.close()
        self.connection.close()
        os.close(self._lifeline)
        if self.output is not None:
            os.close(self.output)


class ProcessHand(ChildHand):
    """A worker, which plays rollouts in the arena's memory."""

    def __init__(self, index: int, memory: int, sockets: tuple[str, ...], start_message: bytes) -> None:
        super().__init__(index, "senju.backends.processes.main:work", [memory], sockets, start_message)
