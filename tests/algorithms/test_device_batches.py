"""What is learned from on a device: the same decisions as from memory, without sending them again."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from senju.algorithms import device_batches
from senju.algorithms.device_batches import equal_parts, frames_on_device
from senju.algorithms.dqn import DQN
from senju.algorithms.ppo import PPO
from senju.algorithms.transitions import in_words
from tests.algorithms.device_learners import Training, batches_seen, bytes_of, partly_known

CUDA = pytest.param("cuda", marks=pytest.mark.cuda)
both = pytest.mark.parametrize("device", ["cpu", CUDA])


def assert_equal_batches(one: Sequence[Sequence[Tensor]], other: Sequence[Sequence[Tensor]]) -> None:
    assert len(one) == len(other) > 0
    for mine, yours in zip(one, other, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine, yours, strict=True))


@both
@pytest.mark.parametrize("num_unknown", [0, 3])
def test_minibatches_from_the_device_are_those_from_memory(device: str, num_unknown: int) -> None:
    training = Training(device)
    mine, yours = training.learner(), training.learner(is_attached=False)
    training.keep_on_device()
    for _ in range(3):
        rollouts = training.collect()
        training.upload(rollouts)
        for rollout in rollouts:
            rollout.data.seats[0, :num_unknown] = -1
        copies = partly_known(rollouts, 0)
        for rollout in rollouts:  # not read again
            rollout.data.observation.fill(7)
            rollout.data.legal.fill(0)
        with batches_seen(mine) as found, batches_seen(yours) as expected:
            assert mine.update(rollouts) == yours.update(copies)
        assert_equal_batches(found, expected)
    assert bytes_of(mine) == bytes_of(yours)


@both
def test_rollouts_that_the_device_lacks_are_read_from_memory(device: str) -> None:
    training = Training(device)
    mine, yours = training.learner(), training.learner(is_attached=False)
    training.keep_on_device()
    rollouts = training.collect()
    training.upload(rollouts[:1])
    assert frames_on_device(training.ring, rollouts, training.device) is None
    assert mine.update(rollouts) == yours.update(rollouts)


def test_columns_that_may_be_overwritten_meanwhile_are_not_read() -> None:
    training = Training("cpu")
    training.keep_on_device()
    rollouts = training.collect()
    training.upload(rollouts)
    assert frames_on_device(training.ring, rollouts, training.device) is not None
    object.__setattr__(training.ring.shape, "ahead", 1)  # workers may be a turn beyond
    assert frames_on_device(training.ring, rollouts, training.device) is None


def test_frames_are_those_of_each_rollout() -> None:
    training = Training("cpu")
    training.keep_on_device(turns=3)
    for _ in range(5):
        rollouts = training.collect()
        training.upload(rollouts)
    found = frames_on_device(training.ring, rollouts, training.device)
    assert found is not None
    seen = np.concatenate([rollout.data.observation.reshape(-1, 2, 6, 7) for rollout in rollouts])
    assert np.array_equal(found.observation[torch.from_numpy(found.indices)].numpy(), seen)


@both
@pytest.mark.parametrize(
    "settings",
    [{}, {"prioritised": True, "n_step": 2}, {"double": False, "dueling": False}],
    ids=["plain", "prioritised", "single"],
)
@pytest.mark.parametrize("turns", [2, 4])
def test_replay_on_the_device_gives_the_same_samples(device: str, settings: Any, turns: int) -> None:
    """Also where the device keeps fewer turns than memory, and for positions in which games were cut."""
    game = "tests.collect.toy_games:Race"
    training = Training(device, DQN, game, **settings)
    mine, yours = training.learner(), training.learner()
    columns = training.keep_on_device(turns)
    num_rows = 0
    for _ in range(7):
        rollouts = training.collect()
        training.upload(rollouts)
        with batches_seen(mine) as found:
            mine_says = mine.update(rollouts)
        if mine_says["gradient_steps"]:
            num_rows += len(mine.replay.locate(64, 1).rows)
        training.ring.on_device = None
        with batches_seen(yours) as expected:
            assert yours.update(rollouts) == mine_says
        training.ring.on_device = columns
        if found or expected:
            assert_equal_batches(found, expected)
    assert bytes_of(mine) == bytes_of(yours)
    assert num_rows > 0, "some positions are in memory only"


def test_rows_copied_as_words_are_the_same() -> None:
    chance = torch.Generator().manual_seed(0)
    column = torch.randint(0, 256, (50, 3, 4, 2), generator=chance, dtype=torch.uint8)
    indices = torch.randint(0, 50, (70,), generator=chance)
    assert torch.equal(in_words(column, indices), column[indices])


def test_equal_parts_are_those_of_the_cpu_filled_up() -> None:
    order = torch.randperm(23, generator=torch.Generator().manual_seed(0))
    parts = equal_parts(order, 3, 10)
    for part, plain in zip(parts, torch.tensor_split(order, 3), strict=True):
        assert part.weights is not None
        assert part.indices[part.weights > 0].tolist() == plain.tolist()
        assert len(part.indices) == len(part.weights) == 10
        assert set(part.indices.tolist()) == set(plain.tolist())
    assert all(part.weights is None for part in equal_parts(order[:20], 2, 10))


def test_advantages_computed_by_threads_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training("cpu", PPO)
    mine, yours = training.learner(), training.learner(is_captured=True)
    rollouts = partly_known(training.collect(), 2)
    expected = yours.update(rollouts)
    for module in (device_batches, __import__("senju.algorithms.ppo", fromlist=["LARGE"])):
        monkeypatch.setattr(module, "LARGE", 1)
    assert mine.update(rollouts) == expected
    assert bytes_of(mine) == bytes_of(yours)
