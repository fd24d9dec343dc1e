"""Players against hand-made positions, plain search and the rules of the game."""

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from senju.errors import ConfigError
from senju.evaluation.matches import play_match
from senju.games import make_game
from senju.games.connect_four_solver import MIN_STONES, Solver
from senju.games.game import Game, Heuristic, States
from senju.games.rows import Rows
from senju.games.tic_tac_toe import LINES, TicTacToe
from senju.opponents.players import (
    PLY_DISCOUNT,
    AgentPlayer,
    GreedyPlayer,
    MinimaxPlayer,
    PerfectPlayer,
    Player,
    RandomPlayer,
    built_in_player,
)
from senju.runs.run import Run
from tests.opponents.positions import choose, noughts, stones


@pytest.fixture(scope="module")
def tic_tac_toe() -> Game:
    return make_game("tic_tac_toe")


@pytest.fixture(scope="module")
def connect_four() -> Game:
    return make_game("connect_four")


def random_positions(game: Game, num_rows: int, num_moves: int, seed: int) -> States:
    """Positions after random moves; rows whose game ended before are left out."""
    rows = Rows(game, np.arange(num_rows, dtype=np.uint32), seed)
    running = np.ones(num_rows, np.bool_)
    for step in range(num_moves):
        outcomes = game.new_outcomes(int(running.sum()))
        states = rows.states[running]
        actions = choose(game, RandomPlayer(), states, seed, step)
        game.step(states, actions[:, None], outcomes)
        rows.states[running] = states
        running[running] = ~(outcomes.terminated | outcomes.truncated)
    return rows.states[running]


def test_minimax_takes_a_win_in_one(tic_tac_toe: Game, connect_four: Game) -> None:
    # X completes its row at c1, O its diagonal at a3
    open_rows = noughts("XX. OO. ...", "XXO .O. .X.")
    assert choose(tic_tac_toe, MinimaxPlayer(tic_tac_toe, 2), open_rows).tolist() == [2, 6]
    three = stones(
        "X . . . . . .",
        "X O . . . . .",
        "X O . . . O .",
    )
    assert choose(connect_four, MinimaxPlayer(connect_four, 2), three).tolist() == [0]


def test_minimax_blocks_a_loss_in_one(tic_tac_toe: Game, connect_four: Game) -> None:
    threatened = noughts("XX. .O. ...", "OO. X.. X..")  # O must take c1; X, to move, must too
    assert choose(tic_tac_toe, MinimaxPlayer(tic_tac_toe, 2), threatened).tolist() == [2, 2]
    three = stones(
        "O . . . . . X",
        "X X X . . O O",
    )
    assert choose(connect_four, MinimaxPlayer(connect_four, 2), three).tolist() == [3]


def test_minimax_of_one_ply_sees_wins_but_no_threats(tic_tac_toe: Game) -> None:
    values = MinimaxPlayer(tic_tac_toe, 1).action_values(noughts("XX. OO. ...", "XX. .O. ..."))
    assert values[0].tolist() == [-np.inf, -np.inf, 1.0, -np.inf, -np.inf, 0.0, 0.0, 0.0, 0.0]
    assert set(values[1].tolist()) == {-np.inf, 0.0}


def test_minimax_wins_early_and_loses_late(tic_tac_toe: Game) -> None:
    player = MinimaxPlayer(tic_tac_toe, 5)
    assert choose(tic_tac_toe, player, noughts("XX. OO. X.."), step=5).tolist() == [5]  # wins at once
    # O to move must stop c1; that answers c3 in turn, after which X has two ways to win
    values = player.action_values(noughts("... .XO X.."))[0]
    assert values[2] == pytest.approx(-(PLY_DISCOUNT**3))
    assert values[[0, 1, 3, 7, 8]].tolist() == pytest.approx([-PLY_DISCOUNT] * 5)


def plain_values(board: tuple[int, ...], depth: int) -> list[float]:
    """Minimax as a textbook has it: the mover's value of each square, minus infinity where taken."""
    mover = (9 - board.count(-1)) % 2
    values = []
    for square in range(9):
        if board[square] != -1:
            values.append(-np.inf)
            continue
        after = (*board[:square], mover, *board[square + 1 :])
        if any(all(after[s] == mover for s in line) for line in LINES.tolist()):
            values.append(1.0)
        elif -1 not in after or depth == 1:
            values.append(0.0)
        else:
            values.append(-PLY_DISCOUNT * max(plain_values(after, depth - 1)))
    return values


@pytest.mark.parametrize("num_moves", range(3, 9))
@pytest.mark.parametrize("depth", [1, 2, 3, 9])
def test_minimax_values_are_those_of_plain_recursion(tic_tac_toe: Game, num_moves: int, depth: int) -> None:
    states = random_positions(tic_tac_toe, 24, num_moves, seed=num_moves)
    assert len(states) > 0
    values = MinimaxPlayer(tic_tac_toe, depth).action_values(states)
    expected = [plain_values(tuple(state["board"].tolist()), depth) for state in states]
    np.testing.assert_allclose(values, expected)


def test_minimax_expanded_in_small_pieces_gives_the_same_values(
    connect_four: Game, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = random_positions(connect_four, 20, 10, seed=1)
    whole = MinimaxPlayer(connect_four, 3).action_values(states)
    monkeypatch.setattr("senju.opponents.players.EXPANDED_AT_ONCE", 50)
    assert (MinimaxPlayer(connect_four, 3).action_values(states) == whole).all()


def test_perfect_minimax_never_loses_tic_tac_toe_and_draws_against_itself(tic_tac_toe: Game) -> None:
    full_depth = MinimaxPlayer(tic_tac_toe, 9)
    against_random = play_match(tic_tac_toe, full_depth, RandomPlayer(), 40)
    assert against_random.score.losses == 0
    assert against_random.score.wins > 30
    assert play_match(tic_tac_toe, full_depth, MinimaxPlayer(tic_tac_toe, 9), 10).score.draws == 10


def test_minimax_draws_among_equally_good_moves(tic_tac_toe: Game) -> None:
    empty = noughts(*["... ... ..."] * 200)
    chosen = choose(tic_tac_toe, MinimaxPlayer(tic_tac_toe, 2), empty)
    assert set(chosen.tolist()) == set(range(9))


def test_perfect_player_wins_won_positions_against_the_best_defence(connect_four: Game) -> None:
    states = random_positions(connect_four, 60, MIN_STONES, seed=2)
    won = states[Solver().values(states).max(axis=1) == 1]
    assert len(won) > 5
    winner = won["num_moves"] % 2
    perfect = PerfectPlayer(connect_four)
    rewards = play_out(connect_four, won, perfect, perfect)
    assert (rewards[np.arange(len(won)), winner] == 1).all()


def test_perfect_player_keeps_drawn_positions(connect_four: Game) -> None:
    states = random_positions(connect_four, 400, 22, seed=5)
    drawn = states[Solver().values(states).max(axis=1) == 0]
    assert len(drawn) > 3
    mover = drawn["num_moves"] % 2
    rewards = play_out(connect_four, drawn, PerfectPlayer(connect_four), MinimaxPlayer(connect_four, 2))
    assert (rewards[np.arange(len(drawn)), mover] >= 0).all()


def play_out(game: Game, states: States, mover: Player, other: Player) -> np.ndarray:
    """Rewards of both seats when two players play positions with one parity to their ends."""
    states, rewards = states.copy(), np.zeros((len(states), 2))
    running, step = np.ones(len(states), np.bool_), 0
    while running.any():
        rows = np.flatnonzero(running)
        part, outcomes = states[rows], game.new_outcomes(len(rows))
        actions = choose(game, mover if step % 2 == 0 else other, part, seed=3, step=step)
        game.step(part, actions[:, None], outcomes)
        states[rows] = part
        rewards[rows] += outcomes.rewards
        running[rows] = ~(outcomes.terminated | outcomes.truncated)
        step += 1
    return rewards


def test_perfect_player_plays_before_it_can_solve(connect_four: Game) -> None:
    three = stones(
        "O O . . . . .",
        "X X X . . . O",
    )
    assert choose(connect_four, PerfectPlayer(connect_four), three).tolist() == [3]


def players(game: Game, run: Run) -> list[Player]:
    return [
        RandomPlayer(),
        MinimaxPlayer(game, 2),
        PerfectPlayer(game),
        run.agent.player(),
        run.agent.player(temperature=1.0),
    ]


def test_players_are_deterministic_for_a_seed(connect_four: Game, connect_four_run: Run) -> None:
    states = np.concatenate([random_positions(connect_four, 20, moves, seed=1) for moves in (0, 7, 20)])
    for player in players(connect_four, connect_four_run):
        first = choose(connect_four, player, states, seed=4).tolist()
        assert choose(connect_four, player, states, seed=4).tolist() == first
        other = choose(connect_four, player, states, seed=5).tolist()
        assert (other == first) == player.is_deterministic


def test_players_choose_legal_moves_only(connect_four: Game, connect_four_run: Run) -> None:
    nearly_full = np.concatenate([random_positions(connect_four, 300, moves, seed=3) for moves in (30, 36)])
    assert len(nearly_full) > 20
    for player in players(connect_four, connect_four_run):
        states = nearly_full.copy()
        actions = choose(connect_four, player, states)
        connect_four.step(states, actions[:, None], connect_four.new_outcomes(len(states)))  # raises if not


def test_agent_at_temperature_one_draws_in_proportion_to_its_policy(tic_tac_toe_run: Run) -> None:
    game, agent = tic_tac_toe_run.game, tic_tac_toe_run.agent
    states = noughts(*["... ... ..."] * 4000)
    expected = agent.evaluate(states[:1])[0][0]
    counts = np.bincount(choose(game, agent.player(temperature=1.0), states), minlength=9)
    assert counts / 4000 == pytest.approx(expected, abs=0.04)  # five standard deviations
    best = choose(game, agent.player(), states)
    assert set(best.tolist()) == {int(expected.argmax())}


def test_very_cold_agent_plays_its_best_move(tic_tac_toe_run: Run) -> None:
    player: AgentPlayer = tic_tac_toe_run.agent.player(temperature=1e-6)
    states = noughts(*["X.. .O. ..."] * 50)
    best = choose(tic_tac_toe_run.game, tic_tac_toe_run.agent.player(), states)
    assert choose(tic_tac_toe_run.game, player, states).tolist() == best.tolist()


def test_players_by_description(connect_four: Game) -> None:
    names = ["random", "minimax:1", "minimax:3", "minimax:9", "perfect"]
    for name in names:
        player = built_in_player(connect_four, name)
        assert player is not None
        assert player.name == name
    assert built_in_player(connect_four, "runs/some-run") is None


@pytest.mark.parametrize(
    "description", ["minimax", "minimax:", "minimax:0", "minimax:13", "minimax:-1", "minimax:x"]
)
def test_minimax_without_a_sensible_depth_is_refused(connect_four: Game, description: str) -> None:
    with pytest.raises(ConfigError, match=f"{description}.*1 to 9"):
        built_in_player(connect_four, description)


class Centre(TicTacToe):
    """Tic-tac-toe with a heuristic that likes the middle, and two plies deep the corners as well."""

    def heuristic(self) -> Heuristic:
        return self

    def action_values(self, states: States, depth: int) -> NDArray[np.float64]:
        values = np.where(states["board"] == -1, 0.0, -np.inf)
        values[:, 4] += 5.0
        if depth == 2:
            values[:, [0, 2, 6, 8]] += 5.0
        return values


def test_greedy_player_draws_among_the_best_moves_of_the_heuristic() -> None:
    game = Centre()
    boards = noughts(*["X.. ... ..."] * 400, *["X.. .O. ..."] * 400)
    for depth, wanted in ((1, ({4}, {1, 2, 3, 5, 6, 7, 8})), (2, ({2, 4, 6, 8}, {2, 6, 8}))):
        player = built_in_player(game, f"greedy:{depth}")
        assert isinstance(player, GreedyPlayer)
        assert (player.name, player.is_deterministic) == (f"greedy:{depth}", False)
        chosen = choose(game, player, boards)
        assert (set(chosen[:400].tolist()), set(chosen[400:].tolist())) == wanted


@pytest.mark.parametrize(
    "description", ["greedy", "greedy:", "greedy:0", "greedy:3", "greedy:01", "greedy:²"]
)
def test_greedy_without_a_sensible_depth_is_refused(description: str) -> None:
    with pytest.raises(ConfigError, match=f"{description}.*1 to 2"):
        built_in_player(Centre(), description)


def test_greedy_player_needs_a_heuristic(tic_tac_toe: Game) -> None:
    with pytest.raises(ConfigError, match=r"tic_tac_toe.*minimax:2"):
        GreedyPlayer(tic_tac_toe, 2)


def test_greedy_players_of_shogi_beat_random_and_looking_further_beats_looking_less() -> None:
    shogi = make_game("shogi", max_plies=200)
    greedy, greedier = GreedyPlayer(shogi, 1), GreedyPlayer(shogi, 2)
    assert play_match(shogi, greedy, RandomPlayer(), 20, seed=1).score.mean > 0.7
    assert play_match(shogi, greedier, greedy, 20, seed=1).score.mean > 0.7


def test_minimax_needs_a_zero_sum_game() -> None:
    game = make_game("tic_tac_toe")
    game.is_zero_sum = False
    with pytest.raises(ConfigError, match=r"minimax.*tic_tac_toe"):
        MinimaxPlayer(game, 2)


def test_perfect_player_knows_one_game_only(tic_tac_toe: Game) -> None:
    with pytest.raises(ConfigError, match="tic_tac_toe"):
        PerfectPlayer(tic_tac_toe)


def test_random_player_is_fair(tic_tac_toe: Game) -> None:
    counts = np.bincount(choose(tic_tac_toe, RandomPlayer(), noughts(*["X.. ... ..O"] * 7000)), minlength=9)
    assert counts[0] == counts[8] == 0
    expected = pytest.approx(1000, abs=5 * np.sqrt(7000 * 6 / 49))  # five standard deviations
    assert counts[1:8] == expected


def test_plain_recursion_itself_knows_that_tic_tac_toe_is_a_draw() -> None:
    board = [-1] * 9
    board[random.Random(0).randrange(9)] = 0
    assert max(plain_values(tuple(board), 9)) == 0.0
