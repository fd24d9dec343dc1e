"""The result depends on the copies of the world, not on which workers play and which learners train."""

import itertools
import random
from contextlib import closing
from typing import Any

import numpy as np
import pytest
import torch

from senju.environments import episodes
from senju.environments.environment import ParallelEnvironment
from senju.environments.episodes import EpisodeRole
from senju.environments.experience import ExperienceFile
from senju.environments.lessons import LessonRole
from senju.environments.scheduler import EpochScheduler
from senju.environments.world_copy import WorldCopy, write_acting
from tests.environments.meadow import Meadow, make_config
from tests.environments.runs import knowledge, learned, run
from tests.environments.traps import Filing, Marked, Residual
from tests.facts import assert_mentions

WAYS: dict[str, dict[str, Any]] = {
    "threads": {"use_threads": True},
    "one thread plays": {"use_threads": True, "num_workers": 1, "parallel_training": False},
    "threads learn": {"use_threads": True, "parallel_actions": False, "num_learners": 3},
    "all options but enabled": {"enabled": False, "async_learning": True, "num_workers": 2},
}


@pytest.fixture(scope="module")
def expected() -> list[bytes]:
    return learned(enabled=False)


@pytest.mark.parametrize("way", WAYS)
def test_every_byte_is_equal(way: str, expected: list[bytes]) -> None:
    assert learned(**WAYS[way]) == expected


@pytest.mark.slow  # with 1 and 2 workers: test_healing.py
def test_every_byte_is_equal_with_three_workers_and_a_learner(expected: list[bytes]) -> None:
    factory = "tests.environments.meadow:Meadow"
    assert learned(factory, num_workers=3, num_learners=1) == expected


def test_bytes_of_different_runs_differ(expected: list[bytes]) -> None:
    others = [
        learned(enabled=False, **change) for change in ({"seed": 1}, {"copies": 2}, {"train_interval": 2})
    ]
    for other in others:
        assert all(mine != theirs for mine, theirs in zip(expected, other, strict=True))


@pytest.mark.parametrize("factory", [Residual, Filing])
def test_state_of_earlier_episodes_and_a_worlds_own_generators_do_not_change_the_result(factory: Any) -> None:
    here, there = learned(factory, enabled=False), learned(factory, use_threads=True, num_workers=3)
    assert here == there
    env, _ = run(factory, enabled=False)
    states = env.agents[0].model.memory.states.reshape(256, 2, 5, 5)[:, 0]
    draws = [draw for draw in states[:, :, 1].ravel() if 0 < draw < 1]
    assert len(set(draws)) > 20  # of at most 5 in each of 9 episodes: other ones in each


def test_world_is_made_once_and_restored_or_made_anew_with_the_same_result(
    monkeypatch: pytest.MonkeyPatch, expected: list[bytes]
) -> None:
    made = []

    def factory(config: Any) -> Meadow:
        made.append(1)
        return Meadow(config)

    assert learned(factory, enabled=False) == expected
    assert len(made) == 3  # that which learns, one to compare it with, and the one that is played
    monkeypatch.setattr(episodes, "_MOST_KEPT_BYTES", 0)
    assert learned(factory, enabled=False) == expected
    assert len(made) == 3 + 3 + 3 * 3  # epochs, copies


def test_factory_that_asks_gets_a_world_for_every_copy() -> None:
    asked = []

    def factory(config: Any, seed: int, copy: int) -> Meadow:
        asked.append((copy, seed))
        return Meadow(config)

    learned(factory, enabled=False)
    numbers, seeds = zip(*asked[2:], strict=True)
    assert numbers == (0, 1, 2)
    assert len(set(seeds)) == 3


def test_worlds_of_some_copies_that_cannot_be_restored_do_not_matter_to_the_others() -> None:
    def factory(config: Any, copy: int) -> Residual:
        world = Residual(config)
        if copy == 1:
            world.count = itertools.count()  # type: ignore[attr-defined]
        return world

    def plain(config: Any, copy: int) -> Residual:
        return Residual(config)

    assert learned(factory, enabled=False) == learned(plain, enabled=False)


def test_limit_of_kept_worlds_counts_a_world_for_each_copy_that_the_factory_tells_apart(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="senju.environments.episodes")
    size = WorldCopy(Residual(make_config())).snapshot.num_bytes
    monkeypatch.setattr(episodes, "_MOST_KEPT_BYTES", 3 * size - 1)
    learned(Residual, enabled=False)
    assert not caplog.records
    learned(lambda config, copy: Residual(config), enabled=False)
    assert_mentions(caplog.text, f"3 × {size:,}", f"{3 * size - 1:,}")


def test_kept_worlds_are_equal_too() -> None:
    kept = [learned(fresh_worlds=False, **way) for way in ({"enabled": False}, {"use_threads": True})]
    assert kept[0] == kept[1]


def test_generators_of_the_process_neither_matter_nor_change(expected: list[bytes]) -> None:
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # type: ignore[index]
    assert learned(enabled=False) == expected
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # type: ignore[index]
    assert before == after


def test_a_second_run_goes_on_with_other_random_numbers() -> None:
    env = ParallelEnvironment(Meadow, make_config(enabled=False))
    first = env.run_experiment_parallel()
    known = knowledge(env)
    second = env.run_experiment_parallel()
    assert [report.epoch for report in second.epochs] == [3, 4, 5]
    assert not np.array_equal(first.rewards, second.rewards)
    assert all(old != new for old, new in zip(known, knowledge(env), strict=True))


def test_agents_remember_their_own_and_nothing_else() -> None:
    env, _ = run(Marked, use_threads=True)
    for number, agent in enumerate(env.agents, 1):
        memory = agent.model.memory
        seen = memory.states[: memory.idx]
        assert set(np.unique(seen)) == {0, number}  # 0: the empty frames between episodes
        assert (seen == number).all(axis=1).sum() == 3 * 3 * 6  # epochs, copies, turns


def test_training_one_agent_leaves_every_byte_of_the_others() -> None:
    env = ParallelEnvironment(Meadow, make_config(enabled=False))
    for agent in (env.agents[0], env.agents[2]):
        agent.model.train_step = lambda: None
    before = [[weights.clone() for weights in agent.model.local.parameters()] for agent in env.agents]
    env.run_experiment_parallel()
    is_equal = [
        all(torch.equal(old, new) for old, new in zip(olds, agent.model.local.parameters(), strict=True))
        for olds, agent in zip(before, env.agents, strict=True)
    ]
    assert is_equal == [True, False, True]


def test_numbers_that_acting_changes_reach_the_learner() -> None:
    env, _ = run(enabled=False)
    for agent in env.agents:
        assert agent.model.steps_acted == 3 * 6  # as in one world: epochs, turns
        assert agent.model.epsilon == pytest.approx(0.5 * 0.9**3)


def test_playing_goes_on_while_agents_learn_and_every_training_is_done() -> None:
    trained: list[int] = []
    env = ParallelEnvironment(Meadow, make_config(epochs=6, use_threads=True, async_learning=True))
    for number, agent in enumerate(env.agents):

        def train_step(number: int = number, train: Any = agent.model.train_step) -> Any:
            trained.append(number)
            return train()

        agent.model.train_step = train_step
    result = env.run_experiment_parallel()
    assert sorted(trained) == sorted([0, 1, 2] * 6)
    assert result.losses.shape == (6, 3)
    assert np.isfinite(result.losses).all()
    assert [agent.model.memory.size for agent in env.agents] == [6 * 3 * 6] * 3


def test_no_more_is_done_at_once_than_there_is_room_for() -> None:
    env = ParallelEnvironment(Meadow, make_config(use_threads=True, async_learning=True, num_workers=3))
    acting = [write_acting(agent) for agent in env.agents]
    with closing(ExperienceFile()) as experience:
        roles = EpisodeRole(env._source, experience), LessonRole(env._source, experience, env.environment)
        with env._runners(*roles) as runners:
            limited = runners._replace(most_at_once=1)
            scheduler = EpochScheduler(env.settings, 0, acting, experience, limited)
            scheduler.run()
    spans = sorted(scheduler.timeline.spans(), key=lambda span: span.began)
    assert len(spans) == 3 * 3 + 3 * 3  # episodes and lessons
    assert all(span.ended <= following.began for span, following in itertools.pairwise(spans))


def test_trains_every_train_interval_epochs() -> None:
    _, result = run(enabled=False, train_interval=2)
    assert np.isfinite(result.losses).all(axis=1).tolist() == [False, True, False]


def test_listener_hears_of_every_epoch_in_order() -> None:
    heard = []
    env = ParallelEnvironment(Meadow, make_config(use_threads=True))
    result = env.run_experiment_parallel(heard.append)
    assert heard == list(result.epochs)
    assert [report.epoch for report in heard] == [0, 1, 2]
    assert result.num_turns == 3 * 3 * 6
    assert {span.name for span in result.timeline.spans()} == {"episode", "lesson"}
