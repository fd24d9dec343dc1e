"""A rollout that is played in parts, each by another worker, has the bytes of one that is played at once."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from senju.collect.exploration import BY_POLICY, Acting
from senju.collect.orders import Orders
from senju.collect.policy import Policy
from senju.collect.resignation import Resignation
from senju.collect.rollout import RolloutPlayer, policy_view
from senju.collect.shard import Shard
from senju.collect.slots import Slot, new_slot
from senju.games.connect_four import ConnectFour
from senju.games.game import Game
from senju.games.tic_tac_toe import TicTacToe
from senju.timing import StageClock
from tests.collect.seated_play import SEED, reader
from tests.collect.toy_games import Meeting, Race, Trio

NUM_ROWS, NUM_STEPS, NUM_ROLLOUTS = 5, 12, 3
BY_VALUES = Acting("action_values")


def play(
    game: Game,
    acting: Acting,
    is_independent: bool,
    whole_games: bool,
    cuts: Sequence[int],
    max_game_length: int = 5,
) -> tuple[list[bytes], bytes]:
    """All slots and the last state; a worker of its own plays the steps between two cuts."""
    num_policies = game.num_seats if is_independent else 1
    view, state = (
        policy_view(game, num_policies),
        Shard(game, 1, NUM_ROWS, SEED, max_game_length).state.copy(),
    )
    played: list[bytes] = []
    for _ in range(NUM_ROLLOUTS):
        slots = [new_slot(view, NUM_STEPS, NUM_ROWS, keeps_final=True) for _ in range(num_policies)]
        for slot in slots:
            fill(slot)
        for first, end in pairwise((0, *cuts, NUM_STEPS)):
            policies = [Policy(reader(game), acting) for _ in range(num_policies)]
            resignation = Resignation(0.4, 0.5) if game.is_zero_sum else Resignation()
            player = RolloutPlayer(
                game, policies, NUM_ROWS, StageClock(), resignation, whole_games=whole_games
            )
            shard = Shard(game, 1, NUM_ROWS, SEED, max_game_length)
            shard.restore(state)
            player.play(shard, slots, Orders(epsilons=(0.3,) * num_policies), range(first, end))
            state = shard.state.copy()
        played += [array.tobytes() for slot in slots for array in slot]
    return played, b"".join(array.tobytes() for array in state)


def fill(slot: Slot) -> None:
    """With something that must not be left there."""
    for name, array in slot._asdict().items():
        array.view(np.uint8).fill(name not in ("log_probs", "explored"))  # each is one way of acting's


@pytest.mark.parametrize("whole_games", [False, True], ids=["without a break", "whole games"])
@pytest.mark.parametrize("is_independent", [False, True], ids=["self-play", "independent"])
@pytest.mark.parametrize("acting", [BY_POLICY, BY_VALUES], ids=["policy", "action values"])
@pytest.mark.parametrize(
    "game", [TicTacToe(), ConnectFour(), Race(), Trio(), Meeting()], ids=lambda game: game.name
)
def test_parts_have_the_bytes_of_the_whole(
    game: Game, acting: Acting, is_independent: bool, whole_games: bool
) -> None:
    whole = play(game, acting, is_independent, whole_games, [])
    for cuts in ([6], [3, 6, 9], [1, 11]):
        assert play(game, acting, is_independent, whole_games, cuts) == whole
