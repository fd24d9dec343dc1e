"""Training learns to play: the strength that the presets reach, with size to spare."""

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import senju
from senju.evaluation.matches import MatchResult, play_match
from senju.evaluation.opponents import make_player
from senju.games import make_game
from senju.games.game import States
from senju.models import make_model
from senju.opponents.players import MinimaxPlayer
from senju.runs.agent import Agent
from senju.runs.run import Run
from tests.training.solved import Walk, solved_values, walk

LONG_TESTS = "SENJU_LONG_TESTS"  # set it to 1 for the tests that take minutes
QUIET = {"interval": 0, "opponents": [], "final_opponents": []}


def match(run: Run, opponent: str, num_games: int) -> MatchResult:
    return play_match(run.game, run.agent.player(), make_player(run.game, opponent), num_games, seed=7)


@pytest.mark.slow
def test_tic_tac_toe_is_learned_nearly_perfectly(tmp_path: Path) -> None:
    run = senju.train("tic_tac_toe", run=tmp_path / "run", seed=1, evaluation=QUIET)
    against_random = match(run, "random", 400)
    assert against_random.score.losses <= 8
    assert against_random.score.mean > 0.93
    assert match(run, "minimax:9", 100).score.losses <= 5  # it cannot be beaten; nearly all games are drawn


def new_walks(run: Run) -> tuple[Walk, Walk]:
    agent = run.agent
    return walk(agent, 0), walk(agent, 1)


def largest_error(run: Run, *walks: Walk) -> float:
    return max(float(np.abs(found.values - solved_values(run.game, found.states)).max()) for found in walks)


@pytest.mark.slow
def test_tic_tac_toe_by_dqn_hardly_ever_loses_whatever_the_other_does(tmp_path: Path) -> None:
    """Of all games, in both seats, with a sixth of the preset's steps and half its width.

    After 2,000 steps it loses 213. After 150,000 it loses 0 or 1, which depends on the seed and on how the
    processor rounds.
    """
    algorithm = {"name": "dqn", "n_step": 3}
    short = {"total_steps": 150_000, "model": {"hidden": [128, 128]}, "evaluation": QUIET}
    run = senju.train("tic_tac_toe", run=tmp_path / "run", seed=2, algorithm=algorithm, **short)
    first, second = new_walks(run)
    assert first.num_lost + second.num_lost <= 5
    assert first.num_won > 50
    assert second.num_won > 100


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(os.environ.get(LONG_TESTS) != "1", reason=f"takes minutes; set {LONG_TESTS}=1")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_tic_tac_toe_by_dqn_ends_with_the_exact_values(tmp_path: Path, seed: int) -> None:
    run = senju.train("tic_tac_toe", run=tmp_path / "run", seed=seed, algorithm="dqn", evaluation=QUIET)
    walks = new_walks(run)
    assert [found.num_lost for found in walks] == [0, 0]
    assert largest_error(run, *walks) < 0.1


@pytest.mark.slow
def test_connect_four_is_learned_far_beyond_random_play_within_400_000_steps(tmp_path: Path) -> None:
    short = {"total_steps": 400_000, "threads": 1, "evaluation": QUIET}
    run = senju.train("connect_four", run=tmp_path / "run", seed=1, **short)
    assert match(run, "random", 400).score.mean > 0.85


def test_untrained_action_values_lose_and_are_wrong(tmp_path: Path) -> None:
    run = senju.train("tic_tac_toe", run=tmp_path / "run", total_steps=1, algorithm="dqn", evaluation=QUIET)
    walks = new_walks(run)
    assert all(found.num_lost > 20 for found in walks)
    assert largest_error(run, *walks) > 0.9


def test_walk_meets_every_reply_and_solves_every_position(tmp_path: Path) -> None:
    """A player who knows all values loses nothing; what they are is known of some positions."""
    game = make_game("tic_tac_toe")
    states = game.new_games(3)
    outcomes = game.new_outcomes(3)
    for actions in ([0, 0, 0], [1, 4, 8]):  # a corner, answered by a side, the centre and the far corner
        game.step(states, np.array(actions, np.int32)[:, None], outcomes)
    assert solved_values(game, game.new_games(1)).tolist() == [0.0]
    assert solved_values(game, states).tolist() == [1.0, 0.0, 1.0]

    class Perfect(Agent):
        def action_values(self, states: States) -> NDArray[np.float64]:
            return MinimaxPlayer(self.game, 9).action_values(states)

    model = make_model({"name": "mlp", "hidden": [4]}, game.observation_shape, game.num_actions, 0)
    for seat in (0, 1):
        found = walk(Perfect(game, model, "perfect"), seat)
        assert found.num_lost == 0
        assert found.num_won > 50
        assert (np.sign(found.values) == solved_values(game, found.states)).all()


def test_untrained_network_is_no_better_than_random_play(tmp_path: Path) -> None:
    """What the tests above measure is learned, not built in."""
    run = senju.train("tic_tac_toe", run=tmp_path / "run", total_steps=1, evaluation=QUIET)
    assert match(run, "minimax:9", 100).score.losses > 30
