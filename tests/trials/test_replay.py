"""A failing shard is played alone: it fails again, or not."""

import faulthandler
import traceback
from pathlib import Path

import numpy as np
import pytest

from senju.backends.building import new_models, new_shard
from senju.backends.reproduction import Reproduction
from senju.collect.orders import Orders
from senju.errors import CheckpointError
from senju.games import make_game
from senju.trials.replay import replay
from tests.backends.common import new_plan
from tests.facts import mentions


def saved(folder: Path, game: str) -> Path:
    plan = new_plan({"name": game}, {"name": "mlp", "hidden": [8]}, 5, 2, 4, 8)
    state = new_shard(plan, make_game(game), 1).state
    weights = new_models(plan).read_weights()
    cause = "worker 0 was killed while it played shard 1"
    return Reproduction(plan, 1, 3, Orders(7), cause, state, weights).save(folder)


def test_shard_that_fails_comes_with_its_traceback(tmp_path: Path) -> None:
    was_enabled = faulthandler.is_enabled()
    error = replay(Reproduction.load(saved(tmp_path, "tests.trials.unequal_games:Failing")))
    assert repr(error) == "ZeroDivisionError('a bug in the game')"
    assert "unequal_games.py" in "".join(traceback.format_exception(error))
    assert faulthandler.is_enabled() == was_enabled


def test_replay_of_a_shard_that_does_not_fail_gives_no_error(tmp_path: Path) -> None:
    found = Reproduction.load(saved(tmp_path, "tests.collect.toy_games:Race"))
    assert replay(found) is None
    assert np.array_equal(found.state.clock["row"], [4, 5, 6, 7])


def test_other_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(CheckpointError, match=mentions("notes.txt", "failing shard's file")):
        Reproduction.load(tmp_path / "notes.txt")
