"""Forked processes are like spawned ones."""

import os
import select
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from senju.workers import fork_server
from senju.workers.channel import Kind, Message
from senju.workers.fork_server import ForkedProcess, ForkServerLease, SpawnedProcess
from senju.workers.process import ProcessHandle
from senju.workers.role import WorkerEnding
from tests.backends.common import is_alive
from tests.facts import assert_mentions
from tests.workers.self_describing import SelfDescribing

pytestmark = pytest.mark.slow


OPTIONS = {"task_timeout": 60.0, "script": None, "imports": ""}


def new_handle(index: int = 0, descriptors: tuple[int, ...] = ()) -> ProcessHandle:
    return ProcessHandle(SelfDescribing(descriptors), index, OPTIONS)


@contextmanager
def started_process(
    index: int = 0, descriptors: tuple[int, ...] = ()
) -> Iterator[tuple[ProcessHandle, dict[str, Any]]]:
    """A process, and its description of itself."""
    handle = new_handle(index, descriptors)
    try:
        assert select.select([handle.channel], [], [], 60.0)[0], "no message"
        note = handle.channel.receive()
        assert note is not None
        assert note.kind == Kind.NOTE, note
        yield handle, note.values
    finally:
        handle.kill()
        handle.wait()
        handle.close()


def fork_server_pid() -> int:
    assert fork_server._shared.server is not None
    return fork_server._shared.server._process.pid


def test_forked_process_is_like_a_spawned_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = []
    with (tmp_path / "file").open("w") as file:
        for kind in (ForkedProcess, SpawnedProcess):
            with started_process(3, (file.fileno(),)) as (handle, description):
                assert isinstance(handle._process, kind)
                assert handle.output is not None
                found.append(description)
                assert description["pid"] == description["group"] == handle.pid
                assert description["files"] == [os.fstat(file.fileno()).st_ino]
                assert os.read(handle.output, 100) == b"started\n"
            monkeypatch.setattr(fork_server, "CAN_FORK", False)
    assert found[0]["parent"] == fork_server_pid()
    assert found[1]["parent"] == os.getpid()
    assert [each["folder"] for each in found] == [str(tmp_path)] * 2
    assert [each["index"] for each in found] == [3, 3]


@pytest.mark.parametrize("can_fork", [True, False])
def test_how_a_process_ended_is_known(can_fork: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server, "CAN_FORK", can_fork)
    with started_process() as (handle, _):
        handle.channel.send(Message(Kind.TASK, 1, 7))
        ending = handle.wait()
        assert ending == handle.wait() == WorkerEnding(ending.how)
        assert_mentions(ending.how, "exit code 7")
        handle.kill()  # its number may belong to another process now
    with started_process() as (handle, _):
        os.kill(handle.pid or 0, signal.SIGTERM)
        ending = handle.wait()
        assert ending == WorkerEnding(ending.how, was_killed=True)
        assert_mentions(ending.how, "signal 15 (SIGTERM)")


def test_no_two_processes_draw_the_same_numbers() -> None:
    with started_process() as (_, one), started_process() as (_, other):
        assert not set(one["drawn"]) & set(other["drawn"])


def test_processes_are_spawned_after_the_environment_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_TEST", "1")
    with started_process() as (handle, found):
        assert isinstance(handle._process, SpawnedProcess)
        assert found["variable"] == "1"


def test_processes_are_forked_after_torch_has_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its compiler sets variables of its own, as when a learner compiles its first step on a GPU."""
    before = set(os.environ)
    torch.compile(lambda numbers: numbers * 2, backend="inductor")(torch.ones(3))
    changed = [name for name in os.environ if name not in before]
    for name in ("_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR", "TORCHINDUCTOR_OTHER", "TRITON_OTHER"):
        monkeypatch.setenv(name, "1")
    with started_process() as (handle, _):
        assert isinstance(handle._process, ForkedProcess), changed


def test_process_starts_in_a_folder_that_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "removed"
    folder.mkdir()
    with monkeypatch.context() as patch:
        patch.chdir(folder)
        folder.rmdir()
        handle = new_handle()
        assert isinstance(handle._process, SpawnedProcess)
        handle.kill()
        handle.wait()
        handle.close()


def test_lost_fork_server_is_replaced_and_its_processes_live_on(caplog: pytest.LogCaptureFixture) -> None:
    with started_process() as (orphan, _):
        lost = psutil.Process(fork_server_pid())
        lost.kill()
        lost.wait()
        assert is_alive(orphan.pid or 0)
        with started_process() as (handle, _):
            assert isinstance(handle._process, SpawnedProcess)
        assert "fork server" in caplog.text
        with started_process() as (handle, found):
            assert isinstance(handle._process, ForkedProcess)
            assert found["parent"] == fork_server_pid() != lost.pid
        orphan.kill()
        assert orphan.wait().was_killed
    assert not is_alive(orphan.pid or 0)


def test_answer_to_an_interrupted_request_is_not_taken_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with started_process():
        before = fork_server_pid()
    with monkeypatch.context() as patch:
        patch.setattr(socket, "recv_fds", interrupt)
        with pytest.raises(KeyboardInterrupt):
            new_handle()
    assert not is_alive(before)
    with started_process() as (handle, found):
        assert isinstance(handle._process, ForkedProcess)
        assert found["pid"] == handle.pid


def test_fork_server_ends_with_its_last_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server, "_shared", fork_server._Shared())
    with closing(ForkServerLease()) as first, closing(ForkServerLease()):
        pid = fork_server_pid()
        first.close()
        first.close()
        assert is_alive(pid)
        with started_process() as (handle, _):
            assert isinstance(handle._process, ForkedProcess)
    assert not is_alive(pid)
    with started_process() as (handle, _):
        assert isinstance(handle._process, SpawnedProcess)
