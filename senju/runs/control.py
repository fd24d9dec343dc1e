"""Live control: a run in training answers commands over a Unix socket in its folder.

with ControlServer(run.path, answer):           # in the trainer: answer(command, arguments) -> dict
    ...
ask(Path("runs/mine"), "pause")                 # from another terminal

One JSON line goes in, `{"command": "pause", "arguments": {}}`, and one comes back, `{"ok": true, …}` or
`{"ok": false, "error": "…"}`. Only the owner of the run can open the socket.
"""

import json
import logging
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from time import monotonic
from typing import Any

from pydantic import Field, create_model

from senju.config import Part, nearest, validated
from senju.errors import ControlError, SenjuError
from senju.files import describe_os_error
from senju.runs.run_folder import RunFolder
from senju.runs.run_socket import connect, listening, read_line, require_owner, send_message

logger = logging.getLogger(__name__)

MAX_REQUEST, MAX_ANSWER = 2**16, 2**24  # bytes
MAX_CLIENTS = 16  # answered at once
CLIENT_SECONDS = 5.0  # for a client to send its request, and again to read its answer
CLOSING_SECONDS = 10.0  # for answers that are unfinished when training ends
RETRY_SECONDS = 1.0  # until the next try, if no file descriptor was left for a client

Answer = dict[str, Any]


COMMANDS: dict[str, type[Part]] = {  # with their arguments
    "status": Part,
    # seconds until an answer, paused or not
    "pause": create_model("pause", __base__=Part, wait=(float, Field(30.0, ge=0, le=3600))),
    "resume": Part,
    # which ones; None: all of them
    "reset": create_model("reset", __base__=Part, workers=(tuple[int, ...] | None, None)),
    "workers": create_model("workers", __base__=Part, num_workers=(int, Field(ge=1, le=1024))),
}


class ControlServer:
    """Answers the commands of other processes while a run is trained; needs the run's lock.

    `answer` gets a known command with its checked arguments, each in a thread of its own, several at a time.
    A SenjuError that it raises becomes the client's ControlError.
    """

    def __init__(self, folder: Path, answer: Callable[[str, dict[str, Any]], Answer]) -> None:
        self.folder, self._answer = Path(folder), answer
        self._clients: dict[threading.Thread, socket.socket] = {}
        self._guard = threading.Lock()  # guards the clients; their sockets are closed while it is held
        self._end = ExitStack()

    def __enter__(self) -> "ControlServer":
        with ExitStack() as undo:  # last first
            undo.callback(self._let_clients_finish)
            listener = undo.enter_context(listening(self.folder))
            listener.setblocking(False)
            closed, close = socket.socketpair()
            undo.enter_context(closed)
            # daemon: no failure here may keep a finished run from ending
            serve = partial(self._serve, listener, closed)
            thread = threading.Thread(target=serve, name="control", daemon=True)
            thread.start()
            undo.callback(thread.join)
            undo.callback(close.close)  # ends the thread
            self._end = undo.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Take no more clients, remove the socket, let unfinished answers finish; may be called twice."""
        self._end.close()

    def _serve(self, listener: socket.socket, closed: socket.socket) -> None:
        closed.settimeout(RETRY_SECONDS)
        while closed not in wait([listener, closed]):  # needs no file descriptor: there may be none left
            try:
                connection, _ = listener.accept()
            except (BlockingIOError, ConnectionError):
                continue  # the client went away again
            except OSError as error:
                logger.warning("a client cannot be answered: %s", describe_os_error(error))
                with suppress(TimeoutError):
                    closed.recv(1)  # wait before the next try; returns early when the server closes
                continue
            self._accept(connection)

    def _accept(self, connection: socket.socket) -> None:
        connection.settimeout(CLIENT_SECONDS)
        with self._guard:
            if len(self._clients) < MAX_CLIENTS:
                serve = partial(self._serve_client, connection)
                thread = threading.Thread(target=serve, name="control-client", daemon=True)
                thread.start()
                self._clients[thread] = connection
                return
        with connection, suppress(OSError):
            reason = f"{MAX_CLIENTS} others are being answered; ask again in a moment"
            send_message(connection, {"ok": False, "error": reason})

    def _serve_client(self, connection: socket.socket) -> None:
        try:
            line = read_line(connection, MAX_REQUEST, monotonic() + CLIENT_SECONDS)
            if line:  # empty: the client only checked that the run is alive
                answer = self._answer_to(connection, line)
                connection.settimeout(CLIENT_SECONDS)
                send_message(connection, answer)
        except OSError as error:
            logger.debug("a client went away: %s", error)
        finally:
            with self._guard, connection:  # so that no other thread shuts it down meanwhile
                del self._clients[threading.current_thread()]

    def _answer_to(self, connection: socket.socket, line: bytes) -> Answer:
        try:
            require_owner(connection)
            return {"ok": True, **self._answer(*_parse_request(line))}
        except SenjuError as error:
            return {"ok": False, "error": str(error)}

    def _let_clients_finish(self) -> None:
        deadline = monotonic() + CLOSING_SECONDS
        with self._guard:
            clients = list(self._clients)
            for connection in self._clients.values():
                with suppress(OSError):  # the client has gone
                    connection.shutdown(socket.SHUT_RD)  # no more requests; an answer can still be sent
        for thread in clients:
            thread.join(max(0.0, deadline - monotonic()))
            with self._guard:
                if thread in self._clients:
                    logger.warning("a command was still being executed when the run ended; it gets no answer")
                    with suppress(OSError):
                        self._clients[thread].shutdown(socket.SHUT_RDWR)


def _parse_request(line: bytes) -> tuple[str, dict[str, Any]]:
    """A known command and its arguments, completed by their defaults."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        request = None
    if not line.endswith(b"\n") or not isinstance(request, dict):
        raise ControlError(
            f"expected one line of JSON of at most {MAX_REQUEST} bytes, got {len(line)}: {line[:40]!r}"
        )
    command, arguments = request.get("command"), request.get("arguments", {})
    if not isinstance(command, str) or not isinstance(arguments, dict):
        raise ControlError('expected {"command": "…", "arguments": {…}}, ' + f"got {line[:80]!r}")
    if command not in COMMANDS:
        raise ControlError(f"unknown command {command!r}; {nearest(command, COMMANDS)}")
    return command, validated(COMMANDS[command], arguments, command).model_dump()


def ask(folder: Path, command: str, timeout: float = 60.0, **arguments: Any) -> Answer:
    """Send a command to the run in `folder` and return its answer; ControlError says why there is none."""
    answer = ask_if_trained(folder, command, timeout, **arguments)
    if answer is None:
        raise ControlError(f"{folder} is not being trained now; go on with: senju train --resume {folder}")
    return answer


def ask_if_trained(folder: Path, command: str, timeout: float = 60.0, **arguments: Any) -> Answer | None:
    """Like `ask`, but None where the run is not being trained."""
    folder, deadline = Path(folder), monotonic() + timeout
    connection = connect(folder, timeout)
    if connection is None:
        RunFolder(folder)  # raises if the folder is not a run
        return None
    with connection:
        try:
            send_message(connection, {"command": command, "arguments": arguments})
            line = read_line(connection, MAX_ANSWER, deadline)
        except TimeoutError:
            raise ControlError(
                f"{folder} did not answer {command!r} within {timeout:g} seconds; it may be suspended or "
                "busy: ask again, or look at its terminal"
            ) from None
    if line.endswith(b"\n"):
        answer: Answer = json.loads(line)
        if answer.pop("ok"):
            return answer
        raise ControlError(answer["error"])
    again = connect(folder, timeout)
    if again is None:
        return None  # training has ended meanwhile
    again.close()
    raise ControlError(f"{folder} gave no answer to {command!r}; its terminal says why")
