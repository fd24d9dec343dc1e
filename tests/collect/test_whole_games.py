"""Whole games: each row plays one per rollout and then idles; longer games continue in the next rollout."""

from typing import Any

import numpy as np
import pytest

from senju.algorithms.returns import generalised_advantages
from senju.collect.exploration import BY_POLICY, Acting
from senju.collect.policy import Policy
from senju.collect.rollout import RolloutPlayer
from senju.collect.shard import Shard
from senju.collect.slots import Slot, new_slot
from senju.games.connect_four import ConnectFour
from senju.games.game import Game
from senju.games.tic_tac_toe import TicTacToe
from senju.timing import StageClock
from tests.collect.made_slots import FINAL
from tests.collect.seated_play import SEED, Seated, evenly, reader
from tests.collect.toy_games import Meeting, Race, Trio
from tests.collect.toy_opponents import HERE

GAMES = [TicTacToe(), Race(), Trio(), Meeting()]
games = pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)
seatings = pytest.mark.parametrize("has_others", [False, True], ids=["self-play", "opponents"])

NUM_ROWS = 7


class Player:
    """One shard, in whole games or without a break."""

    def __init__(self, game: Game, has_others: bool, whole_games: bool = True, **settings: Any) -> None:
        self.game = game
        if has_others:
            seated = Seated(
                game, "random", f"{HERE}:any_legal", num_rows=NUM_ROWS, whole_games=whole_games, **settings
            )
            self.shard, self.player, self.orders = seated.shard, seated.player, evenly(1, 2)
        else:
            self.shard = Shard(game, 1, NUM_ROWS, SEED)
            clock = StageClock()
            policy = Policy(reader(game), settings.get("acting", BY_POLICY))
            self.player = RolloutPlayer(game, [policy], NUM_ROWS, clock, whole_games=whole_games)
            self.orders = evenly(1, 2)

    def play(self, num_steps: int, keeps_final: bool = False) -> Slot:
        slot = new_slot(self.game, num_steps, NUM_ROWS, keeps_final)
        for array in slot:
            array.view(np.uint8).fill(1)  # what is not written would be seen
        self.player.play(self.shard, [slot], self.orders)
        return slot


def last_steps(slot: Slot) -> list[int]:
    """The step with which each row's game ended, -1 where it did not."""
    ends = slot.terminated | slot.truncated
    assert (ends.sum(axis=0) <= 1).all(), "no row plays a second game"
    return np.where(ends.any(axis=0), ends.argmax(axis=0), -1).tolist()


@games
@seatings
def test_each_row_plays_exactly_one_game_in_each_rollout(game: Game, has_others: bool) -> None:
    player, lengths = Player(game, has_others), set()
    for number in range(4):
        assert (player.shard.rows.clock["game"] == number).all()
        assert (player.shard.rows.clock["step"] == 0).all()
        ends = last_steps(player.play(20))
        assert min(ends) >= 0
        lengths |= set(ends)
    assert len(lengths) > 1, "too much alike to show anything"


@games
@seatings
def test_row_that_rests_leaves_nothing_in_the_slot(game: Game, has_others: bool) -> None:
    slot = Player(game, has_others).play(20)
    for row, end in enumerate(last_steps(slot)):
        assert (slot.seats[end + 1 :, row] == -1).all()
        names = ["actions", "rewards", "terminated", "truncated", "values", "log_probs"]
        for name in [*names, *(["seated"] if has_others else [])]:
            assert not getattr(slot, name)[end + 1 :, row].any(), name
        assert not slot.bootstrap[-1, row].any()
    longest = max(last_steps(slot))
    assert longest < 19
    assert not slot.observation[longest + 1 :].any(), "steps that are not played are blank"
    assert not slot.legal[longest + 1 :].any()


@games
@seatings
def test_whole_games_are_those_that_are_played_without_a_break(game: Game, has_others: bool) -> None:
    """Step by step: who decides what, what each saw, and what came of it."""
    whole, on_and_on = Player(game, has_others), Player(game, has_others, whole_games=False)
    rollouts = [whole.play(20) for _ in range(3)]
    expected = on_and_on.play(60)
    names = [name for name in Slot._fields if name not in (*FINAL, "final_at", "bootstrap", "explored")]
    expected.values[expected.seats < 0] = 0.0  # of seats that do not act, it is of no use
    for row in range(NUM_ROWS):
        parts = [(slot, end) for slot in rollouts for end in [last_steps(slot)[row]]]
        for name in names:
            joined = np.concatenate([getattr(slot, name)[: end + 1, row] for slot, end in parts])
            assert joined.tobytes() == getattr(expected, name)[: len(joined), row].tobytes(), name


@seatings
@pytest.mark.parametrize("num_steps", [1, 4, 11])
def test_game_longer_than_the_rollout_goes_on_in_the_next(has_others: bool, num_steps: int) -> None:
    """Joined together, the pieces are the game; and no row that waits for others begins another."""
    game = ConnectFour()
    short, long = Player(game, has_others), Player(game, has_others)
    pieces = [short.play(num_steps) for _ in range(50)]
    whole = [long.play(42) for _ in range(2)]
    for row in range(NUM_ROWS):
        games_of_row: list[list[bytes]] = [[]]
        for slot in pieces:
            ends = last_steps(slot)[row]
            times = range(num_steps if ends < 0 else ends + 1)
            games_of_row[-1] += [slot.observation[time, row].tobytes() for time in times]
            games_of_row += [] if ends < 0 else [[]]
        expected = [
            [slot.observation[time, row].tobytes() for time in range(last_steps(slot)[row] + 1)]
            for slot in whole
        ]
        complete = games_of_row[:-1]
        assert complete[: len(expected)] == expected[: len(complete)]
        assert complete or num_steps == 1


def test_game_that_goes_on_is_worth_something_when_the_rollout_ends() -> None:
    player = Player(Race(), has_others=False)
    slot = player.play(3)
    goes_on = np.array(last_steps(slot)) < 0
    assert goes_on.any()
    assert (slot.bootstrap[-1, goes_on] != 0).all()
    assert not slot.bootstrap[-1, ~goes_on].any()


@games
@seatings
def test_snapshot_between_whole_games_is_all_there_is_to_know(game: Game, has_others: bool) -> None:
    one, other = Player(game, has_others), Player(game, has_others)
    one.play(3)
    other.shard.restore(one.shard.state.copy())
    for _ in range(3):
        found, expected = other.play(3), one.play(3)
        assert [array.tobytes() for array in found] == [array.tobytes() for array in expected]


@pytest.mark.parametrize("acting", [BY_POLICY, Acting("action_values")], ids=["policy", "action values"])
@seatings
def test_rollout_overwrites_all_of_an_old_slot(acting: Acting, has_others: bool) -> None:
    """Of a rollout with more truncated positions and longer games, too."""
    game = Race()
    used, new = (new_slot(game, 12, NUM_ROWS, keeps_final=True) for _ in range(2))
    on_and_on = Player(game, has_others, whole_games=False, acting=acting)
    on_and_on.player.play(on_and_on.shard, [used], evenly(1, 2, epsilons=(0.5,)))
    for slot in (used, new):
        player = Player(game, has_others, acting=acting)
        player.player.play(player.shard, [slot], player.orders)
    for name, old, fresh in zip(Slot._fields, used, new, strict=True):
        assert old.tobytes() == fresh.tobytes(), name


def test_returns_of_whole_games_are_their_results() -> None:
    slot = Player(TicTacToe(), has_others=True).play(9)
    estimate = generalised_advantages(slot, gamma=1.0, gae_lambda=1.0)
    for row, end in enumerate(last_steps(slot)):
        own = [time for time in range(end + 1) if slot.seats[time, row, 0] >= 0]
        for time in own:
            assert estimate.is_known[time, row, 0]
            result = slot.rewards[end, row, slot.seats[time, row, 0]]
            assert estimate.returns[time, row, 0] == pytest.approx(result, abs=1e-5)
    assert estimate.is_known.sum() == (slot.seats >= 0).sum()
