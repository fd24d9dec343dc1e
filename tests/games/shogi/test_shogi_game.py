"""Shogi as a game for training: the contract, its settings, and what an illegal action cannot do."""

from typing import Any

import numpy as np
import pytest

from senju.errors import ConfigError, GameContractError, IllegalActionError
from senju.games import make_game
from senju.games.check import check_game
from senju.games.game import Outcomes, States
from senju.games.guards import guarded, is_intact
from senju.games.rows import ACTION, Rows, choose_at_random
from senju.games.shogi.game import Shogi, ShogiConfig
from senju.games.shogi.layout import NUM_ACTIONS, START_SFEN, Ending
from senju.games.shogi.position import Position
from senju.games.shogi.sfen import format_sfen, parse_sfen
from tests.facts import mentions
from tests.games.shogi.flips import flip_sfen

MIDDLE_GAME = "l6nl/5+P1gk/2np1S3/p1p4Pp/3P2Sp1/1PPb2P1P/P5GS1/R8/LN4bKL w GR5pnsg 1"
IN_CHECK = "4r3k/9/9/9/9/9/3n5/2G6/4K4 b 2GR2P 1"
EDGES = "K7R/9/9/9/4N4/9/9/4k4/R8 b BGSNLP 1"


@pytest.mark.parametrize(
    "settings",
    [{"max_plies": 40}, {"max_plies": 24, "history": 2}, {"max_plies": 1, "declaration": "none"}],
    ids=["short", "with history", "one ply"],
)
def test_contract_is_kept(settings: dict[str, Any]) -> None:
    report = check_game(Shogi(ShogiConfig(**settings)), num_rows=3, num_steps=50)
    assert report.num_games_finished > 0
    assert report.longest_game <= settings["max_plies"]


@pytest.mark.parametrize("history", [0, 2])
def test_contract_is_kept_over_whole_games(history: int) -> None:
    report = check_game(Shogi(ShogiConfig(max_plies=300, history=history)), num_steps=700)
    assert report.num_games_finished >= 16


def test_game_is_made_by_its_name_with_its_settings() -> None:
    game = make_game("shogi", max_plies=100, history=1)
    assert isinstance(game, Shogi)
    assert game.observation_shape == (90, 9, 9)
    assert game.num_actions == 2187
    assert Shogi().observation_shape == (48, 9, 9)


@pytest.mark.parametrize(
    "settings",
    [
        {"max_plies": 0},
        {"max_plies": 4097},
        {"history": -1},
        {"history": 8},
        {"declaration": "28"},
        {"plies": 3},
    ],
    ids=str,
)
def test_settings_out_of_bounds_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        make_game("shogi", **settings)


def test_new_game_is_the_usual_start() -> None:
    game = Shogi()
    states = game.new_games(3)
    for state in states:
        assert format_sfen(state["board"], state["hands"], int(state["side"])) == START_SFEN
        assert state["ply"] == state["repetitions"] == state["is_check"] == 0
    assert len({state.tobytes() for state in states}) == 1


def test_reset_forgets_the_game_before() -> None:
    game = Shogi(ShogiConfig(max_plies=30, history=3))
    fresh, rows = game.new_games(2), Rows(game, np.arange(2, dtype=np.uint32), 0)
    observations, outcomes = game.new_observations(2), game.new_outcomes(2)
    actions = np.zeros((2, 1), np.int32)
    for _ in range(20):
        rows.observe(observations)
        choose_at_random(observations.legal, rows.clock, rows.seed, ACTION, actions)
        rows.step(actions, outcomes)
        rows.advance(outcomes)
    game.reset(rows.states, np.array([1]), np.array([7], np.uint64))
    assert rows.states[1].tobytes() == fresh[1].tobytes()
    assert rows.states[0].tobytes() != fresh[0].tobytes()


def rows_of(game: Shogi, *sfens: str) -> States:
    states = game.new_states(len(sfens))
    for row, sfen in enumerate(sfens):
        game.place(states[row : row + 1], parse_sfen(sfen))
    return states


@pytest.mark.parametrize("history", [0, 2])
@pytest.mark.parametrize("flip", [False, True], ids=["as given", "flipped"])
@pytest.mark.parametrize("sfen", [MIDDLE_GAME, IN_CHECK, EDGES], ids=["middle game", "double check", "edges"])
def test_every_illegal_action_is_refused_and_touches_nothing(sfen: str, flip: bool, history: int) -> None:
    """The bad row stands between two good ones, all between guard bytes."""
    game = Shogi(ShogiConfig(max_plies=4, history=history))
    sfen = flip_sfen(sfen) if flip else sfen
    states, state_guard = guarded(rows_of(game, START_SFEN, sfen, START_SFEN))
    pairs = [guarded(array) for array in game.new_outcomes(3)]
    outcomes = Outcomes(*(array for array, _ in pairs))
    guards = [state_guard, *(guard for _, guard in pairs)]
    before, opening = states.tobytes(), Position().legal_actions()[0]
    legal = set(Position(sfen).legal_actions())
    outside = [-1, NUM_ACTIONS, NUM_ACTIONS + 1, 35 * 64 - 1, 35 * 64, 2**31 - 1, -(2**31), -81]
    for action in [*outside, *(action for action in range(NUM_ACTIONS) if action not in legal)]:
        actions = np.array([[opening], [action], [opening]], np.int32)
        with pytest.raises(IllegalActionError, match=f"^shogi: row 1: action {action} is refused: "):
            game.step(states, actions, outcomes)
        assert states.tobytes() == before
    assert all(map(is_intact, guards))
    for action in legal:
        game.step(states, np.array([[opening], [action], [opening]], np.int32), outcomes)
        assert all(map(is_intact, guards))
        states[:] = np.frombuffer(before, game.state_dtype)


def test_errors_explain_the_action_and_why_it_is_illegal() -> None:
    game = Shogi()
    states = rows_of(game, IN_CHECK)
    for usi, words in {
        "G*5h": ["a gold on 5h", "in check"],
        "R*5e": ["a rook on 5e", "in check"],
        "L*5e": ["no lance"],
        "7h6g": ["gold", "from 7h to 6g", "in check"],
    }.items():
        action = game.parse_move(states[0], usi)
        with pytest.raises(IllegalActionError) as caught:
            game.step(states, np.array([[action]], np.int32), game.new_outcomes(1))
        for part in [usi, *words]:
            assert part in str(caught.value)


def test_moves_are_read_and_written_as_usi() -> None:
    game = Shogi()
    state = game.new_games(1)[0]
    action = game.parse_move(state, " 7g7f\n")
    assert game.move_name(state, action) == "7g7f"
    assert game.action_name(action) == "up to 7f"
    with pytest.raises(IllegalActionError, match="7g7x"):
        game.parse_move(state, "7g7x")
    assert "7g7f" in game.describe_actions()


def test_boards_are_drawn() -> None:
    game = Shogi()
    state = game.new_games(1)[0]
    assert "歩" in game.board_text(state)
    assert game.board_svg(state).startswith("<svg")


def test_copied_states_are_snapshots() -> None:
    """What a search does: copy, play on, and go back."""
    game = Shogi(ShogiConfig(max_plies=20))
    states, outcomes = game.new_games(1), game.new_outcomes(1)
    for usi in ("7g7f", "3c3d", "8h2b+"):
        action = game.parse_move(states[0], usi)
        game.step(states, np.array([[action]], np.int32), outcomes)
    snapshot = states.copy()
    taking_back = np.array([[game.parse_move(states[0], "3a2b")]], np.int32)
    game.step(states, taking_back, outcomes)
    after = states.tobytes()
    game.step(snapshot, taking_back, outcomes)
    assert snapshot.tobytes() == after
    assert snapshot["hands"][0].tolist() == [[0, 0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 1, 0]]


def test_each_row_keeps_its_own_ending() -> None:
    game = Shogi(ShogiConfig(max_plies=5))
    sfens = ["8k/9/6NG1/9/9/9/9/9/4K4 b G 1", START_SFEN, flip_sfen("8k/9/6N2/7G1/9/9/9/9/4K4 b - 1")]
    states, outcomes = rows_of(game, *sfens), game.new_outcomes(3)
    moves = ("G*1b", "7g7f", "8f8g")
    actions = [[game.parse_move(state, usi)] for state, usi in zip(states, moves, strict=True)]
    game.step(states, np.array(actions, np.int32), outcomes)
    assert states["ending"].tolist() == [Ending.MATE, Ending.RUNNING, Ending.MATE]
    assert outcomes.rewards.tolist() == [[1, -1], [0, 0], [-1, 1]]
    assert outcomes.terminated.tolist() == [True, False, True]
    assert not outcomes.truncated.any()


def test_arrays_that_do_not_fit_are_refused_before_a_kernel_sees_them() -> None:
    game, two = Shogi(), Shogi().new_games(2)
    seen, outcomes = game.new_observations(2), game.new_outcomes(2)
    actions = np.full((2, 1), 59, np.int32)
    before = two.tobytes()
    with pytest.raises(GameContractError, match=mentions("seats", "[3, 1]", "expected [2, 1]")):
        game.observe(two, seen._replace(seats=np.zeros((3, 1), np.int8)))
    with pytest.raises(GameContractError, match=mentions("observation", "gaps")):
        game.observe(two, seen._replace(observation=np.zeros((4, 1, 48, 9, 9), np.uint8)[::2]))
    with pytest.raises(GameContractError, match=mentions("actions", "[3, 1]")):
        game.step(two, np.full((3, 1), 59, np.int32), outcomes)
    with pytest.raises(GameContractError, match=mentions("rewards", "[1, 2]")):
        game.step(two, actions, outcomes._replace(rewards=np.zeros((1, 2), np.float32)))
    with pytest.raises(GameContractError, match=mentions("states", "gaps")):
        game.step(game.new_games(4)[::2], actions, outcomes)
    assert two.tobytes() == before


def test_states_of_other_settings_are_refused() -> None:
    longer = Shogi(ShogiConfig(max_plies=600))
    with pytest.raises(GameContractError, match="settings"):
        Shogi().observe(longer.new_games(1), Shogi().new_observations(1))
