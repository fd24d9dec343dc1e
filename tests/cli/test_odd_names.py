"""Folders whose names are not UTF-8: commands work there, and what they write and print is UTF-8."""

import json
import os
from pathlib import Path

import pytest

from senju.runs.run import Run
from tests.conftest import Invoke, Options, Start, Train

NAME = os.fsdecode(b"r\xff\xfen")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with such a name."""
    try:
        (tmp_path / NAME).mkdir()
    except OSError:
        pytest.skip("this file system has no such names")
    return tmp_path / NAME


def require_utf8(folder: Path) -> None:
    files = [path for path in folder.rglob("*") if path.suffix in (".json", ".jsonl", ".svg", ".yaml")]
    assert len(files) >= 4
    for file in files:
        file.read_text(encoding="utf-8")  # which is strict


def test_run_is_trained_resumed_and_read(folder: Path, invoke: Invoke, small_options: Options) -> None:
    run = folder / NAME
    trained = invoke("train", "tic_tac_toe", "--run", run, *small_options(updates=2), "--json")
    assert json.loads(trained.stdout)["run"] == str(run)
    again = invoke("train", "--resume", run, "--steps", 1024, "--json")
    assert json.loads(again.stdout)["update"] == 4
    for command in (("status", run), ("evaluate", run, "--games", 4)):
        assert json.loads(invoke(*command, "--json").stdout)
    arena = ("arena", run, "random", "--games", 4, "--out", folder / "arena", "--workers", 1)
    assert NAME in invoke(*arena, "--json").stdout.encode().decode("unicode_escape", "surrogatepass")
    require_utf8(folder)


def test_opponent_may_lie_in_such_a_folder(folder: Path, train_small: Train) -> None:
    other = train_small(f"{NAME}/other", updates=1)
    against = {"opponents": [str(other.path)], "games": 2}
    run = train_small(f"{NAME}/run", updates=1, evaluation=against)
    assert str(other.path) in Run(run.path).config.evaluation.opponents
    assert run.evaluations
    require_utf8(folder)


@pytest.mark.slow
def test_several_agents_are_trained_and_compared(
    folder: Path, invoke: Invoke, small_options: Options
) -> None:
    options = ("--agents", 2, "--run", folder / NAME, *small_options(updates=1), "--json")
    found = json.loads(invoke("train", "tic_tac_toe", *options).stdout)
    assert found["finished"]
    require_utf8(folder)


@pytest.mark.slow
def test_folder_is_printed_with_escapes(folder: Path, train_small: Train, start_senju: Start) -> None:
    train_small(f"{NAME}/run", updates=1)
    output, errors = start_senju("status", folder / "run").communicate(timeout=120)
    assert r"\udcff\udcfe" in output, errors
    _, errors = start_senju("status", folder / "nothing").communicate(timeout=120)
    assert r"r\udcff\udcfen/nothing" in errors
