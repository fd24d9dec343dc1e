"""Standard input and output that lack an encoding, room, a reader or the stream itself: no traceback."""

import json
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from senju.runs.run import Run
from tests.conftest import ENVIRONMENT, SENJU

pytestmark = pytest.mark.slow

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}


class Ended(NamedTuple):
    """How a command line ended."""

    code: int
    output: bytes
    errors: bytes


def in_shell(line: str, folder: Path, **environment: str) -> Ended:
    """Run a line of bash in which $senju is the command."""
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=folder,
        env=os.environ | ENVIRONMENT | {"senju": str(SENJU)} | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )
    for text in (done.stdout, done.stderr):
        for sign in ("Traceback", "Exception ignored", "❱"):
            assert sign.encode() not in text, text.decode()
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("command", ["train", "status"])
def test_help_is_printed_in_ascii(tmp_path: Path, command: str) -> None:
    ended = in_shell(f"$senju {command} --help", tmp_path, **ASCII)
    assert (ended.code, ended.errors) == (0, b"")
    assert ended.output.isascii()


@pytest.mark.parametrize("arguments", ["train --help", "games --json"])
def test_every_kind_of_output_may_be_full_or_unread_or_closed(tmp_path: Path, arguments: str) -> None:
    full = in_shell(f"$senju {arguments} > /dev/full", tmp_path)
    assert full.code == 1
    assert len(full.errors.splitlines()) == 1
    assert b"standard output" in full.errors
    assert in_shell(f"$senju {arguments} | true", tmp_path) == (141, b"", b"")
    assert in_shell(f"$senju {arguments} <&- >&- 2>&-", tmp_path) == (0, b"", b"")


def test_json_for_an_ascii_output_is_json_with_the_same_names(tmp_path: Path, tic_tac_toe_run: Run) -> None:
    for name in ("läuft—€", "😀"):
        (tmp_path / name).symlink_to(tic_tac_toe_run.path)
        ended = in_shell(f"$senju status {name} --json", tmp_path, PYTHONIOENCODING="ascii")
        assert ended.output.isascii()
        assert json.loads(ended.output)["run"] == name


def test_json_of_a_folder_whose_name_is_no_text_can_be_read(tmp_path: Path, tic_tac_toe_run: Run) -> None:
    os.symlink(tic_tac_toe_run.path, os.fsencode(tmp_path) + b"/\xff")
    ended = in_shell("$senju status $'\\xff' --json", tmp_path)
    assert (ended.code, ended.errors) == (0, b"")
    assert os.fsencode(json.loads(ended.output)["run"]) == b"\xff"


def test_table_for_an_ascii_output_escapes_what_it_cannot_encode(
    tmp_path: Path, tic_tac_toe_run: Run
) -> None:
    (tmp_path / "läuft—").symlink_to(tic_tac_toe_run.path)
    ended = in_shell("$senju status läuft—", tmp_path, PYTHONIOENCODING="ascii")
    assert ended.code == 0
    assert rb"l\xe4uft\u2014" in ended.output


@pytest.mark.parametrize(("option", "redirection"), [("", "> /dev/full"), ("--json", "| true")])
def test_training_ends_where_its_output_does(
    tmp_path: Path, small_options_text: str, option: str, redirection: str
) -> None:
    ended = in_shell(
        f"$senju train tic_tac_toe --run new {small_options_text} {option} {redirection}", tmp_path
    )
    assert ended.code == (1 if "full" in redirection else 141)
    assert (b"standard output" in ended.errors) == ("full" in redirection)


@pytest.fixture
def small_options_text(small_options: object) -> str:
    assert callable(small_options)
    return " ".join(f"'{option}'" for option in small_options(updates=2))


def test_closed_streams_leave_the_run_whole(tmp_path: Path, small_options_text: str) -> None:
    """Otherwise the run's own files would take the numbers of the streams, and get what is printed."""
    ended = in_shell(
        f"$senju train tic_tac_toe --run new {small_options_text} --workers 2 <&- >&- 2>&-", tmp_path
    )
    assert ended == (0, b"", b"")
    assert [record["update"] for record in Run(tmp_path / "new").metrics] == [1, 2]


@pytest.mark.parametrize("redirection", ["<&-", "< <(echo b2)"])
def test_game_ends_where_nothing_more_can_be_typed(tmp_path: Path, redirection: str) -> None:
    ended = in_shell(f"$senju play tic_tac_toe {redirection}", tmp_path)
    assert (ended.code, ended.errors) == (0, b"")
    assert b"Good-bye." in ended.output


def test_errors_that_cannot_be_written_keep_their_code(tmp_path: Path) -> None:
    assert in_shell("$senju train conect_four 2> /dev/full", tmp_path).code == 2
    assert in_shell("$senju evaluate nothing 2> /dev/full", tmp_path).code == 1
