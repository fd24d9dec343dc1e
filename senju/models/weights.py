"""A model's weights as one flat block of bytes, in a fixed order, for publishing."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from senju.errors import ModelError

Weights = NDArray[np.uint8]


class WeightBlock:
    """Reads a model's weights into a flat block and writes a block into a model."""

    def __init__(self, model: nn.Module) -> None:
        self._entries: list[tuple[Tensor, int, int]] = []  # with start and size in bytes
        start = 0
        for tensor in model.state_dict().values():
            size = tensor.numel() * tensor.element_size()
            if size == 0:  # torch cannot view an empty block as another dtype
                continue
            self._entries.append((tensor, start, size))
            start += size
        self.num_bytes = start

    def addresses(self) -> set[int]:
        """The weights' memory addresses."""
        return {tensor.data_ptr() for tensor, _, _ in self._entries}

    def read(self) -> Weights:
        """The model's current weights, as a new block."""
        block = np.empty(self.num_bytes, np.uint8)
        for tensor, start, size in self._entries:
            flat = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
            block[start : start + size] = flat.numpy()
        return block

    def write(self, block: Weights) -> None:
        """Copy a block's weights into the model."""
        if block.nbytes != self.num_bytes:
            raise ModelError(f"the block has {block.nbytes} bytes; the model needs {self.num_bytes}")
        with torch.no_grad():
            for tensor, start, size in self._entries:
                flat = torch.from_numpy(block[start : start + size].copy())
                tensor.copy_(flat.view(tensor.dtype).view(tensor.shape))
        if any(tensor.is_cuda for tensor, _, _ in self._entries[:1]):
            torch.cuda.current_stream().synchronize()  # other streams read the weights from now on
