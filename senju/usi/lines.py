"""Lines in and out: bounded ones in, whole ones out, whatever the other side does."""

import io
import logging
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Final, Protocol

MAX_LINE: Final = 256 * 1024  # bytes; a game of 4,096 plies takes 25,000
MAX_COMPLAINT: Final = 400  # characters
CHUNK: Final = 64 * 1024
KEEP_ALIVE_SECONDS: Final = 5.0  # programs give up on an engine that is silent for too long

traffic = logging.getLogger(f"{__name__}.traffic")


class Source(Protocol):
    """Where bytes come from: a raw stream, which gives what there is and waits only for the first byte."""

    def read(self, size: int, /) -> bytes | None:
        """Up to `size` bytes; none at the end."""


class Stream(Source, Protocol):
    """A source that can be waited for."""

    def fileno(self) -> int:
        """Its descriptor; `io.UnsupportedOperation` where the bytes lie in memory."""


class Input:
    """A stream whose reader another thread can stop, also while it waits for bytes.

    A thread that is left in `read` would use the descriptor's number after the descriptor is closed, and
    by then the number may belong to another file. So a reader waits for the stream and for `stop` at once,
    and reads only what has arrived. The owner calls `stop`, joins the reader, and closes the stream then.
    """

    def __init__(self, stream: Stream) -> None:
        self.is_stopped = False
        self._stream = stream
        self._stopped, self._stopping = socket.socketpair()
        self._poll = select.poll()  # not epoll: that refuses regular files
        self._poll.register(self._stopped, select.POLLIN)
        try:
            self._poll.register(stream.fileno(), select.POLLIN)
            self._can_wait = True
        except io.UnsupportedOperation:
            self._can_wait = False  # the bytes are there already

    def __enter__(self) -> "Input":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.close()
        self._stopped.close()

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; none at the end, or once the input is stopped."""
        while not self.is_stopped:
            if self._can_wait:
                self._poll.poll()
            if not self.is_stopped and (chunk := self._stream.read(size)) is not None:
                return chunk
        return b""

    def stop(self) -> None:
        """End the input here and now; the reader must be joined before this object is closed."""
        self.is_stopped = True  # first: the reader looks when it wakes
        self._stopping.close()


class Sink(Protocol):
    """Where bytes go."""

    def write(self, content: bytes, /) -> object:
        """Take these bytes."""

    def flush(self) -> object:
        """Hand on what was taken."""


def read_lines(source: Source) -> Iterator[bytes | None]:
    """The lines of a stream without their ends; None stands for one that was too long and is left out."""
    kept, is_overlong = bytearray(), False
    while chunk := source.read(CHUNK):
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

    Lines are ASCII: programs disagree on the encoding of anything else. Once nobody reads them any
    more, `is_lost` is set and lines go nowhere.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink, self._lock, self.is_lost = sink, Lock(), False

    def send(self, line: str) -> None:
        """Write a line, whoever else is writing."""
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
        """Tell the other side what was wrong, in a line that fits a window."""
        text = f"info string error: {what}"
        self.send(text if len(text) <= MAX_COMPLAINT else text[:MAX_COMPLAINT] + "...")

    @contextmanager
    def keep_alive(self, seconds: float = KEEP_ALIVE_SECONDS) -> Iterator[None]:
        """Send an empty line every few seconds meanwhile, which shows that the engine still works."""
        done = Event()

        def beat() -> None:
            while not done.wait(seconds):
                self.send("")

        thread = Thread(target=beat, name="usi-keep-alive", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
