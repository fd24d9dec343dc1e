"""Rollouts re-played by hand through the Game contract, and what a cut-off position is worth."""

from typing import NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from senju.algorithms.masked_categorical import MaskedCategorical
from senju.collect.actor import Actor
from senju.collect.policy import Policy
from senju.collect.rollout import RolloutPlayer
from senju.collect.shard import Shard
from senju.collect.slots import Slot, new_slot
from senju.games.check import check_game
from senju.games.connect_four import ConnectFour
from senju.games.game import Game
from senju.games.rows import Rows
from senju.games.tic_tac_toe import TicTacToe
from senju.kernels import unpack_legal
from senju.models.mlp import Mlp, MlpConfig
from senju.models.model import Model, ModelConfig, build_model
from senju.timing import StageClock
from tests.collect.toy_games import Bandit, GeneralSumRace, Meeting, Nim, Race
from tests.collect.toy_models import ReadsObservation

SEED = 21
TOYS = [Race(), GeneralSumRace(), Meeting(), Bandit(), Nim()]
GAMES = [TicTacToe(), ConnectFour(), *TOYS]


def named(game: Game) -> str:
    return game.name


def small_mlp(game: Game) -> Model:
    return build_model(Mlp, game.observation_shape, game.num_actions, MlpConfig(hidden=(16,)), SEED)


def reader(game: Game) -> Model:
    return build_model(ReadsObservation, game.observation_shape, game.num_actions, ModelConfig(), SEED)


def play(game: Game, model: Model, num_rows: int, num_steps: int, num_rollouts: int) -> list[Slot]:
    """Consecutive rollouts of shard 1."""
    shard = Shard(game, 1, num_rows, SEED)
    player = RolloutPlayer(game, [Policy(model)], num_rows, StageClock())
    slots = [new_slot(game, num_steps, num_rows) for _ in range(num_rollouts)]
    for slot in slots:
        for array in slot:
            array.view(np.uint8).fill(1)  # what is not written would be seen
        player.play(shard, [slot])
    return slots


def fresh_rows(game: Game, num_rows: int) -> Rows:
    return Rows(game, np.arange(num_rows, 2 * num_rows, dtype=np.uint32), SEED)


@pytest.mark.parametrize("game", TOYS, ids=named)
def test_toy_game_keeps_the_contract(game: Game) -> None:
    check_game(game, num_steps=100)


@pytest.mark.parametrize("game", GAMES, ids=named)
def test_recorded_actions_replay_to_what_was_recorded(game: Game) -> None:
    """Observations, masks, seats, rewards and ends are the game's, byte for byte, across rollouts."""
    num_rows, num_ended = 6, 0
    rows = fresh_rows(game, num_rows)
    observations, outcomes = game.new_observations(num_rows), game.new_outcomes(num_rows)
    for slot in play(game, small_mlp(game), num_rows, num_steps=15, num_rollouts=3):
        for time in range(slot.num_steps):
            rows.observe(observations)
            for name, seen in observations._asdict().items():
                assert getattr(slot, name)[time].tobytes() == seen.tobytes(), f"{name} at {time}"
            rows.step(slot.actions[time], outcomes)
            for name, came in outcomes._asdict().items():
                assert getattr(slot, name)[time].tobytes() == came.tobytes(), f"{name} at {time}"
            num_ended += len(rows.advance(outcomes))
    assert num_ended > num_rows, "too few games ended to show anything about starting anew"


@pytest.mark.parametrize("game", GAMES, ids=named)
def test_values_and_log_probs_are_those_of_the_model_that_acted(game: Game) -> None:
    num_rows, model = 6, small_mlp(game)
    with torch.no_grad():
        model.head.weight *= 30.0  # a policy far from even
    (slot,) = play(game, model, num_rows, num_steps=15, num_rollouts=1)
    actor = Actor(game, model, num_rows)
    for time in range(slot.num_steps):
        logits, values = actor.evaluate(slot.observation[time])
        assert slot.values[time].tobytes() == np.ascontiguousarray(values).tobytes()
        acts = slot.seats[time].reshape(-1) >= 0
        legal = unpack_legal(slot.legal[time], game.num_actions).reshape(-1, game.num_actions)
        policy = MaskedCategorical(torch.from_numpy(logits[acts]), torch.from_numpy(legal[acts]))
        expected = policy.log_prob(torch.from_numpy(slot.actions[time].reshape(-1)[acts]))
        np.testing.assert_allclose(slot.log_probs[time].reshape(-1)[acts], expected, rtol=1e-5, atol=2e-6)


def test_absent_seats_are_recorded_with_action_0_and_log_prob_0() -> None:
    (slot,) = play(Meeting(), small_mlp(Meeting()), num_rows=6, num_steps=20, num_rollouts=1)
    absent = slot.seats < 0
    assert absent.any()
    assert not slot.actions[absent].any()
    assert not slot.log_probs[absent].any()


class Position(NamedTuple):
    """What `observe` shows of one row's position."""

    observation: NDArray[np.uint8]  # [acting, *observation_shape]
    seats: NDArray[np.int8]  # [acting]


def positions_after(game: Game, slot: Slot) -> dict[tuple[int, int], Position]:
    """Every position right after a step and before any new game, by (time, row)."""
    num_rows = slot.seats.shape[1]
    rows, outcomes = fresh_rows(game, num_rows), game.new_outcomes(num_rows)
    after: dict[tuple[int, int], Position] = {}
    for time in range(slot.num_steps):
        rows.step(slot.actions[time], outcomes)
        observations = game.new_observations(num_rows)
        rows.observe(observations)
        for row in range(num_rows):
            after[time, row] = Position(observations.observation[row], observations.seats[row])
        rows.advance(outcomes)
    return after


def spelled(observation: NDArray[np.uint8]) -> float:
    """The value that ReadsObservation gives to what one seat sees."""
    return sum(int(number) / 16.0 ** (place + 1) for place, number in enumerate(observation.reshape(-1)))


@pytest.mark.parametrize("game", [Race(), GeneralSumRace(), Meeting()], ids=named)
@pytest.mark.parametrize("num_steps", [1, 4, 5, 20])
def test_bootstrap_is_the_value_of_the_position_that_was_cut_off(game: Game, num_steps: int) -> None:
    """At a truncation and at the rollout's end; nothing where the game goes on or ended by its rules.

    Races are truncated after 5 moves: rollouts of 1 and 4 end in mid-game, those of 5 and 20 with
    truncated games, whose rows show the next game's first position when the rollout is over.
    """
    (slot,) = play(game, reader(game), num_rows=40, num_steps=num_steps, num_rollouts=1)
    num_cut = 0
    for (time, row), position in positions_after(game, slot).items():
        is_last = time == num_steps - 1
        expected = np.zeros(game.num_seats)
        if slot.truncated[time, row] or (is_last and not slot.terminated[time, row]):
            num_cut += 1
            expected[:] = np.nan
            for place in np.flatnonzero(position.seats >= 0):
                expected[position.seats[place]] = spelled(position.observation[place])
            if game.is_zero_sum:
                expected[1 - position.seats[0]] = -expected[position.seats[0]]
        np.testing.assert_array_equal(slot.bootstrap[time, row], expected, f"time {time}, row {row}")
    assert num_cut > 0


@pytest.mark.parametrize("num_steps", [5, 20])
def test_bootstrap_at_a_truncation_is_never_the_next_games_first_position(num_steps: int) -> None:
    """The value itself distinguishes five moves from none: 5/256 against 0/256."""
    (slot,) = play(Race(), reader(Race()), num_rows=40, num_steps=num_steps, num_rollouts=1)
    values = np.abs(slot.bootstrap[slot.truncated][:, 0])
    assert len(values)
    np.testing.assert_array_equal(np.floor(values * 256.0) % 16, Race.LIMIT)


def test_zero_sum_gives_the_other_seat_minus_the_value() -> None:
    (slot,) = play(Race(), reader(Race()), num_rows=40, num_steps=3, num_rollouts=1)
    cut = slot.bootstrap[-1][~slot.terminated[-1]]
    assert (cut != 0).all()
    np.testing.assert_array_equal(cut[:, 0], -cut[:, 1])


def test_general_sum_leaves_the_waiting_seats_value_unknown() -> None:
    (slot,) = play(GeneralSumRace(), reader(GeneralSumRace()), num_rows=40, num_steps=3, num_rollouts=1)
    cut = slot.bootstrap[-1][~(slot.terminated[-1] | slot.truncated[-1])]
    assert np.isnan(cut[:, 0]).all()  # after three moves seat 1 is to move
    assert np.isfinite(cut[:, 1]).all()


def test_rollout_overwrites_all_of_an_old_slot() -> None:
    """A slot is used again and again: nothing of an older rollout may shine through."""
    game = Race()
    player = RolloutPlayer(game, [Policy(reader(game))], 8, StageClock())
    used, new = new_slot(game, 12, 8), new_slot(game, 12, 8)
    player.play(Shard(game, 5, 8, SEED), [used])
    player.play(Shard(game, 1, 8, SEED), [used])
    player.play(Shard(game, 1, 8, SEED), [new])
    for name, old, fresh in zip(Slot._fields, used, new, strict=True):
        assert old.tobytes() == fresh.tobytes(), name


def test_every_stage_of_a_step_is_timed() -> None:
    clock = StageClock()
    player = RolloutPlayer(Race(), [Policy(reader(Race()))], 4, clock)
    player.play(Shard(Race(), 0, 4, SEED), [new_slot(Race(), 6, 4)])
    assert set(clock.take()) == {"observe", "evaluate", "choose", "step", "restart"}


def test_acting_leaves_no_gradient_behind() -> None:
    game = TicTacToe()
    model = small_mlp(game)
    play(game, model, num_rows=4, num_steps=5, num_rollouts=1)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(parameter.is_inference() for parameter in model.parameters())
