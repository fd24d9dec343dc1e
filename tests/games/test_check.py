"""`check_game` against good games of every kind, and against one broken game for each promise."""

import numpy as np
import pytest

from senju.errors import ConfigError, GameContractError, IllegalActionError
from senju.games.check import check_game
from senju.games.connect_four import ConnectFour
from senju.games.game import Game
from senju.games.tic_tac_toe import STATE, TicTacToe
from tests.games import broken_games as broken
from tests.games.small_games import GOOD_GAMES, CardDuel, DiceRace, Harvest, Walk

NUM_STEPS = 80  # enough for each small game to end several times in 8 rows


@pytest.mark.parametrize("game", [*GOOD_GAMES, ConnectFour])
def test_good_games_pass(game: type[Game]) -> None:
    report = check_game(game(), num_steps=NUM_STEPS)
    assert report.name == game.name
    assert report.num_games_finished > 0


@pytest.mark.parametrize("num_rows", [2, 3, 17])
@pytest.mark.parametrize("game", [TicTacToe, CardDuel, Walk])
def test_good_games_pass_in_batches_of_any_size(game: type[Game], num_rows: int) -> None:
    check_game(game(), num_rows=num_rows, num_steps=40, seed=num_rows)


def test_report_counts_steps_and_games() -> None:
    report = check_game(TicTacToe(), num_rows=4, num_steps=100)
    assert report.num_steps == 400
    assert 400 // 9 <= report.num_games_finished <= 400 // 5
    assert report.longest_game == 9
    assert any("copied state" in check for check in report.checks)


def test_truncation_is_seen_and_counted_as_an_end() -> None:
    assert check_game(Walk(), num_steps=NUM_STEPS).longest_game == Walk.limit


def test_one_row_cannot_show_independence() -> None:
    with pytest.raises(ConfigError, match="num_rows=1"):
        check_game(TicTacToe(), num_rows=1)


def inner_padding() -> np.dtype[np.void]:
    inner = np.dtype([("flag", np.int8), ("word", np.int64)], align=True)
    return np.dtype([*STATE.descr, ("pair", inner, 2)])


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("name", "", "name"),
        ("num_seats", 0, "num_seats=0.*1 to 128"),
        ("num_seats", 129, "num_seats=129.*1 to 128"),
        ("num_acting", 3, "num_acting=3.*1 or num_seats=2"),
        ("num_actions", 1, "num_actions=1"),
        ("observation_shape", 18, "observation_shape=18"),
        ("observation_shape", (2, 0), r"observation_shape=\(2, 0\)"),
        ("observation_dtype", np.float32, "observation_dtype=float32.*uint8"),
        ("observation_dtype", "S1", "observation_dtype=.*uint8"),
        ("state_dtype", np.dtype(np.int64), "state_dtype=int64"),
        ("state_dtype", np.dtype([("board", object)]), "state_dtype=.*board"),
        ("state_dtype", np.dtype([*STATE.descr, ("n", np.int64)], align=True), r"\b5 bytes .*padding"),
        ("state_dtype", inner_padding(), r"\b14 bytes .*padding"),
    ],
)
def test_wrong_declaration_is_refused(attribute: str, value: object, message: str) -> None:
    game = type("Declared", (TicTacToe,), {attribute: value})()
    with pytest.raises(GameContractError, match=message):
        check_game(game)


def test_zero_sum_of_three_seats_is_refused() -> None:
    game = type("Declared", (Harvest,), {"is_zero_sum": True})()
    with pytest.raises(GameContractError, match=r"harvest: is_zero_sum.*num_seats=3"):
        check_game(game)


@pytest.mark.parametrize(
    ("game", "message"),
    [
        (broken.ActionsNotDeclared, "num_actions.*not declared"),
        (broken.WideObservations, r"observation .*int32\[8, 1, 2, 3, 3\], expected uint8"),
        (broken.FlatObservations, r"observation .*uint8\[8, 1, 18\], expected uint8\[8, 1, 2, 3, 3\]"),
        (broken.DoubleRewards, r"rewards .*float64\[8, 2\], expected float32"),
        (broken.OneStateTooMany, r"states .*\[9\], expected .*\[8\]"),
        (broken.ResetsEveryRow, r"reset .*\[0, 2, 4, 6\].* row 1\b"),
        (broken.ResetWritesBehindTheStates, "reset .*outside.* states"),
        (broken.ResetUsesUpItsKeys, "reset .*arguments"),
        (broken.ResetKeepsTheStepCount, "reset leaves data"),
        (broken.StartsOnlyOnce, "reset leaves data"),
        (broken.StartsFinished, "row 0, seat 0: no legal action"),
        (broken.AddsToObservations, "observe .*all of observation"),
        (broken.AddsToLegalMasks, "observe .*all of legal"),
        (broken.WritesOnlySeatOne, "observe .*all of seats"),
        (broken.SeatTwoOfTwo, "seats out of range"),
        (broken.TenthSquare, "legal .*num_actions"),
        (broken.NoMovesAfterThree, "row 0, seat 1: no legal action"),
        (broken.NoSeatActsAfterThree, "row 0: no seat acts"),
        (broken.MovesWhileResting, "row 0, index 0: legal actions"),
        (broken.SwapsPlaces, r"seats\[row, i\] .*i or -1"),
        (broken.ObserveCountsLooks, "observe changed .*states"),
        (broken.ObserveWritesBehindTheMasks, "observe .*outside"),
        (broken.ObserveWritesBeforeTheStates, "observe .*outside"),
        (broken.LegalAfterTheEnd, "row .: legal actions .*end"),
        (broken.NoSeatActsAfterTruncation, "row .: truncated.*no acting seat"),
        (broken.RewardsOnlyTheMover, r"row 0\b.*reward.*\[0\.0, nan\]"),
        (broken.WritesOnlyEnds, "terminated .*not written"),
        (broken.NeverWritesTruncated, "truncated .*not written"),
        (broken.TruncatesWhatTheRulesEnd, "both terminated and truncated"),
        (broken.WinsWithoutLosers, r"rewards .*zero-sum .*\d"),
        (broken.StepChangesActions, "step changed .*actions"),
        (broken.StepWritesBehindTheRewards, "step .*outside"),
        (broken.StepWritesBeforeTheFlags, "step .*outside"),
        (broken.Endless, "no game ended .*80 steps"),
        (broken.RefusesTheCentre, "legal mask .*refused.*action 4"),
        (broken.MovesToAnEmptySquareInstead, "row .: action . .*not legal"),
        (broken.WrapsActions, "row 0: action .*not legal"),
        (broken.TrustsSeatOne, "row .: action .*not legal"),
        (broken.RaisesAnotherError, "expected an? IllegalActionError, got IndexError"),
        (broken.NamesNoGame, r"name \['tic_tac_toe'\]"),
        (broken.NamesNoAction, "does not name"),
        (broken.NamesTheWrongRow, r"name \['row 7'\]"),
        (broken.MovesBeforeItRefuses, "refused step changed .*states"),
        (broken.PlaysOnAfterTheEnd, "after .*game terminated"),
        (broken.WalksOnAfterTruncation, "after .*game truncated"),
        (broken.DiceOutsideTheState, "same keys differ"),
        (broken.DiceOfTheRowNumber, "rows 7 to 7 differ .*smaller batch"),
        (broken.EnviesTheNeighbour, "rows 7 to 7 differ .*smaller batch.*rewards"),
        (broken.SharesAmongTheBatch, "rows 0 to 0 differ .*smaller batch.*rewards"),
        (broken.CountsOutsideTheState, "copy of the states .*differently"),
        (broken.NoText, "board_text"),
        (broken.NoPicture, "board_svg.*<svg>"),
        (broken.ColumnsOnly, "same name"),
        (broken.ReadsBackwards, r"parse_action\('a1'\) gives 8, expected 0|parse_action\('c3'\) gives 0"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "noticed",
)
def test_broken_promise_is_noticed(game: type[Game], message: str) -> None:
    with pytest.raises(GameContractError, match=message) as caught:
        check_game(game(), num_steps=NUM_STEPS)
    assert str(caught.value).startswith(f"{game.name}: ")


def test_simultaneous_refusal_names_both_seats_actions() -> None:
    game = CardDuel()
    states = game.new_states(3)
    game.reset(states, np.arange(3), np.zeros(3, np.uint64))
    actions = np.array([[1, 1], [1, 2], [0, 2]], np.int32)
    with pytest.raises(IllegalActionError, match=r"card_duel: row 2: action 0 \(move-0\), 2 \(move-2\)"):
        game.step(states, actions, game.new_outcomes(3))


def test_other_keys_give_other_chance() -> None:
    game = DiceRace()
    states = game.new_states(64)
    game.reset(states, np.arange(64), np.arange(64, dtype=np.uint64))
    game.step(states, np.zeros((64, 1), np.int32), game.new_outcomes(64))
    assert set(states["totals"][:, 0].tolist()) == {1, 2, 3, 4, 5, 6}
