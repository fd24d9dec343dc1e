"""Opponents in a rollout: drawing opponents for seats, one batch per opponent, and failures."""

import gc
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from senju.collect.exploration import BY_POLICY, Acting
from senju.collect.orders import Orders
from senju.collect.policy import Policy
from senju.collect.seating import CURRENT
from senju.errors import UnknownNameError
from senju.games import make_game
from senju.games.game import Game, Observations
from senju.games.rows import Rows
from senju.kernels import unpack_legal
from senju.models import make_model
from senju.models.model import Model
from senju.models.weights import WeightBlock, Weights
from senju.opponents.batches import OPPONENTS_ACTION
from senju.opponents.functions import described_player
from senju.opponents.opponent_players import OpponentPlayers, OpponentSettings, OpponentSpec
from senju.opponents.players import AgentPlayer, PlayerBatch, RandomPlayer
from tests.collect.toy_games import Meeting
from tests.facts import assert_mentions
from tests.opponents import own_players

HERE = own_players.HERE
MLP = {"name": "mlp", "hidden": [8]}
# values that chi-squared exceeds once in a thousand times, by degrees of freedom
RARELY = {1: 10.83, 2: 13.82, 3: 16.27, 9: 27.88}

GAME = make_game("tic_tac_toe")


def new_model(game: Game = GAME, seed: int = 0) -> Model:
    return make_model(MLP, game.observation_shape, game.num_actions, seed)


def new_rows(num_rows: int, game: Game = GAME, seed: int = 3) -> Rows:
    return Rows(game, np.arange(num_rows, dtype=np.uint32), seed)


def weights_at(place: int) -> Weights:
    return WeightBlock(new_model(seed=place)).read()


def new_players(
    *fixed: str, game: Game = GAME, acting: Acting = BY_POLICY, **changes: Any
) -> OpponentPlayers:
    settings = OpponentSettings(tuple(OpponentSpec(name) for name in fixed), **changes)
    return OpponentPlayers(game, settings, [Policy(new_model(game), acting)], [], weights_at)


def orders_of(chances: dict[int, float], version: int = 0) -> Orders:
    """Opponents by number; the weights of number n lie at place n."""
    return Orders(version, (0.0,), tuple(chances), tuple(chances), tuple(chances.values()))


def fixed_orders(count: int, version: int = 0) -> Orders:
    return Orders(version, (0.0,), tuple(range(1, count + 1)), (-1,) * count, (1.0 / count,) * count)


def seat(players: OpponentPlayers, rows: Rows) -> NDArray[np.int32]:
    seated = np.full((len(rows), rows.game.num_seats), CURRENT, np.int32)
    players.seat(rows, seated)
    return seated


def ask(
    players: OpponentPlayers, rows: Rows, seated: NDArray[np.int32]
) -> tuple[NDArray[np.int32], Observations, NDArray[np.int64] | None]:
    """The actions of a step, -7 where only the learner decides; what was seen; and broken rows."""
    observations = rows.game.new_observations(len(rows))
    rows.observe(observations)
    actions = np.full(observations.seats.shape, -7, np.int32)
    with torch.inference_mode():
        broken = players.choose(rows, observations, observations.seats, seated, actions)
    return actions, observations, broken


def chi_squared(drawn: Sequence[int], chances: dict[int, float]) -> float:
    counts = Counter(drawn)
    assert counts.keys() <= chances.keys()
    expected = {number: len(drawn) * chance for number, chance in chances.items()}
    return sum((counts[number] - count) ** 2 / count for number, count in expected.items())


def test_opponents_are_drawn_by_their_probabilities() -> None:
    chances = {1: 0.1, 4: 0.2, 7: 0.7}
    players, rows = new_players(), new_rows(4000)
    players.begin(orders_of(chances), rows)
    assert chi_squared(seat(players, rows).max(axis=1).tolist(), chances) < RARELY[2]


def test_a_row_draws_anew_for_each_of_its_games() -> None:
    chances = {1: 0.25, 2: 0.75}
    players, rows, drawn = new_players(), new_rows(1), []
    players.begin(orders_of(chances), rows)
    for game in range(2000):
        rows.clock["game"] = game
        drawn.append(int(seat(players, rows).max()))
    assert chi_squared(drawn, chances) < RARELY[1]


def test_active_opponents_keep_the_probabilities() -> None:
    chances = {number: number / 55 for number in range(1, 11)}
    players, rows, drawn = new_players(in_play=3), new_rows(1), []
    for version in range(3000):
        players.begin(orders_of(chances, version), rows)
        drawn.append(int(seat(players, rows).max()))
    assert chi_squared(drawn, chances) < RARELY[9]


def test_new_games_draw_from_the_active_opponents_alone() -> None:
    chances = dict.fromkeys(range(1, 65), 1 / 64)
    players, rows = new_players(in_play=4), new_rows(500)
    met: set[int] = set()
    for version in range(40):
        players.begin(orders_of(chances, version), rows)
        drawn = set(seat(players, rows).max(axis=1).tolist())
        assert 1 <= len(drawn) <= 4
        met |= drawn
    assert len(met) > 48  # each opponent gets its turn


def test_each_shard_has_its_own_active_opponents() -> None:
    chances = dict.fromkeys(range(1, 65), 1 / 64)
    players, active = new_players(in_play=4), []
    for first in (0, 100):
        rows = Rows(GAME, np.arange(first, first + 100, dtype=np.uint32), 3)
        players.begin(orders_of(chances), rows)
        active.append(set(seat(players, rows).max(axis=1).tolist()))
    assert active[0] != active[1]


def test_chances_of_0_are_never_drawn() -> None:
    players, rows = new_players(), new_rows(500)
    players.begin(orders_of({1: 0.0, 2: 1.0, 3: 0.0}), rows)
    assert set(seat(players, rows).max(axis=1).tolist()) == {2}


def test_without_opponents_the_learner_plays_itself() -> None:
    players, rows = new_players(), new_rows(8)
    players.begin(Orders(), rows)
    assert (seat(players, rows) == CURRENT).all()


def test_a_share_of_the_games_is_played_with_itself() -> None:
    players, rows = new_players(self_share=0.3), new_rows(4000)
    players.begin(orders_of({5: 1.0}), rows)
    numbers = seat(players, rows).max(axis=1).tolist()
    assert chi_squared(numbers, {CURRENT: 0.3, 5: 0.7}) < RARELY[1]


def test_the_learner_sits_in_each_seat_equally_often() -> None:
    players, rows = new_players(), new_rows(6)
    players.begin(orders_of({5: 1.0}), rows)
    own = []
    for game in range(4):
        rows.clock["game"] = game
        seated = seat(players, rows)
        assert ((seated == CURRENT).sum(axis=1) == 1).all()
        own.append((seated == CURRENT).argmax(axis=1).tolist())
    assert own == [[0, 1] * 3, [1, 0] * 3] * 2


def test_an_opponent_stays_in_its_game_until_the_end() -> None:
    players, rows = new_players(), new_rows(64)
    players.begin(orders_of({1: 1.0}), rows)
    seated = seat(players, rows)
    before = seated.copy()
    rows.clock["step"][:32] = 4
    players.begin(orders_of({1: 0.0, 2: 1.0}, version=1), rows)
    players.seat(rows, seated)
    assert (seated[:32] == before[:32]).all()
    assert (seated[32:] == 2 * before[32:]).all()


def test_draws_do_not_depend_on_the_worker_of_the_row() -> None:
    chances = dict.fromkeys(range(1, 5), 0.25)
    players, rows = new_players(), new_rows(64)
    players.begin(orders_of(chances), rows)
    together = seat(players, rows)
    alone = new_players()
    some = Rows(GAME, np.arange(16, 32, dtype=np.uint32), 3)
    alone.begin(orders_of(chances), some)
    assert (seat(alone, some) == together[16:32]).all()


def test_the_seats_of_one_opponent_are_one_batch() -> None:
    players, rows = new_players(f"{HERE}:Centre", "random"), new_rows(60)
    players.begin(fixed_orders(2), rows)
    seated = seat(players, rows)
    own_players.Centre.batches.clear()
    actions, _, broken = ask(players, rows, seated)
    assert broken is None
    mine = seated[:, 0] == 1  # seat 0 moves first
    assert own_players.Centre.batches == [mine.sum()]
    assert (actions[mine] == 4).all()
    assert ((actions[:, 0] == -7) == (seated[:, 0] == CURRENT)).all()


def test_each_opponent_sees_its_own_positions_and_draws_its_own_numbers() -> None:
    """Random players that are asked row by row choose just what the players lets them choose in batches."""
    players, rows = new_players("random", "random", f"{HERE}:first"), new_rows(30)
    players.begin(fixed_orders(3), rows)
    outcomes = GAME.new_outcomes(30)
    seated = seat(players, rows)
    for _ in range(4):
        actions, observations, _ = ask(players, rows, seated)
        for row in range(30):
            number = seated[row, observations.seats[row, 0]]
            if number == CURRENT:
                actions[row] = unpack_legal(observations.legal[row, 0], 9).argmax()
                continue
            one = slice(row, row + 1)
            seen = Observations(*(array[one] for array in observations))
            alone = PlayerBatch(rows.states[one], seen, rows.clock[one], rows.seed, OPPONENTS_ACTION)
            player = described_player(GAME, "random" if number < 3 else f"{HERE}:first")
            assert player.choose(alone).tolist() == [actions[row].tolist()]
        rows.step(actions, outcomes)
        rows.advance(outcomes)


def test_snapshots_play_by_their_own_weights() -> None:
    """However few networks play for them, and however often their weights are exchanged."""
    chances = dict.fromkeys(range(1, 21), 1 / 20)
    greedy = Acting("action_values")  # with epsilon 0 there is no chance in it
    players, rows = new_players(in_play=2, acting=greedy, epsilon=0.0), new_rows(40)
    agents = {n: AgentPlayer(GAME, new_model(seed=n), str(n), acting=greedy) for n in chances}
    for version in range(25):
        players.begin(orders_of(chances, version), rows)
        seated = seat(players, rows)
        actions, observations, _ = ask(players, rows, seated)
        for number in np.unique(seated[:, 0]).tolist():
            mine = seated[:, 0] == number
            seen = Observations(*(array[mine] for array in observations))
            alone = PlayerBatch(rows.states[mine], seen, rows.clock[mine], rows.seed, OPPONENTS_ACTION)
            if number != CURRENT:
                with torch.inference_mode():
                    assert (agents[number].choose(alone) == actions[mine]).all()


def test_a_large_pool_takes_no_more_networks_than_a_small_one() -> None:
    chances = dict.fromkeys(range(1, 65), 1 / 64)
    players, rows = new_players(in_play=2), new_rows(32)
    before = sum(issubclass(type(thing), AgentPlayer) for thing in gc.get_objects())
    for version in range(60):
        players.begin(orders_of(chances, version), rows)
        ask(players, rows, seat(players, rows))
    after = sum(issubclass(type(thing), AgentPlayer) for thing in gc.get_objects())
    assert 2 <= after - before <= 10  # two active opponents of four rollouts, and those in use


def test_no_opponent_is_asked_where_only_the_learner_moves() -> None:
    players, rows = new_players(f"{HERE}:Crasher"), new_rows(4)
    players.begin(fixed_orders(1), rows)
    actions, _, broken = ask(players, rows, np.array([[CURRENT, 1]] * 4, np.int32))
    assert broken is None
    assert (actions == -7).all()


def test_opponents_of_simultaneous_games_decide_in_every_place() -> None:
    game = Meeting()
    players, rows = new_players("random", game=game), new_rows(8, game)
    players.begin(fixed_orders(1), rows)
    seated = seat(players, rows)
    actions, observations, broken = ask(players, rows, seated)
    assert broken is None
    for row, place in np.ndindex(actions.shape):
        decides = observations.seats[row, place] == place and seated[row, place] == 1
        assert (actions[row, place] in (0, 1, 2)) == decides


def test_a_failure_costs_only_the_games_of_the_opponent_that_failed() -> None:
    players, rows = new_players("random", f"{HERE}:Crasher"), new_rows(40)
    players.begin(fixed_orders(2), rows)
    seated = seat(players, rows)
    actions, _, broken = ask(players, rows, seated)
    assert broken is not None
    assert broken.tolist() == np.flatnonzero(seated[:, 0] == 2).tolist()
    assert (actions[broken] == 0).all()  # any legal move will do: the game is cut
    (failure,) = players.take_failures()
    first = int(broken[0])
    assert failure[:5] == (2, f"{HERE}:Crasher", first, 0, 0)
    where = ("tic_tac_toe", f"row {first} and others", "game 0", "step 0")
    assert_mentions(failure.what, "KeyError: 'lost'", where)
    assert players.take_failures() == []


def test_a_failed_opponent_is_not_drawn_again_in_that_rollout() -> None:
    players, rows = new_players("random", f"{HERE}:Crasher"), new_rows(40)
    players.begin(fixed_orders(2), rows)
    ask(players, rows, seat(players, rows))
    rows.clock["game"] += 1
    assert set(seat(players, rows).max(axis=1).tolist()) == {1}
    players.begin(fixed_orders(2, version=1), rows)  # whether it stays is for the orders to say
    assert set(seat(players, rows).max(axis=1).tolist()) == {1, 2}


def test_a_failure_leaves_the_learners_own_action_as_it_is() -> None:
    game = Meeting()
    players, rows = new_players(f"{HERE}:Crasher", game=game), new_rows(8, game)
    players.begin(fixed_orders(1), rows)
    seated = seat(players, rows)
    actions, observations, broken = ask(players, rows, seated)
    assert broken is not None
    own = (seated == CURRENT) & (observations.seats >= 0)
    assert (actions[own] == -7).all()


def test_games_against_an_opponent_that_is_gone_are_cut_without_a_failure() -> None:
    players, rows = new_players(), new_rows(4)
    players.begin(orders_of({9: 1.0}), rows)
    seated = np.array([[3, 0], [0, 3], [9, 0], [0, 9]], np.int32)
    _, _, broken = ask(players, rows, seated)
    assert broken is not None
    assert broken.tolist() == [0]
    assert players.take_failures() == []


def test_an_unknown_description_is_refused() -> None:
    assert isinstance(described_player(GAME, "random"), RandomPlayer)
    with pytest.raises(UnknownNameError, match="unknown opponent 'grandmaster'"):
        described_player(GAME, "grandmaster")
