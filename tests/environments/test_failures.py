"""Errors of a user's world name agent, turn and epoch, in any process."""

from types import SimpleNamespace
from typing import Any

import pytest

from senju.environments.environment import ParallelEnvironment
from senju.errors import ConfigError, IllegalActionError, SenjuError, UnknownNameError, WorkerError
from tests.environments import traps
from tests.environments.meadow import Meadow, make_config
from tests.environments.runs import run
from tests.facts import assert_mentions, mentions

WRONG: dict[str, tuple[Any, type[SenjuError], str]] = {
    "train_step": (
        traps.Raising,
        WorkerError,
        r"epoch 1\b.* turn 6\b.*agent 1 \(Forager\) .*learning.* ZeroDivisionError: no batch",
    ),
    "action": (
        traps.Overreaching,
        IllegalActionError,
        r"epoch 0, copy 0, turn 4\b.*agent 2 \(Forager\) .*action 4; expected .* 0 to 3",
    ),
    "pov": (traps.Blind, WorkerError, r"epoch 0, copy 0, turn 2\b.*agent 0 \(Forager\)"),
    "exit": (traps.Leaving, WorkerError, r"epoch 0, copy 0, turn 3\b.*world.* SystemExit: 5"),
    "reset": (traps.Reborn, ConfigError, r"reset\(\).*agent 0\b"),
    "memory": (
        traps.Secretive,
        ConfigError,
        r"epoch 0, copy 0\b.*agent 1 \(Forager\).*memory",
    ),
    "shapes": (
        traps.Growing,
        ConfigError,
        r"agent 0 \(Forager\) .*add_memory.*shape \(2,\).* in turn 1, and .*\(1,\)",
    ),
    "emptied": (
        traps.Forgetful,
        ConfigError,
        r"agent \d \(Forager\).*memory.*train_after=episode",
    ),
}


@pytest.mark.parametrize("way", [{"enabled": False}, {"use_threads": True, "num_workers": 1}])
@pytest.mark.parametrize("what", WRONG)
def test_errors_of_a_world_are_named(what: str, way: dict[str, Any]) -> None:
    factory, error, text = WRONG[what]
    with pytest.raises(error, match=text):
        run(factory, **way)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["train_step", "action"])
def test_mistakes_in_processes_are_reported_with_the_worker(what: str) -> None:
    factory, error, text = WRONG[what]
    way = {"parallel_training": False} if what == "action" else {"parallel_actions": False}
    with pytest.raises(error, match=f"(?s){text}.*(worker|learner) 0"):
        run(factory, num_workers=1, num_learners=1, **way)


def test_training_after_each_episode_suits_agents_that_empty_their_memory() -> None:
    env, result = run(traps.Forgetful, enabled=False, train_after="episode")
    assert [agent.model.memory.size for agent in env.agents] == [6, 6, 6]
    assert result.losses.shape == (3, 3)


@pytest.mark.parametrize(
    ("factory", "shared"),
    [
        (traps.same_world, "same world"),
        (traps.same_agent, r"agent 0 .* share agent;"),
        (traps.same_agent_twice, r"agent 2 .* and agent 0 .* share agent;"),
        (traps.same_model, r"agent 1 .* share agent\.model;"),
        (traps.same_network, r"agent 1 .* share agent\.model\.local\.weight;"),
        (traps.same_memory, r"agent 0 .* share agent\.model\.memory;"),
        (traps.same_array, r"agent 1 .* and agent 0 .* share agent\.model\.memory\.states;"),
        (traps.tied_weights, r"agent 1 .* and agent 0 .* share agent\.model\.target\.0\.weight;"),
    ],
)
def test_factory_that_shares_is_refused(factory: Any, shared: str) -> None:
    with pytest.raises(ConfigError, match=shared):
        ParallelEnvironment(factory, make_config())


@pytest.mark.parametrize(
    ("missing", "text"),
    [
        (("agents",), "list.*`agents`"),
        (("reset",), r"world .*no method reset"),
        (("take_turn", "world"), r"neither take_turn\(\) nor a `world`"),
        (("agents", 1, "model"), r"agent 1 .* has no `model`"),
        (("agents", 0, "add_memory"), r"agent 0\b.*no method add_memory"),
        (("agents", 2, "model", "train_step"), r"agent 2's model .*no method train_step"),
        (("agents", 0, "model", "memory"), r"agent 0's model .* has no `memory`"),
    ],
)
def test_what_a_world_lacks_is_named(missing: tuple[Any, ...], text: str) -> None:
    def factory() -> Any:
        def agent() -> Any:
            model = SimpleNamespace(memory=[], train_step=lambda: 0.0)
            return SimpleNamespace(model=model, add_memory=print)

        env: Any = SimpleNamespace(agents=[agent() for _ in range(3)], reset=print, take_turn=print, world=1)
        if missing == ("take_turn", "world"):
            del env.take_turn, env.world
            return env
        owner = env
        for step in missing[:-1]:
            owner = owner[step] if isinstance(step, int) else getattr(owner, step)
        delattr(owner, missing[-1])
        return env

    with pytest.raises(ConfigError, match=text):
        ParallelEnvironment(factory, make_config())


def _needs_much(config: Any, height: int, width: int) -> Any:
    raise AssertionError


def test_factory_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(ConfigError, match="height, width"):
        ParallelEnvironment(_needs_much, make_config())
    with pytest.raises(UnknownNameError, match="no 'Medow' in"):
        ParallelEnvironment("tests.environments.meadow:Medow", make_config())
    with pytest.raises(ConfigError, match="function or class"):
        ParallelEnvironment(3, make_config())  # type: ignore[arg-type]


def test_processes_need_a_factory_and_a_config_that_can_be_sent() -> None:
    with pytest.raises(ConfigError, match=r"import .*factory .*<lambda>"):
        run(lambda config, seed: Meadow(config))
    config = make_config() | {"reward": {"shape": print}}
    with pytest.raises(ConfigError, match=r"config.reward.shape is <built-in function print>"):
        ParallelEnvironment(Meadow, config).run_experiment_parallel()


def test_worlds_that_cannot_forget_are_not_kept() -> None:
    factory = "tests.environments.traps:Turnless"
    env = ParallelEnvironment(factory, make_config(enabled=False, fresh_worlds=False))
    env.run_experiment_parallel()  # a list has clear()
    meadow = ParallelEnvironment(_unclearable, make_config(enabled=False, fresh_worlds=False))
    with pytest.raises(ConfigError, match=mentions("agent 0", "memory", "clear()")):
        meadow.run_experiment_parallel()


def _unclearable(config: Any) -> Meadow:
    meadow = Meadow(config)
    for agent in meadow.agents:
        agent.model.memory.clear = None  # type: ignore[assignment, method-assign]
    return meadow


def test_world_without_a_turn_lets_its_agents_act_in_order() -> None:
    env, result = run(traps.Turnless, enabled=False)
    assert [agent.known for agent in env.agents] == [3 * 3 * 6] * 2
    state, action, reward, done = env.agents[0].memory[0]
    assert state["berries"].shape == (5, 5)
    assert state["at"] == (0, 0)
    assert isinstance(action, tuple)
    assert isinstance(action[0], int)
    assert (action[1], done) == (0.25, False)
    assert result.rewards[0, 0] == pytest.approx(sum(item[2] for item in env.agents[0].memory[:18]) / 3)
    assert isinstance(reward, float)


def test_loss_that_is_not_finite_is_reported_once_and_with_its_agent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, result = run(traps.Diverging, enabled=False)
    (event,) = result.events
    assert_mentions(event, "epoch 1", "loss", "agent 1", "nan", "diverged")
    assert [record.message for record in caplog.records] == list(result.events)
