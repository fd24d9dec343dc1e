"""Healing: whatever happens to workers, and whenever, the rollouts are the serial backend's."""

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from senju.backends.backend import Backend, Plan
from senju.backends.reproduction import Reproduction
from senju.errors import ModelError, WorkerError
from tests.backends.common import (
    PLAN,
    Restartable,
    contents,
    gather_events,
    oracle,
    pid_of,
    play,
    publish_turn,
    started,
    wait_for_workers,
    wait_until,
    weights_of,
    workers_of,
)
from tests.backends.trap_games import call_off, order, was_sprung

TURNS = 5
HAS_HUNG = "gave no sign of life for"


def trap_plan(folder: Path) -> Plan:
    """A small plan of the game that goes wrong on demand, but never in this process."""
    return Plan(
        game={"name": "tests.backends.trap_games:Trap", "folder": str(folder), "spared": os.getpid()},
        model={"name": "mlp", "hidden": [8]},
        seed=8,
        num_shards=3,
        games_per_shard=2,
        rollout_steps=4,
        folder=str(folder),
    )


@pytest.fixture(scope="module")
def shared_team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    plan = trap_plan(tmp_path_factory.mktemp("traps"))
    team = Restartable(plan, "processes", num_workers=2, worker_timeout=0.5)
    yield team
    team.backend.close()


@pytest.fixture
def plan(shared_team: Restartable) -> Iterator[Plan]:
    yield shared_team.plan
    call_off(shared_team.plan)


@pytest.fixture
def team(shared_team: Restartable, plan: Plan) -> Backend:
    """Two worker processes at the start of a plan, that count as hung after half a second."""
    wait_for_workers(shared_team.backend, 2)
    return shared_team.from_the_start()


GOES_WRONG = {
    "raises": ("raise", "step", r"RuntimeError: the trap is sprung\nTraceback .*trap_games\.py"),
    "exits": ("exit", "step", "ended with exit code 3 while"),
    "crashes": ("segfault", "step", r"signal 11 \(SIGSEGV\); it said:\n.*Segmentation fault.*in spring"),
    "is killed in the middle": ("kill", "step", r"signal 9 \(SIGKILL: by kill -9 or the like\) while"),
    "is killed with its slot full": ("kill", "observe", r"signal 9 \(SIGKILL"),
    "is killed before it hands over": ("kill", "sending", r"signal 9 \(SIGKILL"),
    "is killed in mid-message": ("half_sent", "sending", r"signal 9 \(SIGKILL"),
    "is stopped": ("stop", "step", HAS_HUNG),
    "hangs": ("hang", "step", rf"{HAS_HUNG} \d\.\d s while .*; it was at:\n.*in spring"),
    "hangs with Python's lock": ("hang_in_c", "step", rf"{HAS_HUNG} .*; it was at:\n.*in spring"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "where", "expected"), GOES_WRONG.values(), ids=GOES_WRONG)
def test_rollout_of_a_worker_that_goes_wrong_is_played_again(
    team: Backend, plan: Plan, kind: str, where: str, expected: str
) -> None:
    before = team.status().restarts
    found = play(team, plan, 2)
    # in the third rollout of shard 1: its second step, or what comes after its last
    order(plan, kind, shard=1, at=12 if where == "observe" else 9, where=where)
    found += play(team, plan, TURNS, first=2)
    assert was_sprung(plan)
    assert found == oracle(plan, TURNS)
    [message] = gather_events(team, "replay")
    assert re.search(r"worker \d.* shard 1 \(rows 2 to 3\), rollout \d+, seed 8", message, re.DOTALL)
    assert re.search(expected, message, re.DOTALL), message
    assert message.endswith("It is played again, exactly.")
    assert team.status().restarts == before + (kind != "raise")


@pytest.mark.slow
def test_idle_worker_that_is_killed_is_replaced_before_anybody_collects(team: Backend, plan: Plan) -> None:
    found = play(team, plan, 2)
    pid, before = pid_of(team, 1), team.status().restarts
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: pid_of(team, 1) != pid)
    [message] = gather_events(team, "worker_lost")
    assert f"worker 1 (process {pid}) was killed by signal 9" in message
    assert team.status().restarts == before + 1
    assert found + play(team, plan, TURNS, first=2) == oracle(plan, TURNS)


@pytest.mark.slow
def test_workers_that_are_killed_while_they_start_are_replaced(team: Backend, plan: Plan) -> None:
    for _ in range(2):
        for index in (0, 1):
            pid = pid_of(team, index)
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda index=index, pid=pid: pid_of(team, index) != pid)  # type: ignore[misc]
    assert {worker.state for worker in workers_of(team)} == {"starting"}
    assert play(team, plan, TURNS) == oracle(plan, TURNS)
    assert len(gather_events(team, "worker_lost")) == 4


@pytest.mark.slow
def test_worker_that_is_killed_while_weights_are_published_is_replaced(team: Backend, plan: Plan) -> None:
    """One thread publishes the same weights again and again, and each time workers take them anew."""
    found, is_over = [], threading.Event()

    def publish(turn: int) -> None:
        weights = weights_of(plan, plan.seed + turn)
        while not is_over.is_set():
            team.publish(weights, version=turn)

    for turn in range(TURNS):
        publish_turn(team, plan, turn)
        is_over.clear()
        publisher = threading.Thread(target=publish, args=(turn,))
        publisher.start()
        if turn == 2:
            order(plan, "kill", shard=1, at=9)
            os.kill(pid_of(team, 0), signal.SIGKILL)
        found.append(contents(team.collect()))
        is_over.set()
        publisher.join()
    assert found == oracle(plan, TURNS)
    assert was_sprung(plan)


@pytest.mark.slow
def test_sleeping_caller_and_pauses_are_no_reason_to_replace_workers(team: Backend, plan: Plan) -> None:
    before = team.status().restarts
    found = play(team, plan, 2)
    time.sleep(1.5)  # three times what makes a worker count as hung
    found += play(team, plan, 3, first=2)
    team.pause()
    time.sleep(1.5)
    assert {worker.state for worker in workers_of(team)} == {"paused"}
    team.resume()
    assert found + play(team, plan, TURNS, first=3) == oracle(plan, TURNS)
    assert team.status().restarts == before
    assert team.take_events() == []


@pytest.mark.slow
def test_paused_worker_that_dies_is_replaced_by_a_paused_one(team: Backend, plan: Plan) -> None:
    team.pause([1])
    pid = pid_of(team, 1)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: pid_of(team, 1) != pid)
    wait_for_workers(team, 2)
    assert workers_of(team)[1].state == "paused"
    assert play(team, plan, 2) == oracle(plan, 2)


@pytest.mark.slow
def test_resizing_and_resetting_in_mid_run_change_no_byte(team: Backend, plan: Plan) -> None:
    found, pids = play(team, plan, 1), {pid_of(team, 0)}
    team.resize(1)
    found += play(team, plan, 2, first=1)
    wait_for_workers(team, 1)
    team.reset([0])
    found += play(team, plan, 3, first=2)
    team.resize(3)
    found += play(team, plan, 4, first=3)
    wait_for_workers(team, 3)
    assert pid_of(team, 0) not in pids
    found += play(team, plan, 5, first=4)
    team.resize(2)
    assert found + play(team, plan, 6, first=5) == oracle(plan, 6)
    wait_for_workers(team, 2)
    assert team.take_events() == []


@pytest.mark.slow
def test_worker_that_comes_while_all_are_paused_waits_too(team: Backend, plan: Plan) -> None:
    team.pause()
    team.resize(3)
    wait_for_workers(team, 3)
    assert {worker.state for worker in workers_of(team)} == {"paused"}
    assert team.collect(timeout=0.1) == []
    team.resize(2)
    team.resume()
    assert play(team, plan, 2) == oracle(plan, 2)


@pytest.mark.slow
def test_what_workers_print_is_logged_however_much_it_is(
    team: Backend, plan: Plan, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    order(plan, "print", shard=1, at=2)
    assert play(team, plan, 2) == oracle(plan, 2)
    assert re.search(r"worker \d: x{1000}\n", caplog.text)


SLOW_PLAN = replace(PLAN, rollout_steps=400, num_shards=4)  # rollouts take about a tenth of a second


@pytest.fixture(scope="module")
def victims() -> Iterator[Restartable]:
    team = Restartable(SLOW_PLAN, "processes", num_workers=2, shard_attempts=1000, worker_timeout=0.5)
    yield team
    team.backend.close()


attacks = st.lists(
    st.tuples(
        st.integers(0, 2),  # the turn
        st.floats(0.0, 0.3),  # seconds after its beginning
        st.integers(0, 1),  # the worker
        st.sampled_from([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP]),
    ),
    min_size=1,
    max_size=3,
)


@pytest.mark.slow
@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(schedule=attacks)
def test_no_schedule_of_kills_changes_a_byte(
    victims: Restartable, schedule: list[tuple[int, float, int, signal.Signals]]
) -> None:
    backend = victims.from_the_start()

    def attack(index: int, number: signal.Signals) -> None:
        pids = [worker.pid for worker in workers_of(backend) if worker.index == index and worker.pid]
        for pid in pids:
            os.kill(pid, number)

    for turn, expected in enumerate(oracle(SLOW_PLAN, 3)):
        publish_turn(backend, SLOW_PLAN, turn)
        timers = [
            threading.Timer(delay, attack, (index, number))
            for when, delay, index, number in schedule
            if when == turn
        ]
        for timer in timers:
            timer.start()
        assert contents(backend.collect()) == expected
        for timer in timers:
            timer.join()


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


ASYNC = [("threads", 1), ("threads", 3), pytest.param("processes", 1, marks=pytest.mark.slow)]


@pytest.mark.parametrize(("name", "max_lag"), ASYNC)
def test_workers_play_ahead_up_to_the_bound_and_drop_nothing(name: str, max_lag: int) -> None:
    plan = replace(PLAN, max_lag=max_lag)
    with started(plan, name, num_workers=2, worker_timeout=0.5) as backend:
        lags = lag_of(backend, plan, 8)
        assert min(lags) == 0
        assert max(lags) == max_lag, "they did not play ahead, or too far"
        played = [worker.rollouts for worker in workers_of(backend)]
        assert sum(played) == (8 + max_lag) * plan.num_shards
        activities = backend.take_activities()
        expected = [(turn, shard) for turn in range(8 + max_lag) for shard in range(plan.num_shards)]
        assert sorted((a.turn, a.shard) for a in activities) == expected, "each once, and none left out"
        time.sleep(1.0)  # nobody collects: they wait, and do not count as hung
        assert is_at_rest(backend, plan)
        assert backend.take_events() == []


@pytest.mark.parametrize("max_lag", [1, 3])
def test_playing_ahead_with_unchanged_weights_gives_the_serial_bytes(max_lag: int) -> None:
    plan = replace(PLAN, max_lag=max_lag)
    with started(plan) as serial, started(plan, "threads", num_workers=2) as backend:
        for turn in range(6):
            assert contents(backend.collect()) == contents(serial.collect()), turn
            if turn == 3:
                backend.restore(serial.snapshot())  # what was played ahead is forgotten
        assert backend.snapshot()[1].clock.tobytes() == serial.snapshot()[1].clock.tobytes()


@pytest.mark.slow
def test_async_worker_that_dies_loses_nothing(tmp_path: Path) -> None:
    plan = replace(trap_plan(tmp_path), max_lag=2)
    with started(plan) as serial, started(plan, "processes", num_workers=2) as backend:
        order(plan, "kill", shard=1, at=9)
        for turn in range(6):
            assert contents(backend.collect()) == contents(serial.collect()), turn
        assert was_sprung(plan)
        assert len(gather_events(backend, "replay")) == 1


@pytest.mark.parametrize("name", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
def test_worker_is_replaced_after_its_interval(name: str) -> None:
    with started(PLAN, name, num_workers=1, reset_interval=4) as backend:
        assert play(backend, PLAN, 3) == oracle(PLAN, 3)  # nine rollouts
        assert sum(worker.rollouts for worker in workers_of(backend)) == 9
        assert backend.take_events() == [], "nothing a person need know"


def raising(plan: Plan, spared: int) -> Plan:
    return replace(plan, game=plan.game | {"spared": spared})


def test_shard_that_always_fails_is_set_aside_with_what_reproduces_it(tmp_path: Path) -> None:
    plan = trap_plan(tmp_path)
    armed = raising(plan, spared=0)
    with started(armed, "threads", num_workers=2, shard_attempts=2) as backend:
        order(plan, "raise", shard=1, at=9, always=True)
        found = play(backend, plan, TURNS)
        expected = oracle(plan, TURNS)
        without_shard_1 = [[content for content in turn if content[0] != 1] for turn in expected]
        assert found == expected[:2] + without_shard_1[2:]
        assert backend.status().set_aside == (1,)
        assert len(gather_events(backend, "replay")) == 1
    path = tmp_path / "failed-shards" / "shard-1-rollout-2-version-2.safetensors"
    reproduction = Reproduction.load(path)
    assert (reproduction.shard, reproduction.turn, reproduction.version) == (1, 2, 2)
    assert "the trap is sprung" in reproduction.cause
    assert reproduction.weights.tobytes() == weights_of(plan, plan.seed + 2).tobytes()
    with pytest.raises(RuntimeError, match="the trap is sprung"):
        reproduction.play()
    call_off(plan)
    reproduction.play()


def test_message_of_a_shard_set_aside_says_what_to_do(tmp_path: Path) -> None:
    plan = trap_plan(tmp_path)
    with started(raising(plan, spared=0), "threads", num_workers=1, shard_attempts=1) as backend:
        order(plan, "raise", shard=1, at=1, always=True)
        backend.collect()
        [message] = gather_events(backend, "set_aside")
    path = tmp_path / "failed-shards" / "shard-1-rollout-0-version-0.safetensors"
    assert message.startswith(
        "shard 1 failed 1 times and is set aside; the last time: "
        "worker 0, shard 1 (rows 2 to 3), rollout 0, seed 8: RuntimeError: the trap is sprung\nTraceback"
    )
    assert message.endswith(
        f"Run it alone with: senju reproduce {path}\nTraining goes on with 2 of 3 shards."
    )


def test_reproduction_that_cannot_be_written_is_said_and_stops_nothing(tmp_path: Path) -> None:
    plan = trap_plan(tmp_path)
    (tmp_path / "failed-shards").write_text("in the way")
    with started(raising(plan, spared=0), "threads", num_workers=1, shard_attempts=1) as backend:
        order(plan, "raise", shard=1, at=1, always=True)
        assert [rollout.shard for rollout in backend.collect()] == [0, 2]
        [message] = gather_events(backend, "set_aside")
    assert "What is needed to run it alone is lost: " in message


def test_failing_shard_stops_the_run_where_that_is_asked_for(tmp_path: Path) -> None:
    plan = trap_plan(tmp_path)
    with started(
        raising(plan, spared=0), "threads", num_workers=1, shard_attempts=1, failing_shard="stop"
    ) as backend:
        order(plan, "raise", shard=1, at=5, always=True)
        backend.collect()
        for _ in range(2):  # it does not go away
            with pytest.raises(
                WorkerError, match=r"(?s)shard 1 failed 1 times.*failing_shard=set_aside would"
            ):
                backend.collect()


@pytest.mark.slow
def test_processes_go_on_without_shards_that_kill_them_until_none_is_left(tmp_path: Path) -> None:
    plan = trap_plan(tmp_path)
    expected = oracle(plan, 3)
    with started(plan, "processes", num_workers=2, shard_attempts=2) as backend:
        for shard, kind, turn in ((0, "exit", 0), (2, "segfault", 1)):
            order(plan, kind, shard=shard, at=4 * turn + 1, always=True)
            publish_turn(backend, plan, turn)
            found = contents(backend.collect())
            assert found == [content for content in expected[turn] if content[0] in ({1, 2}, {1})[turn]]
        assert backend.status().set_aside == (0, 2)
        assert len(gather_events(backend, "set_aside")) == 2
        order(plan, "raise", shard=1, at=9, always=True)
        with pytest.raises(WorkerError, match=r"(?s)shard 1 failed 2 times.*No shard is left to play"):
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
        assert backend.take_events() == [], "nothing was tried again"


@pytest.mark.slow
def test_fewer_workers_where_no_more_can_be_had_and_none_at_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = trap_plan(tmp_path)
    with started(plan, "processes", num_workers=1) as backend:
        found = play(backend, plan, 1)
        with monkeypatch.context() as patched:
            patched.setattr("sys.executable", "/no/such/python")
            backend.resize(3)
            found += play(backend, plan, 2, first=1)
            wait_for_workers(backend, 1)
            assert [message.rpartition("; ")[2] for message in gather_events(backend, "fewer_workers")] == [
                "going on with 2 of 3 workers",
                "going on with 1 of 3 workers",
            ]
            os.kill(pid_of(backend, 0), signal.SIGKILL)
            found += play(backend, plan, 3, first=2)
            [message] = gather_events(backend, "sequential")
            assert "worker 0 cannot be started: [Errno 2] No such file" in message
            assert message.endswith("going on in this process alone, one rollout after another")
            assert [worker.pid for worker in workers_of(backend)] == [None]
            backend.reset()
            found += play(backend, plan, 4, first=3)
        backend.resize(2)  # there is room again
        found += play(backend, plan, 5, first=4)
        wait_for_workers(backend, 2)
        assert pid_of(backend, 1)
        assert found == oracle(plan, 5)


UNUSABLE = {
    "is not there": (None, "cannot be started: [Errno 2]"),
    "ends at once": ("exit 7", "ended 5 times before it was ready"),
    "never gets ready": ("exec sleep 1000", "ended 5 times before it was ready"),
}


@pytest.mark.parametrize(("command", "expected"), UNUSABLE.values(), ids=UNUSABLE)
def test_machine_that_can_start_no_process_plays_in_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str | None, expected: str
) -> None:
    executable = tmp_path / "python"
    if command is not None:
        executable.write_text(f"#!/bin/sh\n{command}\n")
        executable.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(executable))
    with started(PLAN, "processes", num_workers=2, start_timeout=0.1) as backend:
        assert play(backend, PLAN, 3) == oracle(PLAN, 3)
        events = backend.take_events()
        assert [event.kind for event in events if event.kind not in ("worker_lost", "worker_hung")] == [
            "fewer_workers",
            "sequential",
        ]
        assert expected in events[-1].message
        assert [worker.pid for worker in workers_of(backend)] == [None]


@pytest.mark.slow
def test_worker_without_memory_leaves_its_place_empty(tmp_path: Path) -> None:
    plan = replace(
        PLAN,
        game={"name": "tests.backends.script_games:Greedy", "folder": str(tmp_path), "spared": os.getpid()},
    )
    with started(plan, "processes", num_workers=2) as backend:
        assert play(backend, plan, 2) == oracle(PLAN, 2)
        [message] = gather_events(backend, "fewer_workers")
        assert re.search(r"worker \d \(process \d+\) ran out of memory", message)
        assert message.endswith("going on with 1 of 2 workers")
        assert len(workers_of(backend)) == 1


Act = Callable[[Backend], None]


@pytest.mark.parametrize("max_lag", [0, 2])
def test_nothing_is_lost_when_the_caller_is_interrupted_while_it_waits(max_lag: int, tmp_path: Path) -> None:
    """Ctrl-C while waiting: whoever catches it and collects again finds everything."""
    plan = replace(trap_plan(tmp_path), max_lag=max_lag)
    armed = raising(plan, spared=0)
    with started(plan) as serial, started(armed, "threads", num_workers=2) as backend:
        order(plan, "wait", shard=1, at=5)
        assert contents(backend.collect()) == contents(serial.collect())
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            backend.collect()
        (tmp_path / "go").touch()
        for _ in range(3):
            assert contents(backend.collect()) == contents(serial.collect())
