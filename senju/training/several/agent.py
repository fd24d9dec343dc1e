"""An agent's process, once it is booted: the ordinary trainer, which tells the parent how it goes."""

import faulthandler
import json
import logging
import os
import signal
from time import monotonic
from typing import Any

from senju.errors import SenjuError
from senju.training import interrupt
from senju.training.api import train_run
from senju.training.evaluation import MatchResult
from senju.training.run import Run
from senju.training.trainer import Listener, Progress

TELL_SECONDS = 0.2  # between two reports of progress
STOPPING = (signal.SIGINT, signal.SIGTERM)


def train_agent(run: str, max_updates: int | None, events: int, trust: bool) -> int:
    """Train a run that was prepared; returns the exit code.

    The signals that ask to stop are blocked until somebody listens to them: one that comes while all this
    is still loading must not end it before it has saved.
    """
    faulthandler.enable()
    logging.getLogger(interrupt.__name__).setLevel(logging.ERROR)  # the parent says it once for all
    teller = Teller(events)
    try:
        with interrupt.stop_on_signals() as stop:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
            is_finished = train_run(Run(run, trust), stop, teller, None, max_updates)
    except SenjuError as error:
        teller.tell("failed", why=str(error))
        return 1
    teller.tell_progress()
    teller.tell("ended", is_finished=is_finished)
    return 0


class Teller(Listener):
    """Writes what happens to a pipe, as JSON lines.

    The pipe is closed by the end of the process alone, so that its end is the process's.
    """

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._untold: Progress | None = None
        self._told = -TELL_SECONDS

    def tell(self, event: str, **details: Any) -> None:
        """Write one line."""
        line = json.dumps({"event": event, **details}).encode() + b"\n"
        while line:
            line = line[os.write(self._pipe, line) :]

    def tell_progress(self) -> None:
        """Tell the newest progress that was not told yet."""
        progress, self._untold = self._untold, None
        if progress is None:
            return
        names = ("update", "total_updates", "steps", "steps_per_second", "seconds_left")
        self.tell("progress", **{name: getattr(progress, name) for name in names})
        self._told = monotonic()

    def on_start(self, run: Run, update: int) -> None:
        """Tell where it begins."""
        self.tell("began", update=update, total_updates=run.config.total_updates)

    def on_update(self, progress: Progress) -> None:
        """Tell it, unless it was told just now."""
        self._untold = progress
        if monotonic() - self._told >= TELL_SECONDS:
            self.tell_progress()

    def on_evaluation(self, update: int, result: MatchResult) -> None:
        """Tell the result."""
        self.tell_progress()
        self.tell("evaluation", update=update, result=result.as_dict())
