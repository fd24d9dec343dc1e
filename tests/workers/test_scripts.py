"""Users' scripts: what workers must import, and clear errors, quickly, where they cannot."""

import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

import senju
from senju.errors import ConfigError, UnknownNameError
from senju.games import GAMES
from senju.games.tic_tac_toe import TicTacToe
from senju.models import MODELS
from tests.backends.common import PLAN, changed, children_of_this_process, new_backend, started
from tests.collect.toy_models import ReadsObservation

ROOT = Path(senju.__file__).parent.parent

PLAY = """
    from senju.backends.backend import Plan
    from senju.backends.parallel import ParallelBackendConfig, Processes

    backend = Processes(ParallelBackendConfig(num_workers=1))
    plan = Plan(game={"name": GAME}, policies=[{"model": {"name": "mlp", "hidden": [8]}}], seed=8,
                num_shards=2, games_per_shard=2, rollout_steps=4)
    with open("begun", "a") as file:
        file.write(f"{os.getpid()}\\n")
    backend.start(plan)
    with open("started", "a") as file:
        file.write(f"{os.getpid()}\\n")
    print(len(backend.collect()), "rollouts")
    backend.close()
"""
UNINDENTED = PLAY.replace("\n    ", "\n")
OWN_GAME = """
import os
from senju.games import GAMES
from senju.games.tic_tac_toe import TicTacToe

class MyGame(TicTacToe):
    pass

GAMES.register("my_game", MyGame)
GAME = "my_game"
"""


def run(
    folder: Path, text: str, *, as_module: bool = False, as_command: bool = False
) -> "subprocess.CompletedProcess[str]":
    """Run a script as a user would, in a folder of its own."""
    (folder / "script.py").write_text(text)
    arguments = ["-m", "script"] if as_module else ["-c", text] if as_command else ["script.py"]
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.slow
def test_script_without_a_guard_works_where_workers_need_not_import_it(tmp_path: Path) -> None:
    (tmp_path / "my_games.py").write_text(OWN_GAME)
    done = run(tmp_path, f"import os\nimport my_games\nGAME = 'my_game'\n{UNINDENTED}")
    assert done.stdout == "2 rollouts\n", done.stderr
    assert len(lines_of(tmp_path / "begun")) == 1, "the script ran once"


@pytest.mark.slow
@pytest.mark.parametrize("as_module", [False, True], ids=["by its path", "by python -m"])
def test_error_of_a_script_without_a_guard_that_defines_a_game_names_the_guard(
    tmp_path: Path, as_module: bool
) -> None:
    done = run(tmp_path, OWN_GAME + UNINDENTED, as_module=as_module)
    assert done.returncode == 1
    assert re.search(r"WorkerError: .*if __name__ == '__main__':", done.stderr)
    assert len(lines_of(tmp_path / "begun")) == 2, "here, and once in the worker, where it is refused"
    assert lines_of(tmp_path / "started") == []


@pytest.mark.slow
def test_script_with_a_guard_may_define_and_register_a_game(tmp_path: Path) -> None:
    done = run(tmp_path, f"{OWN_GAME}\nif __name__ == '__main__':{PLAY}")
    assert done.stdout == "2 rollouts\n", done.stderr
    assert len(lines_of(tmp_path / "begun")) == 1


@pytest.mark.slow
def test_class_at_the_prompt_is_refused_with_what_to_do(tmp_path: Path) -> None:
    done = run(tmp_path, OWN_GAME + UNINDENTED, as_command=True)
    assert done.returncode == 1
    assert re.search("ConfigError: game 'MyGame'.*threads.*serial", done.stderr)


OWN_OPPONENT = """
import os
import numpy as np

def choose(observation, legal, random):
    return int(np.flatnonzero(legal)[-1])
"""
PLAY_AGAINST = """
    from senju.backends.backend import Plan
    from senju.backends.building import new_models
    from senju.backends.parallel import ParallelBackendConfig, Processes
    from senju.collect.orders import Orders
    from senju.models.weights import WeightBlock

    backend = Processes(ParallelBackendConfig(num_workers=1))
    plan = Plan(game={"name": "tic_tac_toe"}, policies=[{"model": {"name": "mlp", "hidden": [8]}}], seed=8,
                num_shards=2, games_per_shard=2, rollout_steps=1,
                opponents={"fixed": [{"description": "random"}, {"description": "__main__:choose"}]})
    with open("begun", "a") as file:
        file.write(f"{os.getpid()}\\n")
    backend.start(plan)
    weights = new_models(plan).read_weights()
    backend.publish(weights, 1, Orders(ids=(1, 2), weight_indices=(-1, -1), probabilities=(0.0, 1.0)))
    rollouts = backend.collect()
    moves = [(r.data.seated[0], r.data.actions[0, :, 0]) for r in rollouts]
    print([int(a) for seated, actions in moves for s, a in zip(seated[:, 0], actions) if s == 2])
    print([failure for rollout in rollouts for failure in rollout.failures])
    backend.close()
"""


@pytest.mark.slow
@pytest.mark.parametrize("as_module", [False, True], ids=["by its path", "by python -m"])
def test_opponent_may_be_a_function_of_the_script(tmp_path: Path, as_module: bool) -> None:
    """It takes the last legal action: in the first positions of its games, the last square."""
    done = run(tmp_path, f"{OWN_OPPONENT}\nif __name__ == '__main__':{PLAY_AGAINST}", as_module=as_module)
    assert done.stdout == "[8, 8]\n[]\n", done.stderr
    assert len(lines_of(tmp_path / "begun")) == 1, "the script ran once"


@pytest.mark.slow
def test_opponent_at_the_prompt_is_refused_with_what_to_do(tmp_path: Path) -> None:
    text = OWN_OPPONENT + PLAY_AGAINST.replace("\n    ", "\n")
    done = run(tmp_path, text, as_command=True)
    assert done.returncode == 1
    assert re.search("ConfigError: opponent 'choose'", done.stderr)


@pytest.fixture
def unregistered() -> Iterator[None]:
    """Forgets what a test registers."""
    yield
    for registry in (GAMES, MODELS):
        for name in ("inner", "made_up"):
            registry._classes.pop(name, None)


def test_lambda_as_model_is_refused_at_once(unregistered: None) -> None:
    with pytest.raises(UnknownNameError, match=r"'inner'.*senju\.models\.model\.Model"):
        MODELS.register("inner", lambda observation: (observation, 0.0))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["game", "model"])
def test_class_inside_a_function_is_refused_before_a_process_is_started(
    unregistered: None, kind: str
) -> None:
    class Game(TicTacToe):
        pass

    class Model(ReadsObservation):
        pass

    before = children_of_this_process()
    GAMES.register("inner", Game)
    MODELS.register("inner", Model)
    inner = {"name": "inner"}
    plan = changed(PLAN, game=inner) if kind == "game" else changed(PLAN, model=inner)
    backend = new_backend("processes", num_workers=1)
    with pytest.raises(
        ConfigError,
        match=rf"{kind} 'inner'.*{kind.title()}",
    ):
        backend.start(plan)
    backend.close()
    assert children_of_this_process() == before
    with started(plan, "threads", num_workers=1) as threads:
        assert len(threads.collect()) == 3


@pytest.mark.slow
def test_model_that_does_not_import_in_a_worker_is_a_clear_error(
    unregistered: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("made_up")
    module.Network = type("Network", (ReadsObservation,), {"__module__": "made_up"})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "made_up", module)
    plan = changed(PLAN, model={"name": "made_up:Network"})
    backend = new_backend("processes", num_workers=1)
    with pytest.raises(UnknownNameError, match=r"model 'made_up:Network'.*worker 0"):
        backend.start(plan)
    backend.close()
