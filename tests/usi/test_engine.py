"""Conversations with an engine in this process: the real rules, search and network, over pipes."""

import contextlib
import io
import os
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import cshogi
import pytest
from torch import Tensor

from senju.errors import CheckpointError
from senju.models import Model
from senju.usi.engine import Engine
from senju.usi.lines import LineWriter
from senju.usi.options import EngineConfig
from senju.usi.thinker import Thinker
from tests.usi.rubbish import LARGEST
from tests.usi.talk import Talk, engine_here, small_model

TO_AND_FRO = "2h1h 8b9b 1h2h 9b8b"  # the start position again, after four plies
MATED = "4k4/4G4/4G4/9/9/9/9/9/4K4 w - 1"
MATE_IN_ONE = "4k4/9/4G4/9/9/9/9/9/4K4 b G 1"
MATED_IN_TWO = "4k4/9/4G4/9/9/9/9/9/4K4 w G 1"
CAN_DECLARE = "K+R+R+B+B4/GGGGSSSS1/9/9/9/9/9/9/4k4 b - 1"
ONE_MOVE = "8k/6G2/9/9/9/9/9/9/K8 w - 1"
MOVE = r"(\d[a-i]\d[a-i]\+?|[PLNSGBR]\*\d[a-i])"
INFO = re.compile(
    rf"info depth \d+ seldepth \d+ time \d+ nodes \d+ nps \d+ score (cp|mate) -?\d+ pv( {MOVE})+"
)


def board_after(position: str) -> cshogi.Board:
    board = cshogi.Board()
    board.set_position(position.removeprefix("position "))
    return board


def is_legal(position: str, move: str) -> bool:
    board = board_after(position)
    return board.is_legal(board.move_from_usi(move))


def forbidden() -> Model:
    raise AssertionError("nothing was to be loaded")


def test_engine_answers_usi_without_loading_anything() -> None:
    with engine_here(forbidden) as talk:
        talk.say("usi")
        lines = talk.hear("usiok")
    assert lines[:2] == ["id name senju of the tests", "id author senju"]
    assert {line.split()[2] for line in lines[2:-1]} >= {"USI_Ponder", "USI_Hash", "Nodes", "ResignValue"}


@pytest.mark.slow
def test_network_is_loaded_once() -> None:
    loaded: list[Model] = []

    def load() -> Model:
        loaded.append(small_model())
        return loaded[-1]

    with engine_here(load) as talk:
        for _ in range(3):
            talk.say("isready")
            assert [line for line in talk.hear("readyok") if line] == ["readyok"]  # blank ones say: wait
        talk.ask("go")
    assert len(loaded) == 1


@pytest.mark.parametrize("position", ["position startpos", "position startpos moves 7g7f 3c3d 8h2b+"])
def test_answer_is_a_legal_move_behind_its_info_line(position: str) -> None:
    with engine_here() as talk:
        talk.say("isready", "usinewgame", position, "go nodes 100")
        lines = talk.hear("bestmove")
    assert INFO.fullmatch(lines[-2]), lines
    assert " nodes 100 " in lines[-2]
    best = lines[-1].removeprefix("bestmove ")
    assert best == lines[-2].split(" pv ")[1].split()[0]
    assert is_legal(position, best)


def test_expected_moves_can_be_played() -> None:
    with engine_here() as talk:
        talk.say("go nodes 400")
        line = talk.hear("bestmove")[-2].split(" pv ")[1].split()
    board = cshogi.Board()
    for move in line:
        assert board.is_legal(board.move_from_usi(move))
        board.push_usi(move)
    assert len(line) > 1


def test_info_lines_come_while_it_thinks() -> None:
    with engine_here() as talk:
        talk.say("setoption name Nodes value 0", "go infinite")
        first, second = talk.hear("info")[-1], talk.hear("info")[-1]
        talk.say("stop")
        talk.hear("bestmove")
    for line in (first, second):
        assert INFO.fullmatch(line), line


def test_nothing_given_means_the_usual_number_of_nodes() -> None:
    with engine_here(nodes=0, batch=16) as talk:
        talk.say("go")
        assert " nodes 800 " in talk.hear("bestmove")[-2]


@pytest.mark.parametrize(
    "clock",
    [
        "btime 3000 wtime 3000",
        "btime 0 wtime 0 byoyomi 200",
        "byoyomi 200",
        "btime 1000 wtime 1000 binc 100 winc 100",
        "movetime 150",
        "btime 0 wtime 0",
        "btime -100 wtime -100",
        "depth 2",
    ],
)
def test_clock_ends_a_search(clock: str) -> None:
    with engine_here(nodes=0) as talk:
        assert is_legal("startpos", talk.ask("position startpos", f"go {clock}"))


def test_only_move_is_played_at_once() -> None:
    with engine_here(nodes=0) as talk:
        talk.say("isready", f"position sfen {ONE_MOVE}", "go btime 100000000 wtime 100000000")
        lines = talk.hear("bestmove")
    assert " nodes 1 " in lines[-2]
    assert lines[-1] == "bestmove 1a1b"


def is_quiet(talk: Talk) -> bool:
    """Whether neither a best move nor a complaint came before the answer to `isready`, given at any time.

    A complaint would say that there was nothing to stop or to hit: the answer had come too early.
    """
    talk.say("isready")
    return not any(line.startswith(("bestmove", "info string")) for line in talk.hear("readyok"))


@pytest.mark.parametrize(
    "position", ["startpos", f"sfen {MATED}", f"sfen {CAN_DECLARE}", f"sfen {MATE_IN_ONE}"]
)
@pytest.mark.parametrize("how", ["infinite", "ponder", "ponder btime 0 wtime 0 byoyomi 100"])
def test_endless_search_is_answered_when_asked_to(position: str, how: str) -> None:
    with engine_here() as talk:
        talk.say("isready", f"position {position}", f"go {how}")
        talk.hear("readyok")
        if position in ("startpos", f"sfen {MATE_IN_ONE}"):  # nothing is searched in the others
            talk.hear("info depth")  # it has thought, and could have answered
        assert is_quiet(talk)
        talk.say("stop")
        talk.hear("bestmove")
        assert is_quiet(talk)


@pytest.mark.parametrize("clock", ["btime 0 wtime 0 byoyomi 150", "btime 5000 wtime 5000", ""])
@pytest.mark.parametrize("nodes", [0, 8])
def test_ponder_hit_starts_the_clock(clock: str, nodes: int) -> None:
    with engine_here(nodes=nodes) as talk:
        talk.say("isready", "position startpos moves 7g7f 3c3d", f"go ponder {clock}")
        talk.hear("info depth")
        assert is_quiet(talk)
        assert is_legal("startpos moves 7g7f 3c3d", talk.ask("ponderhit"))
        assert is_quiet(talk)


def test_reply_to_ponder_on_is_named_only_if_wanted() -> None:
    with engine_here(nodes=50) as talk:
        talk.say("go")
        assert "ponder" not in talk.hear("bestmove")[-1]
        talk.say("setoption name USI_Ponder value true", "go")
        _, best, word, reply = talk.hear("bestmove")[-1].split()
    assert word == "ponder"
    assert is_legal(f"startpos moves {best}", reply)


def test_mated_side_resigns() -> None:
    with engine_here() as talk:
        assert talk.ask(f"position sfen {MATED}", "go") == "resign"


@pytest.mark.parametrize(
    ("sfen", "score"), [(MATE_IN_ONE, "mate 1"), (MATED_IN_TWO, "mate -2")], ids=["wins", "loses"]
)
def test_proven_mate_is_reported_in_plies(sfen: str, score: str) -> None:
    with engine_here(nodes=1000) as talk:
        talk.say(f"position sfen {sfen}", "go")
        assert f" score {score} pv " in talk.hear("bestmove")[-2]


def test_mate_in_one_is_played() -> None:
    with engine_here() as talk:
        move = talk.ask(f"position sfen {MATE_IN_ONE}", "go")
    board = cshogi.Board(MATE_IN_ONE)
    board.push_usi(move)
    assert board.is_game_over()


@pytest.mark.parametrize(("rule", "answer"), [("27", "win"), ("24", None), ("none", None)])
def test_win_is_declared_by_the_rule_that_is_set(rule: str, answer: str | None) -> None:
    with engine_here() as talk:
        position = f"position sfen {CAN_DECLARE}"
        move = talk.ask(f"setoption name DeclarationRule value {rule}", position, "go")
        if answer:
            assert move == answer
        else:
            assert is_legal(position, move)
        assert talk.ask("setoption name DeclarationRule value 27", "go") == "win"  # the same position


MOVES = ["7g7f", "3c3d", "2g2f", "8c8d", "6i7h", "4a3b", "2f2e", "2b8h+", "7i8h", "3a2b"]


def after(moves: list[str]) -> str:
    return f"position startpos moves {' '.join(moves)}"


def own_moves(talk: Talk, plies: list[int]) -> list[bool]:
    """Whether the engine resigns after so many plies of a game, one time after another."""
    return [talk.ask(after(MOVES[:ply]), "go") == "resign" for ply in plies]


def test_third_move_in_a_row_that_looks_lost_is_not_made() -> None:
    with engine_here(resign_value=1000) as talk:
        assert own_moves(talk, [0, 2, 4, 6]) == [False, False, True, True]
        talk.say("usinewgame")
        assert own_moves(talk, [1, 3, 5]) == [False, False, True]


def test_engine_does_not_resign_with_resign_value_zero() -> None:
    with engine_here(resign_value=0) as talk:
        assert own_moves(talk, [0, 2, 4, 6, 8]) == [False] * 5


def test_moves_that_look_lost_count_only_within_one_game() -> None:
    with engine_here(resign_value=1000) as talk:
        assert own_moves(talk, [4, 6, 0, 0, 0, 2, 2, 4]) == [False] * 5 + [False, False, False]
        assert own_moves(talk, [4, 6]) == [False, False]
        talk.say("usinewgame")
        assert own_moves(talk, [8]) == [False]


def test_analysis_never_resigns() -> None:
    with engine_here(resign_value=1000) as talk:
        for ply in (0, 2, 4, 6):
            talk.say(after(MOVES[:ply]), "go infinite")
            assert talk.ask("stop") != "resign"


def test_go_during_a_search_is_refused_and_changes_nothing() -> None:
    with engine_here(nodes=0) as talk:
        talk.say("go infinite", "position startpos moves 7g7f", "go nodes 1")
        assert talk.hear("info string")[-1].startswith("info string error: go: ")
        assert is_legal("startpos", talk.ask("stop"))
        assert is_legal("startpos moves 7g7f", talk.ask("go nodes 1"))


def test_next_go_need_not_wait_for_the_answer_to_stop() -> None:
    with engine_here(nodes=0) as talk:
        talk.say("go infinite", "stop", "position startpos moves 7g7f", "go infinite", "stop")
        first, second = (talk.hear("bestmove")[-1].split()[1] for _ in range(2))
    assert is_legal("startpos", first)
    assert is_legal("startpos moves 7g7f", second)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("stop", "stop: "),
        ("ponderhit", "ponderhit: "),
        ("hello", ".*'hello'"),
        ("setoption name Noeds value 3", "setoption: .*'Noeds'.*'Nodes'"),
        ("setoption name Nodes value x", "setoption: .*Nodes.*'x'"),
        ("position startpos moves 7g7f 3c3e", "position: move 2.*'3c3e'"),
        ("position startpos moves 1a1z", "position: move 1: "),
        ("position sfen 9/9 b - 1", "SFEN '9/9 b - 1': "),
        ("position", "position: .*startpos.*sfen"),
        ("position sfen " + "x" * 100_000, "SFEN 'xxx"),
        ("x" * 300_000, ".*262144 bytes"),
    ],
)
def test_error_is_reported_and_the_last_valid_position_stays(line: str, complaint: str) -> None:
    with engine_here() as talk:
        talk.say("position startpos moves 7g7f", line)
        answer = talk.hear("info string")[-1]
        assert re.match(f"info string error: {complaint}", answer)
        assert len(answer) < 500
        assert is_legal("startpos moves 7g7f", talk.ask("go"))


def test_go_with_a_mistake_is_answered_all_the_same() -> None:
    with engine_here() as talk:
        talk.say("go btime soon")
        lines = talk.hear("bestmove")
    assert re.match("info string error: go: .*btime.*'soon'", lines[0])


def test_mate_problems_are_declined() -> None:
    with engine_here() as talk:
        talk.say("go mate infinite")
        assert talk.hear("checkmate") == ["checkmate notimplemented"]


def test_end_of_the_game_ends_pondering() -> None:
    with engine_here(nodes=0) as talk:
        talk.say("go ponder", "gameover win")
        talk.hear("bestmove")
        talk.say("gameover lose", "gameover")
        assert is_quiet(talk)


@pytest.mark.parametrize("ply", [12, 13, 14])
def test_program_may_go_on_where_the_rules_ended_the_game(ply: int) -> None:
    """The fourth occurrence comes at ply 12; the search of ply 10 cannot be gone on with."""
    moves = f"{TO_AND_FRO} {TO_AND_FRO} {TO_AND_FRO} {TO_AND_FRO}".split()
    with engine_here() as talk:
        talk.ask(after(moves[:10]), "go")
        position = after(moves[:ply])
        assert is_legal(position, talk.ask(position, "go"))


def test_program_may_go_on_past_the_limit_of_plies() -> None:
    moves = f"{TO_AND_FRO} {TO_AND_FRO} 7g7f 3c3d".split()
    with engine_here(max_ply=6) as talk:
        for ply in range(1, len(moves) + 1):
            position = after(moves[:ply])
            assert is_legal(position, talk.ask(position, "go"))


def whole_game(**settings: Any) -> list[str]:
    """What an engine says when it plays against itself, but for times."""
    moves: list[str] = []
    said: list[str] = []
    with engine_here(nodes=40, **settings) as talk:
        for _ in range(20):
            talk.say(after(moves), "go")
            said += [re.sub(r" time \d+| nps \d+", "", line) for line in talk.hear("bestmove")[-2:]]
            moves.append(said[-1].split()[1])
    return said


def test_same_seed_gives_the_same_game() -> None:
    one = whole_game(seed=3, temperature=100)
    assert one == whole_game(seed=3, temperature=100)
    assert one != whole_game(seed=4, temperature=100)
    assert whole_game(seed=3) == whole_game(seed=4)  # nothing is drawn


def test_run_that_sees_earlier_positions_gets_them() -> None:
    with engine_here(lambda: small_model(history=2), history=2) as talk:
        assert is_legal("startpos moves 7g7f", talk.ask("position startpos moves 7g7f", "go"))


class Fragile(Model):
    """A network that fails, or is slow, on request."""

    def __init__(self) -> None:
        super().__init__((), 0, Model.Config())
        self.inner, self.seconds, self.num_calls = small_model(), 0.0, 0
        self.error: Exception | None = None

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        self.num_calls += 1
        time.sleep(self.seconds)  # what a large network takes
        if self.error:
            raise self.error
        logits, values = self.inner(observation)
        return logits, values


@pytest.mark.parametrize("error", [RuntimeError("broken"), MemoryError("broken"), KeyError("broken")])
def test_search_that_fails_in_any_way_is_reported_and_a_legal_move_played(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    model = Fragile()
    with engine_here(lambda: model) as talk:
        talk.say("isready")
        talk.hear("readyok")
        model.error = error
        talk.say("go")
        lines = talk.hear("bestmove")
        assert lines[0].startswith("info string error: the search failed")
        assert f"{type(error).__name__}: {error}" in lines[0]
        assert is_legal("startpos", lines[-1].split()[1])
        assert "Traceback" in caplog.text
        model.error = None
        talk.say("go")
        assert INFO.fullmatch(talk.hear("bestmove")[0])


def test_no_batch_is_begun_that_would_end_after_the_byoyomi() -> None:
    model = Fragile()

    def count_calls(*lines: str) -> int:
        before = model.num_calls
        talk.ask(*lines)
        return model.num_calls - before

    with engine_here(lambda: model, nodes=0) as talk:
        talk.say("isready")
        talk.hear("readyok")
        model.seconds = 0.16
        # 200 ms to think: the root is evaluated, and a batch would end after 320
        assert count_calls("position startpos", "go byoyomi 300") == 1
        line = "position startpos moves 7g7f"
        talk.say(line, "go nodes 25")  # four batches; the tree is kept
        moves = talk.hear("bestmove")[-2].split(" pv ")[1].split()
        # 150 ms, from the first: the batches of the move before are known to take longer
        assert count_calls(f"{line} {moves[0]} {moves[1]}", "go byoyomi 250") == 0


@pytest.mark.parametrize("option", sorted(LARGEST))
def test_engine_lives_with_the_largest_value_of_every_option(option: str) -> None:
    with engine_here() as talk:
        talk.say("isready")
        talk.hear("readyok")
        talk.say(f"setoption name {option} value {LARGEST[option]}", "isready", "go nodes 20")
        lines = talk.hear("bestmove")
    assert not any(line.startswith("info string") for line in lines)
    assert is_legal("startpos", lines[-1].split()[1])


def test_run_that_cannot_be_loaded_ends_the_engine_with_an_error() -> None:
    def converse() -> None:
        with engine_here(unloadable) as talk:
            talk.say("isready")
            assert talk.hear_all() == ["info string error: there is no checkpoint"]

    with pytest.raises(CheckpointError):
        converse()


def test_engine_ends_when_its_output_is_closed() -> None:
    (engine_reads, we_write), (we_read, engine_writes) = os.pipe(), os.pipe()
    os.close(we_read)
    with (
        io.FileIO(engine_reads) as source,
        io.FileIO(engine_writes, "w") as sink,
        io.FileIO(we_write, "w") as to_engine,
    ):
        writer = LineWriter(sink)
        engine = Engine("deaf", Thinker(small_model, writer), writer, EngineConfig())
        to_engine.write(b"go infinite\n")
        engine.run(source)  # though the input goes on
        assert writer.is_lost
        assert threads_of_engines() == []


class Failing(io.RawIOBase):
    """An input that cannot be read."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def read(self, size: int = -1, /) -> bytes:
        raise self.error


def engine_of(writer: LineWriter) -> Engine:
    return Engine("alone", Thinker(forbidden, writer), writer, EngineConfig())


def test_input_that_breaks_off_ends_the_engine() -> None:
    engine_of(LineWriter(io.BytesIO())).run(Failing(OSError("the terminal was closed")))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_bug_in_the_reading_thread_ends_the_engine_with_an_error() -> None:
    with pytest.raises(RuntimeError, match="reading thread"):
        engine_of(LineWriter(io.BytesIO())).run(Failing(ZeroDivisionError()))
    assert threads_of_engines() == []


def unloadable() -> Model:
    raise CheckpointError("there is no checkpoint")


def threads_of_engines() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("usi-")]


@pytest.mark.parametrize("is_input_open", [True, False])
@pytest.mark.parametrize(
    ("load", "said"),
    [
        (forbidden, b"usi\nquit\n"),
        (small_model, b"isready\ngo infinite\nquit\n"),
        (unloadable, b"isready\n"),
        (unloadable, b"isready\nusi\nusi\nhello"),
    ],
    ids=["quits", "quits while it thinks", "cannot be loaded", "cannot be loaded, more to read"],
)
def test_engine_that_has_ended_reads_no_more(
    load: Callable[[], Model], said: bytes, is_input_open: bool
) -> None:
    """A thread left in `read` would take a line from whatever gets the descriptor's number next."""
    engine_reads, we_write = os.pipe()
    with io.FileIO(engine_reads) as source, io.FileIO(we_write, "w") as to_engine:
        to_engine.write(said)
        if not is_input_open:
            to_engine.close()
        writer = LineWriter(io.BytesIO())
        engine = Engine("ended", Thinker(load, writer), writer, EngineConfig(nodes=16))
        with pytest.raises(CheckpointError) if load is unloadable else contextlib.nullcontext():
            engine.run(source)
        assert threads_of_engines() == []
        if is_input_open:
            to_engine.write(b"for another")
            assert source.read(100).endswith(b"for another")


def test_engine_that_has_ended_leaves_no_descriptor_open() -> None:
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        with engine_here(forbidden) as talk:
            talk.say("usi")
    assert os.listdir("/proc/self/fd") == before


def test_quitting_does_not_wait_for_a_search() -> None:
    with engine_here(nodes=0) as talk:
        talk.say("isready", "go infinite", "quit")
        assert talk.hear_all()[-1].startswith("bestmove")


def test_lines_behind_quit_are_not_obeyed() -> None:
    with engine_here() as talk:
        talk.say("quit", "usi")
        assert talk.hear_all() == []


def test_program_can_stop_and_quit_while_the_network_is_loaded() -> None:
    is_loading, may_end = threading.Event(), threading.Event()

    def slow() -> Model:
        is_loading.set()
        may_end.wait()
        return small_model()

    with engine_here(slow, nodes=0) as talk:
        talk.say("isready", "position startpos moves 7g7f", "go infinite", "usi")
        is_loading.wait()
        assert talk.hear("usiok")[0].startswith("id name")  # obeyed meanwhile
        talk.say("stop", "quit")
        may_end.set()
        lines = talk.hear_all()
    assert lines[0] == "readyok"
    assert is_legal("startpos moves 7g7f", lines[-1].split()[1])
