"""Messages between processes: a few plain values each, and where there is data, a block of shared memory."""

import contextlib
import json
import socket
from collections.abc import Collection
from typing import Any, NamedTuple

from senju.training.environments.block import Block

_LONGEST = 32_000  # bytes of a message
_LONGEST_TEXT = 4_000  # characters of a text that goes in one


class Message(NamedTuple):
    """What somebody says."""

    kind: str
    values: dict[str, Any]
    block: Block | None


class Channel:
    """One end of a connection. A message arrives whole or not at all, and no block is copied through it."""

    def __init__(self, end: socket.socket, passed_on: Collection[str] = ()) -> None:
        """`passed_on`: the kinds of messages whose blocks are not for this end, but for others."""
        self._socket, self._passed_on = end, passed_on

    @classmethod
    def of_descriptor(cls, descriptor: int) -> "Channel":
        """The end that this process was started with."""
        return cls(socket.socket(fileno=descriptor))

    @classmethod
    def pair(cls, passed_on: Collection[str] = ()) -> "tuple[Channel, Channel]":
        """Two ends; the first passes blocks on."""
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(here, passed_on), cls(there)

    def fileno(self) -> int:
        """To wait for messages with others."""
        return self._socket.fileno()

    def set_patience(self, seconds: float) -> None:
        """How long to wait for the other end to take a message."""
        self._socket.settimeout(seconds)

    def send(self, kind: str, block: Block | None = None, **values: Any) -> None:
        """Say something; OSError where the other end is gone."""
        data = json.dumps([kind, values]).encode()
        assert len(data) < _LONGEST, f"a {kind} of {len(data)} bytes"
        socket.send_fds(self._socket, [data], [block.descriptor()] if block is not None else [])

    def receive(self) -> Message | None:
        """What the other end says; None where it is gone."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._socket, _LONGEST, 1)
        except (ConnectionResetError, BrokenPipeError):
            return None
        kind, values = json.loads(data) if data else (None, {})
        block = Block.of_descriptor(descriptors[0], kind in self._passed_on) if descriptors else None
        return Message(kind, values, block) if kind is not None else None

    def close(self) -> None:
        """Close this end; may be called twice."""
        with contextlib.suppress(OSError):
            self._socket.close()


def shortened(text: str) -> str:
    """A text that fits into a message; the end of a long one is left out."""
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + " …"
