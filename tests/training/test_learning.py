"""Training learns to play: the strength that the presets reach, with room to spare."""

from pathlib import Path

import pytest

import senju
from senju.training.evaluation import MatchResult, play_match
from senju.training.opponents import make_player
from senju.training.run import Run

QUIET = {"interval": 0, "opponents": [], "final_opponents": []}


def match(run: Run, opponent: str, num_games: int) -> MatchResult:
    return play_match(run.game, run.agent.player(), make_player(run.game, opponent), num_games, seed=7)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_tic_tac_toe_is_learned_nearly_perfectly(tmp_path: Path, seed: int) -> None:
    run = senju.train("tic_tac_toe", run=tmp_path / "run", seed=seed, evaluation=QUIET)
    against_random = match(run, "random", 400)
    assert against_random.losses <= 8
    assert against_random.score > 0.93
    assert match(run, "minimax:9", 100).losses <= 5  # it cannot be beaten; nearly all games are drawn


@pytest.mark.slow
def test_connect_four_is_learned_far_beyond_random_play_within_400_000_steps(tmp_path: Path) -> None:
    short = {"total_steps": 400_000, "threads": 1, "evaluation": QUIET}
    run = senju.train("connect_four", run=tmp_path / "run", seed=1, **short)
    assert match(run, "random", 400).score > 0.85


def test_untrained_network_is_no_better_than_random_play(tmp_path: Path) -> None:
    """What the tests above measure is learned, not built in."""
    run = senju.train("tic_tac_toe", run=tmp_path / "run", total_steps=1, evaluation=QUIET)
    assert match(run, "minimax:9", 100).losses > 30
