"""Seats: drawn when a game begins, fixed until its end, balanced colours, and whose moves are learned."""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from senju.algorithms.returns import generalised_advantages
from senju.collect.orders import Orders
from senju.collect.seating import CURRENT
from senju.collect.slots import Slot
from senju.games.check import check_game
from senju.games.connect_four import ConnectFour
from senju.games.game import Game
from senju.games.tic_tac_toe import TicTacToe
from tests.collect.made_slots import some_rows
from tests.collect.seated_play import Seated, evenly, preferring, replayed
from tests.collect.test_exploration import deviations_from
from tests.collect.toy_games import GeneralSumRace, Meeting, Race, Trio
from tests.collect.toy_opponents import HERE

GAMES = [TicTacToe(), ConnectFour(), Race(), GeneralSumRace(), Trio(), Meeting()]
games = pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)


def three_kinds(game: Game, **settings: Any) -> Seated:
    """Against a random player, a function, and two snapshots: 1, 2, 3 and 4."""
    one_sided = [[5.0] + [0.0] * (game.num_actions - 1), [0.0] * (game.num_actions - 1) + [5.0]]
    weights = {place: preferring(game, logits) for place, logits in enumerate(one_sided)}
    return Seated(game, "random", f"{HERE}:any_legal", weights=weights, **settings)


EVERYBODY = evenly(1, 2, 3, 4, snapshots=2)


def test_trio_keeps_the_contract() -> None:
    check_game(Trio(), num_steps=100)


@games
def test_only_the_current_policys_decisions_are_marked_and_all_are_recorded(game: Game) -> None:
    seated = three_kinds(game, self_share=0.3)
    slots = [seated.play(15, EVERYBODY) for _ in range(3)]
    num_own = num_others = 0
    for step in replayed(game, slots):
        slot, time = step.slot, step.time
        assert slot.observation[time].tobytes() == step.seen.observation.tobytes()
        assert slot.legal[time].tobytes() == step.seen.legal.tobytes()
        assert slot.rewards[time].tobytes() == step.came.rewards.tobytes()
        assert slot.terminated[time].tobytes() == step.came.terminated.tobytes()
        acts = step.seen.seats >= 0
        whose = np.take_along_axis(slot.seated[time], np.maximum(step.seen.seats, 0).astype(np.int64), axis=1)
        is_own = acts & (whose == CURRENT)
        np.testing.assert_array_equal(slot.seats[time], np.where(is_own, step.seen.seats, -1))
        assert not slot.values[time][~is_own].any()
        assert not slot.log_probs[time][~is_own].any()
        _, values = seated.model(torch.from_numpy(step.seen.observation[is_own]).float())
        np.testing.assert_allclose(slot.values[time][is_own], values.numpy(), rtol=1e-6)
        num_own, num_others = num_own + is_own.sum(), num_others + (acts & ~is_own).sum()
    assert num_own > 30
    assert num_others > 30


def who_sat(game: Game, slots: list[Slot]) -> dict[tuple[int, int], set[tuple[int, ...]]]:
    """By row id and game number: all seatings that were seen in it."""
    found: dict[tuple[int, int], set[tuple[int, ...]]] = defaultdict(set)
    for step in replayed(game, slots):
        for row, clock in enumerate(step.clock):
            key = int(clock["row"]), int(clock["game"])
            found[key].add(tuple(step.slot.seated[step.time, row].tolist()))
    return dict(found)


@games
def test_seats_do_not_change_before_the_game_is_over(game: Game) -> None:
    """Over rollouts of three steps, although in each of them others are to be drawn."""
    seated = three_kinds(game)
    orders = [
        evenly(1, 2, 3, 4, snapshots=2)._replace(probabilities=chances) for chances in np.eye(4).tolist()
    ]
    slots = [seated.play(3, orders[turn % 4]) for turn in range(24)]
    seen = who_sat(game, slots)
    assert all(len(seatings) == 1 for seatings in seen.values())
    assert {number for seatings in seen.values() for number in next(iter(seatings))} == {0, 1, 2, 3, 4}


@games
def test_colours_are_balanced_exactly(game: Game) -> None:
    """Game g of row r: the current policy sits in seat (r + g) % seats, for any opponents."""
    seated = three_kinds(game)
    for (row, number), seatings in who_sat(game, [seated.play(60, EVERYBODY)]).items():
        [seats] = seatings
        own = [seat for seat, whose in enumerate(seats) if whose == CURRENT]
        assert own == [(row + number) % game.num_seats]


@games
def test_restored_games_continue_with_the_same_players(game: Game) -> None:
    """Restored in a seating that would draw other opponents; only new games are against those."""
    one, other = three_kinds(game), three_kinds(game)
    one.play(2, evenly(1))
    other.shard.restore(one.shard.state.copy())
    expected, found = one.play(2, evenly(1)), other.play(2, evenly(2))
    is_first = other.shard.rows.clock["game"] == 0
    assert is_first.any()
    np.testing.assert_array_equal(found.seated[:, is_first], expected.seated[:, is_first])
    assert set(np.unique(found.seated[:, is_first]).tolist()) == {0, 1}
    assert 2 in np.unique(other.play(15, evenly(2)).seated)


@games
def test_restored_shard_replays_to_equal_bytes(game: Game) -> None:
    one, other = three_kinds(game, in_play=2), three_kinds(game, in_play=2)
    one.play(7, EVERYBODY)
    snapshot = one.shard.state.copy()
    expected = [one.play(7, EVERYBODY._replace(version=version)) for version in (1, 2)]
    for restored in (one, other):
        restored.shard.restore(snapshot)
        for version, slot in zip((1, 2), expected, strict=True):
            again = restored.play(7, EVERYBODY._replace(version=version))
            assert [array.tobytes() for array in again] == [array.tobytes() for array in slot]


def test_share_of_games_is_played_against_itself() -> None:
    seated = Seated(Race(), "random", num_rows=200, self_share=0.25)
    against = [next(iter(s)) for s in who_sat(Race(), [seated.play(100, evenly(1))]).values()]
    num_own = sum(not any(seats) for seats in against)
    assert deviations_from(np.array([num_own, len(against) - num_own]), np.array([0.25, 0.75])) < 4


def test_without_opponents_the_learner_plays_against_itself() -> None:
    """Before the first snapshot: it plays itself, and all of it is learned from."""
    slot = Seated(Race()).play(20)
    assert not slot.seated.any()
    assert (slot.seats >= 0).all()


@pytest.mark.parametrize("in_play", [1, 3, 40])
def test_rollout_has_no_more_opponents_than_are_to_be_in_play(in_play: int) -> None:
    """Of forty; and over many rollouts each is drawn as often as its probability says."""
    chances = np.arange(1.0, 41.0) / np.arange(1.0, 41.0).sum()
    orders = evenly(*range(1, 41))._replace(probabilities=tuple(chances.tolist()))
    seated = Seated(Race(), *["random"] * 40, num_rows=50, in_play=in_play)
    counts = np.zeros(41, np.int64)
    for version in range(40):
        seated.shard.rows.clock["step"] = 0  # all games begin anew
        slot = seated.play(1, orders._replace(version=version))
        drawn = slot.seated[0].max(axis=1)
        assert len(np.unique(drawn)) <= in_play
        counts += np.bincount(drawn, minlength=41)
        seated.shard.rows.clock["game"] += 1
    assert counts[0] == 0
    if in_play == 40:
        assert deviations_from(counts[10:], chances[9:] / chances[9:].sum()) < 4
    else:  # few active opponents: the heavier half must be met more often, though not to a precise degree
        assert counts[21:].sum() > counts[1:21].sum()
    assert np.count_nonzero(counts) > min(in_play, 25)


def test_opponent_that_is_drawn_no_more_finishes_its_games() -> None:
    seated = three_kinds(ConnectFour())
    slots = [seated.play(4, evenly(1, 3, snapshots=1))]
    leaving = Orders(ids=(1, 3), weight_indices=(-1, 0), probabilities=(1.0, 0.0))
    slots += [seated.play(4, leaving) for _ in range(14)]
    first = slots[0].seated[-1]
    assert 3 in first
    for step in replayed(ConnectFour(), slots):
        is_first = step.clock["game"] == 0
        np.testing.assert_array_equal(step.slot.seated[step.time, is_first], first[is_first])
        assert 3 not in step.slot.seated[step.time, ~is_first]


@pytest.mark.parametrize("game", [ConnectFour(), Race(), Trio()], ids=lambda game: game.name)
@pytest.mark.parametrize("num_rows", [1, 4])
def test_opponents_chance_belongs_to_the_row(game: Game, num_rows: int) -> None:
    """Alone or among others, in a shard of any size: the same games, given models that do not round."""
    whole = three_kinds(game, num_rows=12, shard=0, self_share=0.2)
    parts = [three_kinds(game, num_rows=num_rows, shard=i, self_share=0.2) for i in range(12 // num_rows)]
    for _ in range(3):
        together = whole.play(12, EVERYBODY)
        for index, part in enumerate(parts):
            rows = range(index * num_rows, (index + 1) * num_rows)
            expected = some_rows(together, rows)
            for name, found, wanted in zip(Slot._fields, part.play(12, EVERYBODY), expected, strict=True):
                assert found.tobytes() == wanted.tobytes(), name


def outcomes_of_games(game: Game, slot: Slot) -> dict[tuple[int, int], tuple[range, NDArray[np.float32]]]:
    """By row and game number: the steps of each game that ended, and what each seat got in all."""
    began, totals = {}, defaultdict(lambda: np.zeros(game.num_seats, np.float32))
    found = {}
    for step in replayed(game, [slot]):
        for row, clock in enumerate(step.clock):
            key = row, int(clock["game"])
            began.setdefault(key, step.time)
            totals[key] += step.came.rewards[row]
            if step.came.terminated[row]:
                found[key] = range(began[key], step.time + 1), totals[key]
    return found


@pytest.mark.parametrize("game", [TicTacToe(), Race(), Trio()], ids=lambda game: game.name)
def test_return_of_each_decision_is_what_its_seat_got_in_the_end(game: Game) -> None:
    """Undiscounted: all decisions of a game, also where the opponent's last move decided it."""
    slot = three_kinds(game, num_rows=20).play(60, EVERYBODY)
    estimate = generalised_advantages(slot, gamma=1.0, gae_lambda=1.0)
    lost_on_the_others_move = 0
    for (row, _), (times, totals) in outcomes_of_games(game, slot).items():
        own = [time for time in times if slot.seats[time, row, 0] >= 0]
        for time in own:
            assert estimate.is_known[time, row, 0]
            expected = totals[slot.seats[time, row, 0]]
            assert estimate.returns[time, row, 0] == pytest.approx(expected, abs=1e-5)
        if own and own[-1] < times[-1] and totals[slot.seats[own[-1], row, 0]] < 0:
            lost_on_the_others_move += 1
    assert lost_on_the_others_move > 5


def test_loss_on_the_opponents_move_by_hand() -> None:
    """A race from 9 of 14: the opponent adds 2 each time and wins with its second or third move.

    The learner's last decision gets minus 1 less its own value; the one before it is judged by the
    last one's value, and so on.
    """
    game = Race()
    adds_two = {0: preferring(game, [0.0, 1.0])}
    slot = Seated(game, weights=adds_two, num_rows=40, shard=0).play(5, evenly(1, snapshots=1))
    estimate = generalised_advantages(slot, gamma=0.9, gae_lambda=0.0)
    num_lost = 0
    for row in range(40):
        [*_, last] = np.flatnonzero(slot.terminated[:, row]).tolist() or [-1]
        own = [time for time in range(last + 1) if slot.seats[time, row, 0] >= 0]
        if last < 0 or slot.terminated[:last, row].any() or len(own) < 2 or own[-1] == last:
            continue
        num_lost += 1
        values = slot.values[:, row, 0]
        assert estimate.advantages[own[-1], row, 0] == pytest.approx(-1.0 - values[own[-1]])
        second = 0.9 * values[own[-1]] - values[own[-2]]
        assert estimate.advantages[own[-2], row, 0] == pytest.approx(second)
    assert num_lost > 3
