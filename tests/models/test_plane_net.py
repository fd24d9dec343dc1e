"""The network whose policy is read off planes: where its logits come from, and how it begins."""

import pytest
import torch
from torch import Tensor

from senju.errors import ModelError
from senju.models import make_model
from senju.models.model import Model
from senju.models.plane_net import PlaneNet
from senju.models.resnet import ResidualBlock

SHAPE, KINDS = (5, 4, 3), 6
SQUARES = SHAPE[1] * SHAPE[2]


def build(**settings: object) -> PlaneNet:
    model = make_model({"name": "plane_net", "channels": 8, **settings}, SHAPE, KINDS * SQUARES, seed=3)
    assert isinstance(model, PlaneNet)
    return model


def boards(num_rows: int = 4, largest: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(num_rows)
    return torch.randint(0, largest + 1, (num_rows, *SHAPE), generator=generator).float()


def shaken(model: Model) -> Model:
    """With other weights everywhere, as after learning."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn(weight.shape, generator=generator))
    return model


def test_action_is_kind_times_squares_plus_square() -> None:
    """Without blocks a logit knows its own square alone: what changes there changes that square's logits."""
    model = shaken(build(blocks=0))
    before = boards(1)
    after = before.clone()
    after[0, 2, 3, 1] = 9.0
    changed = (model(before)[0] != model(after)[0]).nonzero()[:, 1]
    assert changed.tolist() == [kind * SQUARES + 3 * SHAPE[2] + 1 for kind in range(KINDS)]


def test_one_block_carries_a_change_two_squares_far_and_excitation_everywhere() -> None:
    before = torch.zeros(1, 2, 7, 7)
    after = before.clone()
    after[0, 0, 3, 3] = 1.0

    def changed(squeeze: int) -> Tensor:
        settings = {"name": "plane_net", "channels": 8, "blocks": 1, "squeeze": squeeze}
        model = shaken(make_model(settings, (2, 7, 7), 49, seed=3))
        return (model(before)[0] != model(after)[0]).view(7, 7)

    near = torch.zeros(7, 7, dtype=torch.bool)
    near[1:6, 1:6] = True
    assert torch.equal(changed(squeeze=0), near)
    assert changed(squeeze=2).all()


def test_two_squares_that_look_alike_can_be_distinguished() -> None:
    logits, _ = shaken(build(blocks=0))(torch.zeros(1, *SHAPE))
    assert len(set(logits[0, :SQUARES].tolist())) == SQUARES


@pytest.mark.parametrize("squeeze", [0, 4])
def test_new_blocks_change_nothing(squeeze: int) -> None:
    planes = boards(2).relu()
    block = ResidualBlock(SHAPE[0], squeeze)
    assert torch.equal(block(planes), planes)


@pytest.mark.parametrize("squeeze", [0, 4])
def test_every_weight_learns_within_three_steps(squeeze: int) -> None:
    """The zero in each block lets its other layers wait for a step, its excitation for two."""
    model = build(squeeze=squeeze)
    first = {name: weight.clone() for name, weight in model.named_parameters()}
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        logits, values = model(boards(16))
        (logits.square().sum() + (values - 1.0).square().sum()).backward()
        optimizer.step()
    assert [name for name, weight in model.named_parameters() if torch.equal(weight, first[name])] == []


def test_first_policy_is_close_to_uniform_even_for_large_counts() -> None:
    model = make_model({"name": "plane_net", "squeeze": 4}, (48, 9, 9), 2187, seed=0)
    generator = torch.Generator().manual_seed(0)
    logits, values = model(torch.randint(0, 41, (16, 48, 9, 9), generator=generator).float())
    assert logits.softmax(dim=1).mul(2187).sub(1.0).abs().max() < 0.5
    assert values.abs().max() < 10.0


def test_counts_enter_by_their_root_and_bits_as_they_are() -> None:
    model, seen = build(), []
    model.stem.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    numbers = torch.tensor([0.0, 1.0, 4.0, 16.0, 255.0, -1.0, -4.0])
    model(numbers[:, None, None, None].expand(-1, *SHAPE))
    assert seen[0][:, 0, 0, 0].tolist() == [0.0, 1.0, 2.0, 4.0, pytest.approx(255**0.5), -1.0, -2.0]


def test_observation_is_left_as_it_was() -> None:
    observation = boards(largest=40)
    before = observation.clone()
    build()(observation)
    assert torch.equal(observation, before)


@pytest.mark.parametrize("num_actions", [7, SQUARES - 1, SQUARES + 1])
def test_actions_that_are_no_planes_are_refused_with_the_numbers(num_actions: int) -> None:
    expected = rf"'plane_net'.*4×3 = 12.*{num_actions}.*'resnet'"
    with pytest.raises(ModelError, match=expected):
        make_model({"name": "plane_net"}, SHAPE, num_actions, seed=0)


@pytest.mark.parametrize("shape", [(84,), (6, 7), (1, 2, 6, 7)])
def test_observation_that_is_no_planes_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match=r"'plane_net'.*plane.*'mlp'"):
        make_model({"name": "plane_net"}, shape, 84, seed=0)
