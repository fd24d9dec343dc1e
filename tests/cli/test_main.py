"""The `senju` command itself: help, version, and errors without tracebacks."""

import pytest

from senju.version import __version__
from tests.conftest import Invoke, Start

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
        (["train", "conect_four"], 2, "did you mean 'connect_four'?"),
        (["evaluate", "nothing"], 1, "nothing is not a run"),
    ],
)
def test_installed_command_answers_without_a_traceback(
    start_senju: Start, arguments: list[str], code: int, expected: str
) -> None:
    process = start_senju(*arguments)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert expected in (errors if code else output)
    assert (output if code else errors) == ""
    assert "Traceback" not in errors
