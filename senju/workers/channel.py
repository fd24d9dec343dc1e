"""The channel between a team and a worker: small typed messages, and blocks of arrays in shared memory.

A message arrives whole or not at all: a worker that is killed never leaves half a message behind.
Between threads messages are passed by reference.
"""

import contextlib
import errno
import json
import os
import socket
import struct
import traceback
from abc import ABC, abstractmethod
from array import array
from collections import deque
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import senju.errors
from senju.errors import SenjuError, WorkerError
from senju.workers.block import Block

_LONGEST_MESSAGE = 32_000  # bytes; longer values travel in a block
_SEND_SECONDS = 5  # for a worker to take a message
_MOST_DESCRIPTORS = 250  # of one message; Linux allows 253
_ANCILLARY_BYTES = socket.CMSG_LEN(4 * _MOST_DESCRIPTORS)
_TRUNCATED = int(socket.MSG_CTRUNC)  # an enum's operators would take microseconds
_encode, _decode = json.JSONEncoder(separators=(",", ":")).encode, json.JSONDecoder().decode
_LONGEST_TEXTS = (6_000, 3_000, 1_000)  # characters, tried in turn: one may take six bytes as JSON


class Kind(IntEnum):
    """The kind of a message."""

    START = 1
    READY = 2
    TASK = 3
    DONE = 4
    FAILED = 5
    NOTE = 6
    STOP = 7


_NUM_VALUES = {Kind.DONE: 3, Kind.FAILED: 4}


class Message(NamedTuple):
    """A message; `number` is the task's, or 0."""

    kind: Kind
    number: int = 0
    values: Any = None  # JSON values
    blocks: Sequence[Block] = ()


class WorkerFailure(NamedTuple):
    """An exception in a worker, as the values of a FAILED message."""

    error: str  # the class's name
    text: str
    traceback: str
    is_senju_error: bool

    def __str__(self) -> str:
        return f"{self.error}: {self.text}\n{self.traceback}"

    def as_error(self, where: str) -> SenjuError:
        """The exception that the team raises: senju's own errors keep their class."""
        if not self.is_senju_error:
            return WorkerError(f"{where}: {self}")
        kind: type[SenjuError] = getattr(senju.errors, self.error, WorkerError)
        error = kind(f"{self.text} ({where})")
        error.add_note(f"In the worker:\n{self.traceback}")
        return error


def failed(error: BaseException, number: int = 0) -> Message:
    """An exception as a message. Long ones keep the end of the traceback and the start of the text."""
    text, trace = str(error), "".join(traceback.format_exception(error))
    for longest in _LONGEST_TEXTS:
        failure = WorkerFailure(
            type(error).__name__, text[:longest], trace[-longest:], isinstance(error, SenjuError)
        )
        if len(json.dumps(failure)) < _LONGEST_MESSAGE // 2:
            break
    return Message(Kind.FAILED, number, failure)


class Channel(ABC):
    """One end of a connection. Its socket is readable when `receive` has something to return."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._socket.fileno()

    @abstractmethod
    def send(self, message: Message) -> None:
        """Send a message; OSError if the other end is gone or takes no more."""

    @abstractmethod
    def receive(self) -> Message | None:
        """The next message; None if the other end is gone. OSError if a message is damaged or incomplete."""

    def close(self) -> None:
        """Close this end; may be called twice."""
        with contextlib.suppress(OSError):
            self._socket.close()


class SocketChannel(Channel):
    """A channel between processes."""

    def __init__(self, end: socket.socket, is_of_team: bool = False) -> None:
        """At the team's end, received blocks stay in shared memory, to be passed on to others.

        There `send` raises BlockingIOError if the worker takes no message for some seconds. The kernel
        keeps this limit: Python's own timeout would cost another system call for each message.
        """
        super().__init__(end)
        self._is_of_team = is_of_team
        if is_of_team:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_SECONDS, 0))

    def send(self, message: Message) -> None:
        kind, number, values, blocks = message
        is_bundle = len(blocks) >= _MOST_DESCRIPTORS  # one more may be needed for the values
        if is_bundle:
            blocks = [Block.pack(None, [block.as_array() for block in blocks])]
        data = _encode([kind, number, is_bundle, values]).encode()
        if len(data) > _LONGEST_MESSAGE:
            blocks = [Block.pack(values, []), *blocks]
            data = _encode([kind, number, is_bundle]).encode()
        if not blocks:
            self._socket.send(data)
            return
        socket.send_fds(self._socket, [data], [block.descriptor() for block in blocks])

    def receive(self) -> Message | None:
        try:
            data, ancillary, flags, _ = self._socket.recvmsg(2 * _LONGEST_MESSAGE, _ANCILLARY_BYTES)
        except ConnectionError:
            return None
        if not data:
            return None
        descriptors = _descriptors(ancillary) if ancillary else ()
        blocks = [Block.of_descriptor(each, self._is_of_team) for each in descriptors]
        if flags & _TRUNCATED:  # the kernel has dropped descriptors
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        try:
            kind, number, is_bundle, *rest = _decode(data.decode())
            values = rest[0] if rest else blocks.pop(0).unpack()[0]
            if is_bundle:
                _, arrays = blocks[0].unpack()
                blocks = [Block(array.data) for array in arrays]
            if kind in _NUM_VALUES and len(values) != _NUM_VALUES[kind]:
                raise ValueError
            return Message(Kind(kind), number, values, blocks)
        except (ValueError, TypeError, IndexError) as error:  # the user's code wrote into the channel
            raise OSError(errno.EBADMSG, os.strerror(errno.EBADMSG)) from error


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    """Like `socket.recv_fds`, which would add half a microsecond to messages without descriptors."""
    found = array("i")
    for _, _, data in ancillary:
        found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return found.tolist()


class LocalChannel(Channel):
    """A channel between threads of this process; a socket wakes the reader."""

    def __init__(self, end: socket.socket, incoming: "deque[Message]", outgoing: "deque[Message]") -> None:
        super().__init__(end)
        self._incoming, self._outgoing = incoming, outgoing

    def send(self, message: Message) -> None:
        self._outgoing.append(message)
        self._socket.send(b".")

    def receive(self) -> Message | None:
        try:
            data = self._socket.recv(1)
        except OSError:  # this end was closed meanwhile
            return None
        return self._incoming.popleft() if data else None


def local_pair() -> tuple[LocalChannel, LocalChannel]:
    """Two ends of a channel between threads."""
    (here, there), first, second = socket.socketpair(), deque[Message](), deque[Message]()
    return LocalChannel(here, first, second), LocalChannel(there, second, first)
