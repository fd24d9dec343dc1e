"""Positions in which games were truncated: kept as the game shows them, as far as there is room."""

import numpy as np
import pytest

from senju.collect.exploration import BY_POLICY, Acting
from senju.collect.orders import Orders
from senju.collect.policy import Policy
from senju.collect.rollout import RolloutPlayer
from senju.collect.shard import Shard
from senju.collect.slots import RingShape, Slot, new_slot
from senju.games.connect_four import ConnectFour
from senju.games.game import Game
from senju.timing import StageClock
from tests.collect.seated_play import SEED, Seated, evenly, preferring, reader, replayed
from tests.collect.toy_games import GeneralSumRace, Meeting, Race, Trio

by_values = Acting("action_values")
actings = pytest.mark.parametrize("acting", [BY_POLICY, by_values], ids=["policy", "action values"])


def play(game: Game, acting: Acting, num_steps: int, num_rows: int, max_game_length: int = 0) -> Slot:
    shard, slot = Shard(game, 1, num_rows, SEED, max_game_length), new_slot(game, num_steps, num_rows, True)
    for array in slot:
        array.view(np.uint8).fill(1)
    player = RolloutPlayer(game, [Policy(reader(game), acting)], num_rows, StageClock())
    player.play(shard, [slot], Orders(epsilons=(0.8,)))
    return slot


@actings
@pytest.mark.parametrize("game", [Race(), GeneralSumRace(), Trio(), Meeting()], ids=lambda game: game.name)
def test_truncated_positions_are_kept_as_the_game_shows_them(game: Game, acting: Acting) -> None:
    slot = play(game, acting, num_steps=8, num_rows=9)
    num_final, room = 0, len(slot.final_seats)
    for step in replayed(game, [slot]):
        for row in range(9):
            final = slot.final_at[step.time, row]
            if not step.came.truncated[row] or num_final == room:
                assert final == -1
                continue
            num_final += 1
            assert final == num_final - 1, "numbered as they come"
            assert slot.final_observation[final].tobytes() == step.after.observation[row].tobytes()
            assert slot.final_legal[final].tobytes() == step.after.legal[row].tobytes()
            assert slot.final_seats[final].tobytes() == step.after.seats[row].tobytes()
    assert num_final > 3
    assert (slot.final_seats[num_final:] == -1).all()
    assert not slot.final_observation[num_final:].any()


def test_game_that_is_cut_by_its_length_shows_who_would_have_moved() -> None:
    slot = play(ConnectFour(), by_values, num_steps=5, num_rows=4, max_game_length=5)
    assert slot.final_at[-1].tolist() == [0, 1, 2, 3]
    assert (slot.final_seats[:4] == 1).all()
    assert slot.final_legal[:4].all()


def test_opponents_to_move_are_kept_as_well() -> None:
    """Final positions are evaluated for the seat that would have moved: the learner gets minus the value."""
    game = ConnectFour()
    seated = Seated(game, "random", num_rows=8, acting=by_values, max_game_length=6)
    slot = seated.play(6, evenly(1), keeps_final=True)
    assert slot.final_at[-1].tolist() == list(range(8))
    assert (slot.final_seats[:8] == 0).all()
    assert set(slot.seated[-1, :, 0].tolist()) == {0, 1}, "in some games it is the learner's seat"


@actings
def test_more_truncations_than_there_is_room_for_are_not_kept(acting: Acting) -> None:
    """Games of one move: each step truncates all, and there is room for an eighth of them."""
    slot = play(ConnectFour(), acting, num_steps=16, num_rows=4, max_game_length=1)
    room = len(slot.final_seats)
    assert room == RingShape(1, 16, 4, keeps_final=True).final_rows == 8
    assert slot.truncated.all()
    assert slot.final_at.reshape(-1).tolist() == [*range(room), *[-1] * (64 - room)]


def test_room_runs_out_in_the_middle_of_a_step() -> None:
    slot = play(ConnectFour(), by_values, num_steps=10, num_rows=8, max_game_length=1)
    assert slot.final_at[:2].tolist() == [list(range(8)), [8, 9, *[-1] * 6]]


def test_nothing_is_kept_where_it_is_not_wanted() -> None:
    game = Race()
    shard, slot = Shard(game, 1, 9, SEED), new_slot(game, 8, 9)
    RolloutPlayer(game, [Policy(reader(game))], 9, StageClock()).play(shard, [slot])
    assert slot.truncated.any()
    assert (slot.final_at.size, slot.final_observation.size, slot.final_seats.size) == (0, 0, 0)


def test_action_values_of_truncated_positions_are_computed_only_where_needed() -> None:
    """They will have changed when they are learned from."""
    slot = play(Race(), by_values, num_steps=8, num_rows=9)
    assert not slot.bootstrap.any()
    both = Seated(Race(), weights={0: preferring(Race(), [1.0, 0.0])}, acting=by_values, epsilon=0.0)
    assert not both.play(8, evenly(1, snapshots=1), keeps_final=True).bootstrap.any()
