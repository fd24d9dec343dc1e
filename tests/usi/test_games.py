"""Whole games by cshogi's own client, against engines in processes of their own."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, ClassVar, NamedTuple

import cshogi
import cshogi.cli
import cshogi.usi
import psutil
import pytest

from tests.conftest import SENJU
from tests.usi import random_mover
from tests.usi.talk import make_run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),  # cshogi leaves its pipes open
]

LOST_BY_CHECKS = "ILLEGAL_MOVE"  # how cshogi records a perpetual check that is lost by who is to move
BAD_ENDS = {"%ILLEGAL_MOVE", "%TIME_UP"}
REAL_ENDS = {"%TORYO", "%KACHI", "%SENNICHITE", "%+ILLEGAL_ACTION", "%-ILLEGAL_ACTION", LOST_BY_CHECKS}
STALL = 2000.0  # milliseconds that a busy machine may hold both sides up


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


class Turn(NamedTuple):
    """How long a move took, in milliseconds."""

    seen: float  # by the client
    worked: float  # by the engine's processor, which a busy machine does not change


class Watch:
    """Times an engine's moves from the outside."""

    def __init__(self, engine: cshogi.usi.Engine) -> None:
        self._process = psutil.Process(engine.proc.pid)
        self.restart()

    def restart(self) -> None:
        self._seen, self._worked = time.monotonic(), self._processor_seconds()

    def turn(self) -> Turn:
        seen, worked = time.monotonic() - self._seen, self._processor_seconds() - self._worked
        return Turn(1000 * seen, 1000 * worked)

    def _processor_seconds(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


class TimedEngine(cshogi.usi.Engine):
    """cshogi's connection to an engine, with an eye on the clock: cshogi's own forgives a second."""

    turns: ClassVar[list[Turn]] = []

    def go(self, *args: Any, ponder: bool = False, **settings: Any) -> Any:
        self._watch, self._is_hit = Watch(self), not ponder
        answer = super().go(*args, ponder=ponder, **settings)
        if self._is_hit:
            self.turns.append(self._watch.turn())
        return answer

    def ponderhit(self, *args: Any, **settings: Any) -> None:
        self._watch.restart()
        self._is_hit = True
        super().ponderhit(*args, **settings)


class Match(NamedTuple):
    """What became of the games of a match."""

    ends: list[str]  # in CSA's words
    turns: list[Turn]


def play_match(one: str, other: str, record: Path, **settings: Any) -> Match:
    """Games by cshogi's own client."""
    TimedEngine.turns.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cshogi.cli, "Engine", TimedEngine)
        cshogi.cli.main(one, other, csa=str(record), multi_csa=True, keep_process=True, **settings)
    lines = record.read_text(encoding="utf-8").splitlines()
    ends = [line for line in lines if line.startswith("%") or line == LOST_BY_CHECKS]
    return Match(ends, list(TimedEngine.turns))


def check_times(turns: list[Turn], allowed: float) -> None:
    """No move took longer than allowed, as far as that is the engine's doing."""
    assert max(turn.worked for turn in turns) <= allowed
    assert median(turn.seen for turn in turns) <= allowed
    assert max(turn.seen for turn in turns) <= allowed + STALL


def test_games_have_no_illegal_move_and_no_time_loss(senju_engine: str, tmp_path: Path) -> None:
    options = {"Nodes": "0", "ByoyomiMargin": "80"}
    match = play_match(
        senju_engine,
        senju_engine,
        tmp_path / "games.csa",
        options1=options,
        options2=options,
        games=2,
        time=0,
        byoyomi=110,
        draw=30,
    )
    assert len(match.ends) == 2
    assert not set(match.ends) & BAD_ENDS
    check_times(match.turns, 110)


def test_whole_games_against_another_program_come_to_an_end_by_the_rules(
    senju_engine: str, random_engine: str, tmp_path: Path
) -> None:
    match = play_match(
        senju_engine,
        random_engine,
        tmp_path / "games.csa",
        options1={"Nodes": "64"},
        games=2,
        time=60_000,
        draw=512,
    )
    assert len(match.ends) == 2
    assert set(match.ends) <= REAL_ENDS
    assert sum(turn.worked for turn in match.turns) < 2 * 60_000


def test_games_with_pondering_have_none_either(senju_engine: str, tmp_path: Path) -> None:
    match = play_match(
        senju_engine,
        senju_engine,
        tmp_path / "games.csa",
        options1={"ByoyomiMargin": "80"},
        options2={"ByoyomiMargin": "80", "Temperature": "100"},
        games=1,
        time=0,
        byoyomi=110,
        draw=30,
        ponder=True,
    )
    assert len(match.ends) == 1
    assert not set(match.ends) & BAD_ENDS
    check_times(match.turns, 110)


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
    set_up(engine, ByoyomiMargin=100)
    turns = []

    def ask(board: cshogi.Board) -> str:
        watch = Watch(engine)
        move, _ = engine.go(btime=0, wtime=0, byoyomi=150)
        turns.append(watch.turn())
        return str(move)

    own_game(engine, 40, ask)
    check_times(turns, 150)


@pytest.mark.parametrize("increment", [None, 15])
def test_clock_never_runs_out(engine: cshogi.usi.Engine, increment: int | None) -> None:
    set_up(engine, ByoyomiMargin=400, MoveOverhead=5)
    clocks = [3000.0, 3000.0]  # as far as the engine works: what else a busy machine takes is not counted

    def ask(board: cshogi.Board) -> str:
        side, watch = board.turn, Watch(engine)
        black, white = map(int, clocks)
        move, _ = engine.go(btime=black, wtime=white, binc=increment, winc=increment)
        turn = watch.turn()
        assert turn.seen < clocks[side] + STALL
        clocks[side] -= turn.worked
        assert clocks[side] > 0
        clocks[side] += increment or 0
        return str(move)

    own_game(engine, 40, ask)


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
