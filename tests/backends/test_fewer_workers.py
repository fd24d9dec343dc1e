"""Fewer workers than requested, down to none: the run continues, reports it, and plays the same games."""

import os
import re
import signal
from pathlib import Path

import pytest

from senju.workers import fork_server
from tests.backends.common import (
    PLAN,
    changed,
    gather_events,
    oracle,
    pid_of,
    play,
    started,
    wait_for_workers,
    workers_of,
)
from tests.backends.trap_games import trap_plan
from tests.facts import assert_mentions


@pytest.mark.slow
def test_fewer_workers_where_no_more_can_start_and_none_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = trap_plan(tmp_path)
    with started(plan, "processes", num_workers=1) as backend:
        found = play(backend, plan, 1)
        with monkeypatch.context() as patched:
            patched.setattr("sys.executable", "/no/such/python")
            backend.team.resize(3)
            found += play(backend, plan, 2, first=1)
            wait_for_workers(backend, 1)
            first, second = gather_events(backend, "fewer_workers")
            assert_mentions(first, "2 of 3 workers")
            assert_mentions(second, "1 of 3 workers")
            os.kill(pid_of(backend, 0), signal.SIGKILL)
            found += play(backend, plan, 3, first=2)
            [message] = gather_events(backend, "sequential")
            assert_mentions(message, "worker 0", "[Errno 2] No such file")
            assert [worker.pid for worker in workers_of(backend)] == [None]
            backend.team.reset()
            found += play(backend, plan, 4, first=3)
        backend.team.resize(2)  # there is room again
        found += play(backend, plan, 5, first=4)
        wait_for_workers(backend, 2)
        assert pid_of(backend, 1)
        assert found == oracle(plan, 5)


UNUSABLE = {
    "is not there": (None, "[Errno 2]"),
    "ends at once": ("exit 7", "5 times"),
    "never gets ready": ("exec sleep 1000", "5 times"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("command", "expected"), UNUSABLE.values(), ids=UNUSABLE)
def test_machine_that_can_start_no_process_plays_in_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str | None, expected: str
) -> None:
    executable = tmp_path / "python"
    if command is not None:
        executable.write_text(f"#!/bin/sh\n{command}\n")
        executable.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(executable))
    monkeypatch.setattr(fork_server, "_LOAD_SECONDS", 1.0)
    with started(PLAN, "processes", num_workers=2, start_timeout=0.1, worker_timeout=1) as backend:
        assert play(backend, PLAN, 3) == oracle(PLAN, 3)
        events = backend.report().events
        assert [event.kind for event in events if event.kind not in ("worker_lost", "worker_hung")] == [
            "fewer_workers",
            "sequential",
        ]
        assert expected in events[-1].message
        assert [worker.pid for worker in workers_of(backend)] == [None]


@pytest.mark.slow
def test_worker_without_memory_leaves_its_place_empty(tmp_path: Path) -> None:
    plan = changed(
        PLAN,
        game={"name": "tests.backends.script_games:Greedy", "folder": str(tmp_path), "spared": os.getpid()},
    )
    with started(plan, "processes", num_workers=2) as backend:
        assert play(backend, plan, 2) == oracle(PLAN, 2)
        [message] = gather_events(backend, "fewer_workers")
        assert re.search(r"worker \d \(process \d+\) .*out of memory", message)
        assert_mentions(message, "1 of 2 workers")
        assert len(workers_of(backend)) == 1
