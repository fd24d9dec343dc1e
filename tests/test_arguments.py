"""Every public function answers an argument of a wrong type with one of senju's own errors."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import senju
from senju.errors import SenjuError
from senju.evaluation.matches import play_match
from senju.opponents.players import RandomPlayer

_HUGE = 10**5000  # more digits than Python writes
_NO_NUMBER: list[Any] = ["x", b"x", [], {}, object(), 1 + 2j, float("nan"), float("inf"), _HUGE, -1]
NO_COUNT = [*_NO_NUMBER, 1.5]
NO_WORD = [1.5, 3, b"x", [1], object(), True, _HUGE, "\0"]
NO_PATH = [1.5, 3, b"x", [1], {"a": 1}, object(), _HUGE, "a\0b"]
NO_PART = [1.5, 3, b"x", [1], object(), True, _HUGE, "no such part"]
NO_FLAG = [1, 0, "no", None, [], object(), _HUGE]
NO_LISTENER = [3, "x", object()]
OWN: dict[str, Any] = dict.fromkeys(
    ("model", "algorithm", "backend", "collect", "evaluation", "checkpoint", "parallel", "seats"), NO_PART
)
RUN: dict[str, Any] = {
    **OWN,
    "preset": NO_WORD,
    "workers": NO_COUNT,
    "run": NO_PATH,
    "resume": NO_PATH,
    "max_updates": [*NO_COUNT, True, 0],
    "listener": NO_LISTENER,
    "device": NO_WORD,
    "seed": NO_COUNT,
    "total_steps": NO_COUNT,
    "threads": NO_COUNT,
    "target_steps": [1.5],  # no setting
    "opponents": [3, object(), [3], [], b"x"],
    "trust": NO_FLAG,
}
DQN_COUNTS = (
    *("n_episodes", "num_workers", "episodes_per_batch", "learning_steps_per_batch"),
    *("batch_size", "replay_size", "max_episode_steps"),
)
NO_EXPERIMENT = [{}, {"experiment": 3}, {"experiment": {"epochs": 1.5, "max_turns": 1}}, 3, None, b"x"]
GAME = senju.make_game("tic_tac_toe")
PLAYERS: dict[str, Any] = {"game": GAME, "player": RandomPlayer(), "opponent": RandomPlayer(), "num_games": 2}


class World:
    agents = ()


# each function, arguments that are right, and wrong ones for each parameter
TABLE: dict[str, tuple[Callable[..., Any], dict[str, Any], dict[str, list[Any]]]] = {
    "train": (
        senju.train,
        {"game": "tic_tac_toe", "max_updates": 1},
        {**RUN, "game": [*NO_WORD, {}, ""], "from_checkpoint": NO_WORD},
    ),
    "train_several": (
        senju.train_several,
        {"game": "tic_tac_toe", "agents": 1, "max_updates": 1},
        {
            **RUN,
            "game": [*NO_WORD, {}],
            "agents": [*NO_COUNT, True, 0, 257],
            "devices": [3, [3], "cpu", b"x"],
        },
    ),
    "train_dqn": (
        senju.train_dqn,
        {"game": "tic_tac_toe", "n_episodes": 1},
        {name: [*NO_COUNT, True, 0] for name in DQN_COUNTS}
        | {name: RUN[name] for name in ("device", "opponents", "seed", "run", "listener", "algorithm")}
        | {"game": [*NO_WORD, {}, None]},
    ),
    "ParallelManager": (
        senju.ParallelManager,
        {"game": "tic_tac_toe"},
        {
            "game": [*NO_WORD, {}, None],
            "model": [*NO_WORD, {}, None],
            "config": [3, b"x", [], "absent.yaml", "a\0b", {"num_workers": 1.5}, {1: 2}]
            + [{"backend": part} for part in (3, {"name": 3}, {"name": [1]}, {"name": _HUGE})],
            "seed": [*NO_COUNT, True, 2**63],
        },
    ),
    "ParallelEnvironment": (
        senju.ParallelEnvironment,
        {"factory": World, "config": {"experiment": {"epochs": 1, "max_turns": 1}}},
        {"factory": NO_PART, "config": NO_EXPERIMENT},
    ),
    "make_game": (senju.make_game, {}, {"name": [*NO_WORD, {}, None]}),
    "check_game": (
        senju.check_game,
        {"game": GAME},
        {"game": NO_PART, "num_rows": NO_COUNT, "num_steps": [*NO_COUNT, 0], "seed": NO_COUNT},
    ),
    "play_match": (
        play_match,
        PLAYERS,
        dict.fromkeys(("num_games", "seed", "opening_plies"), NO_COUNT)
        | dict.fromkeys(("game", "player", "opponent"), NO_PART),
    ),
    "Run": (senju.Run, {"path": "absent"}, {"path": [*NO_PATH, None], "trust": NO_FLAG}),
    "ExperienceBuffer": (senju.ExperienceBuffer, {}, {"capacity": [*NO_COUNT, True, 0]}),
}


@pytest.mark.parametrize(("name", "parameter"), [(name, p) for name, row in TABLE.items() for p in row[2]])
def test_argument_of_a_wrong_type_is_answered_by_senjus_own_error(
    name: str, parameter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    function, good, wrong = TABLE[name]
    for value in wrong[parameter]:
        with pytest.raises(SenjuError) as caught:
            function(**{**good, parameter: value})
        assert len(str(caught.value)) < 2000
    assert not list(tmp_path.rglob("*"))  # no run was begun


def test_every_parameter_of_public_functions_is_in_the_table() -> None:
    unchecked = {"on_games_done"}  # a function that is called with a number
    for name, (function, _, wrong) in TABLE.items():
        parameters = inspect.signature(function).parameters.values()
        named = {p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
        assert named - unchecked <= set(wrong), name


SERIAL = {"num_workers": 1, "games_per_worker": 2, "experience_batch_size": 8, "backend": "serial"}


def test_managers_methods_answer_wrong_types_with_senjus_own_errors() -> None:
    with senju.ParallelManager("tic_tac_toe", config=SERIAL) as manager:
        wrong: dict[Callable[..., Any], dict[str, list[Any]]] = {
            manager.collect_experiences: {
                "timeout": [*_NO_NUMBER, 1e300],
                "target_steps": [*NO_COUNT, True, 0],
            },
            manager.sync_model_to_workers: {"model": [*NO_PART, None, {}, {"a": object()}]},
            manager.pause_workers: {"ids": [1.5, 3, "x", ["x"], [[1]], [99], [_HUGE]]},
            manager.resume_workers: {"ids": [1.5, ["x"], [99]]},
            manager.reset_workers: {"ids": [1.5, ["x"], [99]]},
        }
        for method, parameters in wrong.items():
            for parameter, values in parameters.items():
                for value in values:
                    with pytest.raises(SenjuError):
                        method(**{parameter: value})
        batch = manager.collect_experiences()
        assert len(batch) == 8  # and the manager still works
    buffer = senju.ExperienceBuffer(8)
    for value in NO_PART:
        with pytest.raises(SenjuError):
            buffer.add_batch(value)
        with pytest.raises(SenjuError):
            buffer.merge(value)


def test_runs_and_agents_methods_answer_wrong_types_with_senjus_own_errors(tmp_path: Path) -> None:
    run = senju.train("tic_tac_toe", run=tmp_path / "run", max_updates=1, evaluation={"opponents": []})
    agent = run.agent
    wrong: dict[Callable[..., Any], list[Any]] = {
        run.agent_at: [*NO_WORD, "", "9" * 5000],
        run.agents_at: [*NO_WORD, ""],
        run.require_game: NO_WORD,
        agent.evaluate: NO_PART,
        agent.set_weights: NO_PART,
        agent.player: _NO_NUMBER,
    }
    for method, values in wrong.items():
        for value in values:
            with pytest.raises(SenjuError):
                method(value)
