"""Shards: which rows they hold, and that a snapshot is their complete state."""

import pytest

from senju.collect.policy import Policy
from senju.collect.rollout import RolloutPlayer
from senju.collect.shard import Shard, count_shards
from senju.collect.slots import new_slot
from senju.errors import ConfigError
from senju.games.game import Game
from senju.games.tic_tac_toe import TicTacToe
from senju.models.model import ModelConfig
from senju.timing import StageClock
from tests.collect.toy_games import Meeting, Race
from tests.collect.toy_models import ReadsObservation


@pytest.mark.parametrize(
    ("num_games", "games_per_shard", "num_shards"), [(256, 64, 4), (64, 64, 1), (7, 1, 7)]
)
def test_games_divide_into_shards(num_games: int, games_per_shard: int, num_shards: int) -> None:
    assert count_shards(num_games, games_per_shard) == num_shards


@pytest.mark.parametrize(
    ("num_games", "games_per_shard", "advice"),
    [
        (10, 4, "try 8 or 12, or games_per_shard=2$"),
        (65, 64, "try 64 or 128, or games_per_shard=1$"),
        (64, 256, "try 256, or games_per_shard=64$"),
    ],
)
def test_games_that_do_not_divide_are_refused_with_numbers_that_would(
    num_games: int, games_per_shard: int, advice: str
) -> None:
    with pytest.raises(ConfigError, match=f"num_games={num_games} .* shards of {games_per_shard}; {advice}"):
        count_shards(num_games, games_per_shard)


def test_shards_hold_consecutive_rows_without_gap_or_overlap() -> None:
    ids = [Shard(Race(), index, 3, seed=0).rows.clock["row"].tolist() for index in range(3)]
    assert ids == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def play(game: Game, shard: Shard, num_steps: int) -> bytes:
    """The bytes of the shard's next rollout."""
    model = ReadsObservation(game.observation_shape, game.num_actions, ModelConfig())
    slot = new_slot(game, num_steps, len(shard.rows))
    RolloutPlayer(game, [Policy(model)], len(shard.rows), StageClock()).play(shard, [slot])
    return b"".join(array.tobytes() for array in slot)


@pytest.mark.parametrize("game", [TicTacToe(), Race(), Meeting()], ids=lambda game: game.name)
def test_restored_shard_replays_to_equal_bytes(game: Game) -> None:
    shard = Shard(game, 2, 5, seed=11)
    play(game, shard, 7)
    snapshot = shard.state.copy()
    first = play(game, shard, 20)
    assert play(game, shard, 20) != first, "the shard stood still"
    shard.restore(snapshot)
    assert play(game, shard, 20) == first

    elsewhere = Shard(game, 2, 5, seed=11)
    elsewhere.restore(snapshot)
    assert play(game, elsewhere, 20) == first


def test_snapshot_does_not_follow_the_shard() -> None:
    shard = Shard(TicTacToe(), 0, 4, seed=1)
    snapshot = shard.state.copy()
    before = [array.tobytes() for array in snapshot]
    play(TicTacToe(), shard, 5)
    assert [array.tobytes() for array in snapshot] == before
    assert shard.rows.states.tobytes() != before[0]


def test_another_seed_or_another_shard_plays_other_games() -> None:
    one = play(Race(), Shard(Race(), 0, 8, seed=1), 12)
    assert one != play(Race(), Shard(Race(), 0, 8, seed=2), 12)
    assert one != play(Race(), Shard(Race(), 1, 8, seed=1), 12)
    assert one == play(Race(), Shard(Race(), 0, 8, seed=1), 12)
