"""Agents: values by hand, weights as plain arrays, and what an agent of action values cannot do."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import senju
from senju.collect.exploration import Acting
from senju.errors import ConfigError, ModelError, NoLegalActionError
from senju.games import make_game
from senju.games.game import Game
from senju.models import Model, make_model
from senju.models.model import ModelConfig, build_model
from senju.runs.agent import Agent
from senju.runs.run import Run
from tests.algorithms.hand_dqn import NUM_ACTIONS, Positions, Table
from tests.conftest import Invoke
from tests.facts import mentions


class Board(Positions):
    """A game whose states are their own observations: a total, and what is legal there."""

    name = "board"

    def observe(self, states: Any, out: Any) -> None:
        out.observation[:, 0, 0] = states["total"]
        out.legal[:, 0, 0] = np.where(states["is_over"], 0, np.where(states["total"] == 2, 0b101, 0b111))
        out.seats[:, 0] = 0


LOGITS, VALUE = [0.5, 3.0, 1.5], 0.25  # of position 2, in which action 1 is not legal


def agent_of(acting: Acting, game: Game | None = None) -> Agent:
    model = build_model(Table, (1,), NUM_ACTIONS, ModelConfig(), seed=0)
    with torch.no_grad():
        model.get_parameter("rows")[2] = torch.tensor([*LOGITS, VALUE])
    return Agent(game or Board(), model, "table", acting)


def states_of(*totals: int) -> Any:
    states = Board().new_games(len(totals))
    states["total"] = totals
    return states


def test_action_values_are_the_logits_of_a_plain_network() -> None:
    values = agent_of(Acting("action_values")).action_values(states_of(2, 0))
    assert values.tolist() == [[0.5, -np.inf, 1.5], [0.0, 0.0, 0.0]]


def test_action_values_of_a_dueling_network_are_around_the_positions() -> None:
    values = agent_of(Acting("action_values", is_dueling=True)).action_values(states_of(2))
    assert values.tolist() == [[0.25 - 0.5, -np.inf, 0.25 + 0.5]]  # the mean of the legal ones is 1


def test_agent_of_action_values_gives_the_best_action_probability_1() -> None:
    probabilities, values = agent_of(Acting("action_values", is_dueling=True)).evaluate(states_of(2, 2))
    assert probabilities.tolist() == [[0.0, 0.0, 1.0]] * 2
    assert values.tolist() == [0.75, 0.75]


def test_agent_of_a_policy_gives_its_probabilities_and_the_positions_value() -> None:
    probabilities, values = agent_of(Acting()).evaluate(states_of(2))
    # e^0.5 and e^1.5 in proportion: 1 to e
    assert probabilities[0].tolist() == pytest.approx([1 / (1 + np.e), 0.0, np.e / (1 + np.e)])
    assert values.tolist() == [0.25]
    with pytest.raises(ConfigError, match=mentions("table", "policy")):
        agent_of(Acting()).action_values(states_of(2))


@pytest.mark.parametrize("acting", [Acting(), Acting("action_values", is_dueling=True)])
def test_seats_that_do_not_act_get_zeros(acting: Acting) -> None:
    game = make_game("tests.collect.toy_games:Meeting")
    model = make_model({"name": "mlp", "hidden": [8]}, game.observation_shape, game.num_actions, 0)
    states = game.new_games(2)
    states["steps"], states["alike"] = [0, 1], 1  # seat 1 comes to every other step
    probabilities, values = Agent(game, model, "two", acting).evaluate(states)
    assert probabilities.shape == (2, 2, 3)
    np.testing.assert_allclose(probabilities.sum(axis=-1), [[1.0, 1.0], [1.0, 0.0]])
    assert values[1, 1] == 0.0
    assert (values != 0.0).sum() == 3


def test_finished_game_has_no_action_values() -> None:
    states = states_of(2, 2)
    states["is_over"][1] = True
    with pytest.raises(NoLegalActionError, match=r"board.*row 1.*seat 0"):
        agent_of(Acting("action_values")).action_values(states)


def new_agent(hidden: int = 8, seed: int = 0) -> Agent:
    game = make_game("tic_tac_toe")
    settings = {"name": "mlp", "hidden": [hidden]}
    model: Model = make_model(settings, game.observation_shape, game.num_actions, seed)
    return Agent(game, model, "agent", Acting("action_values"), settings)


def test_weights_come_as_copies_and_go_back_in() -> None:
    one, other = new_agent(seed=0), new_agent(seed=1)
    games = one.game.new_games(1)
    before = one.action_values(games)
    weights = one.get_weights()
    assert all(isinstance(array, np.ndarray) for array in weights.values())
    other.set_weights(weights)
    assert np.array_equal(other.action_values(games), before)
    for array in weights.values():
        array.fill(0.0)
    assert np.array_equal(one.action_values(games), before)
    assert np.array_equal(other.action_values(games), before)
    one.set_weights(weights)
    assert (one.action_values(games) == 0.0).all()


def test_weights_without_an_axis_go_back_in() -> None:
    one, other = agent_of(Acting()), agent_of(Acting())
    one.model.get_buffer("scale").fill_(3.0)
    other.set_weights(one.get_weights())
    assert other.model.get_buffer("scale").item() == 3.0


def test_weights_of_another_architecture_are_refused_whole() -> None:
    agent, wider = new_agent(8), new_agent(16).get_weights()
    before = agent.get_weights()
    with pytest.raises(ModelError, match=r"layers\.0\.weight .*\(16, 18\), expected .*\(8, 18\)"):
        agent.set_weights(wider)
    one_less = {name: array for name, array in before.items() if name != "layers.0.bias"}
    with pytest.raises(ModelError, match=r"layers.0.bias.*\(8,\)"):
        agent.set_weights(one_less)
    with pytest.raises(ModelError, match=r"more.*\(2,\)"):
        agent.set_weights(before | {"more": np.zeros(2)})
    after = agent.get_weights()
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.fixture
def dqn_run(tmp_path: Path) -> Run:
    algorithm = {"name": "dqn", "batch_size": 32, "learning_starts": 100, "replay_size": 1000}
    return senju.train(
        "tic_tac_toe",
        run=tmp_path / "dqn",
        total_steps=1024,
        threads=1,
        algorithm=algorithm,
        model={"name": "mlp", "hidden": [8]},
        evaluation={"interval": 0, "games": 2, "opponents": ["random"], "final_opponents": []},
    )


def test_agent_of_a_run_answers_by_its_network(dqn_run: Run) -> None:
    agent, game = dqn_run.agent, dqn_run.game
    games = game.new_games(1)
    observations = game.new_observations(1)
    game.observe(games, observations)
    with torch.no_grad():
        logits, value = agent.model(torch.from_numpy(observations.observation[:, 0]).float())
    by_hand = logits + value.unsqueeze(1) - logits.mean(1, keepdim=True)  # every move is legal at first
    assert agent.action_values(games)[0].tolist() == pytest.approx(by_hand[0].tolist(), abs=1e-6)
    assert agent.evaluate(games)[1][0] == pytest.approx(by_hand.max().item(), abs=1e-6)


def test_what_needs_a_policy_is_refused(dqn_run: Run, invoke: Invoke) -> None:
    with pytest.raises(ConfigError, match=r"temperature=0\.5.*dqn@1.*action values"):
        dqn_run.agent.player(temperature=0.5)
    with pytest.raises(ConfigError, match=r"dqn@1.*action values.*search"):
        dqn_run.agent.policy()
    searching = invoke("play", "tic_tac_toe", "--run", dqn_run.path, "--nodes", "50")
    assert searching.exit_code != 0
    assert "action values" in " ".join(searching.stderr.split())
    drawing = invoke("play", "tic_tac_toe", "--run", dqn_run.path, "--temperature", "1")
    assert drawing.exit_code != 0
    assert "action values" in " ".join(drawing.stderr.split())


@pytest.mark.slow
def test_shogi_engine_needs_a_policy(invoke: Invoke) -> None:
    algorithm = {"name": "dqn", "batch_size": 8, "learning_starts": 100, "replay_size": 1000}
    evaluation = {"interval": 0, "games": 2, "opponents": [], "final_opponents": []}
    run = senju.train(
        "shogi",
        run="shogi",
        total_steps=8,
        algorithm=algorithm,
        evaluation=evaluation,
        collect={"num_games": 2, "games_per_shard": 2, "rollout_steps": 4},
        model={"name": "mlp", "hidden": [8]},
    )
    result = invoke("usi", run.path, typed="usi\nisready\nquit\n")
    assert result.exit_code != 0
    assert "learned action values" in " ".join(result.stderr.split())
