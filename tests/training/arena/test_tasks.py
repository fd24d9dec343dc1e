"""Tasks: seeds of their own, results in any order, and an end when it is clear."""

import random

import numpy as np
import pytest

from senju.errors import ConfigError
from senju.training.arena.tasks import ArenaSettings, Counts, Schedule, Task
from senju.training.evaluation import wilson_interval

NAMES = ["a", "b", "c"]


def draw(task: Task, score: float = 0.5) -> Counts:
    """A result that depends on the task alone, as a match does."""
    wins = int(np.random.default_rng(task.seed).binomial(task.games, score))
    return Counts(wins, 0, task.games - wins, wins // 2, task.games // 2 - wins // 2)


def play_out(schedule: Schedule, score: float = 0.5) -> list[Task]:
    played = []
    while (task := schedule.take()) is not None:
        played.append(task)
        schedule.finish(task, draw(task, score))
    return played


@pytest.mark.parametrize("games", [2, 20, 30, 200, 1000, 2222])
def test_chunks_of_a_pair_are_even_and_add_up(games: int) -> None:
    settings = ArenaSettings(games=games, early_stop=False)
    tasks = play_out(Schedule(["a", "b"], settings))
    assert sum(task.games for task in tasks) == games
    assert all(task.games % 2 == 0 for task in tasks)
    assert len(tasks) == settings.num_chunks <= 10


@pytest.mark.parametrize("games", [0, -2, 7])
def test_games_that_cannot_be_shared_between_colours_are_refused(games: int) -> None:
    with pytest.raises(ConfigError, match=f"games={games}: expected an even number"):
        ArenaSettings(games=games)


def test_every_task_has_a_seed_of_its_own_that_depends_on_nothing_else() -> None:
    tasks = play_out(Schedule(NAMES, ArenaSettings(early_stop=False)))
    assert len({task.seed for task in tasks}) == len(tasks) == 3 * 10
    assert all(0 <= task.seed < 2**63 for task in tasks)
    more = Schedule(["b", "c", "d"], ArenaSettings(games=400))
    assert more.task(0, 1, 3).seed == Schedule(NAMES, ArenaSettings()).task(1, 2, 3).seed
    assert more.task(0, 1, 3).seed != Schedule(NAMES, ArenaSettings(seed=1)).task(1, 2, 3).seed


@pytest.mark.parametrize("seed", range(20))
def test_result_does_not_depend_on_who_finishes_first(seed: int) -> None:
    """Up to five tasks are out at a time; they come back in any order, and some have to be played again."""
    settings = ArenaSettings(seed=seed)
    alone, crowd, chance = Schedule(NAMES, settings), Schedule(NAMES, settings), random.Random(seed)
    play_out(alone, 0.62)
    out: list[Task] = []
    while not crowd.is_over:
        while len(out) < 5 and (task := crowd.take()) is not None:
            out.append(task)
        task = out.pop(chance.randrange(len(out)))
        if chance.random() < 0.2:
            crowd.give_back(task)
        else:
            crowd.finish(task, draw(task, 0.62))
    assert [pair.counts for pair in crowd.pairs.values()] == [pair.counts for pair in alone.pairs.values()]


def test_clear_pair_ends_early_and_an_even_one_is_played_out() -> None:
    clear, even = (Schedule(["a", "b"], ArenaSettings(games=200)) for _ in range(2))
    assert len(play_out(clear, 0.95)) == 1
    assert len(play_out(even, 0.5)) == 10
    assert clear.progress == (20, 20, 1, 1)
    assert even.progress == (200, 200, 1, 1)


def test_without_early_stop_all_is_played_and_intervals_are_plain() -> None:
    settings = ArenaSettings(games=200, early_stop=False)
    assert len(play_out(Schedule(["a", "b"], settings), 0.95)) == 10
    assert settings.interval(0.7, 150) == pytest.approx(wilson_interval(0.7, 150))


def test_interval_of_many_looks_is_wider_by_the_quantile_of_the_divided_error() -> None:
    """Ten looks: 2.807 is the normal quantile of 1 - 0.05 / 10 / 2. Wilson's formula, by hand."""
    assert ArenaSettings(games=200).quantile == pytest.approx(2.807, abs=1e-3)
    score, games, z = 0.7, 60, ArenaSettings(games=200).quantile
    spread = z * (score * (1 - score) / games + z**2 / (4 * games**2)) ** 0.5
    centre = score + z**2 / (2 * games)
    expected = [(centre + sign * spread) / (1 + z**2 / games) for sign in (-1, 1)]
    assert ArenaSettings(games=200).interval(score, games) == pytest.approx(expected)


def test_equal_players_are_seldom_told_apart_though_one_looks_ten_times() -> None:
    """Plain 95 % intervals would call about a fifth of the pairs clear; these may err in 5 %."""
    wrong = plain = 0
    for seed in range(400):
        schedule = Schedule(["a", "b"], ArenaSettings(games=200, seed=seed))
        play_out(schedule)
        wrong += schedule.is_separated(schedule.pairs[0, 1].counts)
        chunks = [draw(schedule.task(0, 1, chunk)).wins for chunk in range(10)]
        scores = np.cumsum(chunks) / np.arange(20, 201, 20)
        looks = [wilson_interval(score, 20 * number) for number, score in enumerate(scores, 1)]
        plain += any(not low <= 0.5 <= high for low, high in looks)
    assert wrong <= 20
    assert plain > 40


def test_what_is_surely_needed_is_played_first() -> None:
    schedule = Schedule(NAMES, ArenaSettings())
    first = [schedule.take() for _ in range(4)]
    assert [(task.first, task.second, task.chunk) for task in first if task] == [
        (0, 1, 0),
        (0, 2, 0),
        (1, 2, 0),
        (0, 1, 1),  # only if the first chunk does not settle it
    ]
    assert first[2] is not None
    schedule.finish(first[2], draw(first[2]))
    following = schedule.take()
    assert following is not None
    assert (following.first, following.second, following.chunk) == (1, 2, 1)


def test_counts_from_the_other_side() -> None:
    counts = Counts(wins=5, draws=2, losses=3, wins_moving_first=4, losses_moving_first=1)
    assert counts.of_second() == Counts(3, 2, 5, wins_moving_first=2, losses_moving_first=1)
    assert counts.of_second().of_second() == counts
    assert counts.score + counts.of_second().score == 1
