"""Every seat with a policy of its own: each slot is what that seat saw and did, and nothing else."""

from collections.abc import Sequence

import numpy as np
import pytest

from senju.collect.exploration import BY_POLICY, Acting
from senju.collect.independent import IndependentPlayer, require_seats_at_once
from senju.collect.orders import Orders
from senju.collect.rollout import RolloutPlayer
from senju.collect.shard import Shard
from senju.collect.slots import Ring, RingShape, Slot, new_slot
from senju.errors import ConfigError
from senju.games.game import Game, Observations, States
from senju.games.tic_tac_toe import TicTacToe
from senju.models.model import Model, ModelConfig, build_model
from senju.timing import StageClock
from tests.collect.toy_games import Meeting
from tests.collect.toy_models import ReadsObservation

NUM_ROWS, NUM_STEPS, SEED = 6, 11, 3
GREEDY = Acting("action_values", is_dueling=True)


def reader(game: Game) -> Model:
    return build_model(ReadsObservation, game.observation_shape, game.num_actions, ModelConfig(), SEED)


def own_slots(game: Game, keeps_final: bool = True) -> list[Slot]:
    """One for each seat, full of what must not be left there."""
    slots = []
    for _ in range(game.num_seats):
        slot = Ring(game.seat_view, RingShape(1, NUM_STEPS, NUM_ROWS, keeps_final=keeps_final)).slot(0, 0)
        for name, array in slot._asdict().items():
            array.view(np.uint8).fill(name not in ("log_probs", "explored"))  # each is one way of acting's
        slots.append(slot)
    return slots


def play_independent(
    game: Game, acting: Sequence[Acting], orders: Orders, num_rollouts: int
) -> list[list[Slot]]:
    models = [reader(game) for _ in acting]
    player = IndependentPlayer(game, models, NUM_ROWS, StageClock(), acting)
    shard, played = Shard(game, 0, NUM_ROWS, SEED), []
    for _ in range(num_rollouts):
        slots = own_slots(game)
        player.play_all(shard, slots, orders)
        played.append(slots)
    return played


@pytest.mark.parametrize("acting", [BY_POLICY, GREEDY], ids=["by policy", "by action values"])
def test_one_policy_in_all_seats_plays_as_in_self_play(acting: Acting) -> None:
    game = Meeting()
    player = RolloutPlayer(game, reader(game), NUM_ROWS, StageClock(), acting=acting)
    shard, orders = Shard(game, 0, NUM_ROWS, SEED), Orders(epsilon=0.3, epsilons=(0.3, 0.3))
    own = play_independent(game, [acting] * 2, orders, 3)
    for slots in own:
        together = new_slot(game, NUM_STEPS, NUM_ROWS, keeps_final=True)
        player.play(shard, together, orders)
        assert together.truncated.any()
        assert together.terminated.any()
        for seat, slot in enumerate(slots):
            assert_is_that_seats_part(slot, together, seat)


def assert_is_that_seats_part(slot: Slot, together: Slot, seat: int) -> None:
    acts = together.seats[..., seat] == seat
    assert np.array_equal(slot.seats[..., 0], np.where(acts, 0, -1))
    for name in ("observation", "legal", "actions", "explored", "log_probs", "values"):
        own, all_seats = getattr(slot, name)[:, :, 0], getattr(together, name)[:, :, seat]
        assert np.array_equal(own[acts], all_seats[acts]), name
        assert not own[~acts].any(), name
    assert np.array_equal(slot.rewards[..., 0], together.rewards[..., seat])
    assert np.array_equal(slot.bootstrap[..., 0], together.bootstrap[..., seat], equal_nan=True)
    for name in ("terminated", "truncated", "final_at"):
        assert np.array_equal(getattr(slot, name), getattr(together, name)), name
    is_there = together.final_seats[:, seat] >= 0
    assert np.array_equal(slot.final_seats[:, 0] >= 0, is_there)
    for name in ("final_observation", "final_legal"):
        own, all_seats = getattr(slot, name)[:, 0], getattr(together, name)[:, seat]
        assert np.array_equal(own[is_there], all_seats[is_there]), name
        assert not own[~is_there].any(), name
    assert not slot.seated.any()


def test_each_seat_explores_as_much_as_it_was_told() -> None:
    game = Meeting()
    played = play_independent(game, [GREEDY, GREEDY], Orders(epsilons=(0.0, 1.0)), 4)
    first, second = (np.concatenate([slots[seat].explored for slots in played]) for seat in range(2))
    acts = np.concatenate([slots[1].seats >= 0 for slots in played])
    assert not first.any()
    assert acts.any()
    assert second[acts].all()


def test_policies_and_action_values_sit_in_one_world() -> None:
    slots = play_independent(Meeting(), [BY_POLICY, GREEDY], Orders(epsilons=(0.0, 0.5)), 1)[0]
    assert slots[0].log_probs.any()
    assert slots[1].explored.any()


class Sparing(Meeting):
    """Writes what the acting seats see, and nothing for the others."""

    def observe(self, states: States, out: Observations) -> None:
        found = self.new_observations(len(states))
        super().observe(states, found)
        out.seats[:] = found.seats
        acts = found.seats >= 0
        out.observation[acts], out.legal[acts] = found.observation[acts], found.legal[acts]


def test_what_is_kept_does_not_depend_on_the_shards_played_before() -> None:
    game, orders = Sparing(), Orders(epsilons=(0.3, 0.3))

    def played(*shards: int) -> list[Slot]:
        models = [reader(game) for _ in range(2)]
        player = IndependentPlayer(game, models, NUM_ROWS, StageClock(), [BY_POLICY, GREEDY])
        for index in shards:
            slots = own_slots(game)
            player.play_all(Shard(game, index, NUM_ROWS, SEED), slots, orders)
        return slots

    for alone, after_another in zip(played(0), played(1, 0), strict=True):
        for name in Slot._fields:
            assert getattr(alone, name).tobytes() == getattr(after_another, name).tobytes(), name


def test_seats_that_take_turns_are_refused() -> None:
    with pytest.raises(ConfigError, match="in tic_tac_toe 1 of 2 seats act at a time"):
        require_seats_at_once(TicTacToe())
