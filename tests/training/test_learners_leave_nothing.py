"""Nothing is left of learner processes: no process, no shared memory, no file, however a run ends."""

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from senju.training.learner_processes import LearnerProcesses
from tests.backends.common import children_of_this_process, is_alive, wait_until
from tests.backends.test_nothing_left import NOTICED_WITHIN, ROOT, nothing_is_left, open_files
from tests.training.learner_worlds import (
    PLAN,
    PPO,
    VIEW,
    agents,
    in_processes,
    pids_of,
    wait_for_pids,
    world_of,
)
from tests.training.trap_models import order, was_sprung

pytestmark = pytest.mark.slow


def test_nothing_is_left_of_learners_that_are_ended_in_a_training(tmp_path: Path) -> None:
    before = children_of_this_process()
    with nothing_is_left():
        with world_of(agents(PPO, traps={0: tmp_path})) as world:
            order(tmp_path, "hang")
            with in_processes(world, 1, is_free_running=True) as runner:
                world.play()
                runner.learn(world.tasks())
                pids = pids_of(runner)
                wait_until(lambda: was_sprung(tmp_path))
                assert children_of_this_process() > before
        assert not any(map(is_alive, pids))
        del runner, world
        gc.collect()


def test_nothing_is_left_of_learners_that_are_dropped_without_an_end() -> None:
    files, threads = open_files(), threading.active_count()
    with world_of(agents(PPO)) as world:
        runner = LearnerProcesses(world.seats, 1)
        runner.share(PLAN, world.memory)
        runner.attach(world.rings, VIEW)
        pids = wait_for_pids(runner, 1)
        world.play()
        runner.learn(world.tasks())
    del runner, world
    gc.collect()
    wait_until(lambda: threading.active_count() == threads)
    assert not any(map(is_alive, pids))
    assert open_files() == files


SCRIPT = """
import sys, time
from pathlib import Path
from tests.training.learner_worlds import PPO, agents, in_processes, wait_for_pids, world_of
from tests.training.trap_models import order

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    with world_of(agents(PPO, PPO, traps={0: folder})) as world, in_processes(world, 2) as runner:
        order(folder, "wait")
        world.play()
        print(*wait_for_pids(runner, 2), flush=True)
        runner.learn(world.tasks())
"""


def test_learners_end_with_a_run_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        pids = [int(word) for word in run.stdout.readline().split()]
        assert len(pids) == 2
        wait_until(lambda: was_sprung(tmp_path))
        run.kill()
        run.wait(timeout=60)
        wait_until(lambda: not any(map(is_alive, pids)), seconds=NOTICED_WITHIN)
