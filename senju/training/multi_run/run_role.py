"""The role of processes that train whole runs side by side: one task is one run."""

import logging
import signal
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from senju.errors import SenjuError
from senju.evaluation.matches import MatchResult
from senju.runs import interrupt
from senju.runs.run import Run
from senju.training.device_memory import train_run
from senju.training.multi_run.shares import Cores, on_cores
from senju.training.trainer import TrainingListener, TrainingProgress
from senju.workers.process import STOP_SIGNALS, ProcessExecutor, ProcessHandle
from senju.workers.role import Handler, Payload, Role, Start
from senju.workers.tasks import Assignment

REPORT_SECONDS = 0.2  # between two reports of progress


class RunRole(Role):
    """Trains runs. A failed run does not stop the others."""

    worker_name = "trainer"
    activity = "training"
    new_handler = "senju.training.multi_run.run_role:RunHandler"
    is_forkable = False
    can_run_in_thread = False
    keeps_output = True

    def __init__(self, max_updates: int | None, on_failure: Callable[[int, str], None]) -> None:
        """`on_failure` gets a worker's index, and why its run failed."""
        self._max_updates, self._on_failure = max_updates, on_failure

    def start_payload(self, index: int) -> Payload:
        return Payload()

    def local_handler(self, start: Start) -> Handler:
        raise AssertionError("runs are trained in processes")

    def task_payload(self, task: Assignment, worker: dict[str, Any]) -> Payload:
        run: Run = task.task.run
        return Payload([str(run.path), self._max_updates, run.trust])

    def result(self, task: Assignment, payload: Payload) -> Any:
        return payload.values

    def describe(self, task: Assignment) -> str:
        return str(task.task.name)

    def on_exhausted(self, task: Assignment, cause: str, attempts: int) -> str:
        self._on_failure(task.task.worker, cause)
        return ""

    def on_given_up(self, index: int, reason: str) -> bool:
        """Mark the run as failed: no other worker trains it."""
        self._on_failure(index, reason)
        return True


class RunExecutor(ProcessExecutor):
    """Starts each process on its own cores."""

    def __init__(self, cores: Sequence[Cores]) -> None:
        super().__init__(task_timeout=float("inf"), can_fork=RunRole.is_forkable)
        self._cores = cores

    def start(self, role: Role, index: int) -> ProcessHandle:
        with on_cores(self._cores[index]):  # a process inherits the cores of the thread that starts it
            return super().start(role, index)

    def affordable(self, wanted: int, running: int) -> int:
        return wanted  # the user has chosen how many


class RunHandler(Handler, TrainingListener):
    """Trains a run with the ordinary trainer; sends progress and results of evaluations as notes."""

    def __init__(self, start: Start) -> None:
        self._note = start.note
        self._newest: TrainingProgress | None = None  # not sent yet
        self._reported_at = -REPORT_SECONDS
        logging.getLogger(interrupt.__name__).setLevel(logging.ERROR)  # the parent logs it once for all runs

    def execute(self, task: Payload) -> Payload:
        path, max_updates, trust = task.values
        try:
            with interrupt.stop_on_signals() as stop:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)  # blocked since the start
                is_finished = train_run(Run(path, trust), self, None, stop, max_updates)
        except SenjuError as error:
            return Payload({"why": str(error)})
        self._report_progress()
        return Payload({"is_finished": is_finished})

    def _report_progress(self) -> None:
        """Send the newest progress, unless it was sent already."""
        if self._newest is not None:
            names = ("update", "steps_per_second", "seconds_left")
            self._note({"progress": {name: getattr(self._newest, name) for name in names}})
            self._newest, self._reported_at = None, monotonic()

    def on_start(self, run: Run, update: int) -> None:
        self._note({"progress": {"update": update}})

    def on_update(self, progress: TrainingProgress) -> None:
        self._newest = progress
        if monotonic() - self._reported_at >= REPORT_SECONDS:
            self._report_progress()

    def on_evaluation(self, update: int, result: MatchResult) -> None:
        self._report_progress()
        self._note({"evaluation": result.as_dict(), "update": update})
