"""Pausing, resizing and resetting in mid-run: the workers change, the rollouts do not."""

import os
import signal

import pytest

from senju.backends.backend import Backend, Plan
from tests.backends.common import (
    PLAN,
    oracle,
    pid_of,
    play,
    started,
    wait_for_workers,
    wait_until,
    workers_of,
)


@pytest.mark.slow
def test_paused_worker_that_dies_is_replaced_by_a_paused_one(team: Backend, plan: Plan) -> None:
    team.pause([1])
    pid = pid_of(team, 1)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: pid_of(team, 1) != pid)
    wait_for_workers(team, 3)
    assert workers_of(team)[1].state == "paused"
    assert play(team, plan, 2) == oracle(plan, 2)


@pytest.mark.slow
def test_resizing_and_resetting_in_mid_run_change_no_byte(team: Backend, plan: Plan) -> None:
    wait_for_workers(team, 3)
    found, pid = play(team, plan, 1), pid_of(team, 0)
    team.resize(1)
    found += play(team, plan, 2, first=1)
    wait_for_workers(team, 1)
    team.reset([0])
    found += play(team, plan, 3, first=2)
    team.resize(2)
    found += play(team, plan, 4, first=3)
    team.resize(3)
    found += play(team, plan, 5, first=4)
    wait_for_workers(team, 3)
    assert pid_of(team, 0) != pid
    assert found + play(team, plan, 6, first=5) == oracle(plan, 6)
    assert team.take_events() == []


@pytest.mark.slow
def test_worker_that_comes_while_all_are_paused_waits_too(team: Backend, plan: Plan) -> None:
    team.resize(2)
    wait_for_workers(team, 2)
    team.pause()
    team.resize(3)
    wait_for_workers(team, 3)
    assert {worker.state for worker in workers_of(team)} == {"paused"}
    assert team.collect(timeout=0.1) == []
    team.resume()
    assert play(team, plan, 2) == oracle(plan, 2)


def test_worker_is_replaced_after_its_interval() -> None:
    with started(PLAN, "threads", num_workers=1, reset_interval=4) as backend:
        assert play(backend, PLAN, 3) == oracle(PLAN, 3)  # nine rollouts
        assert sum(worker.rollouts for worker in workers_of(backend)) == 9
        assert backend.take_events() == [], "nothing a person need know"
