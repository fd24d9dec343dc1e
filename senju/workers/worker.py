"""What a team knows of one worker."""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from time import monotonic
from typing import Any

from senju.workers.journal import WorkerOutput
from senju.workers.role import WorkerHandle


class WorkerState(Enum):
    """What a worker is doing."""

    STARTING = "starting"
    WAITING = "waiting"
    BUSY = "busy"
    LEAVING = "leaving"


@dataclass
class WorkerStats:
    """Numbers of a worker index, which outlive single workers."""

    restarts: int = 0
    num_finished: int = 0
    busy_seconds: float = 0.0
    began: float = field(default_factory=monotonic)
    is_paused: bool = False
    failed_starts: int = 0  # workers in a row that ended before they were ready


@dataclass(eq=False)
class Worker:
    """A running worker. Its replacement is another `Worker` with the same index and stats."""

    index: int
    name: str  # in messages
    handle: WorkerHandle
    stats: WorkerStats
    output: WorkerOutput | None = None
    state: WorkerState = WorkerState.STARTING
    tasks: deque[Any] = field(default_factory=deque)  # the first is being executed, the others wait behind it
    must_leave: bool = False  # after its tasks
    num_finished: int = 0
    heartbeat: float | None = None  # at the last check; None: not checked in this state
    silent_seconds: float = 0.0
    lacks_memory: bool = False
    scratchpad: dict[str, Any] = field(default_factory=dict)  # the role's

    @property
    def task(self) -> Any:
        """The task being executed, or None."""
        return self.tasks[0] if self.tasks else None

    @property
    def can_work(self) -> bool:
        """Whether it may get tasks."""
        is_ready = self.state is WorkerState.WAITING or self.state is WorkerState.BUSY
        return is_ready and not self.must_leave and not self.stats.is_paused

    def enter(self, state: WorkerState) -> None:
        """Change the state; its deadline begins anew."""
        self.state, self.heartbeat = state, None

    def begin_task(self, task: Any) -> None:
        """Put a task behind those that the worker has."""
        self.tasks.append(task)
        if self.state is WorkerState.WAITING:
            self.enter(WorkerState.BUSY)

    def end_task(self, number: int) -> Any:
        """Remove and return the current task; None if it is not the one with this number."""
        is_current = bool(self.tasks) and self.tasks[0].number == number
        task = self.tasks.popleft() if is_current else None
        if self.state is WorkerState.BUSY:
            self.enter(WorkerState.BUSY if self.tasks else WorkerState.WAITING)
        return task

    def check(self, heartbeat: float, gap: float) -> float:
        """Seconds without a sign of life, `gap` seconds after the last check."""
        is_silent = heartbeat == self.heartbeat
        self.heartbeat, self.silent_seconds = heartbeat, self.silent_seconds + gap if is_silent else 0.0
        return self.silent_seconds
