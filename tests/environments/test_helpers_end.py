"""Processes that a user's world keeps end with the worker that started them, however that ends."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from senju.environments.environment import ParallelEnvironment
from senju.errors import WorkerError
from senju.workers import fork_server
from tests.environments.meadow import Meadow, make_config
from tests.environments.runs import knowledge
from tests.environments.test_healing import ROOT, is_alive, wait_for
from tests.environments.traps import HELPERS, Helped

PARALLEL = {"num_workers": 1, "parallel_training": False}


def helpers_in(folder: Path) -> list[int]:
    return [int(path.name.removeprefix("helper-")) for path in folder.glob("helper-*")]


def new_environment(folder: Path, then: str) -> ParallelEnvironment:
    special = {"trap": str(folder), "then": then, "spared": os.getpid()}
    return ParallelEnvironment(Helped, make_config(**PARALLEL) | special)


@pytest.fixture(autouse=True)
def nothing_outlives_a_test_that_fails(tmp_path: Path) -> Iterator[None]:
    yield
    for pid in filter(is_alive, helpers_in(tmp_path)):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("is_forked", [True, False], ids=["forked", "spawned"])
def test_helpers_live_through_the_run_change_nothing_and_end_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_forked: bool
) -> None:
    monkeypatch.setattr(fork_server, "CAN_FORK", is_forked)
    alive: list[int] = []
    env = new_environment(tmp_path, "go on")
    env.run_experiment_parallel(lambda _: alive.append(sum(map(is_alive, helpers_in(tmp_path)))))
    assert alive == [len(HELPERS)] * 3
    wait_for(lambda: not any(map(is_alive, helpers_in(tmp_path))))
    plain = ParallelEnvironment(Meadow, make_config(enabled=False))
    plain.run_experiment_parallel()
    assert knowledge(env) == knowledge(plain)


@pytest.mark.slow
def test_helpers_end_with_a_run_that_raises(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match="ZeroDivisionError: enough"):
        new_environment(tmp_path, "raise").run_experiment_parallel()
    assert len(helpers_in(tmp_path)) == len(HELPERS)
    wait_for(lambda: not any(map(is_alive, helpers_in(tmp_path))))


@pytest.mark.slow
def test_helpers_end_with_a_worker_that_is_killed(tmp_path: Path) -> None:
    """They are gone when its successor has played, which has helpers of its own."""
    alive: list[int] = []
    result = new_environment(tmp_path, "kill").run_experiment_parallel(
        lambda _: alive.append(sum(map(is_alive, helpers_in(tmp_path))))
    )
    assert "signal 9" in result.events[0]
    assert len(helpers_in(tmp_path)) == 2 * len(HELPERS)
    assert alive == [len(HELPERS)] * 3
    wait_for(lambda: not any(map(is_alive, helpers_in(tmp_path))))


SCRIPT = """
    import sys
    from senju.workers import fork_server
    from tests.environments.test_helpers_end import *

    if __name__ == "__main__":
        fork_server.CAN_FORK = sys.argv[2] == "forked"
        env = new_environment(Path(sys.argv[1]), "go on")
        env.run_experiment_parallel(lambda report: print(report.epoch, flush=True) or sys.stdin.read())
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["forked", "spawned"])
def test_helpers_end_with_a_run_that_is_killed(tmp_path: Path, how: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    command: list[Any] = [sys.executable, script, tmp_path, how]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"
        helpers = helpers_in(tmp_path)
        assert len(helpers) == len(HELPERS)
        assert all(map(is_alive, helpers))
        process.kill()
        wait_for(lambda: not any(map(is_alive, helpers)))
