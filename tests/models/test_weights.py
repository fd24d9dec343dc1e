"""Weights as one block of bytes: reading gives the written weights, for tensors of any kind."""

import numpy as np
import pytest
import torch
from torch import nn

from senju.errors import ModelError
from senju.models import MODELS, build_model
from senju.models.weights import WeightBlock


class ManyKinds(nn.Module):
    """Parameters and buffers of every size, shape and dtype that a model may hold."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.layer = nn.Linear(3, 5)
        self.short = nn.Parameter(torch.rand(3, generator=generator).to(torch.float16))
        self.scale = nn.Parameter(torch.rand((), generator=generator))
        self.rotated = nn.Parameter(torch.rand(4, 6, generator=generator).t())
        self.register_buffer("brain", torch.rand(5, generator=generator).to(torch.bfloat16))
        self.register_buffer("steps", torch.randint(0, 2**40, (), generator=generator))
        self.register_buffer("mask", torch.rand(7, generator=generator) < 0.5)
        self.register_buffer("exact", torch.rand(2, 2, generator=generator, dtype=torch.float64))
        self.register_buffer("nothing", torch.zeros(0, 4))
        self.register_buffer("passing", torch.rand(9, generator=generator), persistent=False)
        for parameter in self.layer.parameters():
            nn.init.uniform_(parameter, generator=generator)


def same(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) and a.dtype == b.dtype for a, b in pairs)


def test_block_read_from_one_model_makes_another_equal() -> None:
    one, other = ManyKinds(1), ManyKinds(2)
    assert not same(one, other)
    WeightBlock(other).write(WeightBlock(one).read())
    assert same(one, other)


def test_block_is_as_long_as_all_that_is_saved() -> None:
    block = WeightBlock(ManyKinds(1))
    floats = 3 * 5 + 5 + 1 + 24
    assert block.num_bytes == 4 * floats + 2 * 3 + 2 * 5 + 8 + 7 + 8 * 4
    assert block.read().nbytes == block.num_bytes
    assert block.read().dtype == np.uint8


def test_writing_back_what_was_read_changes_nothing() -> None:
    model = ManyKinds(1)
    block = WeightBlock(model)
    first = block.read()
    block.write(first)
    assert same(model, ManyKinds(1))
    assert block.read().tobytes() == first.tobytes()


def test_block_that_was_read_is_a_copy() -> None:
    model = ManyKinds(1)
    block = WeightBlock(model)
    first = block.read()
    first.fill(0)
    assert same(model, ManyKinds(1))


def test_block_follows_the_model_as_it_learns() -> None:
    model = nn.Linear(4, 2)
    block = WeightBlock(model)
    before = block.read()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    assert block.read().tobytes() != before.tobytes()
    assert block.read()[:32].tobytes() == model.weight.detach().numpy().tobytes()


def test_read_only_and_shared_memory_can_be_written_from() -> None:
    one, other = ManyKinds(1), ManyKinds(2)
    block = np.frombuffer(WeightBlock(one).read().tobytes(), np.uint8)
    assert not block.flags.writeable
    WeightBlock(other).write(block)
    assert same(one, other)


def test_model_still_learns_after_it_was_written() -> None:
    model = nn.Linear(2, 1)
    WeightBlock(model).write(WeightBlock(nn.Linear(2, 1)).read())
    model(torch.ones(1, 2)).sum().backward()
    assert model.weight.requires_grad
    assert torch.equal(model.weight.grad, torch.ones(1, 2))


@pytest.mark.parametrize("difference", [-1, 1])
def test_block_of_another_size_is_refused_and_changes_nothing(difference: int) -> None:
    model = ManyKinds(1)
    block = WeightBlock(model)
    size = block.num_bytes
    with pytest.raises(ModelError, match=f" {size + difference} bytes.* {size}$"):
        block.write(np.zeros(size + difference, np.uint8))
    assert same(model, ManyKinds(1))


@pytest.mark.parametrize("name", MODELS.names())
def test_models_with_the_same_weights_compute_the_same_bits(name: str) -> None:
    one, other = (
        build_model(MODELS.get(name), (2, 6, 7), 84, MODELS.configure({"name": name}), seed)
        for seed in (1, 2)
    )
    WeightBlock(other).write(WeightBlock(one).read())
    batch = torch.rand(8, 2, 6, 7, generator=torch.Generator().manual_seed(3))
    for ours, theirs in zip(one(batch), other(batch), strict=True):
        assert torch.equal(ours, theirs)
