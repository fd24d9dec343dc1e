"""Nothing is left of learner processes: no process, no shared memory, no file, however a run ends."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.backends.common import children_of_this_process, is_alive, wait_until
from tests.backends.test_nothing_left import NOTICED_WITHIN, ROOT, nothing_is_left
from tests.training.learners.trap_models import order, was_sprung
from tests.training.learners.worlds import PPO, agents, in_processes, pids_of, world_of

pytestmark = pytest.mark.slow


def test_nothing_is_left_of_learners_that_are_ended_in_a_training(tmp_path: Path) -> None:
    before = children_of_this_process()
    with nothing_is_left():
        with world_of(agents(PPO, traps={0: tmp_path})) as world:
            order(tmp_path, "hang")
            with in_processes(world, 1, is_free_running=True) as way:
                world.play()
                way.learn(world.tasks())
                pids = pids_of(way)
                wait_until(lambda: was_sprung(tmp_path))
                assert children_of_this_process() > before
        assert not any(map(is_alive, pids))
        del way, world
        gc.collect()


SCRIPT = """
import sys, time
from pathlib import Path
from tests.training.learners.trap_models import order
from tests.training.learners.worlds import PPO, agents, in_processes, pids_of, world_of

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    with world_of(agents(PPO, PPO, traps={0: folder})) as world, in_processes(world, 2) as way:
        order(folder, "wait")
        world.play()
        print(*pids_of(way), flush=True)
        way.learn(world.tasks())
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
