"""Every seat with a policy of its own: each slot is what that seat saw and did, and nothing else."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from senju.collect.exploration import BY_POLICY, Acting
from senju.collect.orders import NO_ORDERS, Orders
from senju.collect.policy import Policy
from senju.collect.resignation import Resignation
from senju.collect.rollout import RolloutPlayer
from senju.collect.seating import CURRENT
from senju.collect.shard import Shard
from senju.collect.slots import Ring, RingShape, Slot, new_slot
from senju.errors import ConfigError
from senju.games.game import Game, Observations, States
from senju.games.tic_tac_toe import TicTacToe
from senju.kernels import unpack_legal
from senju.models.model import Model, ModelConfig, build_model
from senju.models.weights import Weights
from senju.opponents.opponent_players import OpponentPlayers, OpponentSettings, OpponentSpec
from senju.timing import StageClock
from tests.collect.seated_play import evenly, preferring
from tests.collect.toy_games import Meeting, Race, Trio
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
    policies = [Policy(reader(game), how) for how in acting]
    player = RolloutPlayer(game, policies, NUM_ROWS, StageClock())
    shard, played = Shard(game, 0, NUM_ROWS, SEED), []
    for _ in range(num_rollouts):
        slots = own_slots(game)
        player.play(shard, slots, orders)
        played.append(slots)
    return played


@pytest.mark.parametrize("acting", [BY_POLICY, GREEDY], ids=["by policy", "by action values"])
def test_one_policy_in_all_seats_plays_as_in_self_play(acting: Acting) -> None:
    game = Meeting()
    player = RolloutPlayer(game, [Policy(reader(game), acting)], NUM_ROWS, StageClock())
    shard, orders = Shard(game, 0, NUM_ROWS, SEED), Orders(epsilons=(0.3, 0.3))
    own = play_independent(game, [acting] * 2, orders, 3)
    for slots in own:
        together = new_slot(game, NUM_STEPS, NUM_ROWS, keeps_final=True)
        player.play(shard, [together], Orders(epsilons=(0.3,)))
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


def test_each_seat_explores_with_its_own_epsilon() -> None:
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
        policies = [Policy(reader(game), how) for how in (BY_POLICY, GREEDY)]
        player = RolloutPlayer(game, policies, NUM_ROWS, StageClock())
        for index in shards:
            slots = own_slots(game)
            player.play(Shard(game, index, NUM_ROWS, SEED), slots, orders)
        return slots

    for alone, after_another in zip(played(0), played(1, 0), strict=True):
        for name in Slot._fields:
            assert getattr(alone, name).tobytes() == getattr(after_another, name).tobytes(), name


def test_two_policies_for_three_seats_are_refused() -> None:
    game = Trio()
    with pytest.raises(ConfigError, match=r"2 policies.*3 seats"):
        RolloutPlayer(game, [Policy(reader(game))] * 2, NUM_ROWS, StageClock())


class OwnPolicies:
    """A shard of a game in which every seat has a policy of its own."""

    def __init__(
        self, game: Game, acting: Acting = BY_POLICY, fixed: Sequence[str] = (), **settings: Any
    ) -> None:
        self.game, self.shard = game, Shard(game, 1, NUM_ROWS, SEED)
        policies = [Policy(reader(game), acting) for _ in range(game.num_seats)]
        self.weights: dict[int, Weights] = {}
        if fixed or settings.pop("has_snapshots", False):
            specs = OpponentSettings(tuple(map(OpponentSpec, fixed)))
            players = OpponentPlayers(game, specs, policies, [], self.weights.__getitem__)
            settings["opponents"] = players
        self.player = RolloutPlayer(game, policies, NUM_ROWS, StageClock(), **settings)

    def play(self, orders: Orders = NO_ORDERS) -> list[Slot]:
        slots = own_slots(self.game)
        self.player.play(self.shard, slots, orders)
        return slots


@pytest.mark.parametrize("whole_games", [False, True], ids=["on and on", "whole games"])
@pytest.mark.parametrize("game", [TicTacToe(), Race(), Trio()], ids=lambda game: game.name)
def test_seats_that_take_turns_can_have_policies_of_their_own(game: Game, whole_games: bool) -> None:
    own = OwnPolicies(game, whole_games=whole_games)
    shard, together = Shard(game, 1, NUM_ROWS, SEED), new_slot(game, NUM_STEPS, NUM_ROWS)
    policy = Policy(reader(game))
    RolloutPlayer(game, [policy], NUM_ROWS, StageClock(), whole_games=whole_games).play(shard, [together])
    for seat, slot in enumerate(own.play()):
        acts = together.seats[..., 0] == seat
        assert acts.any()
        assert np.array_equal(slot.seats[..., 0] == 0, acts)
        for name in ("observation", "legal", "actions", "log_probs", "values"):
            assert np.array_equal(getattr(slot, name)[:, :, 0][acts], getattr(together, name)[:, :, 0][acts])
        assert np.array_equal(slot.rewards[..., 0], together.rewards[..., seat])
    assert own.shard.rows.clock["game"].any()


def test_games_of_own_policies_are_resigned_by_the_mover() -> None:
    game = TicTacToe()
    with torch.no_grad():
        slots = OwnPolicies(game, resignation=Resignation(1e-9, exempt=0.0)).play()
        plain = OwnPolicies(game).play()
    assert not any((slot.values < -1e-9).any() for slot in slots)  # `ReadsObservation` finds none lost
    for slot, other in zip(slots, plain, strict=True):
        assert [array.tobytes() for array in slot] == [array.tobytes() for array in other]

    class Hopeless(ReadsObservation):
        def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
            logits, values = super().forward(observation)
            return logits, -1.0 - values

    hopeless = build_model(Hopeless, game.observation_shape, game.num_actions, ModelConfig(), SEED)
    policies = [Policy(reader(game)), Policy(hopeless)]
    player = RolloutPlayer(game, policies, NUM_ROWS, StageClock(), Resignation(0.5, exempt=0.0))
    first, second = own_slots(game)
    player.play(Shard(game, 1, NUM_ROWS, SEED), [first, second])
    moved = second.seats[..., 0] == 0
    assert moved.any()
    assert first.terminated[moved].all()
    assert (first.rewards[moved] == 1.0).all()
    assert (second.rewards[moved] == -1.0).all()


@pytest.mark.parametrize("game", [Meeting(), TicTacToe()], ids=lambda game: game.name)
def test_opponents_sit_beside_policies_of_their_own(game: Game) -> None:
    """In each game one seat's own policy plays, and the others' seats are played by opponents."""
    slots = OwnPolicies(game, fixed=("random",)).play(evenly(1))
    seated = np.concatenate([slot.seated for slot in slots], axis=-1)
    assert ((seated == CURRENT).sum(axis=-1) == 1).all()
    for seat, slot in enumerate(slots):
        assert not (slot.seats[..., 0][seated[..., seat] != CURRENT] == 0).any()
        assert (slot.seats[..., 0] == 0).any()


@pytest.mark.parametrize("game", [Meeting(), TicTacToe()], ids=lambda game: game.name)
def test_snapshot_plays_each_seat_with_that_seats_network(game: Game) -> None:
    own = OwnPolicies(game, has_snapshots=True)
    count = game.num_actions
    parts = [preferring(game, [100.0 * (action == seat) for action in range(count)]) for seat in range(2)]
    own.weights[0] = np.concatenate(parts)
    others, chosen = own.player.opponents, set()
    assert others is not None
    original = others.choose

    def noting(rows: Any, seen: Observations, seats: Any, seated: Any, actions: Any) -> Any:
        found = original(rows, seen, seats, seated, actions)
        for row, place in zip(*np.nonzero(seats >= 0), strict=True):
            seat = int(seats[row, place])
            if seated[row, seat] == 1 and unpack_legal(seen.legal[row, place], count)[seat]:
                chosen.add((seat, int(actions[row, place])))
        return found

    others.choose = noting  # type: ignore[method-assign]
    own.play(Orders(ids=(1,), weight_indices=(0,), probabilities=(1.0,)))
    assert chosen == {(0, 0), (1, 1)}
