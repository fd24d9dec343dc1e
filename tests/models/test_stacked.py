"""Models stacked: outputs, gradients and weights are those of each alone."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from senju.config import Part
from senju.models import make_model
from senju.models.model import Model, ModelConfig, build_model
from senju.models.stacked import ModelStack, can_stack
from senju.models.weights import WeightBlock

PLANES, NUM_ACTIONS, NUM_MODELS, BATCH = (2, 3, 4), 12, 4, 5
KINDS: dict[str, dict[str, Any]] = {
    "mlp": {"hidden": [8, 6]},
    "resnet": {"channels": 4, "blocks": 1, "head_width": 8},
    "plane_net": {"channels": 4, "blocks": 1, "squeeze": 2},
}
every_kind = pytest.mark.parametrize("name", KINDS)
some_rows = pytest.mark.parametrize("rows", [[0, 1, 2, 3], [1, 2], [0, 3], [2]])


class Counting(Model):
    """Scales by a buffer, counts how often it was asked, and has a layer that is not trained."""

    def __init__(self, observation_shape: tuple[int, ...], num_actions: int, config: Part) -> None:
        super().__init__(observation_shape, num_actions, config)
        self.frozen = nn.Linear(24, 8).requires_grad_(False)
        self.layer = nn.Linear(8, num_actions + 1)
        self.register_buffer("scale", torch.rand(()))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        self.get_buffer("count").add_(1)
        output = self.layer(self.frozen(observation.flatten(1)) * self.get_buffer("scale"))
        return output[:, :-1], output[:, -1]


def models_of(name: str) -> list[Model]:
    return [
        make_model({"name": name, **KINDS[name]}, PLANES, NUM_ACTIONS, seed) for seed in range(NUM_MODELS)
    ]


def counting_models() -> list[Model]:
    return [build_model(Counting, PLANES, NUM_ACTIONS, ModelConfig(), seed) for seed in range(NUM_MODELS)]


def seen_by(rows: Sequence[int]) -> Tensor:
    chance = torch.Generator().manual_seed(1)
    return torch.randint(0, 5, (len(rows), BATCH, *PLANES), generator=chance).float()


def gradient_alone(model: Model, observation: Tensor) -> tuple[Tensor, Tensor]:
    """What a model says of some positions, and the gradient of the sum of its squares."""
    output = torch.cat([part.reshape(BATCH, -1) for part in model(observation)], 1)
    torch.autograd.backward(output.square().sum())
    gradient = [p.grad if p.grad is not None else torch.zeros_like(p) for p in model.parameters()]
    return output.detach(), torch.cat([part.reshape(-1) for part in gradient])


def assert_computes_as_alone(alone: Sequence[Model], stack: ModelStack, rows: Sequence[int]) -> None:
    observation = seen_by(rows)
    leaves = stack.leaves(rows)
    logits, values = stack(leaves, rows, observation)
    loss = logits.square().sum() + values.square().sum()
    gradient = stack.gradient(leaves, [loss], None)
    for place, row in enumerate(rows):
        output, expected = gradient_alone(alone[row], observation[place])
        assert torch.allclose(torch.cat([logits[place], values[place, :, None]], 1), output, atol=1e-5)
        assert torch.allclose(gradient[place], expected, rtol=1e-4, atol=1e-4)
        assert expected.abs().max() > 0


@every_kind
@some_rows
def test_stack_computes_what_its_models_do(name: str, rows: list[int]) -> None:
    stacked = models_of(name)
    assert can_stack(stacked, PLANES)
    assert_computes_as_alone(models_of(name), ModelStack(stacked), rows)


@some_rows
def test_buffers_are_each_models_own_and_what_is_not_trained_has_no_gradient(rows: list[int]) -> None:
    alone, models = counting_models(), counting_models()
    stack = ModelStack(models)
    assert_computes_as_alone(alone, stack, rows)
    for row in range(NUM_MODELS):
        assert models[row].get_buffer("count") == alone[row].get_buffer("count")
    assert models[rows[0]].get_buffer("count") > models[rows[0] - 1].get_buffer("count") or len(rows) > 1


@every_kind
def test_models_are_views_of_their_stack(name: str) -> None:
    models, before = models_of(name), [WeightBlock(model).read() for model in models_of(name)]
    stack = ModelStack(models)
    blocks = stack.blocks()
    assert blocks is not None
    for row, model in enumerate(models):
        assert WeightBlock(model).read().tobytes() == before[row].tobytes() == blocks[row].tobytes()
    stack.weights[1].fill_(0.5)
    assert all((parameter == 0.5).all() for parameter in models[1].parameters())
    WeightBlock(models[2]).write(before[3])
    assert torch.equal(stack.weights[2], stack.weights[3])
    assert WeightBlock(models[0]).read().tobytes() == before[0].tobytes()


def test_block_of_a_model_with_buffers_is_left_to_its_own() -> None:
    assert ModelStack(counting_models()).blocks() is None


def test_models_of_unlike_shape_or_type_are_not_stacked() -> None:
    narrow, wide = (make_model({"name": "mlp", "hidden": [n]}, PLANES, NUM_ACTIONS, 0) for n in (4, 5))
    assert not can_stack([narrow, wide], PLANES)
    halves = [make_model({"name": "mlp", "hidden": [4]}, PLANES, NUM_ACTIONS, seed) for seed in range(2)]
    halves[1].half()
    assert not can_stack(halves, PLANES)
    assert can_stack([narrow, halves[0]], PLANES)
