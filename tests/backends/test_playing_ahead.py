"""The `async` mode: workers play ahead, never further than allowed, and nothing is dropped."""

import time
from pathlib import Path

import pytest

from senju.backends.backend import Backend, Plan
from tests.backends.common import (
    PLAN,
    changed,
    contents,
    gather_events,
    publish_turn,
    started,
    wait_until,
    workers_of,
)
from tests.backends.trap_games import order, trap_plan, was_sprung


def lag_of(backend: Backend, plan: Plan, turns: int) -> list[int]:
    """Lags of all rollouts, given a learner that publishes after every turn."""
    lags = []
    for version in range(turns):
        publish_turn(backend, plan, version)
        rollouts = backend.collect()
        assert [rollout.shard for rollout in rollouts] == list(range(plan.num_shards))
        lags += [version - rollout.version for rollout in rollouts]
        wait_until(lambda: is_at_rest(backend, plan))
    return lags


def is_at_rest(backend: Backend, plan: Plan) -> bool:
    """Whether the workers have played as far ahead as they may."""
    status = backend.status()
    held_and_ready = plan.num_shards * (plan.max_lag + 1)
    return status.slots_playing == 0 and status.slots_held + status.slots_ready == held_and_ready


@pytest.mark.slow
@pytest.mark.parametrize("max_lag", [1, 3])
def test_workers_play_ahead_up_to_the_bound_and_drop_nothing(max_lag: int) -> None:
    plan = changed(PLAN, max_lag=max_lag)
    with started(plan, "threads", num_workers=2, worker_timeout=0.5) as backend:
        lags = lag_of(backend, plan, 8)
        assert min(lags) == 0
        assert max(lags) == max_lag, "they did not play ahead, or too far"
        played = [worker.num_finished for worker in workers_of(backend)]
        assert sum(played) == (8 + max_lag) * plan.num_shards
        activities = backend.report().activities
        expected = [(turn, shard) for turn in range(8 + max_lag) for shard in range(plan.num_shards)]
        assert sorted((a.task.turn, a.task.shard) for a in activities) == expected, (
            "each once, and none left out"
        )
        time.sleep(1.0)  # no call collects: they wait, and do not count as hung
        assert is_at_rest(backend, plan)
        assert backend.report().events == []


@pytest.mark.parametrize("max_lag", [1, 3])
def test_playing_ahead_with_unchanged_weights_gives_the_serial_bytes(max_lag: int) -> None:
    plan = changed(PLAN, max_lag=max_lag)
    with started(plan) as serial, started(plan, "threads", num_workers=2) as backend:
        for turn in range(6):
            assert contents(backend.collect()) == contents(serial.collect()), turn
            if turn == 3:
                backend.restore(serial.snapshot())  # what was played ahead is forgotten
        assert backend.snapshot()[1].clock.tobytes() == serial.snapshot()[1].clock.tobytes()


@pytest.mark.slow
def test_async_worker_that_dies_loses_nothing(tmp_path: Path) -> None:
    plan = changed(trap_plan(tmp_path), max_lag=2)
    with started(plan) as serial, started(plan, "processes", num_workers=2) as backend:
        order(plan, "kill", shard=1, at=9)
        for turn in range(6):
            assert contents(backend.collect()) == contents(serial.collect()), turn
        assert was_sprung(plan)
        assert len(gather_events(backend, "worker_lost")) == 1
