"""Standard input and output that may fail: a missing encoding, a full disk, a closed pipe or stream."""

import errno
import io
import os
import resource
import signal
import sys
from typing import Any, TextIO

from senju.errors import OutputError

UNREAD = 128 + signal.SIGPIPE  # exit code of a program whose output is read no more, as shells report it
FEWEST_FILES = 64  # open at once: of a run with a few workers, its log, and modules that load meanwhile
USUAL_FILES = 1024


class Output(io.TextIOWrapper):
    """Standard output: characters that it cannot encode are escaped, and failures are clear.

    Where a pipe's reader has gone, the command ends with code 141 and prints no error. Any other failure is
    an OutputError. Later output is dropped, since Python's own last flush would fail once more.
    """

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        if self.closed:
            return
        try:
            super().flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        _open_nothing(self.fileno())
        if isinstance(error, BrokenPipeError):
            raise SystemExit(UNREAD) from None
        raise OutputError(f"cannot write to standard output: {error.strerror}; the rest is lost") from None


class Messages(Output):
    """Standard error: where it cannot be written, the message is lost and the command goes on."""

    def _give_up(self, error: OSError) -> None:
        _open_nothing(self.fileno())


def prepare_streams() -> None:
    """Make standard input and output safe to use.

    A closed stream is replaced by an empty one. Otherwise the next file to be opened would get its number
    and its output.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            _open_nothing(number)
    streams = {
        "stdin": sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False),
        "stdout": _wrapped(sys.stdout, 1, Output),
        "stderr": _wrapped(sys.stderr, 2, Messages),
    }
    for name, stream in streams.items():
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)  # Python's own last flush is of this one


def require_files() -> None:
    """Raise this process's limit of open files to the usual one; OSError where it may have too few.

    Libraries open files in threads of their own, where a failure would be a traceback and no error.
    """
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (USUAL_FILES if n == resource.RLIM_INFINITY else n for n in limits)
    if soft < USUAL_FILES and soft < hard:
        soft = min(hard, USUAL_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, limits[1]))
    if soft < FEWEST_FILES:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def lacks_files(error: OSError) -> bool:
    """Whether the error is about the number of open files."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def error_line(error: Exception) -> str:
    """An error in one line, as commands show it."""
    if isinstance(error, OSError) and lacks_files(error):
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        advice = f"set ulimit -n {USUAL_FILES}" + (", or use fewer --workers" * (limit >= FEWEST_FILES))
        return (
            f"error: too many open files: this process may open {limit} (ulimit -n), and needs more; {advice}"
        )
    return f"error: {error}"


def _wrapped(stream: TextIO | None, number: int, kind: type[Output]) -> Output:
    if stream is None:
        stream = os.fdopen(number, "w", encoding="utf-8", closefd=False)
    assert isinstance(stream, io.TextIOWrapper)
    settings: dict[str, Any] = {"encoding": stream.encoding, "line_buffering": stream.line_buffering}
    settings["write_through"] = stream.write_through  # all are read first: a detached stream has none
    return kind(stream.detach(), errors="backslashreplace", **settings)


def _open_nothing(number: int) -> None:
    """Make a file descriptor refer to the null device."""
    nothing = os.open(os.devnull, os.O_RDWR)
    if nothing != number:
        os.dup2(nothing, number)
        os.close(nothing)
