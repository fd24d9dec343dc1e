"""Resigned games: which, with what outcome, and the same ones wherever and whenever they are played."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from senju.algorithms.returns import generalised_advantages
from senju.backends.backend import Plan
from senju.collect.policy import Policy
from senju.collect.resignation import Resignation
from senju.collect.rollout import RolloutPlayer
from senju.collect.shard import Shard
from senju.collect.slots import Slot, new_slot
from senju.errors import ConfigError
from senju.games.connect_four import ConnectFour
from senju.games.game import Game
from senju.games.rows import Rows
from senju.kernels import random_word, unit_interval
from senju.models.mlp import Mlp, MlpConfig
from senju.models.model import Model, build_model
from senju.timing import StageClock
from tests.backends.common import PLAN, changed, contents, started
from tests.collect.toy_games import Bandit, GeneralSumRace, Meeting
from tests.facts import mentions

SEED, ROWS = 21, 32
BELOW = 0.05


def model_of(game: Game) -> Model:
    return build_model(Mlp, game.observation_shape, game.num_actions, MlpConfig(hidden=(16,)), SEED)


def play(resignation: Resignation, num_steps: int = 60) -> Slot:
    game = ConnectFour()
    slot = new_slot(game, num_steps, ROWS)
    player = RolloutPlayer(game, [Policy(model_of(game))], ROWS, StageClock(), resignation)
    player.play(Shard(game, 1, ROWS, SEED), [slot])
    return slot


def replayed(slot: Slot, judge: Callable[[int, Rows, NDArray[np.bool_]], NDArray[np.bool_]]) -> int:
    """Replay the actions; `judge(time, rows, by_rules)` gives the games that resign. Returns their number."""
    game, given_up = ConnectFour(), 0
    rows = Rows(game, np.arange(ROWS, 2 * ROWS, dtype=np.uint32), SEED)
    outcomes = game.new_outcomes(ROWS)
    for time in range(slot.num_steps):
        rows.step(slot.actions[time], outcomes)
        resigns = judge(time, rows, outcomes.terminated)
        given_up += int(resigns.sum())
        movers = slot.seats[time, :, 0]
        outcomes.rewards[resigns] = np.where(movers[resigns, None] == np.arange(2), -1.0, 1.0)
        outcomes.terminated[resigns] = True
        for name, expected in outcomes._asdict().items():
            np.testing.assert_array_equal(getattr(slot, name)[time], expected, f"{name} at {time}")
        rows.advance(outcomes)
    return given_up


def is_exempt(rows: Rows, share: float) -> NDArray[np.bool_]:
    words = (random_word(rows.seed, clock["row"], clock["game"], 0, 2) for clock in rows.clock)
    return np.array([unit_interval(np.uint64(word)) < share for word in words])


@pytest.mark.parametrize("exempt", [0.0, 0.5])
def test_mover_below_the_limit_loses_unless_the_rules_ended_the_game_or_it_is_exempt(exempt: float) -> None:
    slot = play(Resignation(BELOW, exempt))

    def judge(time: int, rows: Rows, by_rules: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return (slot.values[time, :, 0] < -BELOW) & ~by_rules & ~is_exempt(rows, exempt)

    assert replayed(slot, judge) > ROWS


def test_all_games_exempt_or_no_limit_is_what_was_played_before() -> None:
    plain = play(Resignation())
    for other in (Resignation(0.0, 0.0), Resignation(BELOW, 1.0)):
        assert [array.tobytes() for array in play(other)] == [array.tobytes() for array in plain]
    assert play(Resignation(BELOW)).terminated.sum() > plain.terminated.sum()


def test_about_the_asked_share_of_games_is_exempt() -> None:
    rows = Rows(ConnectFour(), np.arange(4000, dtype=np.uint32), SEED)
    assert abs(is_exempt(rows, 0.1).mean() - 0.1) < 0.02
    first = is_exempt(rows, 0.1)
    rows.clock["game"] += 1
    assert (is_exempt(rows, 0.1) != first).any()  # not always the same rows
    rows.clock["step"] += 1
    rows.clock["game"] -= 1
    assert (is_exempt(rows, 0.1) == first).all()  # but all through a game


def test_resigned_game_is_learned_from_as_a_loss_and_a_win() -> None:
    slot = play(Resignation(BELOW, 0.0))
    returns = generalised_advantages(slot, gamma=1.0, gae_lambda=1.0).returns[..., 0]
    times, rows = np.nonzero(
        slot.terminated & (slot.values[..., 0] < -BELOW) & (slot.rewards.min(axis=2) < 0)
    )
    lost = slot.rewards[times, rows, slot.seats[times, rows, 0]] == -1.0
    times, rows = times[lost & (times > 0)], rows[lost & (times > 0)]
    assert len(times)
    np.testing.assert_allclose(returns[times, rows], -1.0)
    before = ~slot.terminated[times - 1, rows]  # the other's last decision, in the same game
    np.testing.assert_allclose(returns[times - 1, rows][before], 1.0)


@pytest.mark.parametrize("game", [Bandit(), GeneralSumRace(), Meeting()], ids=lambda game: game.name)
def test_game_without_a_winner_for_each_loser_is_refused(game: Game) -> None:
    with pytest.raises(ConfigError, match=rf"resign_below=0\.9.*{game.name}"):
        RolloutPlayer(game, [Policy(model_of(game))], 4, StageClock(), Resignation(0.9))
    RolloutPlayer(game, [Policy(model_of(game))], 4, StageClock(), Resignation(0.0))


@pytest.mark.parametrize("backend", ["serial", "threads"])
def test_backends_refuse_such_games_before_they_play(backend: str) -> None:
    plan = changed(PLAN, game={"name": "tests.collect.toy_games:Meeting"}, resignation=Resignation(0.5))
    with (
        pytest.raises(ConfigError, match=mentions("resign_below=0.5", "zero-sum", "meeting")),
        started(plan, backend),
    ):
        pass


def test_rollout_played_again_from_its_start_resigns_the_same_games() -> None:
    plan: Plan = changed(PLAN, resignation=Resignation(BELOW), rollout_steps=30)
    with started(plan) as backend:
        backend.collect()
        snapshot = backend.snapshot()
        first = contents(backend.collect())
        backend.restore(snapshot)
        assert contents(backend.collect()) == first
