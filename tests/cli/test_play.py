"""`senju play`: games typed at a prompt."""

import pytest

from senju.training.run import Run
from tests.conftest import Invoke, Train

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
    assert f"You play seat 1 against {against}." in result.stdout
    assert result.stdout.rstrip().endswith(end)
    assert f"{against} plays " in result.stdout


def test_second_seat_waits_for_the_first_move(invoke: Invoke) -> None:
    result = invoke("play", "connect_four", "--seat", 2, "--against", "random", typed=typed("quit"))
    assert "You play seat 2" in result.stdout
    assert result.stdout.index("random plays") < result.stdout.index("your move>")


def test_same_seed_gives_the_same_game(invoke: Invoke) -> None:
    def play(seed: int) -> str:
        options = ("--against", "random", "--seed", seed)
        return invoke("play", "connect_four", *options, typed=typed(*"1234567" * 8)).stdout

    assert play(3) == play(3)
    assert len({play(seed) for seed in range(4)}) > 1


def test_illegal_move_is_refused_and_asked_again(invoke: Invoke) -> None:
    result = invoke("play", "tic_tac_toe", typed=typed("b2", "b2", "quit"))
    assert "b2 is not legal here." in result.stdout
    assert result.stdout.count("your move>") == 3


@pytest.mark.parametrize("word", ["z9", "hello", "[/foo]", "[bold", "\\"])
def test_unknown_word_is_quoted_with_what_may_be_typed(invoke: Invoke, word: str) -> None:
    result = invoke("play", "tic_tac_toe", typed=typed(word, "quit"))
    assert result.exit_code == 0
    assert f"{word!r} names no action; actions are a1, b1, c1" in result.stdout


def test_undo_takes_back_both_moves(invoke: Invoke) -> None:
    result = invoke("play", "tic_tac_toe", typed=typed("undo", "b2", "undo", "b2", "u", "undo", "quit"))
    assert result.stdout.count(EMPTY) == 3  # at the start and after both times
    assert result.stdout.count("There is nothing to take back.") == 2
    assert "not legal" not in result.stdout


def test_help_tells_the_moves(invoke: Invoke) -> None:
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
    assert "You play seat 1 against tic_tac_toe@6." in result.stdout
    assert result.stdout.count("The agent would play ") == 2
    assert result.stdout.count("for you.") == 2
    assert "(it expects " in result.stdout
    hint = next(line for line in result.stdout.splitlines() if "The agent would play" in line)
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
    assert "Only an agent can be asked; start with --run." in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["chess"], 2, "unknown game 'chess'"),
        (["tic_tac_toe", "--against", "perfect"], 2, "nobody knows tic_tac_toe perfectly"),
        (["tic_tac_toe", "--against", "minimax:0"], 2, "a depth from 1 to 9"),
        (["tic_tac_toe", "--against", "nobody"], 2, "unknown opponent 'nobody'"),
        (["tic_tac_toe", "--run", "a", "--against", "random"], 2, "give --run or --against, not both"),
        (["tic_tac_toe", "--run", "nothing"], 1, "nothing is not a run"),
        (["tic_tac_toe", "--seat", "3"], 2, "--seat"),
        (["tic_tac_toe", "--seed", "-1"], 2, "--seed"),
        (["tests.training.test_api:Solitaire", "--against", "random"], 2, "`play` needs two that take turns"),
        ([], 2, "Missing argument"),
    ],
)
def test_bad_arguments_are_explained(invoke: Invoke, arguments: list[str], code: int, expected: str) -> None:
    result = invoke("play", *arguments)
    assert result.exit_code == code
    assert expected in result.stderr


def test_run_of_another_game_is_refused(invoke: Invoke, train_small: Train) -> None:
    train_small()
    result = invoke("play", "connect_four", "--run", "run")
    assert result.exit_code == 1
    assert "run is a run of tic_tac_toe, not of connect_four" in result.stderr
