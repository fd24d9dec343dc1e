"""The choice of kernels, which decides whether bits repeat."""

from collections.abc import Iterator

import pytest
import torch

from senju.cuda import Kernels, apply_kernels, default_kernels


@pytest.fixture(autouse=True)
def _flags_are_restored() -> Iterator[None]:
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark, cudnn.deterministic
    yield
    cudnn.benchmark, cudnn.deterministic = before


def test_a_gpu_compiles_by_default_and_the_cpu_does_not() -> None:
    assert default_kernels(torch.device("cuda:1")) == "repeatable"
    assert default_kernels(torch.device("cpu")) == "eager"


@pytest.mark.parametrize(
    ("kernels", "is_timed"), [("eager", False), ("repeatable", False), ("fastest", True)]
)
def test_only_the_fastest_kernels_are_chosen_by_time(kernels: Kernels, is_timed: bool) -> None:
    apply_kernels(kernels)
    assert torch.backends.cudnn.benchmark == is_timed
    assert torch.backends.cudnn.deterministic != is_timed
