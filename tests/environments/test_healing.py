"""A process that dies or hangs is replaced, the result is the same, and nothing is left behind."""

import itertools
import os
import re
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from senju.environments.environment import ParallelEnvironment
from senju.errors import WorkerError
from senju.machine import available_cores, even_learners
from senju.trials.leftovers import process_resources
from tests.environments.meadow import Meadow, make_config
from tests.environments.runs import knowledge, learned
from tests.environments.traps import Doomed, Trapped
from tests.facts import assert_mentions

ROOT = Path(__file__).parents[2]


def is_alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def wait_for(condition: Any, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


TRAPS = ("kill-worker", "hang-worker", "kill-learner", "hang-learner")
KILLED = r"signal 9 \(SIGKILL.* during"
HUNG = r" 3\.\d s during"


@pytest.mark.slow
def test_killed_and_hung_processes_change_no_byte(tmp_path: Path) -> None:
    for name in TRAPS:  # sprung already
        (tmp_path / name).touch()
    env = ParallelEnvironment(Trapped, make_config(enabled=False) | {"trap": str(tmp_path)})
    env.run_experiment_parallel()
    expected = knowledge(env)
    for path in tmp_path.iterdir():
        path.unlink()
    parallel = {"num_workers": 2, "num_learners": 1, "timeout": 3.0}
    env = ParallelEnvironment(Trapped, make_config(**parallel) | {"trap": str(tmp_path)})
    result = env.run_experiment_parallel()
    assert knowledge(env) == expected
    said = "\n".join(result.events)
    assert re.search(rf"worker \d .*{KILLED} epoch 1 of copy 1", said)
    assert re.search(rf"worker \d .*{HUNG} epoch 2 of copy 1", said)
    assert re.search(rf"learner 0 .*{KILLED} agent 2 in epoch 1", said)
    assert re.search(rf"learner 0 .*{HUNG} agent 2 in epoch 2", said)


@pytest.mark.slow
def test_third_death_at_one_task_ends_the_run_and_leaves_nothing_behind(tmp_path: Path) -> None:
    before = process_resources(tmp_path)
    env = ParallelEnvironment(Doomed, make_config(num_workers=1, parallel_training=False, copies=1))
    with pytest.raises(WorkerError, match=r"epoch 0 of copy 0 failed 3 times.*exit code 5"):
        env.run_experiment_parallel()
    assert process_resources(tmp_path).beyond(before) == {}


@pytest.mark.slow
def test_interrupt_leaves_nothing_behind(tmp_path: Path) -> None:
    before = process_resources(tmp_path)
    env = ParallelEnvironment(Meadow, make_config(num_workers=1, parallel_training=False))

    def interrupt(_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)  # is interrupted

    with pytest.raises(KeyboardInterrupt):
        env.run_experiment_parallel(interrupt)
    assert process_resources(tmp_path).beyond(before) == {}


SCRIPT = """
    import os
    from senju.environments.environment import ParallelEnvironment
    from tests.environments.meadow import Forager, Meadow, Model, make_config

    class OwnModel(Model):
        pass

    class Own(Meadow):
        def __init__(self, config):
            super().__init__(config)
            self.agents = [Forager(OwnModel(50, 4)) for _ in range(3)]
            for agent in self.agents:
                agent.model.others = [OwnModel(2, 2)]  # made again by the process that receives them
                agent.model.sees = agent.pov  # stays as it is

    if __name__ == "__main__":
        parallel = {"async_learning": True, "num_workers": 1, "num_learners": 1}
        env = ParallelEnvironment(Own, make_config(epochs=10**6, **parallel))
        env.run_experiment_parallel(lambda report: print(report.epoch, flush=True))
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [["script.py"], ["-m", "script"]], ids=" ".join)
def test_script_runs_its_own_world_and_kill_9_leaves_no_process(how: list[str], tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *how]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env=environment, cwd=tmp_path, text=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "0\n"
        children = [child.pid for child in psutil.Process(parent.pid).children(recursive=True)]
        assert len(children) == 3  # a worker, a learner, and the fork server
        parent.kill()
        wait_for(lambda: not any(map(is_alive, children)))


@contextmanager
def free_descriptors(count: int) -> Iterator[None]:
    """Let this process open no more than so many files."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = set(map(int, os.listdir("/proc/self/fd")))
    free = itertools.accumulate(number not in used for number in itertools.count())
    limit = next(number for number, num_free in enumerate(free, 1) if num_free == count)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.slow
def test_too_few_descriptors_mean_fewer_workers() -> None:
    config = make_config(num_workers=3, parallel_training=False) | {"agents": 1}
    here = ParallelEnvironment(Meadow, make_config(enabled=False) | {"agents": 1})
    here.run_experiment_parallel()
    env = ParallelEnvironment(Meadow, config)
    with free_descriptors(28):
        result = env.run_experiment_parallel()
    assert_mentions(result.events[0], "worker 1", "started")
    assert knowledge(env) == knowledge(here)


@pytest.mark.slow
def test_too_little_memory_means_fewer_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = learned(enabled=False)
    monkeypatch.setattr("senju.workers.process.WORKER_BYTES", 2**60)
    env = ParallelEnvironment(Meadow, make_config(num_workers=2))
    result = env.run_experiment_parallel()
    about_workers, about_learners = result.events
    assert_mentions(about_workers, "memory", "1 of 2 workers")
    assert_mentions(about_learners, "memory", f"1 of {even_learners(3, available_cores())} learners")
    assert knowledge(env) == expected
