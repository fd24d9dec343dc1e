"""An agent's process seen from the parent: its lifeline, what it tells, and what it prints."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from senju.backends.processes.nursery import import_path
from senju.training.several import boot
from senju.training.several.agent import STOPPING
from senju.training.several.shares import Cores, on_cores
from senju.trust import accepted

_BOOT = str(Path(boot.__file__).resolve())
LAST_LINES = 20  # of what it printed, that are kept


class AgentProcess:
    """A spawned process that trains one run. To be closed, which ends it."""

    def __init__(self, run: Path, cores: Cores, max_updates: int | None, trust: bool = False) -> None:
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            lifeline, self._lifeline = _pipe(theirs, ours)
            self.events, events = _pipe(ours, theirs)
            self.output, output = _pipe(ours, theirs)
            told = {
                "path": import_path(),
                "run": str(run),
                "max_updates": max_updates,
                "trust": trust,
                "accepted": accepted(),
                "lifeline": lifeline,
                "events": events,
            }
            with on_cores(cores), _signals_blocked():  # both are inherited
                self._process = subprocess.Popen(
                    [sys.executable, _BOOT, json.dumps(told)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=(lifeline, events),
                    process_group=0,  # Ctrl-C in the terminal is for the parent to pass on
                )
            self._end = ours.pop_all()
        os.set_blocking(self.events, False)
        os.set_blocking(self.output, False)
        self.pid = self._process.pid
        self.last_lines: deque[str] = deque(maxlen=LAST_LINES)
        self._unfinished = {self.events: b"", self.output: b""}

    def read_lines(self, pipe: int) -> list[str] | None:
        """The whole lines that have arrived in one of its pipes; None where no more will come."""
        try:
            data = os.read(pipe, 2**16)
        except BlockingIOError:
            return []
        return self._split(pipe, data) if data else None

    def read_rest(self) -> list[str]:
        """What it printed and nobody has read yet, be the last line whole or not."""
        with contextlib.suppress(BlockingIOError):  # a process that it started may still hold its end
            while data := os.read(self.output, 2**16):
                self._unfinished[self.output] += data
        rest = self._split(self.output, b"\n")
        return rest[:-1] if not rest[-1] else rest

    def _split(self, pipe: int, data: bytes) -> list[str]:
        *lines, self._unfinished[pipe] = (self._unfinished[pipe] + data).split(b"\n")
        return [line.decode(errors="replace") for line in lines]

    def send_signal(self, number: signal.Signals) -> None:
        """Ask it to stop."""
        self._process.send_signal(number)

    def wait(self) -> str:
        """Wait for its end and say how it ended; empty where nothing went wrong."""
        code = self._process.wait()
        if code >= 0:
            return f"ended with exit code {code}" if code else ""
        return f"was killed by signal {-code} ({signal.Signals(-code).name})"

    def kill(self) -> None:
        """End it at once if it still runs."""
        self._process.kill()

    def close(self) -> None:
        """End it if it still runs, and close this process's ends; may be called twice."""
        self.kill()
        self._process.wait()
        self._end.close()


def _pipe(reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[int, int]:
    """A pipe's two ends, each to be closed with what it belongs to."""
    read, write = os.pipe()
    reader.callback(os.close, read)
    writer.callback(os.close, write)
    return read, write


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
