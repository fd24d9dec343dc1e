"""The `senju` command itself: help, version, and errors without tracebacks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from senju.runs.run import Run
from senju.version import __version__
from tests.conftest import SENJU, Invoke, Options, Start
from tests.facts import Facts, assert_mentions

TWO_SHARDS = {"collect": {"games_per_shard": 16}}  # for two workers
COMMANDS = ["train", "evaluate", "play", "games", "doctor"]


def test_help_names_every_command(invoke: Invoke) -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    for command in COMMANDS:
        assert f" {command} " in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(invoke: Invoke, command: str) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert f"Usage: senju {command}" in result.stdout or f"{command} [OPTIONS]" in result.stdout
    assert "--help" in result.stdout


def test_version_is_shown(invoke: Invoke) -> None:
    result = invoke("--version")
    assert (result.exit_code, result.stdout) == (0, f"senju {__version__}\n")


def test_no_command_shows_the_help(invoke: Invoke) -> None:
    result = invoke()
    assert "Usage: " in result.stdout + result.stderr


def test_unknown_command_is_refused(invoke: Invoke) -> None:
    result = invoke("trian")
    assert result.exit_code == 2
    assert "trian" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["--version"], 0, f"senju {__version__}"),
        (["train", "conect_four"], 2, ("'conect_four'", "'connect_four'")),
        (["evaluate", "nothing"], 1, ("nothing", "not a run")),
    ],
)
def test_installed_command_answers_without_a_traceback(
    start_senju: Start, arguments: list[str], code: int, expected: Facts
) -> None:
    process = start_senju(*arguments)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert_mentions(errors if code else output, expected)
    assert (output if code else errors) == ""
    assert "Traceback" not in errors


INTERRUPTING = """
import atexit, os, signal, sys


class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            signal.raise_signal(signal.SIGINT)


sys.meta_path.insert(0, Interrupting())
if os.environ["INTERRUPT_AT"] == "end":
    atexit.register(signal.raise_signal, signal.SIGINT)
"""
MOMENTS = (
    "senju.cli.streams",
    "senju.errors",
    "senju.cli.app",
    "pydantic",
    "numba",
    "torch._C",
    "senju.training.trainer",
    "typer.rich_utils",
    "end",
)


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_ends_with_its_code_and_nothing_else(
    tmp_path: Path, start_senju: Start, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The signal comes while a module is being imported, or while Python ends."""
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTING)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[2]}")
    monkeypatch.setenv("INTERRUPT_AT", moment)
    process = start_senju("games", "--help")
    output, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (130, "")
    assert ("Usage" in output) == (moment == "end")


@pytest.mark.slow
def test_ctrl_c_is_ignored_where_the_shell_had_it_ignored(
    tmp_path: Path, start_senju: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + INTERRUPTING
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[2]}")
    monkeypatch.setenv("INTERRUPT_AT", "torch")
    process = start_senju("--version")
    assert process.communicate(timeout=120) == (f"senju {__version__}\n", "")
    assert process.returncode == 0


@pytest.mark.parametrize("command", ["games", "usi run", "--help"])
def test_removed_current_folder_is_a_clear_error(tmp_path: Path, command: str) -> None:
    line = f"mkdir gone && cd gone && rmdir ../gone && {SENJU} {command}"
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "current folder" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_package_is_light() -> None:
    """Until `main` begins, Ctrl-C is Python's: what is loaded before must take no time."""
    code = (
        "import re, sys; before = set(sys.modules); import senju.cli.main; print(*set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"senju", "senju.cli", "senju.cli.main", "senju.version"} <= set(done.stdout.split())
    assert set(done.stdout.split()) <= {"senju", "senju.cli", "senju.cli.main", "senju.version", "signal"}


def with_few_files(limit: str, folder: Path, *arguments: object) -> "subprocess.CompletedProcess[str]":
    line = f'ulimit {limit}; exec {SENJU} "$@"'
    done = subprocess.run(
        ["bash", "-c", line, "bash", *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr + done.stdout
    return done


@pytest.mark.parametrize("limit", [6, 16, 32, 63])
def test_too_few_open_files_are_a_clear_error(tmp_path: Path, limit: int) -> None:
    for arguments in (["train", "tic_tac_toe"], ["status", "run"], ["bench"], ["usi", "run"]):
        done = with_few_files(f"-n {limit}", tmp_path, *arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"may open {limit} (ulimit -n)" in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["-n 64", "-Sn 16"])
def test_few_open_files_are_enough_or_the_limit_is_raised(
    tmp_path: Path, small_options: Options, limit: str
) -> None:
    options = small_options(updates=2, **TWO_SHARDS)
    done = with_few_files(limit, tmp_path, "train", "tic_tac_toe", "--run", "new", *options, "--workers", 2)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_too_many_workers_for_the_open_files_are_fewer(tmp_path: Path, small_options: Options) -> None:
    options = small_options(updates=2, collect={"games_per_shard": 2})
    done = with_few_files(
        "-n 64", tmp_path, "train", "tic_tac_toe", "--run", "new", *options, "--workers", 16
    )
    assert done.returncode == 0, done.stderr
    assert "of 16 workers" in done.stderr


@pytest.mark.slow
def test_training_leaves_nothing_in_the_temporary_folder(
    tmp_path: Path, start_senju: Start, small_options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    options = small_options(updates=2, **TWO_SHARDS)
    process = start_senju("train", "tic_tac_toe", "--run", "new", *options, "--workers", 2)
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")
    assert list(temporary.iterdir()) == []


WITHOUT_PROC = "mount -t tmpfs none /proc || exit 77; exec"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["status --json", "train --workers 2", "doctor --json"])
def test_commands_work_without_proc(
    tmp_path: Path, tic_tac_toe_run: Run, small_options: Options, command: str
) -> None:
    name, *options = command.split()
    given = {"status": [str(tic_tac_toe_run.path)], "doctor": ["--game", "tic_tac_toe"]}
    given["train"] = ["tic_tac_toe", "--run", "new", *small_options(updates=2, **TWO_SHARDS)]
    arguments = [str(SENJU), name, *given[name], *options]
    done = subprocess.run(
        ["unshare", "-m", "bash", "-c", f'{WITHOUT_PROC} "$@"', "bash", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode == 77 or "unshare:" in done.stderr:
        pytest.skip(f"mounting is not permitted: {done.stderr.strip()}")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    if name == "doctor":
        found = json.loads(done.stdout)
        assert found["memory_bytes"] is None or found["memory_bytes"] < 2**62
        assert found["busy_cores"] is None
