"""Choosing on a device: the same random numbers and the same choices as the kernels of the CPU."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from senju.collect.device_choice import (
    Choice,
    Decisions,
    epsilon_greedy,
    random_words,
    sampled,
    unit_intervals,
    unpacked,
)
from senju.collect.exploration import epsilon_greedy_actions, sample_actions
from senju.games.rows import ACTION, CLOCK
from senju.kernels import pack_legal, random_word, unit_interval
from tests.collect.test_exploration import deviations_from, exact_probabilities

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
SEED = 0x9E3779B97F4A7C15  # its upper bit is set


class Batch:
    """Random positions, as arrays of both sides."""

    def __init__(self, num_rows: int, num_actions: int, density: float, scale: float, number: int) -> None:
        rng = np.random.default_rng(number)
        self.logits = (scale * rng.standard_normal((num_rows, num_actions))).astype(np.float32)
        allowed = rng.random((num_rows, 1, num_actions)) < density
        allowed[np.arange(num_rows), 0, rng.integers(0, num_actions, num_rows)] = True
        self.legal = pack_legal(allowed)
        self.seats = rng.integers(-1, 2, (num_rows, 1)).astype(np.int8)
        self.clock = np.zeros(num_rows, CLOCK)
        for name in ("row", "game", "step"):
            self.clock[name] = rng.integers(0, 2**32, num_rows)
        self.values = rng.standard_normal(num_rows).astype(np.float32)

    def decisions(self, epsilon: float = 0.0, device: str = "cpu") -> Decisions:
        count = len(self.seats)
        clock = self.clock.view(np.uint32).reshape(-1, 3).astype(np.int64)
        keys = torch.tensor([SEED & 0xFFFFFFFF, SEED >> 32])
        columns = (
            torch.from_numpy(self.legal[:, 0].view(np.int64)),
            torch.from_numpy(self.seats[:, 0] >= 0),
            torch.from_numpy(clock),
            torch.full((count,), ACTION),
            keys,
            torch.full((count,), epsilon, dtype=torch.float64),
        )
        return Decisions(*(column.to(device) for column in columns))

    def on(self, device: str) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.from_numpy(self.logits).to(device), torch.from_numpy(self.values).to(device)


def on_host(choice: Choice) -> list[NDArray[np.generic]]:
    return [column.cpu().numpy() for column in choice]


@pytest.mark.parametrize("device", DEVICES)
def test_random_words_are_those_of_the_kernels(device: str) -> None:
    batch = Batch(200, 3, 1.0, 1.0, 0)
    decisions = batch.decisions(device=device)
    words = random_words(decisions.keys, decisions.clock, decisions.streams)
    low, high = (column.cpu().numpy().astype(np.uint64) for column in words)
    expected = [
        random_word(np.uint64(SEED), int(each["row"]), int(each["game"]), int(each["step"]), ACTION)
        for each in batch.clock
    ]
    assert ((high << np.uint64(32)) | low).tolist() == [int(word) for word in expected]
    assert unit_intervals(words).tolist() == [unit_interval(np.uint64(word)) for word in expected]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("num_actions", "density", "scale"),
    [(2, 1.0, 1.0), (7, 0.6, 3.0), (64, 0.3, 0.1), (65, 0.9, 30.0), (2187, 0.04, 1.0), (2187, 1.0, 8.0)],
)
def test_sampled_actions_are_those_of_the_kernels(
    device: str, num_actions: int, density: float, scale: float
) -> None:
    batch = Batch(3000, num_actions, density, scale, num_actions)
    actions, log_probs = np.zeros((3000, 1), np.int32), np.zeros((3000, 1), np.float32)
    arguments = (batch.logits, batch.legal, batch.seats, batch.clock, np.uint64(SEED), ACTION)
    sample_actions(*arguments, actions, log_probs)
    found = sampled(*batch.on(device), batch.decisions(device=device))
    assert found.actions.cpu().numpy().tolist() == actions[:, 0].tolist()
    np.testing.assert_allclose(found.log_probs.cpu().numpy(), log_probs[:, 0], rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("is_dueling", [False, True])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_epsilon_greedy_actions_are_those_of_the_kernels(
    device: str, is_dueling: bool, epsilon: float
) -> None:
    batch = Batch(2000, 150, 0.2, 2.0, 9)
    actions, explored = np.zeros((2000, 1), np.int32), np.zeros((2000, 1), np.bool_)
    best = np.zeros((2000, 1), np.float32)
    state = (batch.legal, batch.seats, batch.clock, np.uint64(SEED), ACTION)
    epsilon_greedy_actions(batch.logits, batch.values, *state, epsilon, is_dueling, actions, explored, best)
    found = epsilon_greedy(*batch.on(device), batch.decisions(epsilon, device), is_dueling)
    assert found.actions.cpu().numpy().tolist() == actions[:, 0].tolist()
    assert found.explored.cpu().numpy().tolist() == explored[:, 0].tolist()
    acting = batch.seats[:, 0] >= 0
    np.testing.assert_allclose(found.values.cpu().numpy()[acting], best[acting, 0], rtol=1e-6, atol=1e-6)


def test_sampled_actions_have_the_policys_frequencies() -> None:
    batch = Batch(40_000, 5, 1.0, 1.0, 3)
    batch.logits[:], batch.seats[:] = [0.0, 1.0, -1.0, 2.0, 0.5], 0
    allowed = np.array([True, True, False, True, True])
    batch.legal[:] = pack_legal(allowed)
    actions = sampled(*batch.on("cpu"), batch.decisions()).actions.numpy()
    expected = exact_probabilities(batch.logits[0], allowed)[allowed]
    assert deviations_from(np.bincount(actions, minlength=5)[allowed], expected) < 4
    assert not (actions == 2).any()


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_position_without_a_valid_choice_gets_minus_one(wrong: float) -> None:
    batch = Batch(4, 70, 0.5, 1.0, 4)
    batch.seats[:] = 0
    batch.legal[1] = 0
    batch.logits[2, np.flatnonzero(unpacked(batch.decisions().legal, 70)[2].numpy())[0]] = wrong
    for found in (
        sampled(*batch.on("cpu"), batch.decisions()),
        epsilon_greedy(*batch.on("cpu"), batch.decisions(), False),
    ):
        assert (found.actions.numpy() == -1).tolist() == [False, True, True, False]
    batch.seats[:] = -1
    assert sampled(*batch.on("cpu"), batch.decisions()).actions.tolist() == [0, 0, 0, 0]


def test_minus_infinity_is_never_chosen_and_a_single_action_always() -> None:
    batch = Batch(500, 130, 0.3, 1.0, 5)
    batch.seats[:] = 0
    legal = unpacked(batch.decisions().legal, 130).numpy()
    for row in range(500):
        others = np.flatnonzero(legal[row])[1:]
        batch.logits[row, others] = -np.inf
    found = sampled(*batch.on("cpu"), batch.decisions())
    assert found.actions.tolist() == legal.argmax(1).tolist()
    assert found.log_probs.tolist() == [0.0] * 500


def test_unlikely_actions_with_far_apart_logits_leave_no_gap() -> None:
    """A probability below 2**-40 rounds to 0; the action chosen is legal nevertheless."""
    batch = Batch(2000, 64, 1.0, 1.0, 6)
    batch.seats[:] = 0
    batch.logits[:] = np.linspace(0.0, -80.0, 64)
    found = sampled(*batch.on("cpu"), batch.decisions())
    assert int(found.actions.min()) >= 0
    assert int(found.actions.max()) < 32
    assert bool(found.log_probs.isfinite().all())
