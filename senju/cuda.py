"""What the parts of senju that use a GPU share: how kernels are chosen, and one lock for captures."""

from threading import RLock
from typing import Literal

import torch

# eager: torch's own; repeatable: compiled, the same bits in each process; fastest: chosen by timing them
Kernels = Literal["eager", "repeatable", "fastest"]

capture_lock = RLock()  # held while kernels are compiled or a CUDA graph is captured, by any thread


def default_kernels(device: torch.device) -> Kernels:
    """Compiled kernels on a GPU; the CPU has kernels of its own."""
    return "repeatable" if device.type == "cuda" else "eager"


def apply_kernels(kernels: Kernels) -> None:
    """Set cuDNN's flags for this process: only `fastest` may choose kernels by timing them."""
    torch.backends.cudnn.benchmark = kernels == "fastest"
    torch.backends.cudnn.deterministic = kernels != "fastest"
