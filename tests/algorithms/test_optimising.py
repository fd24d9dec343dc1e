"""What learners by gradient descent share."""

import math

import pytest
import torch

from senju.algorithms.optimising import (
    Schedule,
    load_network,
    load_weights,
    refuse_divergence,
    saved_network,
    scheduled,
)
from senju.errors import ModelError
from senju.models import Model, build_model
from senju.models.mlp import Mlp, MlpConfig
from tests.facts import mentions

CPU = torch.device("cpu")


def new_network(seed: int = 0) -> tuple[Model, torch.optim.Adam]:
    model = build_model(Mlp, (2,), 3, MlpConfig(hidden=(4,)), seed)
    return model, torch.optim.Adam(model.parameters(), lr=0.1)


def step(model: Model, optimizer: torch.optim.Optimizer, number: int) -> None:
    logits, values = model(torch.tensor([[1.0, float(number)]]))
    (logits.square().sum() + values.sum()).backward()
    optimizer.step()
    optimizer.zero_grad()


def flat(model: Model) -> torch.Tensor:
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [0.1, 0.1, 0.1]),
        ("linear", [0.1, 0.06, 0.02]),
        ("cosine", [0.1, 0.06, 0.02]),
    ],
)
def test_rates_at_the_beginning_the_middle_and_the_end(schedule: Schedule, expected: list[float]) -> None:
    assert [scheduled(0.1, schedule, 0.2, done) for done in (0.0, 0.5, 1.0)] == pytest.approx(expected)


def test_cosine_falls_slowly_at_first_and_at_last() -> None:
    # 0.2 + 0.8 · (1 + cos(π / 4)) / 2, and with the other sign
    assert scheduled(0.1, "cosine", 0.2, 0.25) == pytest.approx(0.0882843, rel=1e-5)
    assert scheduled(0.1, "cosine", 0.2, 0.75) == pytest.approx(0.0317157, rel=1e-5)


@pytest.mark.parametrize("num_steps", [0, 3])
def test_loaded_network_takes_the_same_steps(num_steps: int) -> None:
    """Also where the optimizer has no moments yet, and the one that loads has some to lose."""
    model, optimizer = new_network()
    for number in range(num_steps):
        step(model, optimizer, number)
    saved = saved_network(model, optimizer)
    other, its_optimizer = new_network(seed=7)
    step(other, its_optimizer, 5)
    load_network(other, its_optimizer, saved, CPU)
    for number in range(3):
        assert torch.equal(flat(model), flat(other))
        step(model, optimizer, number)
        step(other, its_optimizer, number)
    assert torch.equal(flat(model), flat(other))


def test_saved_network_does_not_follow_the_model() -> None:
    model, optimizer = new_network()
    step(model, optimizer, 1)
    saved = saved_network(model, optimizer)
    before = {name: tensor.clone() for name, tensor in saved.items()}
    step(model, optimizer, 2)
    assert all(torch.equal(saved[name], tensor) for name, tensor in before.items())
    assert any(name.startswith("optimizer.") for name in saved)


def test_weights_are_written_in_place() -> None:
    model, _ = new_network()
    other, _ = new_network(seed=7)
    places = [parameter.data_ptr() for parameter in other.parameters()]
    load_weights(other, {f"target.{name}": tensor for name, tensor in model.state_dict().items()}, "target.")
    assert torch.equal(flat(model), flat(other))
    assert places == [parameter.data_ptr() for parameter in other.parameters()]


def test_numbers_that_are_not_finite_are_named() -> None:
    refuse_divergence(3, {"loss": 1.0, "epsilon": 0.0})
    with pytest.raises(ModelError, match=mentions("update 3", "loss, mean_value", "not finite", "diverged")):
        refuse_divergence(3, {"loss": math.nan, "mean_value": -math.inf, "epsilon": 0.0})
