"""Gradient steps on a GPU that the host does not wait for: each shape of batch is captured as a CUDA graph.

A graph holds the addresses of all it reads and writes. A batch is copied into the graph's own inputs, and its
results are copied out before the next replay overwrites them. Weights, moments and learning rates are
changed in place; if one of them is found elsewhere, as after loading a state, all graphs are dropped.

    with steps.own_stream():
        steps.verify(network.tensors())
        numbers, errors = steps.take(key, objective, batch, step, network.tensors)
"""

import functools
import logging
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from senju.algorithms.networks import Loss
from senju.cuda import Kernels, apply_kernels, capture_lock, capturing, is_out_of_memory, shortened
from senju.errors import SenjuError

logger = logging.getLogger(__name__)

MAX_GRAPHS = 16  # of one learner; batches of further shapes are learned from without a graph
WARM_UP_STEPS = 3  # before a capture: they compile kernels and fill torch's caches
MAX_COMPILED = 4096  # variants of one objective: models, shapes and settings of all learners in the process

Objective = Callable[
    ..., Loss
]  # (networks, batch, settings): a function of a module, without a look at numbers
StepResult = tuple[Tensor, Tensor | None]  # numbers [..., number], and errors [..., sample] for priorities
Step = Callable[[Objective, Any], StepResult]


class Recorded(NamedTuple):
    """A captured step: its inputs, its results, and how to run it again."""

    inputs: Sequence[Tensor]
    result: StepResult
    replay: Callable[[], None]


class CapturedSteps:
    """The captured steps of one learner, or of one stack of learners."""

    def __init__(self, device: torch.device, kernels: Kernels) -> None:
        apply_kernels(kernels)
        self.device, self._kernels = device, kernels
        self._stream: Any = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._is_warned = False
        self.drop()

    def drop(self) -> None:
        """Forget all graphs."""
        self._recorded: dict[Hashable, Recorded | None] = {}  # None: this step cannot be captured
        self._addresses: tuple[int, ...] = ()
        self._pool: Any = None  # memory that the graphs share, since they never run at once

    @contextmanager
    def own_stream(self) -> Iterator[None]:
        """Work in a stream of its own, after what the caller's stream has to do, and before what follows."""
        if self._stream is None:
            yield
            return
        outer = torch.cuda.current_stream(self.device)
        self._stream.wait_stream(outer)
        try:
            with torch.cuda.stream(self._stream):
                yield
        finally:
            outer.wait_stream(self._stream)

    def verify(self, changed: Sequence[Tensor]) -> None:
        """Drop the graphs if a tensor that they change is no longer where it was."""
        if self._recorded and _addresses(changed) != self._addresses:
            self.drop()

    def take(
        self,
        key: Hashable,
        objective: Objective,
        batch: Any,  # a named tuple of tensors on the device
        step: Step,
        changed: Callable[[], Sequence[Tensor]],  # everything that a step changes
    ) -> StepResult:
        """Run the step on a batch; steps of one key differ in nothing but the batch."""
        form = (key, type(batch), *((column.shape, column.dtype) for column in batch))
        if form not in self._recorded:
            self._recorded[form] = self._capture(objective, batch, step, changed)
        recorded = self._recorded[form]
        if recorded is None:
            return step(objective, batch)
        for column, given in zip(recorded.inputs, batch, strict=True):
            column.copy_(given)
        recorded.replay()
        numbers, errors = recorded.result
        return numbers.clone(), errors.clone() if errors is not None else None

    def _capture(
        self, objective: Objective, batch: Any, step: Step, changed: Callable[[], Sequence[Tensor]]
    ) -> Recorded | None:
        """Capture with compiled kernels, else with torch's own; None if neither is possible."""
        if len(self._recorded) >= MAX_GRAPHS:
            self._warn(f"there are {MAX_GRAPHS} shapes of batches already", "without a graph")
            return None
        inputs = type(batch)(*(column.clone() for column in batch))
        with capture_lock:
            if self._kernels != "eager":
                try:
                    return self._record(_compiled(objective, self._kernels), inputs, step, changed)
                except SenjuError:
                    raise
                except (RuntimeError, OSError) as error:  # of the compiler, or of what it calls
                    if is_out_of_memory(error):
                        raise
                    self._warn(error, "with kernels that are not compiled")
            try:
                return self._record(objective, inputs, step, changed)
            except SenjuError:
                raise
            except RuntimeError as error:
                if is_out_of_memory(error):
                    raise
                self._warn(error, "without a graph")
                return None

    def _warn(self, reason: object, instead: str) -> None:
        if not self._is_warned:
            self._is_warned = True
            logger.warning(
                "a gradient step cannot be compiled and captured (%s); it runs %s, which is slower",
                shortened(reason),
                instead,
            )

    def _record(
        self, objective: Objective, inputs: Any, step: Step, changed: Callable[[], Sequence[Tensor]]
    ) -> Recorded:
        with _many_variants(), _unchanged(changed, self.device):
            for _ in range(WARM_UP_STEPS):
                step(objective, inputs)
        result, replay = self._graph(functools.partial(step, objective, inputs))
        self._addresses = _addresses(changed())
        return Recorded(inputs, result, replay)

    def _graph(self, run: Callable[[], StepResult]) -> tuple[StepResult, Callable[[], None]]:
        """Capture one run without executing it."""
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with capturing(graph, self._pool):
            result = run()
        return result, graph.replay


def _addresses(tensors: Sequence[Tensor]) -> tuple[int, ...]:
    return tuple(tensor.data_ptr() for tensor in tensors)


@functools.cache
def _compiled(objective: Objective, kernels: Kernels) -> Objective:
    """Shared by all learners of the process: torch compiles equal models and shapes once."""
    mode = "max-autotune-no-cudagraphs" if kernels == "fastest" else None
    compiled: Objective = torch.compile(objective, fullgraph=True, dynamic=False, mode=mode)
    return compiled


def _many_variants() -> Any:
    """Let torch compile one function for many models and shapes."""
    limits = {"recompile_limit": MAX_COMPILED, "accumulated_recompile_limit": MAX_COMPILED}
    return torch._dynamo.config.patch(limits)


@contextmanager
def _unchanged(changed: Callable[[], Sequence[Tensor]], device: torch.device) -> Iterator[None]:
    """Restore the random numbers and everything that steps change; moments that are new become zero."""
    before = {id(tensor): (tensor, tensor.detach().clone()) for tensor in changed()}
    devices = [device] if device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices=devices) if devices else nullcontext():
            yield
    finally:
        with torch.no_grad():
            for tensor in changed():
                if id(tensor) in before:
                    tensor.copy_(before[id(tensor)][1])
                else:
                    tensor.zero_()
