"""Fixed opponents of a run: loaded once, sent to workers, each with its own network and way to act."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import senju
from senju.config import merged
from senju.errors import ConfigError, RunFolderError, SenjuError
from senju.evaluation.opponents import load_fixed, specs_as_dicts
from senju.games import make_game
from senju.games.game import Game
from senju.kernels import unpack_legal
from senju.models.weights import WeightBlock
from senju.opponents.opponent_players import OpponentSpec
from senju.runs.run import Run
from senju.runs.run_config import resolve_config
from senju.training.loop import Loop
from tests.conftest import DECISIONS_PER_UPDATE, SMALL, Train
from tests.opponents import own_players

HERE = own_players.HERE
ALONE = {"snapshot_interval": 0, "self_share": 0.0, "epsilon": 0.0}


@pytest.fixture(scope="module")
def game() -> Game:
    return make_game("tic_tac_toe")


@pytest.fixture(scope="module")
def dqn_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of another algorithm with another network than the small ones have."""
    dqn = {"name": "dqn", "learning_starts": 100, "batch_size": 32, "replay_size": 1000}
    small = {name: part for name, part in SMALL.items() if name != "algorithm"}
    settings = merged(small, {"algorithm": dqn, "model": {"name": "mlp", "hidden": [24, 8]}})
    path = tmp_path_factory.mktemp("runs") / "dqn"
    return senju.train("tic_tac_toe", run=path, total_steps=4 * DECISIONS_PER_UPDATE, **settings)


def new_loop(fixed: list[str], game: str = "tic_tac_toe", **changes: Any) -> Loop:
    layer = {"collect": {"seating": "opponents"}, "opponents": ALONE | {"fixed": fixed}}
    config = resolve_config(game, SMALL, layer, changes)
    loop = Loop(config, make_game(**config.game))
    loop.start()
    loop.publish_all()
    return loop


def test_players_by_description_need_no_weights() -> None:
    names = ["random", "minimax:2", "perfect", f"{HERE}:first", f"{HERE}:Centre"]
    loaded = load_fixed(make_game("connect_four"), names)
    assert [opponent.spec for opponent in loaded] == [OpponentSpec(name) for name in names]
    assert all(opponent.weights is None for opponent in loaded)


def test_agents_come_with_network_weights_and_way_to_act(
    game: Game, tic_tac_toe_run: Run, dqn_run: Run
) -> None:
    ppo, dqn = load_fixed(game, [str(tic_tac_toe_run.path), str(dqn_run.path)])
    assert ppo.spec.model == tic_tac_toe_run.config.model
    assert dqn.spec.model == dqn_run.config.model
    assert ppo.spec.acting.by == "policy"
    assert dqn.spec.acting.by == "action_values"
    assert dqn.weights is not None
    assert (dqn.weights == WeightBlock(dqn_run.agent.model).read()).all()


def test_specs_survive_json(game: Game, tic_tac_toe_run: Run) -> None:
    loaded = load_fixed(game, ["random", str(tic_tac_toe_run.path)])
    again = [OpponentSpec(**spec) for spec in json.loads(json.dumps(specs_as_dicts(loaded)))]
    assert again == [opponent.spec for opponent in loaded]


def test_an_older_agent_is_found_by_its_update(game: Game, tic_tac_toe_run: Run) -> None:
    older, newest = load_fixed(game, [f"{tic_tac_toe_run.path}@2", str(tic_tac_toe_run.path)])
    assert older.weights is not None
    assert newest.weights is not None
    assert (older.weights == WeightBlock(tic_tac_toe_run.agent_at("2").model).read()).all()
    assert (older.weights != newest.weights).any()


def test_a_run_that_trains_on_elsewhere_changes_nothing(game: Game, train_small: Train) -> None:
    run = train_small("other", updates=2)
    (before,) = load_fixed(game, [str(run.path)])
    assert before.weights is not None
    kept = before.weights.copy()
    senju.train(resume=run.path, total_steps=4 * DECISIONS_PER_UPDATE)
    (after,) = load_fixed(game, [str(run.path)])
    assert (before.weights == kept).all()
    assert (after.weights != kept).any()


@pytest.mark.parametrize(
    ("game_name", "fixed"),
    [("connect_four", ["random", "minimax:2", "perfect"]), ("shogi", ["random", "greedy:1"])],
)
def test_every_fixed_player_sits_in_games(game_name: str, fixed: list[str]) -> None:
    changes = {
        "collect": {"num_games": 16, "games_per_shard": 16, "rollout_steps": 4},
        "algorithm": {"minibatch_size": 64},
        "backend": {"name": "serial"},
    }
    loop = new_loop(fixed, game_name, **changes)
    metrics = loop.learn(rollouts := loop.collect())
    assert set(np.unique(rollouts[0].data.seated).tolist()) == set(range(len(fixed) + 1))
    assert np.isfinite(list(metrics.values())).all()


def test_an_agent_of_another_kind_plays_its_own_best_moves(dqn_run: Run, tic_tac_toe_run: Run) -> None:
    """The learner has another network and another algorithm, and another agent sits in other games."""
    loop = new_loop([str(tic_tac_toe_run.path), str(dqn_run.path)])
    (rollout,) = loop.collect()
    slot, game, model = rollout.data, loop.game, dqn_run.agent.model
    assert loop.config.model != dqn_run.config.model
    num_checked = 0
    for time, row in np.ndindex(slot.terminated.shape):
        seen = slot.observation[time, row]
        mover = int(loop_mover(slot.legal[time, row], game))
        if slot.seated[time, row, mover] != 2:
            continue
        with torch.inference_mode():
            logits, _ = model(torch.from_numpy(seen).float())
        legal = unpack_legal(slot.legal[time, row], game.num_actions)
        best = np.where(legal, logits.numpy(), -np.inf).argmax()
        assert slot.actions[time, row, 0] == best
        num_checked += 1
    assert num_checked > 20


def loop_mover(legal: np.ndarray[Any, Any], game: Game) -> int:
    """Whose turn it is in noughts and crosses: the second seat's after an odd number of moves."""
    return (9 - int(unpack_legal(legal, game.num_actions).sum())) % 2


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("grandmaster", r"'grandmaster'.*minimax:DEPTH"),
        ("minimax:99", r"minimax:99.*1 to 9"),
        ("perfect", "tic_tac_toe.*perfect"),
        ("greedy:1", "tic_tac_toe.*minimax:1"),
        (f"{HERE}:NOT_CALLABLE", "NOT_CALLABLE"),
        (f"{HERE}:nobody", "nobody"),
        (f"{HERE}:Unmade", r"OSError: no opening book.*tic_tac_toe"),
    ],
)
def test_bad_descriptions_are_refused_before_anything_is_played(description: str, expected: str) -> None:
    with pytest.raises(SenjuError, match=expected):
        new_loop([description])


def test_a_run_of_another_game_is_refused(game: Game, connect_four_run: Run) -> None:
    with pytest.raises(RunFolderError, match=r"connect_four.*tic_tac_toe"):
        load_fixed(game, [str(connect_four_run.path)])


def test_a_folder_that_is_no_run_is_refused(game: Game, tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=str(tmp_path)):
        load_fixed(game, [str(tmp_path)])


def test_no_opponent_at_all_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"opponents.fixed"):
        new_loop([])
