"""What a learner process and the run say to each other: which turns, and numbers; never data.

Failures, readiness and the end are told as workers tell them; orders and reports are JSON.
"""

import json
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from senju.algorithms.independent import Learned, Task
from senju.backends.messages import Failed, Ready, Stop, decode, send

_JSON = b"["  # how it begins; no kind of the workers' messages is that byte


class Order(NamedTuple):
    """Train an agent for the n-th time."""

    number: int
    task: Task


class Report(NamedTuple):
    """It was trained for the n-th time."""

    number: int
    learned: Learned
    epsilon: float  # that it asks for from now on
    stages: dict[str, float]  # seconds


def send_to_learner(connection: "Connection[Any, Any]", message: Order | Stop) -> None:
    """Tell a process what to do."""
    if isinstance(message, Stop):
        send(connection, message)
    else:
        connection.send_bytes(json.dumps(message).encode())


def receive_order(connection: "Connection[Any, Any]") -> Order | Stop:
    """What a process is to do; EOFError where the run is gone."""
    data = connection.recv_bytes()
    if not data.startswith(_JSON):
        message = decode(data)
        assert isinstance(message, Stop)
        return message
    number, (seat, turns, shards, *others) = json.loads(data)
    return Order(number, Task(seat, tuple(turns), tuple(map(tuple, shards)), *others))


def send_to_run(connection: "Connection[Any, Any]", message: Report | Failed | Ready) -> None:
    """Tell the run what came of it."""
    if isinstance(message, Report):
        connection.send_bytes(json.dumps(message).encode())
    else:
        send(connection, message)


def receive_from_learner(connection: "Connection[Any, Any]") -> Report | Failed | Ready:
    """What a process says; EOFError where it is gone."""
    data = connection.recv_bytes()
    if data.startswith(_JSON):
        return report_from(json.loads(data))
    message = decode(data)
    assert isinstance(message, Failed | Ready)
    return message


def report_from(fields: list[Any]) -> Report:
    """A report that was JSON."""
    number, learned, epsilon, stages = fields
    return Report(number, Learned(*learned), epsilon, stages)
