"""The arena's worker processes: tasks go out, results come back, and who dies is replaced."""

import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from senju import errors
from senju.backends.processes.nursery import ONE_MATH_THREAD, import_path
from senju.descendants import end_descendants
from senju.errors import SenjuError, WorkerError
from senju.training.arena.tasks import Counts, Schedule, Task
from senju.training.interrupt import StopRequest

logger = logging.getLogger(__name__)

MOST_DEATHS = 3  # of workers with the same task
_KEPT_LINES = 30  # of what a worker printed
_LAST_WORDS_SECONDS = 2.0
OnResult = Callable[[Task, Counts], None]


def play_in_processes(
    schedule: Schedule, start: dict[str, Any], num_workers: int, on_result: OnResult, stop: StopRequest
) -> None:
    """Play all that is open, or until somebody asks to stop; `on_result` is told of each task in turn."""
    crew = _Crew(schedule, start, on_result)
    try:
        for _ in range(num_workers):
            crew.hire()
        while crew.busy and not stop.is_set:
            stop.wait(crew.woken)
            crew.take_news()
    finally:
        crew.close()


class _Crew:
    """Workers and what they play."""

    def __init__(self, schedule: Schedule, start: dict[str, Any], on_result: OnResult) -> None:
        self._schedule, self._start, self._on_result = schedule, start, on_result
        self.busy: dict[_Worker, Task] = {}
        self._idle: list[_Worker] = []
        self._deaths: Counter[Task] = Counter()
        self._news: SimpleQueue[tuple[_Worker, str]] = SimpleQueue()
        self.woken, self._wake = socket.socketpair()
        self._waking = threading.Lock()  # no thread is about to write to the socket while it is closed

    def hire(self) -> None:
        """Start a worker, if there is something to play."""
        task = self._schedule.take()
        if task is not None:
            worker = _Worker(self._start, self._tell)
            self._give(worker, task)

    def _tell(self, worker: "_Worker", line: str) -> None:
        self._news.put((worker, line))
        with self._waking, contextlib.suppress(OSError):  # closed, since the arena is over
            self._wake.send(b".")

    def _give(self, worker: "_Worker", task: Task) -> None:
        self.busy[worker] = task
        worker.send({"task": task})

    def take_news(self) -> None:
        """Handle all lines that have come."""
        with contextlib.suppress(Empty):
            while True:
                worker, line = self._news.get_nowait()
                if not line:
                    self._replace(worker)
                else:
                    self._take_result(worker, json.loads(line))

    def _take_result(self, worker: "_Worker", answer: dict[str, Any]) -> None:
        task = self.busy.pop(worker)
        self._idle.append(worker)
        if "error" in answer:
            raise getattr(errors, answer["error"], SenjuError)(answer["text"])
        self._on_result(task, Counts(*answer["counts"]))
        self._employ()

    def _employ(self) -> None:
        """Give tasks to whoever has none."""
        while self._idle and (task := self._schedule.take()) is not None:
            self._give(self._idle.pop(), task)

    def _replace(self, worker: "_Worker") -> None:
        how = worker.end(_LAST_WORDS_SECONDS)
        task = self.busy.pop(worker, None)
        if task is None:
            self._idle.remove(worker)
            return
        self._schedule.give_back(task)
        self._deaths[task] += 1
        names = self._schedule.names
        what = f"{names[task.first]} against {names[task.second]}, games of seed {task.seed}"
        if self._deaths[task] == MOST_DEATHS:
            raise WorkerError(
                f"{MOST_DEATHS} workers died playing {what}; what was finished before is kept; "
                f"the last one {how} and printed:\n{worker.last_words() or '(nothing)'}"
            )
        logger.warning("a worker %s playing %s; another takes its place", how, what)
        if self._idle:
            self._employ()
        else:
            self.hire()

    def close(self) -> None:
        """End all workers."""
        for worker in (*self.busy, *self._idle):
            worker.end()
        with self._waking:
            self.woken.close()
            self._wake.close()


def _python_path() -> str:
    """The path for imports here: it may be the only way to find senju, and a user's players."""
    return os.pathsep.join(os.path.abspath(folder) for folder in import_path())


class _Worker:
    """A process, with a thread that reads its answers and one that keeps what it prints."""

    def __init__(self, start: dict[str, Any], tell: Callable[["_Worker", str], None]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "senju.training.arena.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=os.environ | ONE_MATH_THREAD | {"PYTHONPATH": _python_path()},
            process_group=0,  # Ctrl-C in the terminal is for the arena to handle, not for its workers
        )
        self._said: deque[str] = deque(maxlen=_KEPT_LINES)
        self._threads = [
            threading.Thread(target=self._read, args=(tell,), daemon=True),
            threading.Thread(target=self._listen, daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        self.send(start)

    def _read(self, tell: Callable[["_Worker", str], None]) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):  # else it was cut off by the worker's end
                tell(self, line)
        tell(self, "")

    def _listen(self) -> None:
        assert self._process.stderr is not None
        self._said.extend(self._process.stderr)

    def send(self, line: dict[str, Any]) -> None:
        """Tell the worker something."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # its end, which comes next, tells more
            self._process.stdin.write(json.dumps(line) + "\n")
            self._process.stdin.flush()

    def end(self, patience: float = 0.0) -> str:
        """End it, unless it does so by itself within some seconds, and say how it ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        if self._process.returncode is None:
            end_descendants(self._process.pid)
        with contextlib.suppress(ProcessLookupError, PermissionError):  # none is left of its group
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        code = self._process.wait()
        for thread in self._threads:
            thread.join(_LAST_WORDS_SECONDS)
        if not any(thread.is_alive() for thread in self._threads):  # else a child of its own has the pipes
            self._close_pipes()
        if code >= 0:
            return f"ended with exit code {code}"
        return f"was killed by signal {-code} ({signal.Signals(-code).name})"

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):  # what could not be sent is still in its buffer
                pipe.close()

    def last_words(self) -> str:
        """What it printed last."""
        return "".join(self._said).strip()
