"""Where the tasks of a user's world are executed: by the calling thread, or by a team of workers."""

from abc import ABC, abstractmethod
from threading import Condition
from time import monotonic
from typing import Any, NamedTuple

from senju.environments.experience import ExperienceFile
from senju.environments.factory import WorldSource
from senju.usercode import ChildReport, ending_forked_child
from senju.workers.role import Activity, Executor, Handler, Limits, Payload, Role, Start
from senju.workers.tasks import Assignment, Prefer, Tasks
from senju.workers.team import Team


class WorldRole(Role):
    """The base of the two roles: playing episodes and giving lessons."""

    prefer: Prefer | None = None  # the worker that should do a task; None: any

    def __init__(self, source: WorldSource, experience: ExperienceFile) -> None:
        self.source, self.experience = source, experience
        self.descriptors = [experience.descriptor]
        self._num_results = 0

    def start_payload(self, index: int) -> Payload:
        return self.source.packed()

    def describe(self, task: Assignment) -> str:
        return str(task.task)

    def heartbeat(self, index: int) -> float:
        """With threads, changes with every result: they wait for each other under a lock."""
        return float(self._num_results) if self.source.settings.parallel.use_threads else 0.0

    def result(self, task: Assignment, payload: Payload) -> Any:
        self._num_results += 1
        return self._read(task.task, payload)

    @abstractmethod
    def _read(self, task: Any, payload: Payload) -> Any: ...


class FinishedTask(NamedTuple):
    """A task, its result, and which worker executed it when."""

    task: Any
    result: Any
    activity: Activity


class TaskRunner(ABC):
    """Executes a role's tasks."""

    def __init__(self, role: WorldRole) -> None:
        self.role = role
        self.events: list[str] = []  # failures and restarts

    @property
    @abstractmethod
    def room(self) -> int:
        """How many more tasks could begin now."""

    @abstractmethod
    def is_due(self) -> bool:
        """Whether `take` has something to return, or to raise."""

    @abstractmethod
    def submit(self, task: Any) -> None:
        """Add a task."""

    @abstractmethod
    def take(self) -> list[FinishedTask]:
        """The tasks finished since the last call; raises the error that stopped them, if any."""

    def close(self) -> None:  # noqa: B027  # only a team has workers
        """End all workers; may be called twice."""


class CallerRunner(TaskRunner):
    """The calling thread executes each task when it is submitted."""

    def __init__(self, role: WorldRole) -> None:
        super().__init__(role)
        self._finished: list[FinishedTask] = []
        self._child = ChildReport()
        self._worker: dict[str, Any] = {}
        self._handler: Handler | None = None

    @property
    def room(self) -> int:
        return 0 if self._finished else 1

    def is_due(self) -> bool:
        return bool(self._finished)

    def submit(self, task: Any) -> None:
        self._handler = self._handler or self.role.local_handler(Start(0, Payload()))
        assignment, began = Assignment(0, task), monotonic()
        with ending_forked_child(self._child.write):
            payload = self._handler.execute(self.role.task_payload(assignment, self._worker))
        self._child.raise_written()
        activity = Activity(0, assignment, began, monotonic())
        self._finished.append(FinishedTask(task, self.role.result(assignment, payload), activity))

    def take(self) -> list[FinishedTask]:
        taken, self._finished = self._finished, []
        return taken


class TeamRunner(TaskRunner):
    """A team of workers executes the tasks. Callers can wait for teams that share a condition."""

    def __init__(
        self, role: WorldRole, executor: Executor, num_workers: int, limits: Limits, changed: Condition
    ) -> None:
        super().__init__(role)
        self._tasks = Tasks(role.prefer)
        self._team = Team(role, self._tasks, executor, limits, changed=changed)
        try:
            self._team.start(self._team.affordable(num_workers), is_waiting=False)
            self._team.open()
        except BaseException:
            self._team.close()
            raise

    @property
    def room(self) -> int:
        with self._team.changed:
            return self._team.wanted - len(self._tasks.pending())

    def is_due(self) -> bool:
        return self._tasks.is_due() or self._team.has_failed

    def submit(self, task: Any) -> None:
        with self._team.changed:
            self._tasks.put(task)
            self._team.open()

    def take(self) -> list[FinishedTask]:
        with self._team.changed:
            self._team.wait_for(lambda: True)
            report, finished = self._team.report(), self._tasks.take()
        self.events += [event.message for event in report.events]
        activities = {id(activity.task.task): activity for activity in report.activities}
        return [FinishedTask(task, result, activities[id(task)]) for task, result in finished]

    def close(self) -> None:
        self._team.close()
        self.events += [event.message for event in self._team.report().events]
