"""Runs whose networks are evaluated on the device: resumed and with any number of threads, the same bytes."""

from typing import Any

import pytest

import senju
from senju.config import Settings, merged
from tests.conftest import Train
from tests.training.test_trainer import saved_bytes

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
KINDS: dict[str, Settings] = {
    "ppo": {},
    "pool": {"collect": {"seating": "opponents"}, "opponents": {"snapshot_interval": 1}},
    "dqn": {
        "algorithm": {
            "name": "dqn",
            "learning_starts": 100,
            "batch_size": 64,
            "replay_size": 1024,
            "prioritised": True,
            "minibatch_size": None,
            "epochs": None,
        }
    },
}


def settings_of(kind: str, device: str, num_workers: int) -> dict[str, Any]:
    changed = {name: value for name, value in KINDS[kind].items() if name != "algorithm"}
    collect = {"evaluate_on": "device", "num_games": 32, "games_per_shard": 8}
    found = merged({"collect": collect, "device": device, "updates": 6}, changed)
    found["backend"] = {"name": "threads", "num_workers": num_workers}
    if kind == "dqn":
        found["algorithm"] = {n: v for n, v in KINDS[kind]["algorithm"].items() if v is not None}
    return found


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_has_the_bytes_of_an_uninterrupted_one(
    train_small: Train, kind: str, device: str
) -> None:
    whole = train_small("whole", "connect_four", **settings_of(kind, device, 2))
    halves = train_small("halves", "connect_four", **settings_of(kind, device, 1), max_updates=3)
    halves = senju.train(resume=halves.path, workers=3)
    assert saved_bytes(halves) == saved_bytes(whole)


def test_evaluation_on_the_cpus_device_has_the_bytes_of_evaluation_by_workers(train_small: Train) -> None:
    """With one size of shards, both evaluate the same batches."""
    there = train_small("there", "connect_four", **settings_of("ppo", "cpu", 2))
    settings = settings_of("ppo", "cpu", 2)
    settings["collect"]["evaluate_on"] = "workers"
    here = train_small("here", "connect_four", **settings)
    assert saved_bytes(here) == saved_bytes(there)
