"""What is special about threads: they cannot be killed, and they share this process's torch."""

import re
import threading
from pathlib import Path

import pytest
import torch

from senju.backends.backend import Plan
from senju.backends.parallel import ParallelBackendConfig, Threads
from senju.errors import WorkerError
from senju.machine import math_threads
from senju.workers.role import Executor, Role
from senju.workers.thread import ThreadExecutor, ThreadHandle
from tests.backends.common import (
    PLAN,
    Content,
    changed,
    contents,
    gather_events,
    oracle,
    play,
    started,
    wait_until,
    weights_of,
    workers_of,
)
from tests.backends.trap_games import order, trap_plan, was_sprung


def worker_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("senju")]


@pytest.fixture(autouse=True)
def others_have_ended() -> None:
    wait_until(lambda: not worker_threads())


def trapped(folder: Path) -> Plan:
    """A plan whose traps harm threads of this process too."""
    return trap_plan(folder, spared=0)


def test_thread_that_hangs_ends_the_run_and_shows_its_stack(tmp_path: Path) -> None:
    """The only worker, in its first rollout: no message of another reminds the supervisor to look."""
    plan = trapped(tmp_path)
    with started(plan, "threads", num_workers=1, worker_timeout=0.2) as backend:
        order(plan, "wait", shard=0, at=1)
        with pytest.raises(WorkerError) as raised:
            backend.collect()
        message = str(raised.value)
        assert re.match(r"worker \d .* 0\.\d s .*shard 0 \(rows 0 to 1\)", message)
        assert "in spring\n" in message
        (tmp_path / "go").touch()
    wait_until(lambda: not worker_threads())


def test_thread_that_is_to_leave_stays_and_plays_again(tmp_path: Path) -> None:
    plan = trapped(tmp_path)
    order(plan, "leave", shard=1, at=5)
    with started(plan, "threads", num_workers=1) as backend:
        assert play(backend, plan, 3) == oracle(changed(plan, game=plan.game | {"folder": ""}), 3)
        [message] = gather_events(backend, "worker_failed")
        assert message.startswith("worker 0, shard 1 (rows 2 to 3), rollout 1")
        assert "SystemExit: 4" in message
        assert backend.status().team.restarts == 0


def test_rollout_has_one_kind_of_weights_also_if_a_version_is_published_twice(tmp_path: Path) -> None:
    """Other weights of the same version come while the first part of a rollout is played."""
    plan, armed = trap_plan(tmp_path), trap_plan(tmp_path, spared=0)
    first, second = weights_of(plan, 1), weights_of(plan, 2)
    with started(plan) as serial:
        serial.publish(first, version=1)
        serial.collect()
        serial.publish(second, version=1)
        expected = contents(serial.collect())
    found: list[Content] = []
    with started(armed, "threads", num_workers=2) as backend:
        backend.publish(first, version=1)
        backend.collect()
        order(armed, "wait", shard=1, at=4)
        found += contents(backend.collect(timeout=0.0))
        wait_until(lambda: was_sprung(armed))
        backend.publish(second, version=1)
        (tmp_path / "go").touch()
        found += contents(backend.collect())
    assert sorted(found)[1] == expected[1]


def test_no_thread_is_left_when_it_is_closed_while_playing() -> None:
    plan = changed(PLAN, rollout_steps=500)
    with started(plan, "threads", num_workers=3) as backend:
        backend.collect(timeout=0.01)
        assert "playing" in {worker.state for worker in workers_of(backend)}
        assert len(worker_threads()) == 4  # and the supervisor
    wait_until(lambda: not worker_threads())


def test_math_threads_of_the_caller_stay_as_they_are() -> None:
    """Workers compute with one thread each; the learner keeps its number of threads meanwhile."""
    with math_threads(2), started(PLAN, "threads", num_workers=2) as backend:
        for _ in range(3):
            backend.collect()
            backend.team.reset()
            assert torch.get_num_threads() == 2


def test_random_numbers_of_the_caller_stay_as_they_are() -> None:
    """Building a network draws from torch's own generator, which belongs to the caller."""
    torch.manual_seed(5)
    expected = [torch.rand(3).tolist() for _ in range(300)]
    torch.manual_seed(5)
    with started(PLAN, "threads", num_workers=3, reset_interval=1) as backend:
        found = []
        for number in range(300):
            if number % 10 == 0:
                backend.collect()
            found.append(torch.rand(3).tolist())
    assert found == expected


class UnreliableExecutor(ThreadExecutor):
    """Cannot replace a worker, for an unexpected reason."""

    num_started = 0

    def start(self, role: Role, index: int) -> ThreadHandle:
        self.num_started += 1
        if self.num_started > 1:
            raise ZeroDivisionError("a mistake of ours")
        return super().start(role, index)


class Unreliable(Threads):
    def _new_executor(self) -> Executor:
        return UnreliableExecutor()


def collect_forever(backend: Threads) -> None:
    while True:
        backend.collect()


def test_mistake_in_the_supervisor_reaches_the_caller_instead_of_keeping_it_waiting() -> None:
    backend = Unreliable(ParallelBackendConfig(num_workers=1))
    backend.start(PLAN)
    try:
        assert len(backend.collect()) == 3
        backend.team.reset()
        with pytest.raises(ZeroDivisionError, match="a mistake of ours"):
            collect_forever(backend)
    finally:
        backend.close()
    wait_until(lambda: not worker_threads())
