"""Strength: intervals against published numbers, matches by their rules, judgements by hand."""

import json
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from senju.errors import ConfigError
from senju.evaluation.matches import FIRST_ROW, Judgement, MatchResult, MoveJudge, play_match
from senju.games import make_game
from senju.games.connect_four import STATE
from senju.games.connect_four_solver import Solver
from senju.games.game import Game, States
from senju.opponents.players import MinimaxPlayer, PerfectPlayer, Player, PlayerBatch, RandomPlayer
from senju.opponents.score import Score, wilson_interval
from senju.runs.run import Run
from tests.facts import mentions
from tests.opponents.positions import noughts, stones


# Newcombe 1998, Statistics in Medicine 17, table I, method 3
@pytest.mark.parametrize(
    ("wins", "games", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_interval_is_the_published_one(wins: int, games: int, low: float, high: float) -> None:
    interval = wilson_interval(wins / games, games)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=5e-5)


def test_wilson_interval_of_extreme_scores_stays_within_bounds() -> None:
    # by hand: z² / (n + z²) with z² = 3.841459, n = 10
    assert wilson_interval(0.0, 10) == (0.0, pytest.approx(3.841459 / 13.841459))
    assert wilson_interval(1.0, 10) == (pytest.approx(10 / 13.841459), 1.0)
    assert wilson_interval(0.5, 0) == (0.0, 1.0)


@pytest.mark.parametrize("score", [0.0, 0.1, 0.5, 0.975, 1.0])
def test_wilson_interval_holds_the_score_and_shrinks_with_more_games(score: float) -> None:
    few, many = wilson_interval(score, 10), wilson_interval(score, 1000)
    assert few.low <= many.low <= score <= many.high <= few.high


def test_score_counts_a_draw_as_half_a_win() -> None:
    result = match_result(wins=3, draws=2, losses=5)
    assert (result.score.games, result.score.mean) == (10, 0.4)
    assert result.score.interval == wilson_interval(0.4, 10)


def match_result(judgement: Judgement | None = None, **counts: int) -> MatchResult:
    score = Score(**{"wins": 1, "losses": 1, "wins_moving_first": 1, **counts})
    return MatchResult("me", "you", score, 0, judgement)


def test_result_as_json_holds_everything_as_plain_values() -> None:
    record = match_result(judgement=Judgement(4, 3, 2, 1)).as_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert (record["games"], record["score"]) == (2, 0.5)
    assert (record["judgement"]["share"], record["judgement"]["decisive_share"]) == (0.75, 0.5)


def test_shares_of_nothing_are_null_in_json() -> None:
    nothing = Judgement(0, 0, 0, 0)
    assert math.isnan(nothing.share)
    assert math.isnan(nothing.decisive_share)
    record = match_result(judgement=nothing).as_dict()
    assert json.loads(json.dumps(record, allow_nan=False))["judgement"]["share"] is None


class Recorder(Player):
    """Plays its lowest move, and records the positions it is asked about."""

    def __init__(self, name: str, is_deterministic: bool = True) -> None:
        self.name, self.is_deterministic = name, is_deterministic
        self.shown: dict[tuple[int, int], tuple[int, bytes]] = {}  # (game, ply): seat and position

    def choose(self, batch: PlayerBatch) -> NDArray[np.int32]:
        for row in range(len(batch.states)):
            place = int(batch.clock[row]["row"]), int(batch.clock[row]["step"])
            self.shown[place] = int(batch.observations.seats[row, 0]), batch.states[row].tobytes()
        legal = batch.observations.legal[:, 0, 0]
        lowest = np.log2((legal & -legal.view(np.int64).view(np.uint64)).astype(np.float64))
        return lowest.astype(np.int32)[:, None]


@pytest.fixture(params=["tic_tac_toe", "connect_four"])
def game(request: pytest.FixtureRequest) -> Game:
    return make_game(request.param)


def test_each_player_moves_first_in_exactly_half_of_the_games(game: Game) -> None:
    one, other = Recorder("one"), Recorder("other")
    play_match(game, one, other, 10, opening_plies=0)
    assert sorted(row for row, ply in one.shown if ply == 0) == [FIRST_ROW + row for row in (0, 2, 4, 6, 8)]
    assert sorted(row for row, ply in other.shown if ply == 0) == [FIRST_ROW + row for row in (1, 3, 5, 7, 9)]


def test_players_keep_their_seats_through_a_game(game: Game) -> None:
    one, other = Recorder("one"), Recorder("other")
    play_match(game, one, other, 6, opening_plies=3)
    for player, parity in ((one, 0), (other, 1)):
        assert {(row % 2, seat) for (row, _), (seat, _) in player.shown.items()} == {
            (0, parity),
            (1, 1 - parity),
        }


@pytest.mark.parametrize("opening_plies", [1, 2, 4])
def test_both_games_of_a_pair_begin_with_the_same_opening(game: Game, opening_plies: int) -> None:
    one, other = Recorder("one"), Recorder("other")
    play_match(game, one, other, 20, opening_plies=opening_plies)
    first_shown = {
        row: position
        for player in (one, other)
        for (row, ply), (_, position) in player.shown.items()
        if ply == opening_plies
    }
    rows = sorted(first_shown)
    assert rows == [FIRST_ROW + game for game in range(20)]
    assert all(first_shown[row] == first_shown[row + 1] for row in rows[::2])
    assert len(set(first_shown.values())) > 1
    assert min(ply for player in (one, other) for _, ply in player.shown) == opening_plies


def test_openings_are_drawn_only_where_both_players_are_deterministic(game: Game) -> None:
    sure, unsure = Recorder("sure"), Recorder("unsure", is_deterministic=False)
    assert play_match(game, sure, sure, 2).opening_plies == 4
    assert play_match(game, sure, unsure, 2).opening_plies == 0
    assert play_match(game, unsure, sure, 2).opening_plies == 0


def test_equal_deterministic_players_score_exactly_half(game: Game) -> None:
    result = play_match(game, Recorder("one"), Recorder("other"), 40)
    assert result.score.mean == 0.5
    assert result.score.wins == result.score.losses
    assert result.score.wins > 0


def test_same_seed_gives_the_same_result_and_another_seed_another(game: Game) -> None:
    results = [play_match(game, RandomPlayer(), RandomPlayer(), 200, seed=seed) for seed in (1, 1, 2)]
    assert results[0] == results[1]
    assert results[0] != results[2]


def test_random_against_random_is_even_but_for_the_first_move(game: Game) -> None:
    result = play_match(game, RandomPlayer(), RandomPlayer(), 20_000)
    assert result.score.mean == pytest.approx(0.5, abs=0.015)  # four standard deviations
    assert result.score.wins_moving_first > result.score.wins - result.score.wins_moving_first
    assert result.score.losses_moving_first < result.score.losses - result.score.losses_moving_first


def test_wins_and_losses_are_those_of_the_first_named_player() -> None:
    game = make_game("connect_four")
    strong, weak = MinimaxPlayer(game, 3), RandomPlayer()
    won, lost = play_match(game, strong, weak, 40), play_match(game, weak, strong, 40)
    assert won.score.mean > 0.8
    assert lost.score.mean < 0.2
    assert (won.player, won.opponent) == ("minimax:3", "random")


def test_progress_is_reported_until_all_games_are_over(game: Game) -> None:
    reported: list[int] = []
    play_match(game, RandomPlayer(), RandomPlayer(), 6, on_games_done=reported.append)
    assert reported[-1] == 6
    assert reported == sorted(reported)


class Onlooker:
    """An oracle that can judge no position, and records those it is asked about."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []

    def can_solve(self, states: States) -> NDArray[np.bool_]:
        self.seen.extend(state.tobytes() for state in states)
        return np.zeros(len(states), np.bool_)

    def values(self, states: States) -> NDArray[np.int8]:
        raise AssertionError("it can judge nothing")


def test_oracle_is_asked_about_the_first_players_moves_and_no_others(game: Game) -> None:
    one, opponent, onlooker = Recorder("one"), RandomPlayer(), Onlooker()
    opponent.oracle = onlooker
    result = play_match(game, one, opponent, 6)
    assert sorted(onlooker.seen) == sorted(position for _, position in one.shown.values())
    assert result.judgement == Judgement(0, 0, 0, 0)


@pytest.mark.parametrize("num_games", [0, 1, 3, -2])
def test_games_that_cannot_be_paired_are_refused(num_games: int) -> None:
    with pytest.raises(ConfigError, match=f"games={num_games}"):
        play_match(make_game("tic_tac_toe"), RandomPlayer(), RandomPlayer(), num_games)


def test_game_of_more_than_two_seats_is_refused() -> None:
    game = make_game("tic_tac_toe")
    game.num_seats = 3
    with pytest.raises(ConfigError, match=mentions("tic_tac_toe", "has 3 seats", "evaluation.opponents=[]")):
        play_match(game, RandomPlayer(), RandomPlayer(), 2)


def test_agent_measured_twice_has_the_same_strength(tic_tac_toe_run: Run) -> None:
    agent, game = tic_tac_toe_run.agent, tic_tac_toe_run.game
    results = [play_match(game, agent.player(), RandomPlayer(), 20, seed=5) for _ in range(2)]
    assert results[0] == results[1]


# X, to move, wins at 1. Otherwise O wins: at 3 or at 5, and one move cannot stop both.
WIN_OR_LOSE = (
    "X . O . . . .",
    "X X O X . O O",
    "X O O O . X X",
)
LOST = (
    ". . O . . . X",
    "X X O X . O O",
    "X O O O . X X",
)
ONE_MOVE_LEFT = (
    "O O X X O . X",
    "X X O O X X O",
    "O O X X O O X",
    "X X O O X X O",
    "O O X X O O X",
    "X X O O X X O",
)


def test_moves_are_judged_by_whether_they_keep_the_best_result() -> None:
    judge = MoveJudge(Solver())
    for column in range(7):
        judge.see(stones(*WIN_OR_LOSE), np.array([[column]], np.int32))
    assert judge.verdict() == Judgement(moves=7, kept=1, decisive_moves=7, decisive_kept=1)


def test_moves_that_cannot_change_the_result_keep_it_and_decide_nothing() -> None:
    judge = MoveJudge(Solver())
    for column in range(7):
        judge.see(stones(*LOST), np.array([[column]], np.int32))
    judge.see(stones(*ONE_MOVE_LEFT), np.array([[5]], np.int32))
    assert judge.verdict() == Judgement(moves=8, kept=8, decisive_moves=0, decisive_kept=0)


def test_positions_with_few_stones_are_not_judged() -> None:
    judge = MoveJudge(Solver())
    judge.see(np.zeros(3, STATE), np.zeros((3, 1), np.int32))
    assert judge.verdict() == Judgement(0, 0, 0, 0)


def test_match_without_solved_positions_has_an_empty_judgement() -> None:
    assert MoveJudge(Solver()).verdict() == Judgement(0, 0, 0, 0)


def test_perfect_player_is_judged_perfect_and_random_is_not() -> None:
    game = make_game("connect_four")
    shares = []
    for player in (PerfectPlayer(game), RandomPlayer()):
        verdict = play_match(game, player, PerfectPlayer(game), 20).judgement
        assert verdict is not None
        assert verdict.moves >= verdict.decisive_moves > 0
        shares.append(verdict.decisive_share)
    assert shares[0] == 1.0
    assert shares[1] < 0.9


def test_drawn_boards_are_read_as_they_look() -> None:
    assert (
        make_game("tic_tac_toe").board_text(noughts("X.O .X. ..O")[0]).startswith("1 X · O\n2 · X ·\n3 · · O")
    )
    drawn = make_game("connect_four").board_text(stones(". . . . . . O", "X . . . . . X")[0])
    assert drawn.splitlines()[4:6] == ["· · · · · · O", "X · · · · · X"]
