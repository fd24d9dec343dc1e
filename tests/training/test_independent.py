"""Agents that share nothing: one world, a learner for each seat, the same bytes however they are run."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from senju.algorithms.dqn import DQN
from senju.algorithms.learner_group import Attention, LearnerGroup
from senju.algorithms.learner_runner import SequentialLearners, TrainingResult, TrainingTask
from senju.config import Settings
from senju.errors import ConfigError
from senju.games import make_game
from senju.runs.run_config import RunConfig, resolve_config
from senju.training.loop import Loop
from tests.facts import Facts, mentions

MEETING = "tests.collect.toy_games:Meeting"
SMALL_DQN = {
    "name": "dqn",
    "batch_size": 32,
    "replay_size": 600,
    "learning_starts": 60,
    "n_step": 2,
    "prioritised": True,
    "epsilon_decay": 0.3,
}
SMALL_PPO = {"name": "ppo", "epochs": 2, "minibatch_size": 48}
WAYS = ["sequential", "processes", "stacked"]


def config_of(*layers: Settings) -> RunConfig:
    collect = {"seating": "independent", "num_games": 16, "games_per_shard": 8, "rollout_steps": 12}
    return resolve_config(
        MEETING,
        {
            "collect": collect,
            "model": {"name": "mlp", "hidden": [16]},
            "algorithm": SMALL_DQN,
            "total_steps": 20 * 16 * 12 * 2,
            "evaluation": {"opponents": []},
            "parallel": {"enabled": False},
        },
        *layers,
    )


@contextmanager
def started(config: RunConfig, backend: Settings | None = None) -> Iterator[Loop]:
    loop = Loop(config, make_game(**config.game), backend)
    try:
        loop.start()
        loop.publish_all()
        yield loop
    finally:
        loop.close()


def update(loop: Loop, count: int = 1) -> None:
    for _ in range(count):
        loop.learn(loop.collect())
        loop.publish()


def agents_of(loop: Loop) -> LearnerGroup:
    return loop.learner


def learned_bytes(loop: Loop, seats: Sequence[int] = (0, 1)) -> dict[str, bytes]:
    """Weights, targets, moments and priorities of some agents."""
    states = {seat: agents_of(loop).runner.state(seat) for seat in seats}
    return {
        f"{seat}.{name}": tensor.cpu().numpy().tobytes()
        for seat, state in states.items()
        for name, tensor in state.tensors.items()
    }


def after(updates: int, config: RunConfig, backend: Settings | None = None) -> dict[str, bytes]:
    with started(config, backend) as loop:
        update(loop, updates)
        return learned_bytes(loop)


MIXED = {"seats": {"1": {"algorithm": SMALL_PPO, "model": {"hidden": [8, 8]}}}}


@pytest.mark.parametrize("runner", WAYS)
def test_training_one_agent_moves_no_byte_of_the_other(runner: str) -> None:
    layer = {"seats": {"0": {"learns": False}}, "learners": runner, "parallel": {"enabled": True}}
    with started(config_of(layer), {"name": "serial"}) as loop:
        before = learned_bytes(loop)
        update(loop, 4)
        now = learned_bytes(loop)
    assert {name: now[name] for name in now if name.startswith("0.")} == {
        name: before[name] for name in before if name.startswith("0.")
    }
    assert before["1.model.head.weight"] != now["1.model.head.weight"]


def test_agents_learn_from_what_their_own_seat_saw() -> None:
    with started(config_of(), {"name": "serial"}) as loop:
        update(loop, 4)
        runner = agents_of(loop).runner
        assert isinstance(runner, SequentialLearners)
        for seat, learner in enumerate(runner.learners):
            assert isinstance(learner, DQN)
            sample = learner.replay.sample(200, 0)
            marks = sample.observation[:, 1], sample.next_observation[:, 1]  # Meeting shows a seat its number
            assert all((mark == seat).all() for mark in marks)


def test_agents_begin_unlike_each_other() -> None:
    with started(config_of(), {"name": "serial"}) as loop:
        first, second = (agents_of(loop).runner.weights(seat) for seat in range(2))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("name", ["threads", "processes"])
@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_workers_give_the_serial_bytes(name: str, num_workers: int) -> None:
    config = config_of(MIXED, {"collect": {"num_games": 24}})
    assert after(3, config, {"name": name, "num_workers": num_workers}) == after(3, config)


@pytest.mark.slow
def test_learner_processes_give_the_sequential_bytes() -> None:
    layer = MIXED | {"learners": "processes", "parallel": {"enabled": True}}
    assert after(5, config_of(layer)) == after(5, config_of(MIXED))


@pytest.mark.slow
def test_disabled_is_the_plain_path_and_enabled_gives_its_bytes() -> None:
    off, on = config_of(), config_of({"parallel": {"enabled": True, "num_workers": 1}})
    assert (off.backend["name"], off.learners, off.collect.mode) == ("serial", "sequential", "sync")
    assert (on.backend["name"], on.backend["num_workers"]) == ("processes", 1)
    assert after(3, off) == after(3, on)


def test_agents_that_train_seldom_learn_from_all_they_saw_since() -> None:
    layer = {"seats": {"1": {"train_every": 3, "algorithm": SMALL_PPO}}, "parallel": {"train_interval": 2}}
    config = config_of(layer)
    assert [seat.train_every for seat in config.learner_settings] == [2, 6]
    with started(config) as loop:
        trained: list[tuple[int, int]] = []
        for turn in range(12):
            update(loop)
            trained += [(turn, learned.seat) for learned in agents_of(loop).take_trained()]
        steps = agents_of(loop).runner.state(1).numbers["version"]
    assert [turn for turn, seat in trained if seat == 0] == [1, 3, 5, 7, 9, 11]
    assert [turn for turn, seat in trained if seat == 1] == [5, 11]
    assert steps == 2


def test_agents_with_smaller_order_are_trained_first() -> None:
    with started(config_of({"seats": {"0": {"order": 1}}})) as loop:
        update(loop)
        assert [learned.seat for learned in agents_of(loop).take_trained()] == [1, 0]


def test_state_goes_on_as_if_it_had_never_stopped() -> None:
    config = config_of(MIXED | {"attention": "adaptive"})
    with started(config) as loop:
        update(loop, 6)
        expected = learned_bytes(loop)
    with started(config) as loop:
        update(loop, 3)
        state, shards = loop.learner.state(), loop.backend.snapshot()
        loop.learner.load_state(state)
        loop.backend.restore(shards)
        update(loop, 3)
        assert learned_bytes(loop) == expected


def test_attention_sees_rewards_and_losses_of_both_algorithms() -> None:
    with started(config_of(MIXED | {"attention": "adaptive"})) as loop:
        update(loop, 6)
        counts = loop.learner.state().numbers["attention"]["counts"]  # [seat][reward or loss]
    assert [rewards for rewards, _ in counts] == [6, 6]
    assert all(losses > 0 for _, losses in counts)


@pytest.mark.parametrize(
    ("layer", "facts"),
    [
        ({"seats": {"2": {}}}, ("seats.2", "meeting", "0 to 1")),
        ({"seats": {"first": {}}}, ("seats.first", "meeting", "0 to 1")),
        (
            {"seats": {1: {"algorithm": {"minibatch_size": 7, "name": "ppo"}, "train_every": 2}}},
            ("seats.1.algorithm.minibatch_size=7", "384 decisions", "16 games × 12 steps × 2", "6 or 8"),
        ),
        ({"seats": {"1": {"algorithm": "dqm"}}}, ("seats.1", "unknown algorithm", "'dqm'", "'dqn'")),
        ({"seats": {"1": {"model": {"hiden": [8]}}}}, ("seats.1", "unknown setting", "'model.hiden'")),
        ({"seats": {"1": {"lerns": False}}}, ("unknown setting", "'seats.1.lerns'", "'learns'")),
        (
            {"seats": {"0": {"learns": False}, "1": {"learns": False}}},
            ("seats", "learns=false", "every seat"),
        ),
        ({"learners": "stacked"}, ("learners", "parallel.enabled=false")),
        ({"collect": {"seating": "self_play"}, "attention": "adaptive"}, ("attention", "self_play")),
    ],
)
def test_settings_that_do_not_fit_are_refused(layer: dict[str, Any], facts: Facts) -> None:
    with pytest.raises(ConfigError, match=mentions(facts)):
        config_of(layer)


class HeldBack(SequentialLearners):
    """Trains when it is waited for, and not before."""

    def __init__(self, runner: SequentialLearners) -> None:
        super().__init__(runner.learners)
        self.held: list[TrainingTask] = []
        self.orders: list[TrainingTask] = []
        self.hangs = False
        self.waits: list[list[int]] = []

    def learn(self, tasks: Sequence[TrainingTask]) -> list[TrainingResult]:
        self.held += tasks
        self.orders += tasks
        return []

    def is_busy(self, seat: int) -> bool:
        return any(task.seat == seat for task in self.held)

    def finish(
        self, seats: Sequence[int] | None = None, seconds: float | None = None
    ) -> list[TrainingResult]:
        if self.hangs and seats is not None:
            self.waits.append(list(seats))
            return []
        held, self.held = self.held, []
        return super().learn(held)


def test_collecting_waits_for_a_learner_that_is_too_far_behind() -> None:
    """Meanwhile a busy agent gets no order, and then learns from all it has missed."""
    layer = {"collect": {"mode": "async"}, "parallel": {"epochs_ahead": 3}, "algorithm": SMALL_PPO}
    config = config_of(layer)
    with started(config) as loop:
        agents = agents_of(loop)
        assert isinstance(agents.runner, SequentialLearners)
        agents.runner = runner = HeldBack(agents.runner)
        runner.attach(loop.backend.rings, loop.game.seat_view)
        lags = []
        for _ in range(8):
            lags.append(agents.update(loop.collect()).get("agent_1/lag", 0.0))
            loop.publish()
        loop.finish()
    first = [(task.turns, task.number) for task in runner.orders if task.seat == 0]
    assert first == [((0,), 1), ((1, 2, 3), 4), ((4, 5, 6), 7)]
    assert max(lags) == 2.0
    assert not runner.held


def test_state_saved_during_a_training_has_its_turns_to_be_trained_again() -> None:
    layer = {"collect": {"mode": "async"}, "parallel": {"epochs_ahead": 3}, "algorithm": SMALL_PPO}
    with started(config_of(layer)) as loop:
        agents = agents_of(loop)
        assert isinstance(agents.runner, SequentialLearners)
        agents.runner = runner = HeldBack(agents.runner)
        runner.attach(loop.backend.rings, loop.game.seat_view)
        for _ in range(2):
            agents.update(loop.collect())
        assert agents.first_new_turn(0, turn=2) == 0
        during = agents.state()
        loop.finish()
        assert agents.first_new_turn(0, turn=2) == 1
        after = agents.state()
        agents.load_state(during)
        agents.update(loop.collect())
        tasks = [task.turns for task in runner.held if task.seat == 0]
    assert [turn for turn, _ in during.numbers["new"][0]] == [0, 1]
    assert [turn for turn, _ in after.numbers["new"][0]] == [1]
    assert tasks == [(0, 1, 2)]


def test_the_run_does_not_wait_twice_for_a_learner_that_hangs() -> None:
    config = config_of({"collect": {"mode": "async"}, "parallel": {"epochs_ahead": 2}})
    with started(config) as loop:
        agents = agents_of(loop)
        assert isinstance(agents.runner, SequentialLearners)
        agents.runner = runner = HeldBack(agents.runner)
        runner.attach(loop.backend.rings, loop.game.seat_view)
        runner.hangs = True
        for learner in runner.learners:
            learner.is_free_running = True
        lags = [agents.update(loop.collect()).get("agent_0/lag", 0.0) for _ in range(6)]
        runner.hangs = False
        loop.finish()
    assert lags == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert runner.waits == [[0, 1]]


def test_attention_of_the_agents_that_learn_is_1_on_average() -> None:
    attention = Attention([True, False, True])
    for step in range(10):
        for seat, change in enumerate((0.1, 5.0, 0.3)):
            attention.record(seat, reward=1.0 + change * step)
    first, _, last = attention.shares()
    assert (first + last) / 2 == pytest.approx(1.0)
    assert first < 1.0 < last
