"""Nothing is left of worker processes whose policies the training process evaluates, however it ends."""

import gc
import os
import signal
import threading
from pathlib import Path

import pytest

from senju.errors import WorkerError
from tests.backends.common import new_backend, pid_of, play, started, wait_until
from tests.backends.test_nothing_left import nothing_is_left, open_files
from tests.backends.trap_models import network_was_sprung, order_network, trapped_plan
from tests.facts import assert_mentions

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("kind", "error"), [("raise", "RuntimeError"), ("raise OSError", "FileNotFoundError")]
)
def test_network_that_raises_ends_the_training_at_once_with_its_traceback(
    tmp_path: Path, kind: str, error: str
) -> None:
    plan = trapped_plan(tmp_path)
    with nothing_is_left():
        with started(plan, "processes", num_workers=2) as backend:
            play(backend, plan, 1)
            order_network(plan, kind)
            with pytest.raises(WorkerError) as caught:
                backend.collect()
            text = str(caught.value)
            assert_mentions(text, "evaluating on cpu for worker", f"{error}: the trap is sprung")
            assert_mentions(text, "trap_models.py")
            with pytest.raises(WorkerError):
                backend.collect()
        del backend, caught


@pytest.mark.parametrize("is_closed", [True, False])
def test_nothing_is_left_of_a_backend(tmp_path: Path, is_closed: bool) -> None:
    """Also while a request is served, and if the backend is dropped."""
    plan = trapped_plan(tmp_path)
    with nothing_is_left():
        with started(plan, "processes", num_workers=2) as backend:
            play(backend, plan, 1)
            order_network(plan, "wait")
            backend.collect(timeout=0.01)
            wait_until(lambda: network_was_sprung(plan))
            threading.Timer(0.1, (tmp_path / "go").touch).start()
            if is_closed:
                backend.close()
            threads = [each for each in threading.enumerate() if "evaluation" in each.name]
            assert bool(threads) is not is_closed
        for thread in threads:
            thread.join(60.0)
        del backend


def test_many_losses_leave_no_file_open(tmp_path: Path) -> None:
    with started(trapped_plan(tmp_path), "processes", num_workers=1) as backend:
        backend.collect()
        files = len(open_files())
        for _ in range(2):
            pid = pid_of(backend, 0)
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda pid=pid: pid_of(backend, 0) != pid)  # type: ignore[misc]
        backend.collect()
        wait_until(lambda: len(open_files()) == files)


def test_workers_of_a_backend_that_is_dropped_end(tmp_path: Path) -> None:
    plan = trapped_plan(tmp_path)
    with nothing_is_left():
        backend = new_backend("processes", num_workers=2)
        backend.start(plan)
        play(backend, plan, 1)
        threads = [each for each in threading.enumerate() if "senju" in each.name]
        assert len(threads) == 3
        del backend
        gc.collect()
        for thread in threads:
            thread.join(60.0)
            assert not thread.is_alive()
        del thread, threads
