"""Live control: real sockets, misbehaving clients, other users, killed runs, and an end without hangs."""

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from senju.errors import ControlError, RunFolderError
from senju.runs import control, run_socket
from senju.runs.control import ControlServer, ask, ask_if_trained
from senju.runs.run import Run
from senju.runs.run_socket import SOCKET
from tests.facts import Facts, assert_mentions, mentions

SECONDS = 60.0


def echo(command: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"command": command, "arguments": arguments}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ControlServer]:
    """Answers with what it was asked."""
    with ControlServer(tmp_path, echo) as server:
        yield server


@pytest.fixture
def idle_run(tic_tac_toe_run: Run, tmp_path: Path) -> Path:
    """A run that no process trains."""
    return Path(shutil.copytree(tic_tac_toe_run.path, tmp_path / "idle"))


def call(folder: Path, sent: bytes, *, ends: bool = False) -> bytes:
    """What comes back for raw bytes."""
    connection = run_socket.connect(folder, SECONDS)
    assert connection is not None
    with connection:
        try:
            connection.sendall(sent)
            if ends:
                connection.shutdown(socket.SHUT_WR)
        except ConnectionError:
            pass  # refused before all was sent
        return run_socket.read_line(connection, 2**20, time.monotonic() + SECONDS)


@pytest.mark.parametrize(
    ("command", "arguments", "expected"),
    [
        ("status", {}, {}),
        ("pause", {}, {"wait": 30.0}),
        ("pause", {"wait": 1.5}, {"wait": 1.5}),
        ("resume", {}, {}),
        ("reset", {}, {"workers": None}),
        ("reset", {"workers": [0, 2]}, {"workers": [0, 2]}),
        ("workers", {"num_workers": 3}, {"num_workers": 3}),
    ],
)
def test_command_arrives_with_its_arguments_and_the_answer_comes_back(
    server: ControlServer, command: str, arguments: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert ask(server.folder, command, **arguments) == {"command": command, "arguments": expected}


@pytest.mark.parametrize(
    ("command", "arguments", "expected"),
    [
        ("paus", {}, ("command 'paus'", "'pause'")),
        ("explode", {}, ("'explode'", "pause, reset, resume, status, workers")),
        ("workers", {}, "workers.num_workers"),
        ("workers", {"num_workers": 0}, "workers.num_workers=0"),
        ("workers", {"num_workers": "many"}, "workers.num_workers='many'"),
        ("workers", {"num_worker": 2}, ("'workers.num_worker'", "'num_workers'")),
        ("reset", {"workers": "all"}, "reset.workers='all'"),
        ("pause", {"wait": float("nan")}, "pause.wait=nan"),
        ("status", {"loud": True}, "unknown setting 'status.loud'"),
    ],
)
def test_wrong_command_is_explained_and_not_executed(
    tmp_path: Path, command: str, arguments: dict[str, Any], expected: Facts
) -> None:
    def refuse(command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        pytest.fail("was asked")

    with ControlServer(tmp_path, refuse), pytest.raises(ControlError) as caught:
        ask(tmp_path, command, **arguments)
    assert_mentions(str(caught.value), expected)


def test_error_of_the_run_is_raised_at_the_client(tmp_path: Path) -> None:
    def answer(command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        raise RunFolderError("worker 7 of 3: expected 0 to 2")

    with ControlServer(tmp_path, answer), pytest.raises(ControlError) as caught:
        ask(tmp_path, "reset", workers=[7])
    assert str(caught.value) == "worker 7 of 3: expected 0 to 2"


def test_unforeseen_error_leaves_its_client_without_an_answer_and_serves_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", errors.append)

    def answer(command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"state": {"running"} if command == "status" else "running"}  # a set is not JSON

    with ControlServer(tmp_path, answer):
        with pytest.raises(ControlError, match="'status'"):
            ask(tmp_path, "status")
        assert ask(tmp_path, "resume") == {"state": "running"}
    assert [error.exc_type for error in errors] == [TypeError]


@pytest.mark.parametrize(
    "sent",
    [
        b"hello\n",
        b"\n",
        b"\xff\xfe\n",
        b"[" * 60_000 + b"\n",
        b"3\n",
        b"[]\n",
        b"{}\n",
        b'{"command": 3}\n',
        b'{"command": "status", "arguments": []}\n',
        b'{"command": "status"\n',
        b"x" * 200_000,
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=lambda sent: repr(sent[:30]),
)
def test_garbage_is_refused_and_does_no_harm(server: ControlServer, sent: bytes) -> None:
    reply = json.loads(call(server.folder, sent))
    assert reply["ok"] is False
    assert reply["error"].startswith("expected ")
    assert ask(server.folder, "status")["command"] == "status"


def test_request_cut_off_is_refused(server: ControlServer) -> None:
    reply = json.loads(call(server.folder, b'{"command": "status"}', ends=True))
    assert (reply["ok"], "expected one line" in reply["error"]) == (False, True)


def test_only_the_first_line_of_a_connection_is_answered(server: ControlServer) -> None:
    reply = json.loads(call(server.folder, b'{"command": "status"}\n{"command": "pause"}\n'))
    assert reply == {"ok": True, "command": "status", "arguments": {}}


def test_silent_clients_neither_block_others_nor_the_end(tmp_path: Path) -> None:
    with ControlServer(tmp_path, echo) as server:
        silent = [run_socket.connect(tmp_path, SECONDS) for _ in range(3)]
        assert ask(tmp_path, "status")["command"] == "status"
        server.close()
    for connection in silent:
        assert connection is not None
        with connection:
            assert connection.recv(1) == b""


def trickle(connection: socket.socket) -> None:
    """Send byte after byte, each in time, but never a whole line; ends when the other side has closed."""
    connection.settimeout(0.002)
    while True:
        try:
            connection.send(b" ")
            assert connection.recv(1) == b""
        except TimeoutError:
            continue
        except ConnectionError:
            pass
        return


def test_client_that_never_finishes_its_line_is_sent_away(
    server: ControlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "CLIENT_SECONDS", 0.05)
    connection = run_socket.connect(server.folder, SECONDS)
    assert connection is not None
    with connection:
        trickle(connection)


def test_many_are_answered_at_once(tmp_path: Path) -> None:
    together = threading.Barrier(8, timeout=SECONDS)

    def answer(command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"place": together.wait()}

    with ControlServer(tmp_path, answer), ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: ask(tmp_path, "status"), range(8)))
    assert sorted(answer["place"] for answer in answers) == list(range(8))


class Slow:
    """An answer that takes until it is let go."""

    def __init__(self) -> None:
        self.is_asked, self.may_answer = threading.Event(), threading.Event()

    def __call__(self, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self.is_asked.set()
        assert self.may_answer.wait(SECONDS)
        return {"state": "paused"}


@pytest.fixture
def slow() -> Iterator[Slow]:
    slow = Slow()
    yield slow
    slow.may_answer.set()
    for thread in threading.enumerate():
        if thread.name == "control-client":
            thread.join(SECONDS)


def test_one_client_too_many_is_asked_to_try_again(
    tmp_path: Path, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "MAX_CLIENTS", 1)
    with ControlServer(tmp_path, slow), ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask, tmp_path, "pause")
        assert slow.is_asked.wait(SECONDS)
        with pytest.raises(ControlError, match="1 others"):
            ask(tmp_path, "status")
        slow.may_answer.set()
        assert first.result(SECONDS) == {"state": "paused"}


def test_answer_that_takes_too_long_is_not_waited_for(tmp_path: Path, slow: Slow) -> None:
    with ControlServer(tmp_path, slow):
        with pytest.raises(ControlError, match=r"'pause'.*0\.05 seconds"):
            ask(tmp_path, "pause", timeout=0.05)
        slow.may_answer.set()


def test_answer_under_way_at_the_end_still_arrives(tmp_path: Path, slow: Slow) -> None:
    server = ControlServer(tmp_path, slow)
    with server, ThreadPoolExecutor(2) as pool:
        asked = pool.submit(ask, tmp_path, "pause")
        assert slow.is_asked.wait(SECONDS)
        closed = pool.submit(server.close)
        while (tmp_path / SOCKET).exists():  # no other client can ask any more
            assert not closed.done()
        slow.may_answer.set()
        assert asked.result(SECONDS) == {"state": "paused"}
        closed.result(SECONDS)


def test_answer_that_never_ends_does_not_keep_the_run_from_ending(
    idle_run: Path, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "CLOSING_SECONDS", 0.01)
    with ThreadPoolExecutor(1) as pool:
        with ControlServer(idle_run, slow):
            asked = pool.submit(ask, idle_run, "pause")
            assert slow.is_asked.wait(SECONDS)
        with pytest.raises(ControlError, match=mentions("not being trained", str(idle_run))):
            asked.result(SECONDS)


def test_socket_of_a_client_is_not_closed_while_the_server_shuts_it_down(tmp_path: Path) -> None:
    """The number of a descriptor closed meanwhile could be another file's by then."""
    were_open: list[bool] = []

    class Watched(socket.socket):
        def shutdown(self, how: int, /) -> None:
            client.shutdown(socket.SHUT_RDWR)  # the thread that attends to it would finish now
            for thread in [each for each in threading.enumerate() if each.name == "control-client"]:
                thread.join(0.2)
            were_open.append(self.fileno() >= 0)
            super().shutdown(how)

    ours, theirs = socket.socketpair()
    with ours as client, ControlServer(tmp_path, echo) as server:
        server._accept(Watched(fileno=theirs.detach()))
    assert were_open == [True]


def test_end_leaves_no_thread_no_file_and_may_come_twice(tmp_path: Path) -> None:
    server = ControlServer(tmp_path, echo)
    descriptors = len(os.listdir("/dev/fd"))
    with server:
        ask(tmp_path, "status")
        server.close()
        server.close()
        assert [thread.name for thread in threading.enumerate() if "control" in thread.name] == []
    assert list(tmp_path.iterdir()) == []
    assert len(os.listdir("/dev/fd")) <= descriptors


def test_server_may_be_started_again(tmp_path: Path) -> None:
    server = ControlServer(tmp_path, echo)
    for _ in range(2):
        with server:
            assert ask(tmp_path, "resume")["command"] == "resume"


def test_run_that_is_not_trained_says_how_to_go_on(idle_run: Path) -> None:
    with pytest.raises(ControlError, match=mentions("not being trained", f"senju train --resume {idle_run}")):
        ask(idle_run, "pause")
    assert ask_if_trained(idle_run, "status") is None


@pytest.mark.parametrize("name", ["folder", "file", "nothing"])
def test_what_is_not_a_run_is_refused_as_everywhere(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match=r"not a run.*config\.yaml"):
        ask(tmp_path / name, "status")


def test_socket_can_be_opened_by_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    for umask in (0o000, 0o777):
        before = os.umask(umask)
        try:
            with ControlServer(tmp_path, echo):
                assert stat.S_IMODE((tmp_path / SOCKET).stat().st_mode) == 0o600
                assert ask(tmp_path, "status")["command"] == "status"
        finally:
            os.umask(before)


ASK_AS_OTHER_USER = """
import os
import sys
from pathlib import Path

from senju.errors import ControlError
from senju.runs.control import ask

os.setgroups([])
os.setegid(65534)
os.seteuid(65534)
try:
    print(ask(Path(sys.argv[1]), "status"))
except ControlError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its user")
def test_other_user_is_kept_out_by_the_mode_and_by_the_server() -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        folder = Path(name)
        folder.chmod(0o755)

        def answer_to_other_user() -> str:
            command = [sys.executable, "-c", ASK_AS_OTHER_USER, name]
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
            return done.stdout

        with ControlServer(folder, echo):
            assert "another user" in answer_to_other_user()
            (folder / SOCKET).chmod(0o666)
            assert re.search("user 65534.*user 0", answer_to_other_user())


def test_folder_with_a_very_long_path_is_no_obstacle(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 50) / ("path" * 50)
    folder.mkdir(parents=True)
    with ControlServer(folder, echo):
        assert ask(folder, "status")["command"] == "status"
    assert list(folder.iterdir()) == []


def test_elsewhere_than_on_linux_a_short_path_works_and_a_long_one_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_socket, "DESCRIPTORS", Path("/nowhere"))
    with tempfile.TemporaryDirectory() as name:
        with ControlServer(Path(name), echo):
            assert ask(Path(name), "status")["command"] == "status"
        folder = Path(name) / ("long" * 30)
        folder.mkdir()
        for use in (lambda: ControlServer(folder, echo).__enter__(), lambda: ask(folder, "status")):
            with pytest.raises(ControlError, match=mentions("too long", "socket", "bytes", str(folder))):
                use()


def test_folder_moved_while_training_is_found_where_it_is(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    with ControlServer(here, echo):
        here.rename(there)
        assert ask(there, "status")["command"] == "status"
    assert list(there.iterdir()) == []


def test_socket_that_is_no_longer_ours_is_left_alone(tmp_path: Path) -> None:
    with ControlServer(tmp_path, echo) as first:
        with ControlServer(tmp_path, lambda command, arguments: {"second": True}):
            first.close()
            assert ask(tmp_path, "status") == {"second": True}
        assert not (tmp_path / SOCKET).exists()


def test_something_else_of_that_name_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / SOCKET).write_text("mine")
    with pytest.raises(ControlError, match="expected a socket"):
        ControlServer(tmp_path, echo).__enter__()
    assert (tmp_path / SOCKET).read_text() == "mine"


def test_folder_that_vanished_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ControlError, match=mentions("control.sock", "No such file")):
        ControlServer(tmp_path / "gone", echo).__enter__()


SERVER = """
import sys
from pathlib import Path

from senju.runs.control import ControlServer

with ControlServer(Path(sys.argv[1]), lambda command, arguments: {"command": command}):
    print("ready", flush=True)
    for line in sys.stdin:
        exec(line)
        print("done", flush=True)
"""

StartServer = Callable[[Path], "subprocess.Popen[str]"]


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    """Starts a server as a process of its own, which does what it is typed; none outlives the test."""
    processes: list[subprocess.Popen[str]] = []

    def start(folder: Path) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        expect(process, "ready")
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def expect(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline().strip() == line, process.communicate(timeout=SECONDS)


def type_in(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    expect(process, "done")


def test_socket_has_its_name_only_once_it_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that finds it is never refused, which would mean that the run has ended."""
    had_name = []

    class Listener(socket.socket):
        def listen(self, backlog: int = 128) -> None:
            had_name.append((tmp_path / SOCKET).exists())
            super().listen(backlog)

    monkeypatch.setattr(run_socket.socket, "socket", Listener)
    for _ in range(2):
        with ControlServer(tmp_path, echo):
            assert ask(tmp_path, "status") == {"command": "status", "arguments": {}}
            assert [path.name for path in tmp_path.iterdir()] == [SOCKET]
    assert had_name == [False, False]


@pytest.mark.slow
def test_socket_of_a_killed_run_counts_for_nothing_and_is_replaced(
    start_server: StartServer, idle_run: Path
) -> None:
    process = start_server(idle_run)
    assert ask(idle_run, "status") == {"command": "status"}
    process.send_signal(signal.SIGKILL)
    process.wait(SECONDS)
    assert (idle_run / SOCKET).is_socket()
    with pytest.raises(ControlError, match=mentions("not being trained", str(idle_run))):
        ask(idle_run, "status")
    with ControlServer(idle_run, echo):
        assert ask(idle_run, "resume") == {"command": "resume", "arguments": {}}
    assert not (idle_run / SOCKET).exists()


@pytest.mark.slow
def test_suspended_run_is_reported_not_to_answer_and_answers_later(
    start_server: StartServer, tmp_path: Path
) -> None:
    process = start_server(tmp_path)
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(ControlError, match=r"'pause' within"):
        ask(tmp_path, "pause", timeout=0.05)
    process.send_signal(signal.SIGCONT)
    assert ask(tmp_path, "status") == {"command": "status"}


@pytest.mark.slow
def test_run_without_a_free_file_descriptor_answers_when_it_has_one_again(
    start_server: StartServer, tmp_path: Path
) -> None:
    process = start_server(tmp_path)
    type_in(process, "import os, resource; before = resource.getrlimit(resource.RLIMIT_NOFILE)")
    type_in(process, "num_open = len(os.listdir('/dev/fd')) - 1")  # one was for looking
    type_in(process, "resource.setrlimit(resource.RLIMIT_NOFILE, (num_open, before[1]))")
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask, tmp_path, "status")
        assert process.stderr is not None
        assert_mentions(process.stderr.readline(), "client", "Too many open files")
        assert not asked.done()
        type_in(process, "resource.setrlimit(resource.RLIMIT_NOFILE, before)")
        assert asked.result(SECONDS) == {"command": "status"}
