"""A tournament from Python: openings, progress, and what the folder holds."""

from pathlib import Path

import pytest

from senju.errors import OpponentError
from senju.evaluation.tournament.round_robin import run_tournament
from senju.evaluation.tournament.tasks import TournamentProgress, TournamentSettings
from senju.games import make_game
from tests.evaluation.tournament import odd_players

GAME = make_game("tic_tac_toe")
ROCK, SCISSORS, RAISING = (f"{odd_players.__name__}:{name}" for name in ("rock", "scissors", "raising"))


def test_functions_that_always_play_alike_get_openings(tmp_path: Path) -> None:
    """From the empty board rock wins every game; that is one game, twenty times over."""
    settings = TournamentSettings(games=20)
    result = run_tournament(GAME, [ROCK, SCISSORS], tmp_path / "usual", settings, num_workers=1)
    assert result.between(0, 1).score.mean < 1
    bare = TournamentSettings(games=20, opening_plies=0)
    assert (
        run_tournament(GAME, [ROCK, SCISSORS], tmp_path / "bare", bare, num_workers=1)
        .between(0, 1)
        .score.mean
        == 1
    )


def test_progress_is_reported_from_the_start_to_the_end(tmp_path: Path) -> None:
    told: list[TournamentProgress] = []
    everybody = ["random", "minimax:1", ROCK]
    settings = TournamentSettings(games=60)
    result = run_tournament(GAME, everybody, tmp_path, settings, num_workers=1, on_progress=told.append)
    assert told[0] == (0, 180, 0, 3)
    assert [progress.games_done for progress in told] == sorted(progress.games_done for progress in told)
    assert (told[-1].games_done, told[-1].pairs_done) == (told[-1].games_at_most, 3)
    assert told[-1].games_done == sum(pair.score.games for pair in result.pairs.values())


def test_failing_player_ends_the_tournament_and_played_games_are_kept(tmp_path: Path) -> None:
    settings = TournamentSettings(games=20)
    with pytest.raises(OpponentError, match=f"random against {RAISING}, seed [0-9]+: .*no idea"):
        run_tournament(GAME, ["random", "minimax:1", RAISING], tmp_path, settings, num_workers=1)
    assert len((tmp_path / "games.jsonl").read_text().splitlines()) == 2  # the header and a pair


def test_fresh_tournament_that_fails_leaves_no_result_of_another(tmp_path: Path) -> None:
    settings = TournamentSettings(games=20)
    run_tournament(GAME, ["random", "minimax:1"], tmp_path, settings, num_workers=1)
    assert (tmp_path / "results.json").exists()
    with pytest.raises(OpponentError):
        run_tournament(GAME, ["random", RAISING], tmp_path, settings, num_workers=1, fresh=True)
    assert not (tmp_path / "results.json").exists()
