"""A role whose workers describe their process, and end with the exit code that a task names."""

import os
import random
from typing import Any

import numpy as np

from senju.workers.role import Handler, Payload, Role, Start


class SelfDescribing(Role):
    new_handler = "tests.workers.self_describing:ExitHandler"

    def __init__(self, descriptors: tuple[int, ...] = ()) -> None:
        self.descriptors = descriptors

    def start_payload(self, index: int) -> Payload:
        return Payload()

    def local_handler(self, start: Start) -> Handler:
        return ExitHandler(start)

    def task_payload(self, task: Any, worker: dict[str, Any]) -> Payload:
        return Payload(task)

    def result(self, task: Any, payload: Payload) -> Any:
        return payload.values

    def describe(self, task: Any) -> str:
        return str(task)


class ExitHandler(Handler):
    def __init__(self, start: Start) -> None:
        os.write(1, b"started\n")
        start.note(
            {
                "index": start.index,
                "parent": os.getppid(),
                "folder": os.getcwd(),
                "group": os.getpgid(0),
                "pid": os.getpid(),
                "files": [os.fstat(number).st_ino for number in start.descriptors],
                "drawn": (random.random(), float(np.random.random())),
                "variable": os.environ.get("OF_THE_TEST"),
            }
        )

    def execute(self, task: Payload) -> Payload:
        os._exit(task.values)
