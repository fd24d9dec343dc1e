"""One network on a device, for batches of any size: opponents, whose seats change from step to step.

A batch is padded to one of a few sizes, so that its bits depend on its size alone, and every size is one CUDA
graph.
"""

import logging
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from senju.collect.actor import NetworkOutput
from senju.collect.device_actor import DeviceProgram
from senju.cuda import is_out_of_memory, recorded, shortened
from senju.games.game import Game, SeatView
from senju.models.model import Model

logger = logging.getLogger(__name__)

_SMALLEST = 64  # positions; each further size is four times as large


class DeviceNetwork:
    """Evaluates batches of at most `num_rows * num_acting` positions with one model's current weights."""

    def __init__(self, program: DeviceProgram, view: Game | SeatView, model: Model, num_rows: int) -> None:
        self._program, self._view = program, view
        self.model = model.eval().requires_grad_(False).to(program.device)
        self.num_rows = num_rows
        self._largest = num_rows * view.num_acting
        self._sizes: dict[int, _FixedBatch] = {}

    def evaluate(self, observation: NDArray[Any]) -> NetworkOutput:
        """The outputs for some positions."""
        flat = observation.reshape(-1, *self._view.observation_shape)
        return self._batch_for(len(flat)).evaluate(flat)

    def _batch_for(self, count: int) -> "_FixedBatch":
        size = _SMALLEST
        while size < count:
            size *= 4
        size = max(min(size, self._largest), count)
        if size not in self._sizes:
            self._sizes[size] = _FixedBatch(self._program, self._view, self.model, size)
        return self._sizes[size]


class _FixedBatch:
    """A batch of one size: its arrays on both sides, and its graph."""

    def __init__(self, program: DeviceProgram, view: Game | SeatView, model: Model, size: int) -> None:
        self._model, self._is_rounded = model, program.precision == "bfloat16"
        self._device, is_cuda = program.device, program.is_cuda
        dtype = torch.from_numpy(np.zeros(0, view.observation_dtype)).dtype
        shape = (size, *view.observation_shape)
        self._host = torch.zeros(shape, dtype=dtype, pin_memory=is_cuda)
        self._input = torch.zeros(shape, dtype=dtype, device=self._device)
        self._out = torch.zeros(size, view.num_actions + 1, pin_memory=is_cuda)
        self._graph: torch.cuda.CUDAGraph | None = None
        if is_cuda:
            with torch.cuda.device(self._device):
                self._stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # of torch
                try:
                    self._graph, self._found = recorded(self._stream, self._run)
                except RuntimeError as error:  # for example, the network looks at numbers
                    if is_out_of_memory(error):
                        raise
                    logger.info("a network is evaluated without a CUDA graph: %s", shortened(error))

    @torch.no_grad()
    def _run(self) -> Tensor:
        rounded = torch.autocast(
            self._device.type, torch.bfloat16, enabled=self._is_rounded, cache_enabled=False
        )
        with rounded:
            logits, values = self._model(self._input.float())
        return torch.cat((logits.float(), values.float().unsqueeze(1)), 1)

    def evaluate(self, observation: NDArray[Any]) -> NetworkOutput:
        """Logits and values of at most the batch's size of positions."""
        count = len(observation)
        self._host.numpy()[:count] = observation
        if self._graph is None:
            self._input.copy_(self._host)
            self._out.copy_(self._run())
        else:
            with torch.cuda.stream(self._stream):
                self._input.copy_(self._host, non_blocking=True)
                self._graph.replay()
                self._out.copy_(self._found, non_blocking=True)
            self._stream.synchronize()
        found = self._out.numpy()[:count]
        return np.ascontiguousarray(found[:, :-1]), found[:, -1].copy()
