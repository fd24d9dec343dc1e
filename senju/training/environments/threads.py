"""Doing tasks in threads of this process, which need nothing started and nothing imported by name.

They draw from the same random generators, so where results must not vary they take turns. Their use
is to debug, to let agents learn while others play, and where no processes can be had.
"""

import contextlib
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import monotonic

import torch

from senju.errors import WorkerError
from senju.training.environments.stations import Station, Work
from senju.training.environments.tasks import Result, Task
from senju.usercode import ChildReport, ending_forked_child

_MOMENT = 2.0  # seconds for a thread to end


class Threads(Station):
    """Threads that take tasks from one queue."""

    def __init__(self, new_work: Callable[[], Work], num_threads: int, name: str, timeout: float) -> None:
        self.events = []
        self._timeout, self._num_threads = timeout, num_threads
        self._outstanding: list[Task] = []
        self._last_news = monotonic()
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._results: SimpleQueue[tuple[Task, Result | BaseException]] = SimpleQueue()
        self._child = ChildReport()
        self._woken, self._wake = socket.socketpair()
        self._waking = threading.Lock()  # no thread is about to write to the socket while it is closed
        self._threads = [
            threading.Thread(target=self._serve, args=(new_work(), track), name=f"senju {track}", daemon=True)
            for track in (f"{name} {index}" for index in range(num_threads))
        ]
        for thread in self._threads:
            thread.start()

    def _serve(self, work: Work, track: str) -> None:
        torch.set_num_threads(1)  # of this thread
        while (task := self._tasks.get()) is not None:
            try:
                with ending_forked_child(self._child.write):
                    result: Result | BaseException = work(task)._replace(track=track)
            except BaseException as error:  # noqa: BLE001  # raised where results are taken
                result = error
            self._results.put((task, result))
            with self._waking, contextlib.suppress(OSError):  # closed, since the run is over
                self._wake.send(b".")

    @property
    def room(self) -> int:
        """Threads without a task."""
        return self._num_threads - len(self._outstanding)

    def give(self, task: Task) -> None:
        """Put it into the queue."""
        if not self._outstanding:
            self._last_news = monotonic()
        self._outstanding.append(task)
        self._tasks.put(task)

    def sources(self) -> list[int]:
        """A socket that each result writes to."""
        return [self._woken.fileno()]

    def deadline(self) -> float | None:
        """They may have to take turns, so it counts when any of them finished something."""
        return self._last_news + self._timeout if self._outstanding else None

    def excuse(self, seconds: float) -> None:
        """Count from later on."""
        self._last_news += seconds

    def take(self) -> list[Result]:
        """What has been finished; raises what a task raised."""
        self._child.raise_written()
        results = []
        with contextlib.suppress(Empty):
            while True:
                task, result = self._results.get_nowait()
                self._woken.recv(1)
                self._outstanding.remove(task)
                self._last_news = monotonic()
                if isinstance(result, BaseException):
                    raise result
                results.append(result)
        if self._outstanding and monotonic() > self._last_news + self._timeout:
            raise WorkerError(
                f"a thread was silent for {self._timeout:g} s at {self._outstanding[0].what}, and threads "
                f"cannot be replaced; raise parallel.timeout, or use processes; it is here:\n{self._stacks()}"
            )
        return results

    def _stacks(self) -> str:
        frames = sys._current_frames()
        alive = [frames[thread.ident] for thread in self._threads if thread.ident in frames]
        return "\n".join("".join(traceback.format_stack(frame)[-4:]) for frame in alive)

    def close(self) -> None:
        """Let the threads end after what they are doing; one that hangs ends with this process."""
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join(_MOMENT)
        with self._waking:
            self._woken.close()
            self._wake.close()
