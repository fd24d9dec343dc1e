"""Reading and writing lines: input lines have a maximum length, output lines are never mixed."""

import io
import logging
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import BinaryIO, Final

MAX_LINE: Final = 256 * 1024  # bytes; a game of 4,096 plies takes 25,000
MAX_COMPLAINT: Final = 400  # characters
CHUNK: Final = 64 * 1024
KEEP_ALIVE_SECONDS: Final = 5.0  # programs give up on an engine that is silent for too long

traffic = logging.getLogger(f"{__name__}.traffic")


class Input:
    """A stream whose reader another thread can stop, even while it waits for bytes.

    A thread left waiting in `read` could use the descriptor after it is closed, when its number may belong
    to another file. So the reader polls the stream and a socket that `stop` closes, and reads only when
    bytes have arrived. The owner calls `stop`, joins the reader, and then closes the stream.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.is_stopped = False
        self._stream = stream
        self._stopped, self._stopping = socket.socketpair()
        self._poll = select.poll()  # not epoll: that refuses regular files
        self._poll.register(self._stopped, select.POLLIN)
        try:
            self._poll.register(stream.fileno(), select.POLLIN)
            self._can_wait = True
        except io.UnsupportedOperation:
            self._can_wait = False  # the bytes are in memory

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; none at the end, or after `stop`."""
        while not self.is_stopped:
            if self._can_wait:
                self._poll.poll()
            if not self.is_stopped and (chunk := self._stream.read(size)) is not None:
                return chunk
        return b""

    def stop(self) -> None:
        """End the input now; the reader must be joined before this object is closed."""
        self.is_stopped = True  # first: the reader checks it when it wakes
        self._stopping.close()

    def close(self) -> None:
        """Close the sockets, not the stream."""
        self._stopping.close()
        self._stopped.close()


def read_lines(read: Callable[[int], bytes | None]) -> Iterator[bytes | None]:
    """The lines of a stream without line ends; None in place of a line that was too long.

    `read` waits for the first byte only, and returns the bytes that have arrived; none at the end.
    """
    kept, is_overlong = bytearray(), False
    while chunk := read(CHUNK):
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            is_overlong = is_overlong or len(kept) + len(piece) > MAX_LINE
            yield None if is_overlong else bytes(kept + piece)
            kept, is_overlong = bytearray(), False
        if len(kept) + len(rest) > MAX_LINE:
            kept, is_overlong = bytearray(), True
        elif not is_overlong:
            kept += rest
    if is_overlong:
        yield None
    elif kept:
        yield bytes(kept)


class LineWriter:
    """Writes whole lines, one at a time, and flushes each.

    Lines are ASCII: programs disagree on the encoding of anything else. When the other side has closed
    the stream, `is_lost` is set and lines are dropped.
    """

    def __init__(self, sink: BinaryIO) -> None:
        self._sink, self._lock, self.is_lost = sink, Lock(), False

    def send(self, line: str) -> None:
        """Write a line; threads take turns."""
        content = line.replace("\n", " ").encode("ascii", "backslashreplace") + b"\n"
        with self._lock:
            if self.is_lost:
                return
            try:
                self._sink.write(content)
                self._sink.flush()
            except (OSError, ValueError):  # a broken pipe, a closed file
                self.is_lost = True
                return
        traffic.debug("> %s", line)

    def complain(self, what: object) -> None:
        """Send an error message, shortened to fit a window."""
        text = f"info string error: {what}"
        self.send(text if len(text) <= MAX_COMPLAINT else text[:MAX_COMPLAINT] + "...")

    @contextmanager
    def keep_alive(self, seconds: float = KEEP_ALIVE_SECONDS) -> Iterator[None]:
        """Send an empty line every few seconds, which shows that the engine still works."""
        done = Event()

        def send_empty_lines() -> None:
            while not done.wait(seconds):
                self.send("")

        thread = Thread(target=send_empty_lines, name="usi-keep-alive", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
