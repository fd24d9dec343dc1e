"""Processes that are forked of one that has loaded everything are like those that are spawned."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from senju.backends.processes import nursery
from senju.backends.processes.hand import ChildHand
from senju.backends.processes.nursery import Forked, Kept, Spawned
from tests.backends.common import is_alive

pytestmark = pytest.mark.slow


@contextmanager
def born(index: int = 0, descriptors: tuple[int, ...] = ()) -> Iterator[tuple[ChildHand, dict[str, Any]]]:
    """A process, and what it tells of itself."""
    hand = ChildHand(index, "tests.backends.nursery_entries:tell", descriptors, (), b"{}")
    try:
        yield hand, hand.connection.recv()
    finally:
        hand.kill()
        hand.wait()
        hand.close()


def nursery_pid() -> int:
    assert nursery._shared.nursery is not None
    return nursery._shared.nursery._process.pid


def test_forked_process_is_like_a_spawned_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = []
    with (tmp_path / "file").open("w") as file:
        for kind in (Forked, Spawned):
            with born(3, (file.fileno(),)) as (hand, found):
                assert isinstance(hand._process, kind)
                assert hand.output is not None
                told.append(found)
                assert found["pid"] == found["group"] == hand.pid
                assert found["files"] == [os.fstat(file.fileno()).st_ino]
                assert os.read(hand.output, 100) == b"born\n"
            monkeypatch.setattr(nursery, "CAN_FORK", False)
    assert told[0]["parent"] == nursery_pid()
    assert told[1]["parent"] == os.getpid()
    assert [each["folder"] for each in told] == [str(tmp_path)] * 2
    assert [each["index"] for each in told] == [3, 3]


@pytest.mark.parametrize("can_fork", [True, False])
def test_how_a_process_ended_is_known(can_fork: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nursery, "CAN_FORK", can_fork)
    with born() as (hand, _):
        hand.connection.send(7)
        assert hand.wait() == hand.wait() == "ended with exit code 7"
        hand.kill()  # it is nobody's number now
    with born() as (hand, _):
        os.kill(hand.pid or 0, signal.SIGTERM)
        assert hand.wait() == "was killed by signal 15 (SIGTERM)"
        assert hand.was_killed


def test_no_two_processes_draw_the_same_numbers() -> None:
    with born() as (_, one), born() as (_, other):
        assert not set(one["drawn"]) & set(other["drawn"])


def test_where_the_environment_has_changed_processes_are_spawned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_TEST", "1")
    with born() as (hand, told):
        assert isinstance(hand._process, Spawned)
        assert told["variable"] == "1"


def test_folder_that_was_removed_is_no_reason_to_have_no_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "removed"
    folder.mkdir()
    with monkeypatch.context() as patch:
        patch.chdir(folder)
        folder.rmdir()
        hand = ChildHand(0, "tests.backends.nursery_entries:tell", [], (), b"{}")
        assert isinstance(hand._process, Spawned)
        hand.kill()
        hand.wait()
        hand.close()


def test_lost_nursery_costs_nothing_but_its_time(caplog: pytest.LogCaptureFixture) -> None:
    with born() as (orphan, _):
        lost = psutil.Process(nursery_pid())
        lost.kill()
        lost.wait()
        assert is_alive(orphan.pid or 0)
        with born() as (hand, _):
            assert isinstance(hand._process, Spawned)
        assert "is lost" in caplog.text
        with born() as (hand, told):
            assert isinstance(hand._process, Forked)
            assert told["parent"] == nursery_pid() != lost.pid
        orphan.kill()
        assert orphan.wait().startswith("was killed by signal 9")
    assert not is_alive(orphan.pid or 0)


def test_interrupted_request_is_not_taken_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with born():
        before = nursery_pid()
    with monkeypatch.context() as patch:
        patch.setattr(socket, "recv_fds", interrupt)
        with pytest.raises(KeyboardInterrupt):
            ChildHand(0, "tests.backends.nursery_entries:tell", [], (), b"{}")
    assert not is_alive(before)
    with born() as (hand, told):
        assert isinstance(hand._process, Forked)
        assert told["pid"] == hand.pid


def test_nursery_ends_with_the_last_that_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nursery, "_shared", nursery._Shared())
    with closing(Kept()) as first, closing(Kept()):
        pid = nursery_pid()
        first.close()
        first.close()
        assert is_alive(pid)
        with born() as (hand, _):
            assert isinstance(hand._process, Forked)
    assert not is_alive(pid)
    with born() as (hand, _):
        assert isinstance(hand._process, Spawned)
