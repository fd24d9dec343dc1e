"""Files of failing rollouts, with opponents in them: read back as they were, and played as they were."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from senju.backends.backend import Plan
from senju.backends.reproduction import Reproduction
from senju.collect.exploration import Acting
from senju.collect.seating import CURRENT
from senju.errors import CheckpointError, RunFolderError, SenjuError
from tests.backends.common import PLAN, changed, gather_events, started, weights_of
from tests.backends.pooled import PooledPlay, pooled
from tests.backends.trap_games import call_off, order, trap_plan
from tests.facts import mentions
from tests.mutations import mutations

TURN = 3


def reproduced(plan: Plan, folder: Path) -> Reproduction:
    """Shard 1 before its fourth rollout, as a backend with a pool would set it aside."""
    with started(plan) as serial:
        played = PooledPlay(serial, plan)
        played.play(TURN)
        orders = played.pool.orders(TURN, (0.25,))._replace(version=TURN)
        state = serial.snapshot()[1]
        opponents = {
            m.weight_index: played.pool.weights[m.number]
            for m in played.pool.opponents
            if m.weight_index >= 0
        }
    weights = weights_of(plan, plan.seed + TURN)
    return Reproduction(plan, 1, TURN, orders, "it failed", state, weights, opponents)


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    plan = pooled(PLAN, acting=Acting("action_values", ladder=2.0))
    written = reproduced(plan, tmp_path)
    assert len(written.opponents) >= 2
    path = written.save(tmp_path / "failed-shards")
    assert path.name == "shard-1-rollout-3-version-3.safetensors"
    read = Reproduction.load(path)
    assert (read.shard, read.turn, read.version, read.cause) == (1, TURN, TURN, "it failed")
    assert read.orders == written.orders
    assert read.plan.opponents == plan.opponents
    assert read.plan == plan
    assert [array.tobytes() for array in read.state] == [array.tobytes() for array in written.state]
    assert (read.state.seated != CURRENT).any()
    assert read.weights.tobytes() == written.weights.tobytes()
    assert {place: w.tobytes() for place, w in read.opponents.items()} == {
        place: w.tobytes() for place, w in written.opponents.items()
    }
    read.play()


@pytest.mark.parametrize("whole_games", [False, True])
def test_it_plays_with_the_opponents_that_were_there(tmp_path: Path, whole_games: bool) -> None:
    """A rollout against a snapshot fails in the same way when it is played from its file, alone."""
    plan = pooled(
        changed(trap_plan(tmp_path), num_shards=3, rollout_steps=6, whole_games=whole_games, keeps_final=True)
    )
    armed = changed(plan, game=plan.game | {"spared": 0})
    with started(armed, "threads", num_workers=2, shard_attempts=1) as backend:
        played = PooledPlay(backend, armed)
        played.play(TURN)
        ages = backend.snapshot()[1].states["age"]
        order(plan, "raise", shard=1, at=int(ages[0]) + 3, always=True)
        played.play(1)
        [message] = gather_events(backend, "set_aside")
        assert "the trap is sprung" in message
    [path] = (tmp_path / "failed-shards").iterdir()
    reproduction = Reproduction.load(path)
    assert any(place >= 0 for place in reproduction.orders.weight_indices)
    assert np.isin(reproduction.state.seated, (0, *reproduction.orders.ids)).all()
    with pytest.raises(RuntimeError, match="the trap is sprung"):
        reproduction.play()
    call_off(plan)
    reproduction.play()


def test_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.safetensors"
    path.write_text("no tensors")
    with pytest.raises(CheckpointError, match=mentions("notes.safetensors", "failing shard's file")):
        Reproduction.load(path)


def test_every_wrong_part_of_a_file_is_an_error_of_ours(tmp_path: Path) -> None:
    path = reproduced(pooled(PLAN), tmp_path).save(tmp_path / "failed-shards")
    with safe_open(path, "np") as file:
        facts, arrays = json.loads(file.metadata()["senju"]), {n: file.get_tensor(n) for n in file.keys()}  # noqa: SIM118
    num_refused = 0
    others = [arrays | {name: array[:5]} for name, array in arrays.items()]
    others += [{n: a for n, a in arrays.items() if n != name} for name in arrays]
    others += [{**arrays, "opponent.x": arrays["weights"]}]
    files = [(str(wrong.keys()), facts, wrong) for wrong in others]
    files += [(what, wrong, arrays) for what, wrong in mutations(facts, depth=3)]
    for what, wrong, tensors in files:
        save_file(tensors, path, {"senju": json.dumps(wrong)})
        try:
            Reproduction.load(path)
        except SenjuError:
            num_refused += 1
        except Exception as error:
            raise AssertionError(what) from error
    assert num_refused > len(files) / 2


@pytest.mark.parametrize("facts", [None, "", "7", "[]", "[" * 100_000, "{}"])
def test_file_without_its_facts_is_refused(tmp_path: Path, facts: str | None) -> None:
    path = tmp_path / "file.safetensors"
    save_file({"weights": np.zeros(3, np.uint8)}, path, None if facts is None else {"senju": facts})
    with pytest.raises(CheckpointError, match=mentions("file.safetensors", "failing shard's file")):
        Reproduction.load(path)


def test_named_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckpointError, match=mentions("pipe", "regular file")):
        Reproduction.load(tmp_path / "pipe")


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "failed-shards").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunFolderError, match=mentions("failed-shards", "symbolic link")):
        reproduced(pooled(PLAN), tmp_path).save(tmp_path / "failed-shards")
    assert not list((tmp_path / "elsewhere").iterdir())
