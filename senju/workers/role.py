"""The contracts of a team: what workers do (Role, Handler), and where they do it (Executor, WorkerHandle).

A role describes tasks in the process that owns the team. A handler executes them in a worker. Executing a
task twice gives the same result, so the team can repeat a task whose worker died or hung.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from senju.errors import WorkerError
from senju.events import Event
from senju.workers.block import Block
from senju.workers.channel import Channel

WORKER_BYTES = 250 * 2**20  # a spawned worker with a small model takes 190 MiB, a forked one 35


class Payload(NamedTuple):
    """The content of a message: plain values as JSON has them, and blocks of arrays."""

    values: Any = None
    blocks: Sequence[Block] = ()


@dataclass
class Start:
    """What a handler is made from: the worker's index, the role's start payload and inherited files."""

    index: int
    payload: Payload
    descriptors: Sequence[int] = ()
    note: Callable[[Any], None] = lambda values: None  # sends values to `Team.take_notes`


class Handler(ABC):
    """Executes a role's tasks in one worker."""

    @abstractmethod
    def execute(self, task: Payload) -> Payload:
        """Do a task and return its result. It may raise anything."""


class Role(ABC):
    """What the workers of a team do.

    `new_handler` names a function `(Start) -> Handler` that a worker process imports. Its module may have
    a function `preload`, which the fork server calls once.
    """

    worker_name: ClassVar[str] = "worker"  # in messages and events: worker 3, worker_lost
    activity: ClassVar[str] = "working"  # what a busy worker does, in its status
    repeats: ClassVar[str] = "The task is repeated, with the same result."
    new_handler: ClassVar[str]
    is_forkable: ClassVar[bool] = True  # False: spawned; handles signals and sets its own threads
    can_run_in_thread: ClassVar[bool] = True  # if no worker can be started
    keeps_output: ClassVar[bool] = False  # True: printed lines are notes as well
    descriptors: Sequence[int] = ()  # files that worker processes inherit
    sockets: Sequence[str] = ()  # socket files that workers remove if this process is killed

    def new_files(self, index: int) -> Sequence[int]:
        """Files that only worker process `index` inherits, after `descriptors`; the caller closes them."""
        return ()

    @abstractmethod
    def start_payload(self, index: int) -> Payload:
        """What worker `index` needs before its first task."""

    @abstractmethod
    def local_handler(self, start: Start) -> Handler:
        """A handler for a thread of this process."""

    @abstractmethod
    def task_payload(self, task: Any, worker: dict[str, Any]) -> Payload:
        """A task as a message. `worker` is a scratchpad that lives as long as the worker."""

    @abstractmethod
    def result(self, task: Any, payload: Payload) -> Any:
        """The result in a worker's message."""

    @abstractmethod
    def describe(self, task: Any) -> str:
        """A task in words, for messages."""

    def describe_worker(self, index: int) -> str:
        """More about a worker, for messages."""
        return ""

    def is_counted(self, task: Any) -> bool:
        """Whether a finished task counts; False for parts of a larger one, except for the last."""
        return True

    def useful_workers(self, wanted: int) -> int:
        """How many of `wanted` workers could get tasks."""
        return wanted

    def heartbeat(self, index: int) -> float:
        """A number that changes while the worker is alive; constant where only results show that."""
        return 0.0

    def on_exhausted(self, task: Any, cause: str, attempts: int) -> str:
        """A task failed too often. Return an event's message ("": none), or raise to end the team."""
        raise WorkerError(f"{self.describe(task)} failed {attempts} times; the last time: {cause.rstrip()}")

    def on_given_up(self, index: int, reason: str) -> bool:
        """Worker `index` cannot be started. Return True if the role reports this itself."""
        return False


class TaskQueue(ABC):
    """Hands out tasks and takes them back; the team calls it under its lock.

    A task that it hands out has a `number`, which is different for every attempt.
    """

    @abstractmethod
    def begin(self, worker: int, workers: Sequence[int]) -> Any | None:
        """The next task for a worker out of `workers`; None if it must wait."""

    @abstractmethod
    def count_waiting(self) -> int:
        """Tasks that could begin now."""

    def is_waiting_for(self, worker: int, workers: Sequence[int]) -> bool:
        """Whether a waiting task may go to this worker out of `workers`."""
        return self.count_waiting() > 0

    @abstractmethod
    def count_running(self) -> int:
        """Tasks that workers have."""

    @abstractmethod
    def finish(self, task: Any, result: Any) -> bool:
        """Store a result; ignore it and return False if the task was taken back before."""

    @abstractmethod
    def lose(self, task: Any, is_its_fault: bool = True) -> int:
        """Take a task back, to be executed again; return how often it has failed."""

    @abstractmethod
    def abandon(self, task: Any) -> None:
        """Drop a task that failed too often."""

    def is_due(self) -> bool:
        """Whether a waiting caller should look at the results."""
        return True


class WorkerEnding(NamedTuple):
    """How a worker ended."""

    how: str  # in words: "was killed by signal 9"
    was_killed: bool = False  # by another program's signal
    lacks_memory: bool = False  # the system killed it for lack of memory
    detail: str = ""  # what it printed last, or its stack


class WorkerHandle(ABC):
    """A started worker, seen from the team."""

    channel: Channel
    pid: int | None = None
    output: int | None = None  # descriptor of what it prints, if it has an output of its own
    can_be_killed: bool = True

    @abstractmethod
    def kill(self) -> None:
        """End it at once, if that is possible."""

    @abstractmethod
    def wait(self) -> WorkerEnding:
        """Wait for its end."""

    @abstractmethod
    def stack(self) -> str:
        """What it is executing now, as a traceback; empty if unknown."""

    @abstractmethod
    def close(self) -> None:
        """Release its resources in this process."""


class Executor(ABC):
    """A place where workers run: processes, threads, actors of a cluster."""

    @abstractmethod
    def start(self, role: Role, index: int) -> WorkerHandle:
        """Start a worker; OSError or MemoryError if that is impossible."""

    def affordable(self, wanted: int, running: int) -> int:
        """How many workers the machine has memory for."""
        return wanted

    def close(self) -> None:  # noqa: B027  # most have nothing to close
        """Release shared resources; may be called twice."""


@dataclass(frozen=True)
class Limits:
    """How long the team waits, and how often it tries."""

    task_timeout: float  # seconds without a sign of life
    start_timeout: float = 120.0
    attempts: int = 3  # failures after which a task is dropped
    reset_interval: int = 0  # tasks after which a worker is replaced; 0: never
    is_on_demand: bool = False  # whether workers start only while tasks wait
    kills_per_failure: int = 4  # other programs may kill workers; a task is blamed only for many kills


class Activity(NamedTuple):
    """One executed task. Times are of `time.monotonic`."""

    worker: int
    task: Any
    began: float
    ended: float


class Report(NamedTuple):
    """What happened since the last report."""

    timings: dict[str, float]  # seconds of each stage; a team alone has none
    activities: list[Activity]
    events: list[Event]


@dataclass(frozen=True)
class WorkerStatus:
    """One worker now."""

    index: int
    state: str  # starting, waiting, paused, or the role's activity
    pid: int | None  # None for a thread
    task: Any  # the current task, or None
    num_finished: int  # tasks since the start
    restarts: int
    busy_share: float  # of the time since the start
    memory_bytes: int  # of its process; 0 for a thread, or if unknown


@dataclass(frozen=True)
class TeamStatus:
    """A team now."""

    wanted_workers: int
    workers: tuple[WorkerStatus, ...]
    restarts: int


class TeamControl(ABC):
    """What a user may do to running workers."""

    @abstractmethod
    def pause(self, workers: Collection[int] | None = None) -> None:
        """Let these workers (None: all) finish their task and begin no other."""

    @abstractmethod
    def resume(self, workers: Collection[int] | None = None) -> None:
        """Let paused workers go on."""

    @abstractmethod
    def reset(self, workers: Collection[int] | None = None) -> None:
        """Replace these workers (None: all) by fresh ones, each after its task."""

    @abstractmethod
    def resize(self, num_workers: int) -> None:
        """Go on with another number of workers; the result stays the same."""

    @abstractmethod
    def status(self) -> TeamStatus:
        """The workers now; may be called from any thread."""

    @abstractmethod
    def report(self) -> Report:
        """Activities and events since the last report."""
