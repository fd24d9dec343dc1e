"""What a game raises to end a program, and a fork that returns twice, are reported; its helpers end."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from senju.backends.backend import Plan
from senju.errors import WorkerError
from tests.backends.common import is_alive, pid_of, started, wait_until
from tests.backends.trap_games import order, trap_plan, was_sprung
from tests.environments.traps import HELPERS

BACKENDS = ["serial", "threads", "processes"]
STRICT = {"num_workers": 1, "shard_attempts": 1, "failing_shard": "stop"}
ENDS = {"leave": "SystemExit: 4", "interrupt": "KeyboardInterrupt: the", "generator": "GeneratorExit: the"}


def trapped(folder: Path) -> Plan:
    """A plan whose traps harm this process too."""
    return trap_plan(folder, spared=0)


def helpers_in(folder: Path) -> list[int]:
    return [int(path.name.removeprefix("helper-")) for path in folder.glob("helper-*")]


@pytest.fixture(autouse=True)
def nothing_outlives_a_test_that_fails(tmp_path: Path) -> Iterator[None]:
    yield
    for pid in filter(is_alive, helpers_in(tmp_path)):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("name", ["threads", "processes"])
@pytest.mark.parametrize("kind", ENDS)
def test_what_a_game_raises_to_end_the_program_is_reported(tmp_path: Path, name: str, kind: str) -> None:
    plan = trapped(tmp_path)
    with started(plan, name, **STRICT) as backend:
        order(plan, kind, shard=1, at=1, always=True)
        with pytest.raises(WorkerError, match=ENDS[kind]) as raised:
            backend.collect()
        assert "signal" not in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("leave", WorkerError), ("generator", WorkerError), ("interrupt", KeyboardInterrupt)],
)
def test_serial_backend_passes_on_an_interrupt_alone(
    tmp_path: Path, kind: str, expected: type[BaseException]
) -> None:
    plan = trapped(tmp_path)
    with started(plan) as backend:
        order(plan, kind, shard=1, at=1)
        with pytest.raises(expected):
            backend.collect()


@pytest.mark.parametrize("name", BACKENDS)
def test_game_that_forks_and_returns_twice_is_refused(tmp_path: Path, name: str) -> None:
    plan, pid = trapped(tmp_path), os.getpid()
    with started(plan, name, **({} if name == "serial" else STRICT)) as backend:
        order(plan, "fork", shard=1, at=1)
        with pytest.raises(WorkerError, match=r"os\.fork\(\) .*process \d+.* child, process \d+, .*returned"):
            backend.collect()
    assert os.getpid() == pid
    assert was_sprung(plan)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["closed", "killed", "replaced"])
def test_helpers_of_a_game_end_with_its_worker(tmp_path: Path, how: str) -> None:
    plan = trap_plan(tmp_path)
    with started(plan, "processes", num_workers=1) as backend:
        order(plan, "helpers", shard=1, at=1)
        backend.collect()
        helpers, worker = helpers_in(tmp_path), pid_of(backend, 0)
        assert len(helpers) == len(HELPERS)
        assert all(map(is_alive, helpers))
        if how == "killed":
            os.kill(worker, signal.SIGKILL)
        if how == "replaced":
            backend.team.reset()
        if how != "closed":
            wait_until(lambda: pid_of(backend, 0) != worker)
            wait_until(lambda: not any(map(is_alive, helpers)))
    wait_until(lambda: not any(map(is_alive, helpers)))
