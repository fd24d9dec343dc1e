"""`senju usi`: the engine as a command, and as a process that programs talk to."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from senju.runs.run import Run
from senju.version import __version__
from tests.conftest import SENJU, Invoke
from tests.facts import assert_mentions
from tests.usi.talk import PATIENCE, Talk, make_run

SAID = ("id ", "option name ", "usiok", "readyok", "info ", "bestmove ")


@pytest.fixture(scope="module")
def shogi_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of Shogi whose folder and game are not the usual ones; not to be written to."""
    return make_run(tmp_path_factory.mktemp("runs") / "将棋 run", max_plies=300, declaration="24", history=1)


@pytest.mark.slow
def test_engine_answers_on_standard_output(invoke: Invoke, shogi_run: Run) -> None:
    result = invoke("usi", shogi_run.path, typed="usi\nquit\n")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[0] == f"id name senju {__version__} (\\u5c06\\u68cb run)"
    assert lines[-1] == "usiok"
    assert result.stderr == ""


def test_options_of_the_command_and_of_the_run_are_the_engines_defaults(
    invoke: Invoke, shogi_run: Run
) -> None:
    given = ("--nodes", 64, "--seed", 3, "--threads", 2, "--overhead", 5, "--byoyomi-margin", 250)
    lines = invoke("usi", shogi_run.path, *given, typed="usi\n").stdout.splitlines()
    defaults = {words[2]: words[6] for words in map(str.split, lines) if words[0] == "option"}
    expected = {
        "Nodes": "64",
        "Seed": "3",
        "Threads": "2",
        "MoveOverhead": "5",
        "ByoyomiMargin": "250",
        "MaxPly": "300",
        "DeclarationRule": "24",
    }
    assert expected.items() <= defaults.items()


def test_missing_run_is_refused_before_the_protocol_begins(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("usi", tmp_path / "nowhere", typed="usi\nquit\n")
    assert result.exit_code == 1
    assert_mentions(result.stderr, str(tmp_path / "nowhere"), "not a run")
    assert result.stdout == ""


def test_run_of_another_game_is_refused(invoke: Invoke, tic_tac_toe_run: Run) -> None:
    result = invoke("usi", tic_tac_toe_run.path, typed="usi\nquit\n")
    assert result.exit_code == 1
    assert_mentions(result.stderr, str(tic_tac_toe_run.path), "tic_tac_toe", "shogi")
    assert result.stdout == ""


@pytest.mark.parametrize(
    "content",
    ["[", "- 1", "game: 3", *(f"game: {{name: shogi, {s}}}" for s in ("max_plies: many", "history: many"))],
)
def test_damaged_config_is_refused(invoke: Invoke, tmp_path: Path, content: str) -> None:
    (tmp_path / "config.yaml").write_text(content, encoding="utf-8")
    (tmp_path / "checkpoints" / "update_000000001").mkdir(parents=True)
    result = invoke("usi", tmp_path, typed="usi\nquit\n")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert result.stdout == ""


def test_run_without_a_checkpoint_is_refused(invoke: Invoke, shogi_run: Run, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes((shogi_run.path / "config.yaml").read_bytes())
    result = invoke("usi", tmp_path, typed="usi\nquit\n")
    assert result.exit_code == 1
    assert "no checkpoint in" in result.stderr
    assert result.stdout == ""


def test_unknown_checkpoint_is_refused_and_known_ones_named(invoke: Invoke, shogi_run: Run) -> None:
    result = invoke("usi", shogi_run.path, "--checkpoint", 7, typed="usi\nquit\n")
    assert result.exit_code == 1
    assert "no checkpoint '7'" in result.stderr
    assert "update_000000001" in result.stderr
    assert invoke("usi", shogi_run.path, "--checkpoint", 1, typed="quit\n").exit_code == 0


def test_log_holds_what_both_sides_said(invoke: Invoke, shogi_run: Run, tmp_path: Path) -> None:
    log = tmp_path / "usi.log"
    invoke("usi", shogi_run.path, "--log", log, typed="usi\nhello\nquit\n")
    text = log.read_text(encoding="utf-8")
    assert "< usi\n" in text
    assert "> usiok\n" in text
    assert "> info string error: unknown command 'hello'\n" in text


def test_log_that_cannot_be_written_is_refused(invoke: Invoke, shogi_run: Run, tmp_path: Path) -> None:
    result = invoke("usi", shogi_run.path, "--log", tmp_path, typed="usi\n")
    assert result.exit_code == 2
    assert_mentions(result.stderr, "log", str(tmp_path))
    assert result.stdout == ""


@pytest.fixture
def process(shogi_run: Run) -> Iterator["subprocess.Popen[bytes]"]:
    """The command as a process of its own; gone at the end."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([str(SENJU), "usi", str(shogi_run.path), "--nodes", "32"], **pipes) as started:
        yield started
        started.kill()


@pytest.mark.slow
def test_whole_conversation_over_pipes(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    talk = Talk(process.stdin, process.stdout)
    talk.say("usi")
    said = talk.hear("usiok")
    talk.say("setoption name USI_Ponder value true", "isready")
    said += talk.hear("readyok")
    talk.say("usinewgame", "position startpos", "go btime 60000 wtime 60000 byoyomi 1000")
    said += talk.hear("bestmove")
    _, move, _, reply = said[-1].split()
    talk.say(f"position startpos moves {move} {reply}", "go ponder btime 60000 wtime 60000 byoyomi 1000")
    talk.say("ponderhit")
    said += talk.hear("bestmove")
    talk.say("go infinite", "stop")
    said += talk.hear("bestmove")
    talk.say_bytes(b"\xff\xfe\0rubbish\n")
    talk.say("position startpos moves 1a1b", "gameover lose", "quit")
    said += talk.hear_all()
    assert process.wait(PATIENCE) == 0
    assert all(line.startswith(SAID) or not line for line in said)
    assert process.stderr.read() == b""


@pytest.mark.slow
def test_end_of_input_ends_the_process(process: "subprocess.Popen[bytes]") -> None:
    out, err = process.communicate(b"isready\nposition startpos moves 7g7f\ngo infinite", PATIENCE)
    assert process.returncode == 0
    lines = [line for line in out.splitlines() if line]  # empty ones come while the network is loaded
    assert lines[0] == b"readyok"
    assert lines[-1].startswith(b"bestmove ")
    assert err == b""


@pytest.mark.slow
def test_process_ends_quietly_when_its_output_is_closed(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(b"usi\n")
    process.stdin.flush()
    while process.stdout.readline() != b"usiok\n":
        pass
    process.stdout.close()
    process.stdin.write(b"go infinite\n")
    process.stdin.flush()
    assert process.wait(PATIENCE) == 0
    assert process.stderr.read() == b""
