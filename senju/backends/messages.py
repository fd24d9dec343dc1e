"""What the supervisor and a worker say to each other: indices and times, never data.

Each message is small enough to be written whole by one call, so that a worker that is stopped or
killed never leaves half a message behind.
"""

import json
import struct
from enum import IntEnum
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from senju.backends.schedule import Task
from senju.collect.seating import Failure

_LONGEST_MESSAGE = 16_000  # bytes; the connection writes longer ones in two pieces
_LONGEST_TEXTS = (6_000, 3_000, 1_000)  # tried in turn: a character may take six bytes


class Kind(IntEnum):
    """The first byte of a message."""

    PLAY = 1
    STOP = 2
    READY = 3
    DONE = 4
    FAILED = 5
    BROKEN = 6


_PLAY = struct.Struct("<Bqqq")
_DONE = struct.Struct("<Bqqqqdd")


class Done(NamedTuple):
    """A rollout lies in its slot."""

    task: Task
    version: int
    began: float
    ended: float


class Failed(NamedTuple):
    """Something was raised, while playing a task or (None) while getting ready."""

    task: Task | None
    error: str  # the class's name
    text: str
    traceback: str
    is_senju_error: bool


class Broken(NamedTuple):
    """An opponent failed in a rollout, which goes on without it."""

    task: Task
    failure: Failure


class Ready(NamedTuple):
    """The worker waits for its first task."""


class Stop(NamedTuple):
    """The worker is to end."""


Message = Task | Done | Failed | Broken | Ready | Stop


def send(connection: "Connection[Any, Any]", message: Message) -> None:
    """Write one message."""
    connection.send_bytes(encode(message))


def receive(connection: "Connection[Any, Any]") -> Message:
    """Read one message; EOFError where the other side is gone."""
    return decode(connection.recv_bytes())


def encode(message: Message) -> bytes:
    """A message as bytes; the first says of which kind."""
    if isinstance(message, Task):
        return _PLAY.pack(Kind.PLAY, *message)
    if isinstance(message, Done):
        return _DONE.pack(Kind.DONE, *message.task, *message[1:])
    if isinstance(message, Failed):
        return bytes([Kind.FAILED]) + _encode_failed(message)
    if isinstance(message, Broken):
        failure = message.failure._replace(what=message.failure.what[: _LONGEST_TEXTS[-1]])
        return bytes([Kind.BROKEN]) + json.dumps([message.task, failure]).encode()
    return bytes([Kind.READY if isinstance(message, Ready) else Kind.STOP])


def _encode_failed(failed: Failed) -> bytes:
    """As much of its texts as fits; a traceback's end says more than its beginning."""
    for longest in _LONGEST_TEXTS:
        fields = failed._replace(text=failed.text[:longest], traceback=failed.traceback[-longest:])
        data = json.dumps(fields).encode()
        if len(data) < _LONGEST_MESSAGE:
            break
    return data


def decode(data: bytes) -> Message:
    """What `encode` made bytes of."""
    kind = Kind(data[0])
    if kind == Kind.PLAY:
        return Task(*_PLAY.unpack(data)[1:])
    if kind == Kind.DONE:
        _, ticket, shard, turn, version, began, ended = _DONE.unpack(data)
        return Done(Task(ticket, shard, turn), version, began, ended)
    if kind == Kind.FAILED:
        task, *rest = json.loads(data[1:])
        return Failed(Task(*task) if task else None, *rest)
    if kind == Kind.BROKEN:
        task, failure = json.loads(data[1:])
        return Broken(Task(*task), Failure(*failure))
    return Ready() if kind == Kind.READY else Stop()
