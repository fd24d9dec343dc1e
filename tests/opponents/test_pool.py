"""The pool: its members, which one leaves, how often each is drawn, and the results."""

import json
import logging
import re
from typing import Any

import numpy as np
import pytest

from senju.collect.exploration import Acting
from senju.collect.seating import Failure
from senju.errors import OpponentError
from senju.models.weights import Weights
from senju.opponents.opponent_players import OpponentSpec
from senju.opponents.pool import OpponentPool, OpponentsConfig
from senju.opponents.score import Score
from tests.facts import mentions
from tests.opponents.played import DRAW, LOSS, WIN, games, nothing, rollout

RANDOM, MINIMAX = OpponentSpec("random"), OpponentSpec("minimax:2")
AGENT = OpponentSpec("runs/other", {"name": "mlp"}, Acting("policy"))


def new_pool(*fixed: OpponentSpec, rows: int = 16, shards: int = 1, **changes: Any) -> OpponentPool:
    return OpponentPool(OpponentsConfig(**{"snapshot_interval": 1, **changes}), fixed, (shards, rows, 2))


def weights_of(number: int) -> Weights:
    return np.full(4, number % 251, np.uint8)


def grow(pool: OpponentPool, *updates: int) -> None:
    """Take snapshots after these updates, while no game against any of them goes on."""
    for update in updates:
        pool.add_snapshot(update, weights_of(update))
        pool.orders(update, (0.0,))
        pool.count_results([nothing(update)])


def updates_of(pool: OpponentPool) -> list[int]:
    return [member.update for member in pool.snapshots]


def chances_of(pool: OpponentPool) -> dict[int, float]:
    orders = pool.orders(0, (0.0,))
    return dict(zip(orders.ids, orders.probabilities, strict=True))


def failure(number: int) -> Failure:
    return Failure(number, "cheat", 3, 1, 2, "opponent cheat answered 9, which is no legal action")


def test_snapshots_are_taken_at_intervals() -> None:
    pool = new_pool(snapshot_interval=5)
    for update in range(1, 18):
        assert bool(pool.add_snapshot(update, weights_of(update))) == pool.is_due(update)
    assert updates_of(pool) == [5, 10, 15]
    assert [member.number for member in pool.snapshots] == [1, 2, 3]


def test_interval_0_takes_no_snapshots() -> None:
    pool = new_pool(RANDOM, snapshot_interval=0)
    assert not any(pool.add_snapshot(update, weights_of(update)) for update in range(100))
    assert pool.config.num_weight_slots == 0


def test_a_snapshot_keeps_its_weights_whatever_becomes_of_the_learner() -> None:
    pool, learner = new_pool(), weights_of(7)
    ((index, published),) = pool.add_snapshot(1, learner).items()
    learner[:] = 0
    assert published.tolist() == pool.weights[1].tolist() == [7] * 4
    assert index == pool.opponents[0].weight_index


def test_numbers_count_up_and_never_come_back() -> None:
    pool = new_pool(RANDOM, size=2, when_full="oldest")
    grow(pool, *range(1, 9))
    assert [member.number for member in pool.opponents] == [1, 8, 9]
    assert pool.next_number == 10


def test_oldest_leaves_first_where_asked() -> None:
    pool = new_pool(size=4, when_full="oldest")
    grow(pool, *range(1, 12))
    assert updates_of(pool) == [8, 9, 10, 11]


SIZES = [(1, 40), (2, 300), (3, 300), (4, 300), (7, 300), (16, 2000)]


@pytest.mark.parametrize(("size", "num_snapshots"), SIZES)
def test_a_full_pool_stays_spread_over_the_whole_past(size: int, num_snapshots: int) -> None:
    interval = 20
    pool = new_pool(size=size, snapshot_interval=interval)
    num_newest = max(1, size // 4)
    for newest in range(1, num_snapshots + 1):
        grow(pool, interval * newest)
        if newest <= size:
            continue
        ordinals = [update // interval for update in updates_of(pool)]
        assert len(ordinals) == size
        assert ordinals[-num_newest:] == list(range(newest - num_newest + 1, newest + 1))
        assert max(np.diff([0, *ordinals])) <= 2 * newest / (size - num_newest + 1)


def test_spread_keeps_the_newest_and_what_can_be_halved_most_often() -> None:
    pool = new_pool(size=8)
    grow(pool, *range(1, 41))
    assert updates_of(pool) == [8, 16, 24, 28, 32, 36, 39, 40]


def test_uniform_chances_by_hand() -> None:
    pool = new_pool(RANDOM, MINIMAX, fixed_share=0.4)
    assert chances_of(pool) == {1: 0.5, 2: 0.5}  # no other opponent yet
    grow(pool, 1, 2, 3)
    assert chances_of(pool) == pytest.approx({1: 0.2, 2: 0.2, 3: 0.2, 4: 0.2, 5: 0.2})
    alone = new_pool()
    assert chances_of(alone) == {}
    grow(alone, 1, 2)
    assert chances_of(alone) == {1: 0.5, 2: 0.5}


def test_newest_first_chances_by_hand() -> None:
    pool = new_pool(RANDOM, MINIMAX, fixed_share=0.5, choose="newest")
    grow(pool, 1, 2, 3)
    # 0.64, 0.8 and 1 make 2.44 together; among fixed opponents none is newer than another
    expected = {1: 0.25, 2: 0.25, 3: 0.32 / 2.44, 4: 0.4 / 2.44, 5: 0.5 / 2.44}
    assert chances_of(pool) == pytest.approx(expected)


def test_harder_chances_by_hand() -> None:
    pool = new_pool(choose="harder")
    grow(pool, 1, 2, 3)
    pool.count_results([games(1, *[WIN] * 8)])
    pool.count_results([games(2, *[LOSS] * 8)])
    # the first was seen an update earlier: 7.84 wins of as many games; one win and one loss are assumed
    first, second, third = (1 - 8.84 / 9.84) ** 2 + 0.01, 0.9**2 + 0.01, 0.5**2 + 0.01
    total = first + second + third
    assert chances_of(pool) == pytest.approx({1: first / total, 2: second / total, 3: third / total})


def test_harder_chances_forget_old_results() -> None:
    pool = new_pool(choose="harder")
    grow(pool, 1, 2)
    pool.count_results([games(1, *[LOSS] * 16)])
    chances = [chances_of(pool)[1]]
    for _ in range(3):
        pool.count_results([games(1, *[WIN] * 16)])
        chances.append(chances_of(pool)[1])
    assert chances == sorted(chances, reverse=True)
    assert chances[0] > 0.7
    assert chances[-1] < 0.3


def test_probabilities_always_add_up_to_1() -> None:
    pool = new_pool(RANDOM, AGENT, size=5, fixed_share=0.3, choose="harder")
    for update in range(1, 40):
        pool.add_snapshot(update, weights_of(update))
        assert sum(pool.orders(update, (0.0,)).probabilities) == pytest.approx(1.0)
        newest = pool.snapshots[-1].number
        pool.count_results([games(newest, *[WIN, LOSS, DRAW][: 1 + update % 3])])


def test_share_0_of_fixed_ones_draws_none_of_them() -> None:
    pool = new_pool(RANDOM, fixed_share=0.0)
    grow(pool, 1)
    assert chances_of(pool) == {1: 0.0, 2: 1.0}


def test_orders_name_the_places_of_weights() -> None:
    pool = new_pool(RANDOM, AGENT, size=2)
    grow(pool, 1, 2)
    orders = pool.orders(7, (0.25,))
    assert (orders.version, orders.epsilons, orders.ids) == (7, (0.25,), (1, 2, 3, 4))
    assert orders.weight_indices == (-1, pool.config.num_weight_slots, 0, 1)


def test_results_are_the_learners_from_either_seat() -> None:
    pool = new_pool(RANDOM, rows=6)
    seated = [[0, 1], [0, 1], [1, 0], [1, 0], [0, 1], [0, 0]]
    ends = {(0, 0): WIN, (0, 1): LOSS, (0, 2): WIN, (0, 3): LOSS, (0, 4): DRAW, (0, 5): WIN}
    metrics = pool.count_results([rollout([seated], ends)])
    member = pool.opponents[0]
    assert (member.score.wins, member.score.draws, member.score.losses, member.score.games) == (2, 1, 2, 5)
    assert pool.results == {(2, 1): Score(2, 1, 2)}
    assert metrics == {"pool_size": 0.0, "opponent_games": 5.0, "opponent_score": 0.5}


def test_rewards_of_a_game_are_added_up_over_rollouts() -> None:
    pool = new_pool(RANDOM, rows=2)
    first = rollout([[[0, 1], [0, 1]]] * 2)
    first.data.rewards[0, 0] = 3.0, 0.0  # the learner gains early in row 0 ...
    pool.count_results([first])
    assert pool.opponents[0].score.games == 0
    second = rollout([[[0, 1], [0, 1]]] * 2, {(0, 0): LOSS, (1, 1): LOSS})
    pool.count_results([second])  # ... and loses less at the end
    assert (pool.opponents[0].score.wins, pool.opponents[0].score.losses) == (1, 1)
    pool.count_results([rollout([[[0, 1], [0, 1]]], {(0, 0): LOSS})])  # a new game has a new total
    assert (pool.opponents[0].score.wins, pool.opponents[0].score.losses) == (1, 2)


def test_shards_keep_their_totals_apart() -> None:
    pool = new_pool(RANDOM, rows=1, shards=2)
    begun = [rollout([[[0, 1]]], shard=shard) for shard in (0, 1)]
    begun[1].data.rewards[0, 0] = 0.0, 2.0
    pool.count_results(begun)
    pool.count_results([rollout([[[0, 1]]], {(0, 0): WIN * 0.5}, shard=shard) for shard in (0, 1)])
    assert (pool.opponents[0].score.wins, pool.opponents[0].score.losses) == (1, 1)


def test_a_truncated_game_counts_by_its_rewards_so_far() -> None:
    pool = new_pool(RANDOM, rows=1)
    cut = rollout([[[0, 1]]])
    cut.data.truncated[0, 0] = True
    cut.data.bootstrap[0, 0] = 0.3, -0.3
    pool.count_results([cut])
    assert pool.opponents[0].score.draws == 1


def test_a_game_cut_off_by_a_failure_does_not_count() -> None:
    pool = new_pool(RANDOM, rows=1)
    cut = rollout([[[0, 1]]])
    cut.data.truncated[0, 0] = True
    cut.data.bootstrap[0, 0] = np.nan
    pool.count_results([cut])
    assert pool.opponents[0].score.games == 0


def test_results_until_a_snapshot_are_those_of_that_snapshot() -> None:
    pool = new_pool(RANDOM)
    pool.count_results([games(1, LOSS)])
    pool.add_snapshot(1, weights_of(1))
    pool.count_results([games(1, WIN), games(2, DRAW)])
    assert pool.results == {(2, 1): Score(0, 0, 1), (3, 1): Score(1, 0, 0), (3, 2): Score(0, 1, 0)}


def test_a_snapshot_in_play_keeps_its_place_after_it_left() -> None:
    pool = new_pool(size=1, rows=1)
    grow(pool, 1)
    pool.add_snapshot(2, weights_of(2))
    orders = pool.orders(2, (0.0,))
    assert orders.probabilities == (0.0, 1.0)  # drawn no more, but still named for the game that goes on
    for version in (2, 3):
        pool.count_results([rollout([[[0, 1]]], version=version)])
        assert pool.orders(version + 1, (0.0,)).ids == (1, 2)
        assert pool.weights[1].tolist() == weights_of(1).tolist()
    pool.count_results([rollout([[[0, 1]]], {(0, 0): WIN}, version=4)])
    assert pool.orders(5, (0.0,)).ids == (2,)
    assert list(pool.weights) == [2]


def test_a_place_is_kept_until_every_shard_began_without_its_snapshot() -> None:
    pool = new_pool(size=1, shards=2)
    grow(pool, 1)
    pool.add_snapshot(2, weights_of(2))
    pool.orders(2, (0.0,))
    pool.count_results([nothing(version=2, shard=0), nothing(version=1, shard=1)])  # shard 1 may yet draw it
    assert [member.number for member in pool.opponents] == [1, 2]
    pool.count_results([nothing(version=3, shard=0), nothing(version=2, shard=1)])
    assert [member.number for member in pool.opponents] == [2]


def test_without_a_free_place_no_snapshot_is_taken_and_nothing_is_written_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = new_pool(size=1, rows=8)
    slots = pool.config.num_weight_slots
    for update in range(1, slots + 1):
        assert pool.add_snapshot(update, weights_of(update))
        pool.orders(update, (0.0,))
        pool.count_results([rollout([[[0, number] for number in range(1, update + 1)]], version=update)])
    before = pool.orders(slots, (0.0,))
    with caplog.at_level(logging.WARNING):
        assert pool.add_snapshot(slots + 1, weights_of(9)) == {}
    assert re.search(rf"update {slots + 1}: .*{slots} slots.*max_game_length", caplog.text)
    assert pool.orders(slots, (0.0,)) == before
    numbers = range(1, slots + 1)
    all_end = rollout([[[0, number] for number in numbers]], {(0, row): WIN for row in range(slots)})
    pool.count_results([all_end._replace(version=slots + 1)])
    assert pool.add_snapshot(slots + 2, weights_of(10))


def test_as_dict_survives_json_and_gives_equal_orders() -> None:
    pool = new_pool(RANDOM, AGENT, size=3, choose="harder", rows=4)
    for update in range(1, 9):
        pool.add_snapshot(update, weights_of(update))
        pool.orders(update, (0.0,))
        newest = pool.snapshots[-1].number
        pool.count_results(
            [rollout([[[0, newest], [1, 0], [0, 2], [0, 0]]], {(0, update % 3): LOSS}, version=update)]
        )
    pool.totals[0, 1] = 0.1, 0.2
    again = new_pool(RANDOM, AGENT, size=3, choose="harder", rows=4)
    again.load(json.loads(json.dumps(pool.as_dict())), pool.weights, pool.totals)
    last = rollout([[[0, 1], [1, 0], [0, 2], [0, 0]]], {(0, 0): WIN, (0, 1): DRAW}, version=9)
    for each in (pool, again):
        each.count_results([last])
        each.add_snapshot(9, weights_of(9))
    assert again.orders(9, (0.5,)) == pool.orders(9, (0.5,))
    assert again.as_dict() == pool.as_dict()
    assert again.totals.tolist() == pool.totals.tolist()
    assert again.weights.keys() == pool.weights.keys()
    assert all((again.weights[number] == pool.weights[number]).all() for number in pool.weights)


def test_a_failing_opponent_stops_the_run() -> None:
    pool = new_pool(RANDOM, MINIMAX)
    with pytest.raises(OpponentError, match=r"cheat answered 9.*on_failure=drop"):
        pool.count_results([nothing()], [failure(2)])


def test_a_failing_opponent_is_dropped_where_asked(caplog: pytest.LogCaptureFixture) -> None:
    pool = new_pool(RANDOM, MINIMAX, on_failure="drop", snapshot_interval=0)
    with caplog.at_level(logging.WARNING):
        pool.count_results([nothing()], [failure(2), failure(2)])
    assert caplog.text.count("cheat") == 1
    assert chances_of(pool) == {1: 1.0, 2: 0.0}
    pool.count_results([nothing(1)], [failure(2)])  # in a running game
    assert chances_of(pool) == {1: 1.0, 2: 0.0}


@pytest.mark.parametrize("on_failure", ["drop", "stop"])
def test_the_last_opponent_cannot_be_dropped(on_failure: str) -> None:
    pool = new_pool(RANDOM, on_failure=on_failure, snapshot_interval=0)
    with pytest.raises(OpponentError, match=mentions("cheat", "last opponent")):
        pool.count_results([nothing()], [failure(1)])


def test_future_snapshots_are_enough_as_opponents() -> None:
    pool = new_pool(RANDOM, on_failure="drop")
    pool.count_results([nothing()], [failure(1)])
    assert chances_of(pool) == {1: 0.0}
    grow(pool, 1)
    assert chances_of(pool) == {1: 0.0, 2: 1.0}
