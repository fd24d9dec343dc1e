"""A role that squares numbers, handles that record their calls, and a roster without threads."""

import os
import resource
import signal
import threading
from typing import Any

from senju.errors import ConfigError
from senju.workers.block import Block
from senju.workers.dispatcher import Dispatcher
from senju.workers.records import Journal, Worker
from senju.workers.role import Handler, Limits, Payload, Role, Start, WorkerEnding, WorkerHandle
from senju.workers.roster import Roster
from senju.workers.tasks import Assignment, Prefer, Tasks


class Squaring(Role):
    """Squares numbers; some numbers go wrong."""

    new_handler = "tests.workers.squaring:SquaringHandler"

    def __init__(self) -> None:
        self.beats: dict[int, float] = {}  # heartbeats by worker

    def start_payload(self, index: int) -> Payload:
        return Payload({"offset": 0})

    def local_handler(self, start: Start) -> Handler:
        return SquaringHandler(start)

    def task_payload(self, task: Assignment, worker: dict[str, Any]) -> Payload:
        worker["count"] = worker.get("count", 0) + 1
        return Payload([task.task, worker["count"]])

    def result(self, task: Assignment, payload: Payload) -> Any:
        return payload.values

    def describe(self, task: Assignment) -> str:
        return f"the square of {task.task}"

    def heartbeat(self, index: int) -> float:
        return self.beats.get(index, 0.0)


class SquaringHandler(Handler):
    def __init__(self, start: Start) -> None:
        self._note = start.note

    def execute(self, task: Payload) -> Payload:
        number, count = task.values
        self._note(f"begins {number}")
        if number == "die":
            os.kill(os.getpid(), signal.SIGSEGV)
        if number == "die of a real-time signal":
            os.kill(os.getpid(), signal.SIGRTMIN + 6)
        if number == "hang":
            threading.Event().wait()
        if number == "open too many files":
            _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, most))
            return Payload([0, count], [Block.pack(number, [])])
        if number == "raise":
            raise RuntimeError("no number")
        if number == "refuse":
            raise ConfigError("numbers only")
        return Payload([number * number, count])


class NoHandle(WorkerHandle):
    """Of a worker that does not exist: decisions send and receive nothing."""

    def kill(self) -> None:
        pass

    def wait(self) -> WorkerEnding:
        return WorkerEnding("has ended")

    def stack(self) -> str:
        return ""

    def close(self) -> None:
        pass


class Decisions:
    """Roster and dispatcher of a team, without its thread."""

    def __init__(
        self, num_workers: int, has_prefetch: bool = False, prefer: Prefer | None = None, **limits: Any
    ) -> None:
        self.role, self.tasks, self.journal = Squaring(), Tasks(prefer), Journal()
        self.roster = Roster(self.role, self.tasks, Limits(**{"task_timeout": 8.0, **limits}), self.journal)
        self.dispatcher = Dispatcher(self.roster, has_prefetch)
        self.dispatcher.is_open = True
        self.roster.resize(num_workers)

    def start_missing(self) -> list[Worker]:
        """Start what is missing; all are ready at once."""
        started = []
        while (index := self.roster.next_missing()) is not None:
            started.append(self.roster.add(index, NoHandle()))
            self.dispatcher.on_ready(started[-1])
        return started

    def put(self, *tasks: Any) -> None:
        for task in tasks:
            self.tasks.put(task)

    def assign(self) -> list[tuple[int, Any]]:
        """Worker and task of each assignment."""
        return [(worker.index, task.task) for worker, task in self.dispatcher.assignments()]

    def finish(self, worker: Worker, result: Any = None) -> None:
        self.dispatcher.on_done(worker, worker.task.number, 0.0, 1.0, Payload(result))

    def lose(self, worker: Worker, how: str = "ended with exit code 3", **ending: Any) -> None:
        self.dispatcher.on_end(worker, WorkerEnding(how, **ending))

    def event_kinds(self) -> list[str]:
        return [event.kind for event in self.journal.take_report().events]
