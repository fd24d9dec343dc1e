"""Shards that fail again and again are set aside, and errors of senju's own come at once."""

import threading
from pathlib import Path

import numpy as np
import pytest

from senju.backends.backend import Backend, Plan
from senju.backends.reproduction import Reproduction
from senju.errors import ModelError, WorkerError
from tests.backends.common import (
    PLAN,
    Content,
    contents,
    gather_events,
    oracle,
    play,
    publish_turn,
    started,
    wait_until,
    weights_of,
)
from tests.backends.trap_games import call_off, order, trap_plan
from tests.facts import assert_mentions, mentions

TURNS = 5


def test_shard_that_always_fails_is_set_aside_with_what_reproduces_it(tmp_path: Path) -> None:
    plan = trap_plan(tmp_path)
    armed = trap_plan(tmp_path, spared=0)
    with started(armed, "threads", num_workers=2, shard_attempts=2) as backend:
        order(plan, "raise", shard=1, at=9, always=True)
        found = play(backend, plan, TURNS)
        expected = oracle(plan, TURNS)
        without_shard_1 = [[content for content in turn if content[0] != 1] for turn in expected]
        assert found == expected[:2] + without_shard_1[2:]
        assert backend.status().set_aside == (1,)
        assert len(gather_events(backend, "worker_failed")) == 1
    path = tmp_path / "failed-shards" / "shard-1-rollout-2-version-2.safetensors"
    reproduction = Reproduction.load(path)
    assert (reproduction.shard, reproduction.turn, reproduction.version) == (1, 2, 2)
    assert "the trap is sprung" in reproduction.cause
    assert reproduction.weights.tobytes() == weights_of(plan, plan.seed + 2).tobytes()
    with pytest.raises(RuntimeError, match="the trap is sprung"):
        reproduction.play()
    call_off(plan)
    reproduction.play()


@pytest.mark.parametrize("is_called_before", [False, True])
def test_collect_goes_on_with_the_next_turn_when_the_last_shards_of_one_are_set_aside(
    is_called_before: bool, tmp_path: Path
) -> None:
    """Whether the caller waits already, or calls after that: without a timeout it gets rollouts."""
    armed = trap_plan(tmp_path, spared=0)
    found: list[list[Content]] = []
    with started(armed, "threads", num_workers=1, shard_attempts=1) as backend:
        order(armed, "wait", shard=2, at=1)
        while len(found) < 2:
            found += [contents([rollout]) for rollout in backend.collect(timeout=0.05)]
        order(armed, "raise", shard=2, at=2, always=True)
        caller = threading.Thread(target=lambda: found.append(contents(backend.collect())))
        if is_called_before:
            caller.start()
        (tmp_path / "go").touch()
        if not is_called_before:
            wait_until(lambda: backend.status().set_aside)
            caller.start()
        caller.join()
    with started(trap_plan(tmp_path)) as serial:
        expected = [contents(serial.collect())[:2] for _ in range(2)]
    assert found == [*([content] for content in expected[0]), expected[1]]


def test_message_of_a_shard_set_aside_says_what_to_do(tmp_path: Path) -> None:
    plan = trap_plan(tmp_path)
    with started(trap_plan(tmp_path, spared=0), "threads", num_workers=1, shard_attempts=1) as backend:
        order(plan, "raise", shard=1, at=1, always=True)
        backend.collect()
        [message] = gather_events(backend, "set_aside")
    path = tmp_path / "failed-shards" / "shard-1-rollout-0-version-0.safetensors"
    where = ("worker 0", "shard 1 (rows 2 to 3)", "rollout 0", "seed 8")
    assert_mentions(message, "1 times", where, "RuntimeError: the trap is sprung", "Traceback")
    assert_mentions(message, f"senju reproduce {path}", "2 of 3 shards")


def test_reproduction_that_cannot_be_written_is_reported_and_stops_nothing(tmp_path: Path) -> None:
    plan = trap_plan(tmp_path)
    (tmp_path / "failed-shards").write_text("in the way")
    with started(trap_plan(tmp_path, spared=0), "threads", num_workers=1, shard_attempts=1) as backend:
        order(plan, "raise", shard=1, at=1, always=True)
        assert [rollout.shard for rollout in backend.collect()] == [0, 2]
        [message] = gather_events(backend, "set_aside")
    assert "failed-shards" in message


def test_failing_shard_stops_the_run_where_that_is_asked_for(tmp_path: Path) -> None:
    plan = trap_plan(tmp_path)
    with started(
        trap_plan(tmp_path, spared=0), "threads", num_workers=1, shard_attempts=1, failing_shard="stop"
    ) as backend:
        order(plan, "raise", shard=1, at=5, always=True)
        backend.collect()
        for _ in range(2):  # it does not go away
            with pytest.raises(WorkerError, match=mentions("shard 1", "1 times", "failing_shard=set_aside")):
                backend.collect()


@pytest.mark.slow
def test_processes_go_on_without_shards_that_kill_them_until_none_is_left(tmp_path: Path) -> None:
    plan = trap_plan(tmp_path)
    expected = oracle(plan, 3)
    with started(plan, "processes", num_workers=2, shard_attempts=1) as backend:
        for shard, kind, turn in ((0, "exit", 0), (2, "segfault", 1)):
            order(plan, kind, shard=shard, at=4 * turn + 1, always=True)
            publish_turn(backend, plan, turn)
            found = contents(backend.collect())
            assert found == [content for content in expected[turn] if content[0] in ({1, 2}, {1})[turn]]
        assert backend.status().set_aside == (0, 2)
        assert len(gather_events(backend, "set_aside")) == 2
        order(plan, "raise", shard=1, at=9, always=True)
        with pytest.raises(WorkerError, match=mentions("shard 1", "1 times", "No shard")):
            backend.collect()
    assert len(list((tmp_path / "failed-shards").iterdir())) == 3


@pytest.mark.parametrize("name", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
def test_weights_that_are_not_finite_are_a_clear_error_at_once(name: str) -> None:
    with started(PLAN, name, num_workers=1) as backend:
        backend.collect()
        weights = weights_of(PLAN, 0).view(np.float32)
        weights.fill(np.nan)
        backend.publish(weights.view(np.uint8), version=1)
        with pytest.raises(
            ModelError, match=r"\(worker 0, shard 0 \(rows 0 to 3\), rollout 1, seed 8\)"
        ) as raised:
            backend.collect()
        assert "Traceback" in raised.value.__notes__[0], "the worker's own"
        assert backend.report().events == [], "nothing was tried again"


@pytest.mark.slow
def test_worker_killed_from_outside_again_and_again_is_not_its_shards_fault(tmp_path: Path) -> None:
    plan = trap_plan(tmp_path)
    with started(plan, "processes", num_workers=1, shard_attempts=1) as backend:
        order(plan, "kill", shard=1, at=1, always=True)
        killed = threading.Thread(target=call_off_after, args=(backend, plan, 3))
        killed.start()
        assert contents(backend.collect()) == oracle(plan, 1)[0]
        killed.join()
        assert backend.status().set_aside == ()


def call_off_after(backend: Backend, plan: Plan, restarts: int) -> None:
    wait_until(lambda: backend.status().team.restarts == restarts)
    call_off(plan)
