"""Rows: chance depends on a row's number and not on its position in the batch; ended games restart."""

import numpy as np
import pytest
from numpy.typing import NDArray

from senju.games.connect_four import ConnectFour
from senju.games.game import Game
from senju.games.rows import ACTION, CLOCK, Rows, choose_at_random
from senju.games.tic_tac_toe import TicTacToe
from senju.kernels import pack_legal, unpack_legal
from tests.games.small_games import CardDuel, DiceRace, Walk

# 99.9 % quantiles of chi-squared, by degrees of freedom
CHI_SQUARED = {1: 10.83, 2: 13.82, 6: 22.46, 63: 103.44, 64: 104.72, 99: 148.23}


def clock_of(num_rows: int) -> NDArray[np.void]:
    clock = np.zeros(num_rows, CLOCK)
    clock["row"] = np.arange(num_rows)
    return clock


def choices(mask: NDArray[np.bool_], num_rows: int, seed: int = 0, stream: int = ACTION) -> NDArray[np.int32]:
    legal = np.repeat(pack_legal(mask)[None, None], num_rows, axis=0)
    actions = np.full((num_rows, 1), -9, np.int32)
    choose_at_random(legal, clock_of(num_rows), np.uint64(seed), stream, actions)
    return actions[:, 0]


def chi_squared(counts: NDArray[np.int64]) -> float:
    expected = counts.sum() / len(counts)
    return float(((counts - expected) ** 2 / expected).sum())


def play(rows: Rows, num_steps: int) -> list[bytes]:
    """Random play; the states after each step, row by row, before any row starts anew."""
    observations, outcomes = rows.game.new_observations(len(rows)), rows.game.new_outcomes(len(rows))
    actions = np.zeros((len(rows), rows.game.num_acting), np.int32)
    seen = [b""] * len(rows)
    for _ in range(num_steps):
        rows.observe(observations)
        choose_at_random(observations.legal, rows.clock, rows.seed, ACTION, actions)
        rows.step(actions, outcomes)
        seen = [before + state.tobytes() for before, state in zip(seen, rows.states, strict=True)]
        rows.advance(outcomes)
    return seen


def rows_of(game: Game, ids: list[int], seed: int = 0) -> Rows:
    return Rows(game, np.array(ids, np.uint32), seed)


@pytest.mark.parametrize(
    "allowed", [[4, 7], [0, 2, 3], [0, 1, 2, 3, 4, 5, 6], range(64), range(65), range(30, 130)]
)
def test_every_legal_action_is_equally_likely(allowed: list[int]) -> None:
    mask = np.zeros(130, np.bool_)
    mask[allowed] = True
    counts = np.bincount(choices(mask, 20_000, seed=1), minlength=130)
    assert counts[~mask].sum() == 0
    assert chi_squared(counts[mask]) < CHI_SQUARED[len(allowed) - 1]


def test_choices_of_neighbouring_rows_steps_and_games_are_independent() -> None:
    mask = np.ones(2, np.bool_)
    legal = np.repeat(pack_legal(mask)[None, None], 10_000, axis=0)
    clock = np.zeros(10_000, CLOCK)
    for counted in CLOCK.names:
        clock[counted] = np.arange(10_000)
        actions = np.zeros((10_000, 1), np.int32)
        choose_at_random(legal, clock, np.uint64(2), ACTION, actions)
        pairs = 2 * actions[:-1, 0] + actions[1:, 0]
        assert chi_squared(np.bincount(pairs, minlength=4)) < 16.27  # 99.9 %, 3 degrees of freedom
        clock[counted] = 0


def test_row_without_an_acting_seat_gets_action_zero() -> None:
    assert choices(np.zeros(70, np.bool_), 5).tolist() == [0] * 5


@pytest.mark.parametrize("action", [0, 63, 64, 129])
def test_only_legal_action_is_always_chosen(action: int) -> None:
    mask = np.zeros(130, np.bool_)
    mask[action] = True
    assert set(choices(mask, 200).tolist()) == {action}


def test_other_seed_or_stream_gives_other_choices() -> None:
    mask = np.ones(1000, np.bool_)
    plain = choices(mask, 100)
    assert np.array_equal(plain, choices(mask, 100))
    assert (plain != choices(mask, 100, seed=1)).sum() > 90
    assert (plain != choices(mask, 100, stream=ACTION + 1)).sum() > 90


def test_seats_that_act_at_once_choose_independently() -> None:
    legal = np.repeat(pack_legal(np.ones((1, 2, 8), np.bool_)), 8000, axis=0)
    actions = np.zeros((8000, 2), np.int32)
    choose_at_random(legal, clock_of(8000), np.uint64(3), ACTION, actions)
    pairs = np.bincount(8 * actions[:, 0] + actions[:, 1], minlength=64)
    assert chi_squared(pairs) < CHI_SQUARED[63]


@pytest.mark.parametrize("game", [TicTacToe, ConnectFour, Walk, CardDuel, DiceRace])
def test_row_plays_the_same_alone_in_company_and_elsewhere_in_the_batch(game: type[Game]) -> None:
    together = play(rows_of(game(), [0, 1, 2, 3, 4]), 60)
    backwards = play(rows_of(game(), [4, 3, 2, 1, 0]), 60)
    assert backwards == together[::-1]
    assert play(rows_of(game(), [3]), 60) == [together[3]]


def test_rows_with_other_ids_or_another_seed_play_otherwise() -> None:
    played = play(rows_of(DiceRace(), [0, 1, 2, 2**32 - 1]), 60) + play(rows_of(DiceRace(), [0], 1), 60)
    assert len(set(played)) == 5


def test_every_game_of_every_row_gets_a_key_of_its_own() -> None:
    rows, outcomes = rows_of(DiceRace(), list(range(50))), DiceRace().new_outcomes(50)
    keys = set(rows.states["key"].tolist())
    outcomes.terminated[:] = True
    for _ in range(20):
        rows.advance(outcomes)
        keys |= set(rows.states["key"].tolist())
    assert len(keys) == 50 * 21


def test_ended_rows_start_anew_and_others_go_on() -> None:
    game = TicTacToe()
    rows, outcomes = rows_of(game, [10, 11, 12, 13]), game.new_outcomes(4)
    rows.step(np.full((4, 1), 4, np.int32), outcomes)
    played = rows.states.copy()
    outcomes.terminated[1] = outcomes.truncated[3] = True
    assert rows.advance(outcomes).tolist() == [1, 3]
    assert rows.states[[0, 2]].tobytes() == played[[0, 2]].tobytes()
    assert rows.states["num_moves"].tolist() == [1, 0, 1, 0]
    assert rows.clock.tolist() == [(10, 0, 1), (11, 1, 0), (12, 0, 1), (13, 1, 0)]


def test_ended_row_keeps_its_last_position_until_it_is_advanced() -> None:
    game = Walk()
    rows, outcomes = rows_of(game, [0]), game.new_outcomes(1)
    for _ in range(4):
        rows.step(np.ones((1, 1), np.int32), outcomes)
        last = rows.states["place"].tolist()
        rows.advance(outcomes)
    assert last == [4]
    assert rows.states["place"].tolist() == [0]
    assert rows.clock.tolist() == [(0, 1, 0)]


def test_states_and_clock_are_the_whole_state() -> None:
    rows = rows_of(DiceRace(), [5, 6, 7])
    play(rows, 33)
    states, clock = rows.states.copy(), rows.clock.copy()
    ahead = play(rows, 60)
    again = rows_of(DiceRace(), [5, 6, 7])
    again.states[:], again.clock[:] = states, clock
    assert play(again, 60) == ahead


def test_random_play_never_chooses_what_is_not_legal() -> None:
    game = ConnectFour()
    rows, observations = rows_of(game, list(range(64))), game.new_observations(64)
    actions, outcomes = np.zeros((64, 1), np.int32), game.new_outcomes(64)
    for _ in range(100):
        rows.observe(observations)
        choose_at_random(observations.legal, rows.clock, rows.seed, ACTION, actions)
        legal = unpack_legal(observations.legal[:, 0], game.num_actions)
        assert np.take_along_axis(legal, actions, axis=1).all()
        rows.step(actions, outcomes)
        rows.advance(outcomes)
