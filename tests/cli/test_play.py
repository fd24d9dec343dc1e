"""`senju play`: games typed at a prompt."""

import signal
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from senju.games.shogi.csa import read_csa, read_csa_file
from senju.opponents.players import PlayerBatch, RandomPlayer
from senju.runs.run import Run
from tests.conftest import Invoke, Train
from tests.facts import Facts, assert_mentions
from tests.usi.talk import make_run

SQUARES = [f"{column}{row}" for row in "123" for column in "abc"]
EMPTY = "1 · · ·\n2 · · ·\n3 · · ·\n  a b c"


def typed(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


# Every square once, in an order that ends as said; squares taken by then are refused and passed over.
@pytest.mark.parametrize(
    ("against", "order", "end"),
    [
        ("random", "b3 c2 b1 a2 b2 c1 a1 c3 a3", "You win!"),
        ("random", "c1 a1 a2 c3 a3 b1 b2 c2 b3", "You lose."),
        ("minimax:9", "b3 c3 b2 c1 a1 a3 b1 c2 a2", "A draw."),
        ("minimax:9", "a2 a1 b2 c2 b3 a3 c1 b1 c3", "You lose."),
    ],
)
def test_whole_game_ends_with_its_result(invoke: Invoke, against: str, order: str, end: str) -> None:
    result = invoke("play", "tic_tac_toe", "--against", against, typed=typed(*order.split()))
    assert result.exit_code == 0
    assert_mentions(result.stdout, "seat 1", against)
    assert result.stdout.rstrip().endswith(end)
    assert f"{against} plays " in result.stdout


def test_run_named_as_the_opponent_is_played_by_its_own_rules(invoke: Invoke, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", max_plies=320)
    result = invoke("play", "shogi", "--against", run.path, typed=typed("quit"))
    assert result.exit_code == 0, result.stderr
    assert_mentions(result.stdout, "run@1")
    result = invoke("play", "tic_tac_toe", "--against", run.path)
    assert result.exit_code == 1
    assert_mentions(result.stderr, "shogi", "tic_tac_toe")


def test_second_seat_waits_for_the_first_move(invoke: Invoke) -> None:
    result = invoke("play", "connect_four", "--seat", 2, "--against", "random", typed=typed("quit"))
    assert "seat 2" in result.stdout
    assert result.stdout.index("random plays") < result.stdout.index("your move>")


def test_same_seed_gives_the_same_game(invoke: Invoke) -> None:
    def play(seed: int) -> str:
        options = ("--against", "random", "--seed", seed)
        return invoke("play", "connect_four", *options, typed=typed(*"1234567" * 8)).stdout

    assert play(3) == play(3)
    assert len({play(seed) for seed in range(4)}) > 1


def test_illegal_move_is_refused_and_asked_again(invoke: Invoke) -> None:
    result = invoke("play", "tic_tac_toe", typed=typed("b2", "b2", "quit"))
    assert_mentions(result.stdout, "b2 is not legal")
    assert result.stdout.count("your move>") == 3


@pytest.mark.parametrize("word", ["z9", "hello", "[/foo]", "[bold", "\\"])
def test_unknown_word_is_quoted_with_what_may_be_typed(invoke: Invoke, word: str) -> None:
    result = invoke("play", "tic_tac_toe", typed=typed(word, "quit"))
    assert result.exit_code == 0
    assert repr(word) in result.stdout
    assert "a1, b1, c1" in result.stdout


def test_undo_takes_back_both_moves(invoke: Invoke) -> None:
    result = invoke("play", "tic_tac_toe", typed=typed("undo", "b2", "undo", "b2", "u", "undo", "quit"))
    assert result.stdout.count(EMPTY) == 3  # at the start and after both times
    assert result.stdout.count("take back") == 2
    assert "not legal" not in result.stdout


def test_help_shows_the_moves(invoke: Invoke) -> None:
    result = invoke("play", "connect_four", typed=typed("help", "?", "", "quit"))
    assert result.stdout.count("actions are 1, 2, 3, 4, 5, 6, 7.") == 3


@pytest.mark.parametrize("ending", ["quit\n", "q\n", "exit\n", ""])
def test_quitting_and_the_end_of_input_end_the_game(invoke: Invoke, ending: str) -> None:
    result = invoke("play", "tic_tac_toe", typed=ending)
    assert result.exit_code == 0
    assert result.stdout.rstrip().endswith("Good-bye.")


def test_agent_replies_with_what_it_expects_and_gives_hints(invoke: Invoke, tic_tac_toe_run: Run) -> None:
    lines = typed("hint", "b2", "h", "quit")
    result = invoke("play", "tic_tac_toe", "--run", tic_tac_toe_run.path, typed=lines)
    assert_mentions(result.stdout, "seat 1", "tic_tac_toe@6")
    assert result.stdout.count("would play ") == 2
    assert result.stdout.count("for you.") == 2
    assert "(it expects " in result.stdout
    hint = next(line for line in result.stdout.splitlines() if "would play" in line)
    moves = hint.split("would play ")[1].split(";")[0].split(", ")
    assert len(moves) == 5
    assert {move.split()[0] for move in moves} <= set(SQUARES)


def test_whole_game_against_an_agent_ends(invoke: Invoke, tic_tac_toe_run: Run) -> None:
    result = invoke(
        "play", "tic_tac_toe", "--run", tic_tac_toe_run.path, "--temperature", 1, typed=typed(*SQUARES)
    )
    assert result.exit_code == 0
    assert any(end in result.stdout for end in ("You win!", "You lose.", "A draw."))


def test_fixed_player_has_no_hints(invoke: Invoke) -> None:
    result = invoke("play", "tic_tac_toe", typed=typed("hint", "quit"))
    assert "start with --run" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["chess"], 2, "unknown game 'chess'"),
        (["tic_tac_toe", "--against", "perfect"], 2, ("tic_tac_toe", "solver", "`perfect`")),
        (["tic_tac_toe", "--against", "minimax:0"], 2, ("'minimax:0'", "minimax:DEPTH", "1 to 9")),
        (["tic_tac_toe", "--against", "nobody"], 2, "unknown opponent 'nobody'"),
        (["tic_tac_toe", "--run", "a", "--against", "random"], 2, ("--run or --against", "not both")),
        (["tic_tac_toe", "--run", "nothing"], 1, ("nothing", "not a run")),
        (["tic_tac_toe", "--seat", "3"], 2, "--seat"),
        (["tic_tac_toe", "--seed", "-1"], 2, "--seed"),
        (["tests.training.test_api:Solitaire", "--against", "random"], 2, ("`play`", "two")),
        (["tic_tac_toe", "--letters", "latin"], 2, ("--letters", "shogi", "tic_tac_toe")),
        (["shogi", "--letters", "greek"], 2, ("--letters greek", "japanese or latin")),
        (["tic_tac_toe", "--record", "a.csa"], 2, ("--record", "shogi")),
        (["shogi", "--record", "a.pgn"], 2, "--record a.pgn"),
        (["shogi", "--record", "a/b.csa"], 2, "no folder a"),
        (["shogi", "--nodes", "8"], 2, ("--nodes", "--run")),
        (["shogi", "--nodes", "-1"], 2, "--nodes"),
        ([], 2, "Missing argument"),
    ],
)
def test_bad_arguments_are_explained(
    invoke: Invoke, arguments: list[str], code: int, expected: Facts
) -> None:
    result = invoke("play", *arguments)
    assert result.exit_code == code
    assert_mentions(result.stderr, expected)
    assert "your move>" not in result.stdout


def test_run_of_another_game_is_refused(invoke: Invoke, train_small: Train) -> None:
    train_small()
    result = invoke("play", "connect_four", "--run", "run")
    assert result.exit_code == 1
    assert "tic_tac_toe, not of connect_four" in result.stderr


def test_agent_that_searches_replies(invoke: Invoke, tic_tac_toe_run: Run) -> None:
    options = ("--run", tic_tac_toe_run.path, "--nodes", 8)
    result = invoke("play", "tic_tac_toe", *options, typed=typed(*SQUARES))
    assert_mentions(result.stdout, "seat 1", "tic_tac_toe@6 (8 nodes)")
    assert "tic_tac_toe@6 (8 nodes) plays " in result.stdout
    assert any(end in result.stdout for end in ("You win!", "You lose.", "A draw."))


AGAINST_RANDOM = ("play", "shogi", "--against", "random")


@pytest.fixture(scope="module")
def shogi_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of Shogi that has hardly learnt; not to be written to."""
    return make_run(tmp_path_factory.mktemp("runs") / "shogi")


# Found by trying: what these players answer to these moves, by these seeds, ends in a mate.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("against", "seed", "moves", "end", "winner"),
    [
        ("random", 9, "4i4h 7g7f 8h4d 4d5c+ 5c6b 6b6a G*4c", ("You win", "White is mated", "Black wins"), 0),
        (
            *("greedy:2", 4, "9g9f 2h4h 6g6f 6i7h 5g5f 1g1f 5i6i 7g7f"),
            *(("You lose", "Black is mated", "White wins"), 1),
        ),
    ],
)
def test_game_of_shogi_is_played_to_mate_and_recorded(
    invoke: Invoke, tmp_path: Path, against: str, seed: int, moves: str, end: Facts, winner: int
) -> None:
    options = ("--against", against, "--seed", seed, "--record", "game.csa")
    result = invoke("play", "shogi", *options, typed=typed(*moves.split()))
    assert result.exit_code == 0
    assert_mentions("\n".join(result.stdout.splitlines()[-2:]), end, "game.csa")
    [record] = read_csa_file(tmp_path / "game.csa")
    assert record.moves[::2] == moves.split()
    assert all(f"{against} plays {reply}\n" in result.stdout for reply in record.moves[1::2])
    assert (record.names, record.ending, record.winner) == (("You", against), "%TSUMI", winner)


def test_shogi_is_played_against_greedy_by_default(invoke: Invoke) -> None:
    result = invoke("play", "shogi", typed=typed("7g7f", "quit"))
    assert result.exit_code == 0
    assert_mentions(result.stdout, "seat 1", "greedy:2")
    assert "greedy:2 plays " in result.stdout
    assert_mentions(result.stdout, "Black to move", "2 plies")
    assert result.stdout.rstrip().endswith("Good-bye.")


@pytest.mark.parametrize(
    ("move", "reason"),
    [
        ("7g7e", ("Black's pawn", "from 7g to 7e", "not legal", "up 2")),
        ("8h2b+", "Black's pawn on 7g"),
        ("P*5e", ("Black drops a pawn on 5e", "not legal", "no pawn in hand")),
        ("3c3d", "White's pawn on 3c"),
        ("5e5d", "'5e5d'"),
        ("7g", "'7g'"),
    ],
)
def test_move_that_shogi_refuses_is_answered_with_the_reason(
    invoke: Invoke, move: str, reason: Facts
) -> None:
    result = invoke(*AGAINST_RANDOM, typed=typed(move, "7g7f", "quit"))
    assert result.exit_code == 0
    assert_mentions(result.stdout, reason)
    assert result.stdout.count("your move>") == 3
    assert result.stdout.count("random plays ") == 1


def test_help_shows_how_shogi_moves_are_written(invoke: Invoke) -> None:
    result = invoke(*AGAINST_RANDOM, typed=typed("help", "quit"))
    assert_mentions(result.stdout, "7g7f", "promotion 8h2b+", "drops P*5e")


@pytest.mark.parametrize(
    ("options", "rank"),
    [
        ((), "|v香v桂v銀v金v玉v金v銀v桂v香|一 a"),
        (("--letters", "japanese"), "|v香v桂v銀v金v玉v金v銀v桂v香|一 a"),
        (("--letters", "latin"), "| l  n  s  g  k  g  s  n  l | a"),
    ],
)
def test_board_is_written_in_the_letters_asked_for(
    invoke: Invoke, options: tuple[str, ...], rank: str
) -> None:
    lines = invoke(*AGAINST_RANDOM, *options, typed=typed("quit")).stdout.splitlines()
    assert rank in lines


def test_moves_taken_back_are_not_recorded(invoke: Invoke, tmp_path: Path) -> None:
    lines = typed("undo", "7g7f", "undo", "2g2f", "quit")
    result = invoke(*AGAINST_RANDOM, "--record", "game.csa", typed=lines)
    assert result.stdout.count("take back") == 1
    assert result.stdout.count("0 plies") == 2
    [record] = read_csa_file(tmp_path / "game.csa")
    assert record.moves[0] == "2g2f"
    assert f"random plays {record.moves[1]}\n" in result.stdout
    assert (len(record.moves), record.ending, record.winner) == (2, "%CHUDAN", None)


def test_ctrl_c_while_the_opponent_thinks_ends_the_game_and_keeps_it(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def think(player: RandomPlayer, batch: PlayerBatch) -> NDArray[np.int32]:
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("thinking went on after Ctrl-C")

    monkeypatch.setattr(RandomPlayer, "choose", think)
    result = invoke(*AGAINST_RANDOM, "--record", "game.csa", typed=typed("7g7f"))
    assert result.exit_code == 0
    assert result.stdout.endswith("Good-bye.\nThe game is in game.csa.\n")
    [record] = read_csa_file(tmp_path / "game.csa")
    assert (record.moves, record.ending) == (["7g7f"], "%CHUDAN")


def test_record_names_the_person_in_the_second_seat(invoke: Invoke, tmp_path: Path) -> None:
    invoke(*AGAINST_RANDOM, "--seat", 2, "--record", "game.csa", typed=typed("quit"))
    [record] = read_csa_file(tmp_path / "game.csa")
    assert (record.names, len(record.moves)) == (("random", "You"), 1)


def test_game_is_recorded_as_kif(invoke: Invoke, tmp_path: Path) -> None:
    options = ("--seed", 9, "--record", "game.kif")
    result = invoke(*AGAINST_RANDOM, *options, typed=typed("4i4h", "7g7f", "quit"))
    assert result.stdout.rstrip().endswith("game.kif.")
    assert (tmp_path / "game.kif").read_text(encoding="utf-8").splitlines() == [
        "#KIF version=2.0 encoding=UTF-8",
        "手合割：平手",
        "先手：You",
        "後手：random",
        "手数----指手---------消費時間--",
        "   1 ４八金(49)",
        "   2 ４四歩(43)",
        "   3 ７六歩(77)",
        "   4 ６二飛(82)",
        "   5 中断",
        "まで4手で中断",
    ]


def test_file_that_exists_is_not_overwritten(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "game.csa").write_text("precious")
    result = invoke(*AGAINST_RANDOM, "--record", "game.csa", typed=typed("quit"))
    assert result.exit_code == 2
    assert "--record game.csa" in result.stderr
    assert "your move>" not in result.stdout
    assert (tmp_path / "game.csa").read_text() == "precious"


def test_game_that_cannot_be_written_is_printed(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "game.csa").symlink_to("nowhere")  # not there when looked for, and not to be made
    result = invoke(*AGAINST_RANDOM, "--record", "game.csa", typed=typed("7g7f", "quit"))
    assert result.exit_code == 1
    assert_mentions(result.stderr, "game.csa", "File exists")
    [record] = read_csa(result.stdout.split("Good-bye.\n")[1])
    assert (record.moves[0], len(record.moves), record.ending) == ("7g7f", 2, "%CHUDAN")


@pytest.mark.slow
def test_agent_that_searches_plays_shogi(invoke: Invoke, shogi_run: Run, tmp_path: Path) -> None:
    options = ("--run", shogi_run.path, "--nodes", 8, "--record", "game.csa")
    result = invoke("play", "shogi", *options, typed=typed("hint", "7g7f", "quit"))
    assert result.exit_code == 0
    assert "would play " in result.stdout
    [record] = read_csa_file(tmp_path / "game.csa")
    assert record.names == ("You", "shogi@1 (8 nodes)")
    assert f"shogi@1 (8 nodes) plays {record.moves[1]} (it expects " in result.stdout
