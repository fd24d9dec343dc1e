"""A worker that hangs is replaced, whatever the other workers do."""

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from senju.environments.config import read_settings
from senju.environments.runners import TeamRunner, WorldRole
from senju.workers.process import ProcessExecutor
from senju.workers.role import Handler, Limits, Payload, Start
from senju.workers.tasks import Assignment
from tests.environments.meadow import make_config
from tests.environments.traps import SpringTrap


class Napping(Handler):
    """Hangs in the trap of a folder, once; a task without a folder takes a moment."""

    def execute(self, task: Payload) -> Payload:
        if task.values:
            SpringTrap(task.values).spring("hang")
        time.sleep(0.02)
        return task


class NappingRole(WorldRole):
    new_handler = f"{__name__}:new_handler"

    def start_payload(self, index: int) -> Payload:
        return Payload()

    def local_handler(self, start: Start) -> Handler:
        return Napping()

    def task_payload(self, task: Assignment, worker: dict[str, Any]) -> Payload:
        return Payload(task.task[0])

    def _read(self, task: Any, payload: Payload) -> Any:
        return payload.values


def new_handler(start: Start) -> Napping:
    return Napping()


@pytest.mark.slow
def test_hung_process_is_replaced_while_another_returns_results(tmp_path: Any) -> None:
    source: Any = SimpleNamespace(settings=read_settings(make_config()))
    changed, deadline = threading.Condition(), time.monotonic() + 60
    role = NappingRole(source, SimpleNamespace(descriptor=0))  # type: ignore[arg-type]
    runner = TeamRunner(role, ProcessExecutor(1.0), 2, Limits(1.0), changed)
    try:
        runner.submit([str(tmp_path)])
        finished: list[Any] = []
        while str(tmp_path) not in finished:  # only a replacement gets through the trap
            assert time.monotonic() < deadline, "the hung worker was not replaced"
            while runner.room > 0:
                runner.submit([""])
            with changed:
                changed.wait_for(runner.is_due, 1.0)
            finished += [each.result for each in runner.take()]
    finally:
        runner.close()
    assert len(runner.events) == 1
