"""Lines in and out: bounded ones in, whole ones out, whatever the other side does."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
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
