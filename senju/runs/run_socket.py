"""A Unix socket in a run's folder that only the owner can open; messages are lines of JSON."""

import json
import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

from senju.errors import ControlError
from senju.files import DESCRIPTORS, describe_os_error, link_error

SOCKET = "control.sock"
_NOT_LISTENING = ".control"  # its name until it listens; shorter, so that its address fits as well
LONGEST_ADDRESS = 103  # bytes; the least that any system allows


@contextmanager
def listening(folder: Path) -> Iterator[socket.socket]:
    """A listening socket in `folder`; replaces one that a killed run left, and is removed at the end."""
    try:
        with ExitStack() as undo:
            descriptor = undo.enter_context(_opened(folder))
            listener = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            undo.callback(_remove_if_same, descriptor, _bind(listener, folder, descriptor))
            end = undo.pop_all()
    except OSError as error:
        raise ControlError(f"cannot make {folder / SOCKET}: {describe_os_error(error)}") from error
    with end:
        yield listener


def _bind(listener: socket.socket, folder: Path, descriptor: int) -> os.stat_result:
    """Make the socket's file; return its identity, to recognise it later."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(_stat(descriptor).st_mode):
            raise ControlError(f"{folder / SOCKET} is in the way: expected a socket or nothing; move it away")
        os.unlink(SOCKET, dir_fd=descriptor)
    with suppress(FileNotFoundError):
        os.unlink(_NOT_LISTENING, dir_fd=descriptor)
    listener.bind(_address(folder, descriptor, _NOT_LISTENING))
    # No client can connect before `listen`, so the mode is set in time.
    os.chmod(_NOT_LISTENING, 0o600, dir_fd=descriptor)
    listener.listen(128)
    # A client that finds the socket is never refused: it would take the run for one that has ended.
    os.rename(_NOT_LISTENING, SOCKET, src_dir_fd=descriptor, dst_dir_fd=descriptor)
    return _stat(descriptor)


def connect(folder: Path, timeout: float) -> socket.socket | None:
    """A connection to the run that listens in `folder`, or None if no process does."""
    with ExitStack() as undo:
        connection = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        connection.settimeout(timeout)
        try:
            with _opened(folder) as descriptor:
                address = _address(folder, descriptor)
                if stat.S_ISLNK(_stat(descriptor).st_mode):
                    raise link_error(folder / SOCKET)
                connection.connect(address)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            return None
        except PermissionError:
            raise ControlError(f"{folder} belongs to another user; only its owner can control it") from None
        except BlockingIOError:  # too many clients wait to be accepted
            raise ControlError(f"{folder} answers no client now; look at its terminal") from None
        except OSError as error:
            raise ControlError(f"cannot reach {folder}: {describe_os_error(error)}") from error
        undo.pop_all()
        return connection


def require_owner(connection: socket.socket) -> None:
    """Refuse other users, in case the file's mode has not kept them out."""
    if not hasattr(socket, "SO_PEERCRED"):
        return
    credentials = struct.Struct("iII")  # process, user, group
    content = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size)
    _, user, _ = credentials.unpack(content)
    if user not in (os.geteuid(), 0):
        raise ControlError(f"user {user} does not own this run; only user {os.geteuid()} can control it")


def send_message(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send one line of JSON; a peer that has closed the connection is no error."""
    with suppress(ConnectionError):
        connection.sendall(json.dumps(message).encode() + b"\n")


def read_line(connection: socket.socket, limit: int, deadline: float) -> bytes:
    """One line; without its newline if the sender ends before, or sends more than `limit` bytes.

    TimeoutError after the deadline, of `time.monotonic`.
    """
    content = b""
    with suppress(ConnectionError):
        while b"\n" not in content and len(content) <= limit:
            left = deadline - monotonic()
            if left <= 0:
                raise TimeoutError("no whole line in time")
            connection.settimeout(left)
            piece = connection.recv(2**16)
            if not piece:
                break
            content += piece
    line, newline, _ = content.partition(b"\n")
    return line + newline


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """A file descriptor of the folder, which stays the same folder wherever it is moved to."""
    descriptor = os.open(folder, os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY))
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _address(folder: Path, descriptor: int, name: str = SOCKET) -> str:
    """The socket's address: short on Linux, however long the folder's path is."""
    through = DESCRIPTORS / str(descriptor)
    if through.exists():
        return str(through / name)
    address = str(folder.absolute() / name)
    length = len(os.fsencode(address))
    if length > LONGEST_ADDRESS:
        limits = f"{length} bytes, at most {LONGEST_ADDRESS} here"
        raise ControlError(
            f"{address} is too long for a socket: {limits}; choose a folder with a shorter path"
        )
    return address


def _stat(descriptor: int) -> os.stat_result:
    return os.stat(SOCKET, dir_fd=descriptor, follow_symlinks=False)


def _remove_if_same(descriptor: int, expected: os.stat_result) -> None:
    with suppress(FileNotFoundError):
        if os.path.samestat(_stat(descriptor), expected):
            os.unlink(SOCKET, dir_fd=descriptor)
