"""Tasks: seeds of their own, results in any order, and an end when it is clear."""

import random

import numpy as np
import pytest

from senju.errors import ConfigError
from senju.evaluation.tournament.tasks import MatchTask, TournamentSchedule, TournamentSettings
from senju.opponents.score import Score, wilson_interval

NAMES = ["a", "b", "c"]


def draw(task: MatchTask, score: float = 0.5) -> Score:
    """A result that depends on the task alone, as a match does."""
    wins = int(np.random.default_rng(task.seed).binomial(task.games, score))
    return Score(wins, 0, task.games - wins, wins // 2, task.games // 2 - wins // 2)


def play_out(schedule: TournamentSchedule, score: float = 0.5) -> list[MatchTask]:
    played = []
    while (task := schedule.next_task()) is not None:
        played.append(task)
        schedule.finish(task, draw(task, score))
    return played


@pytest.mark.parametrize("games", [2, 20, 30, 200, 1000, 2222])
def test_chunks_of_a_pair_are_even_and_add_up(games: int) -> None:
    settings = TournamentSettings(games=games, early_stop=False)
    tasks = play_out(TournamentSchedule(["a", "b"], settings))
    assert sum(task.games for task in tasks) == games
    assert all(task.games % 2 == 0 for task in tasks)
    assert len(tasks) == settings.num_chunks <= 10


@pytest.mark.parametrize("games", [0, -2, 7])
def test_games_that_cannot_be_shared_between_colours_are_refused(games: int) -> None:
    with pytest.raises(ConfigError, match=f"games={games}"):
        TournamentSettings(games=games)


def test_every_task_has_a_seed_of_its_own_that_depends_on_nothing_else() -> None:
    tasks = play_out(TournamentSchedule(NAMES, TournamentSettings(early_stop=False)))
    assert len({task.seed for task in tasks}) == len(tasks) == 3 * 10
    assert all(0 <= task.seed < 2**63 for task in tasks)
    more = TournamentSchedule(["b", "c", "d"], TournamentSettings(games=400))
    assert more.task(0, 1, 3).seed == TournamentSchedule(NAMES, TournamentSettings()).task(1, 2, 3).seed
    assert more.task(0, 1, 3).seed != TournamentSchedule(NAMES, TournamentSettings(seed=1)).task(1, 2, 3).seed


@pytest.mark.parametrize("seed", range(20))
def test_result_does_not_depend_on_who_finishes_first(seed: int) -> None:
    """Up to five tasks are played at a time, and finished in any order."""
    settings = TournamentSettings(seed=seed)
    alone, crowd, chance = (
        TournamentSchedule(NAMES, settings),
        TournamentSchedule(NAMES, settings),
        random.Random(seed),
    )
    play_out(alone, 0.62)
    out: list[MatchTask] = []
    while not crowd.is_over:
        while len(out) < 5 and (task := crowd.next_task()) is not None:
            out.append(task)
        task = out.pop(chance.randrange(len(out)))
        crowd.finish(task, draw(task, 0.62))
    assert [pair.score for pair in crowd.pairs.values()] == [pair.score for pair in alone.pairs.values()]


def test_clear_pair_ends_early_and_an_even_one_is_played_out() -> None:
    clear, even = (TournamentSchedule(["a", "b"], TournamentSettings(games=200)) for _ in range(2))
    assert len(play_out(clear, 0.95)) == 1
    assert len(play_out(even, 0.5)) == 10
    assert clear.progress == (20, 20, 1, 1)
    assert even.progress == (200, 200, 1, 1)


def test_without_early_stop_all_is_played_and_intervals_are_plain() -> None:
    settings = TournamentSettings(games=200, early_stop=False)
    assert len(play_out(TournamentSchedule(["a", "b"], settings), 0.95)) == 10
    assert settings.interval(Score(105, 0, 45)) == pytest.approx(wilson_interval(0.7, 150))


def test_interval_of_many_checks_is_wider_by_the_quantile_of_the_divided_error() -> None:
    """Ten checks: 2.807 is the normal quantile of 1 - 0.05 / 10 / 2. Wilson's formula, by hand."""
    assert TournamentSettings(games=200).quantile == pytest.approx(2.807, abs=1e-3)
    score, games, z = 0.7, 60, TournamentSettings(games=200).quantile
    spread = z * (score * (1 - score) / games + z**2 / (4 * games**2)) ** 0.5
    centre = score + z**2 / (2 * games)
    expected = [(centre + sign * spread) / (1 + z**2 / games) for sign in (-1, 1)]
    assert TournamentSettings(games=200).interval(Score(42, 0, 18)) == pytest.approx(expected)


def test_equal_players_are_seldom_called_different_in_spite_of_ten_checks() -> None:
    """Plain 95 % intervals would call about a fifth of the pairs clear; these may err in 5 %."""
    wrong = plain = 0
    for seed in range(400):
        schedule = TournamentSchedule(["a", "b"], TournamentSettings(games=200, seed=seed))
        play_out(schedule)
        wrong += schedule.settings.interval(schedule.pairs[0, 1].score).excludes_half
        chunks = [draw(schedule.task(0, 1, chunk)).wins for chunk in range(10)]
        scores = np.cumsum(chunks) / np.arange(20, 201, 20)
        looks = [wilson_interval(score, 20 * number) for number, score in enumerate(scores, 1)]
        plain += any(not low <= 0.5 <= high for low, high in looks)
    assert wrong <= 20
    assert plain > 40


def test_chunks_that_are_needed_for_certain_come_first() -> None:
    schedule = TournamentSchedule(NAMES, TournamentSettings())
    first = [schedule.next_task() for _ in range(4)]
    assert [(task.first, task.second, task.chunk) for task in first if task] == [
        (0, 1, 0),
        (0, 2, 0),
        (1, 2, 0),
        (0, 1, 1),  # only if the first chunk does not settle it
    ]
    assert first[2] is not None
    schedule.finish(first[2], draw(first[2]))
    following = schedule.next_task()
    assert following is not None
    assert (following.first, following.second, following.chunk) == (1, 2, 1)


def test_counts_from_the_other_side() -> None:
    counts = Score(wins=5, draws=2, losses=3, wins_moving_first=4, losses_moving_first=1)
    assert counts.of_second() == Score(3, 2, 5, wins_moving_first=2, losses_moving_first=1)
    assert counts.of_second().of_second() == counts
    assert counts.mean + counts.of_second().mean == 1
