"""Whole games by cshogi's own client, against engines in processes of their own."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cshogi
import cshogi.cli
import cshogi.usi
import pytest

from tests.conftest import SENJU
from tests.usi import random_mover
from tests.usi.talk import make_run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),  # cshogi leaves its pipes open
]

BAD_ENDS = ("%ILLEGAL_MOVE", "%TIME_UP")


def script(path: Path, command: str) -> str:
    """A program that cshogi can start: it knows only a path."""
    path.write_text(f"#!/bin/sh\nOMP_NUM_THREADS=1 exec {command}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.fixture(scope="module")
def senju_engine(tmp_path_factory: pytest.TempPathFactory) -> str:
    """`senju usi` with a run that has hardly been trained."""
    folder = tmp_path_factory.mktemp("usi")
    run = make_run(folder / "run")
    return script(folder / "senju.sh", f"{SENJU} usi {run.path}")


@pytest.fixture(scope="module")
def random_engine(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An opponent that plays anything."""
    return script(tmp_path_factory.mktemp("usi") / "random.sh", f"{sys.executable} {random_mover.__file__} 7")


def play_match(one: str, other: str, record: Path, **settings: Any) -> list[str]:
    """How the games of a match by cshogi ended, in CSA's words."""
    cshogi.cli.main(one, other, csa=str(record), multi_csa=True, keep_process=True, **settings)
    lines = record.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("%")]


def test_games_have_no_illegal_move_and_no_time_loss(senju_engine: str, tmp_path: Path) -> None:
    options = {"Nodes": "0", "ByoyomiMargin": "60"}
    ends = play_match(
        senju_engine,
        senju_engine,
        tmp_path / "games.csa",
        options1=options,
        options2=options,
        games=2,
        time=0,
        byoyomi=80,
        draw=60,
    )
    assert len(ends) == 2
    assert not set(ends) & set(BAD_ENDS)


def test_games_against_another_program_have_none_either(
    senju_engine: str, random_engine: str, tmp_path: Path
) -> None:
    ends = play_match(
        senju_engine,
        random_engine,
        tmp_path / "games.csa",
        options1={"MoveOverhead": "10"},
        games=2,
        time=4000,
        draw=60,
    )
    assert len(ends) == 2
    assert not set(ends) & set(BAD_ENDS)


def test_games_with_pondering_have_none_either(senju_engine: str, tmp_path: Path) -> None:
    ends = play_match(
        senju_engine,
        senju_engine,
        tmp_path / "games.csa",
        options1={"ByoyomiMargin": "60"},
        options2={"ByoyomiMargin": "60", "Temperature": "100"},
        games=1,
        time=0,
        byoyomi=80,
        draw=40,
        ponder=True,
    )
    assert len(ends) == 1
    assert not set(ends) & set(BAD_ENDS)


@contextmanager
def connected(path: str) -> Iterator[cshogi.usi.Engine]:
    engine = cshogi.usi.Engine(path)
    process = engine.proc
    try:
        yield engine
    finally:
        engine.quit()
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()


@pytest.fixture(scope="module")
def engine(senju_engine: str) -> Iterator[cshogi.usi.Engine]:
    """One engine for several tests: starting it takes seconds."""
    with connected(senju_engine) as started:
        yield started


def set_up(engine: cshogi.usi.Engine, **options: object) -> None:
    for name, value in options.items():
        engine.setoption(name, str(value))
    engine.isready()
    engine.usinewgame()


def own_game(engine: cshogi.usi.Engine, num_plies: int, ask: Callable[[cshogi.Board], str]) -> None:
    """A game of an engine against itself; every move must be legal."""
    board, moves = cshogi.Board(), []
    while not board.is_game_over() and len(moves) < num_plies:
        engine.position(moves)
        move = ask(board)
        if move in ("resign", "win"):
            return
        assert board.is_legal(board.move_from_usi(move)), (moves, move)
        board.push_usi(move)
        moves.append(move)


def test_byoyomi_is_never_overrun(engine: cshogi.usi.Engine) -> None:
    set_up(engine, ByoyomiMargin=400)

    def ask(board: cshogi.Board) -> str:
        started = time.monotonic()
        move, _ = engine.go(btime=0, wtime=0, byoyomi=450)
        assert time.monotonic() - started < 0.450  # it thinks for 50 ms; the rest is for a busy machine
        return str(move)

    own_game(engine, 40, ask)


@pytest.mark.parametrize("increment", [None, 15])
def test_clock_never_runs_out(engine: cshogi.usi.Engine, increment: int | None) -> None:
    set_up(engine, ByoyomiMargin=400, MoveOverhead=5)
    clocks = [3000.0, 3000.0]

    def ask(board: cshogi.Board) -> str:
        side, started = board.turn, time.monotonic()
        black, white = map(int, clocks)
        move, _ = engine.go(btime=black, wtime=white, binc=increment, winc=increment)
        clocks[side] -= 1000 * (time.monotonic() - started)
        assert clocks[side] > 0
        clocks[side] += increment or 0
        return str(move)

    own_game(engine, 60, ask)


def test_same_seed_gives_the_same_moves_in_another_process(
    engine: cshogi.usi.Engine, senju_engine: str
) -> None:
    def play(engine: cshogi.usi.Engine) -> list[str]:
        moves: list[str] = []

        def ask(board: cshogi.Board) -> str:
            moves.append(engine.go(btime=10**7, wtime=10**7)[0])
            return moves[-1]

        set_up(engine, Nodes=64, Seed=5, Temperature=100)
        own_game(engine, 16, ask)
        return moves

    with connected(senju_engine) as other:
        assert play(engine) == play(other)
