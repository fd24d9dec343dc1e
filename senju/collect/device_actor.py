"""Evaluating and choosing on a device, for policies that are evaluated together.

A step uploads what the policies see, evaluates the networks, chooses the actions and downloads one small
array. On a GPU all of it is one CUDA graph with fixed shapes. While the GPU works for one thread, other
threads step their games.
"""

import copy
import logging
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from senju.collect.device_choice import Choice, Decisions, epsilon_greedy, sampled
from senju.collect.device_columns import DeviceSlot
from senju.collect.exploration import Acting, explore_rows, sample_rows
from senju.collect.step_actor import Results, StepActor, StepProgram
from senju.cuda import (
    Kernels,
    apply_kernels,
    capture_lock,
    compiled_for,
    is_out_of_memory,
    recorded,
    shortened,
)
from senju.games.game import Game, Observations, SeatView
from senju.games.rows import CLOCK
from senju.kernels import legal_words
from senju.models.mlp import Mlp
from senju.models.model import Model, settings_of
from senju.models.stacked import ModelStack

logger = logging.getLogger(__name__)


class DeviceEvaluation(NamedTuple):
    """Where and how networks are evaluated, if the workers do not do it on their cores."""

    device: str = "cpu"
    precision: str = "float32"  # or bfloat16: of matrix products and convolutions
    kernels: Kernels = "eager"  # torch's own, compiled ones that repeat their bits, or the fastest
    frees_host: bool = False  # whether only the device keeps what was uploaded, if nothing else needs it


Step = Callable[..., Tensor]
Form = tuple[Any, ...]  # what models that share a function have in common


def form_of(models: Sequence[Model], acting: Acting, view: Game | SeatView) -> Form:
    """The form of models of one shape, and of how they act."""
    first = models[0]
    shapes = [(name, tuple(t.shape), t.dtype) for name, t in first.state_dict().items()]
    return (type(first), settings_of(first), repr(shapes), len(models), acting, view.observation_shape)


class DeviceProgram(StepProgram):
    """The functions that a device executes, compiled once for all threads of this process."""

    def __init__(self, evaluation: DeviceEvaluation) -> None:
        self.device = torch.device(evaluation.device)
        self.precision, self.kernels = evaluation.precision, evaluation.kernels
        self._steps: dict[Form, Step] = {}
        self._captured: set[Form] = set()
        self._not_compiled: set[Form] = set()
        if self.is_cuda:
            apply_kernels(self.kernels)

    @property
    def is_cuda(self) -> bool:
        """Whether steps are captured as graphs."""
        return self.device.type == "cuda"

    def step_of(self, models: Sequence[Model], acting: Acting, view: Game | SeatView) -> Step:
        """The function of one step for such models: on a GPU, where graphs replay it, the same one for all.

        A network that is called with other weights holds them meanwhile, so no two threads may call it.
        """
        key = form_of(models, acting, view)
        with capture_lock:
            if not self.is_cuda:
                return self.own_step(models, acting)
            if key not in self._steps:
                has_odd_layouts = len(models) > 1 and type(models[0]) is not Mlp  # `vmap` stacks them
                kernels = "eager" if has_odd_layouts or key in self._not_compiled else self.kernels
                self._steps[key] = compiled_for(kernels, self.own_step(models, acting))
            return self._steps[key]

    def own_step(self, models: Sequence[Model], acting: Acting) -> Step:
        """The function of one step, not compiled, for one thread alone."""
        network = _stacked(models) if len(models) > 1 else _single(models[0], self.device)
        choose = _device_choice if self.is_cuda else _host_choice
        return _new_step(network, choose, acting, self.device.type, self.precision == "bfloat16")

    def may_compile(self, form: Form) -> bool:
        """Whether steps of such models are compiled."""
        return self.kernels != "eager" and form not in self._not_compiled

    def note_graph(self, form: Form) -> None:
        """A thread has captured a step of such models: the others must be able to do so as well."""
        self._captured.add(form)

    def require_alike(self, form: Form, error: Exception) -> None:
        """Raise an error that only some threads have: with other kernels the rest would round differently."""
        if form in self._captured or is_out_of_memory(error):
            raise error

    def give_up_compiling(self, form: Form, error: Exception) -> None:
        """Go on with torch's own kernels for such models, in all threads."""
        self._not_compiled.add(form)
        self._steps.pop(form, None)
        logger.warning(
            "the network cannot be compiled for the GPU (%s); torch's own kernels are used, which are slower",
            shortened(error),
        )

    def new_actor(
        self,
        view: Game | SeatView,
        models: Sequence[Model],
        acting: Acting,
        streams: Sequence[int],
        num_rows: int,
    ) -> "DeviceActor":
        return DeviceActor(self, view, models, acting, streams, num_rows)


Network = Callable[[dict[str, Tensor], Tensor], tuple[Tensor, Tensor]]


def _single(model: Model, device: torch.device) -> Network:
    """One model as a function of its weights: [1, position, …] -> logits and values."""
    skeleton = copy.deepcopy(model).to(device)

    def network(weights: dict[str, Tensor], observation: Tensor) -> tuple[Tensor, Tensor]:
        logits, values = functional_call(skeleton, weights, (observation[0],))
        return logits.unsqueeze(0), values.unsqueeze(0)

    return network


def _stacked(models: Sequence[Model]) -> Network:
    """Models of one shape as a function of their weights: [model, position, …] -> logits and values."""
    stack, rows = ModelStack([copy.deepcopy(model) for model in models]), range(len(models))

    def network(weights: dict[str, Tensor], observation: Tensor) -> tuple[Tensor, Tensor]:
        stack.buffers = {name: weights[name] for name in stack.buffers}
        return stack({name: weights[name] for name in stack.slices}, rows, observation)

    return network


def _new_step(
    network: Network,
    choose: Callable[[Tensor, Tensor, Decisions, Acting], Choice],
    acting: Acting,
    device_type: str,
    is_rounded: bool,
) -> Step:
    """Observations [policy, position, …], and what the choice depends on -> int32 [4, policy * position]."""

    def step(
        weights: dict[str, Tensor],
        observation: Tensor,
        legal: Tensor,
        seats: Tensor,
        clock: Tensor,
        rows: Tensor,
        streams: Tensor,
        keys: Tensor,
        epsilons: Tensor,
    ) -> Tensor:
        with torch.autocast(device_type, torch.bfloat16, enabled=is_rounded, cache_enabled=False):
            logits, values = network(weights, observation.float())
        clocks = (clock.long() & 0xFFFFFFFF)[rows]
        decisions = Decisions(legal, seats >= 0, clocks, streams, keys, epsilons)
        choice = choose(logits.flatten(0, 1), values.flatten(), decisions, acting)
        columns = (choice.log_probs.view(torch.int32), choice.values.view(torch.int32), choice.explored.int())
        return torch.stack((choice.actions, *columns))

    return step


def _device_choice(logits: Tensor, values: Tensor, decisions: Decisions, acting: Acting) -> Choice:
    if acting.by == "policy":
        return sampled(logits, values, decisions)
    return epsilon_greedy(logits, values, decisions, acting.is_dueling)


def _host_choice(logits: Tensor, values: Tensor, decisions: Decisions, acting: Acting) -> Choice:
    """The choice by the kernels that workers use: the same bits."""
    count = len(values)
    clock = decisions.clock.numpy().astype(np.uint32).reshape(-1).view(CLOCK)
    seats = np.where(decisions.is_acting.numpy(), 0, -1).astype(np.int8)
    legal, scores = decisions.legal.numpy().view(np.uint64), logits.float().numpy()
    actions, log_probs = np.zeros((count, 1), np.int32), np.zeros((count, 1), np.float32)
    explored, best = np.zeros((count, 1), np.bool_), values.float().numpy().copy()
    low, high = decisions.keys.tolist()
    streams, epsilons = decisions.streams.numpy(), decisions.epsilons.numpy()
    for stream in np.unique(streams).tolist():  # one for each policy and acting index
        of = np.flatnonzero(streams == stream)
        state = (legal[of, None], seats[of, None], clock[of], np.uint64(high << 32 | low), stream)
        out = actions[of], log_probs[of], explored[of], best[of, None]
        if acting.by == "policy":
            refused = sample_rows(scores[of], *state, *out[:2])
        else:
            settings = (float(epsilons[of[0]]), acting.is_dueling)
            own = values.float().numpy()[of]
            refused = explore_rows(scores[of], own, *state, *settings, out[0], *out[2:])
        if refused >= 0:
            out[0][refused] = -1
        actions[of], log_probs[of], explored[of], best[of] = out[0], out[1], out[2], out[3][:, 0]
    found = actions[:, 0], log_probs[:, 0], best, explored[:, 0]
    return Choice(*(torch.from_numpy(column) for column in found))


class DeviceActor(StepActor):
    """Evaluates and chooses on a device, to which the models are moved."""

    def __init__(
        self,
        program: DeviceProgram,
        view: Game | SeatView,
        models: Sequence[Model],
        acting: Acting,
        streams: Sequence[int],  # of each policy's first acting index
        num_rows: int,
    ) -> None:
        self.device, self._is_cuda = program.device, program.is_cuda
        self.models = [model.eval().requires_grad_(False).to(self.device) for model in models]
        self._is_rounded = program.precision == "bfloat16"
        self._stack = ModelStack(self.models) if len(models) > 1 else None
        self._step = program.step_of(self.models, acting, view)
        self._num, self._batch = len(models), num_rows * view.num_acting
        self._shape = (self._num, self._batch)
        self._lay_out(view, streams, num_rows)
        self._weights = self._read_weights()
        self._graph: torch.cuda.CUDAGraph | None = None
        if self._is_cuda:
            with torch.cuda.device(self.device):
                self._stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # of torch
                self._done: Any = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]  # of torch
                self._prepare(program, acting, view)

    def _lay_out(self, view: Game | SeatView, streams: Sequence[int], num_rows: int) -> None:
        """Arrays with fixed addresses, on the device and in pinned memory of the host."""
        device, (num, batch) = self.device, self._shape
        dtype = torch.from_numpy(np.zeros(0, view.observation_dtype)).dtype
        self._observation = torch.zeros(num, batch, *view.observation_shape, dtype=dtype, device=device)
        self._legal = torch.zeros(
            num * batch, legal_words(view.num_actions), dtype=torch.int64, device=device
        )
        self._seats = torch.full((num * batch,), -1, dtype=torch.int8, device=device)
        self._clock = torch.zeros(num_rows, 3, dtype=torch.int32, device=device)
        position = torch.arange(batch, device=device)
        self._rows = (position // view.num_acting).repeat(num)
        first = torch.tensor(list(streams), device=device).repeat_interleave(batch)
        self._streams = first + ((position % view.num_acting) << 8).repeat(num)
        self._keys = torch.zeros(2, dtype=torch.int64, device=device)
        self._epsilons = torch.zeros(num * batch, dtype=torch.float64, device=device)
        is_pinned = self._is_cuda
        self._host_clock = torch.zeros(num_rows, 3, dtype=torch.int32, pin_memory=is_pinned)
        self._host = Observations(
            *(
                torch.zeros(column.shape, dtype=column.dtype, pin_memory=is_pinned).numpy()
                for column in (self._observation, self._legal, self._seats)
            )
        )
        self._out = torch.zeros(4, num * batch, dtype=torch.int32, pin_memory=is_pinned)

    def _read_weights(self) -> dict[str, Tensor]:
        """The weights as the step takes them: rounded where the precision rounds them at every use."""
        if self._stack is not None:
            leaves = self._stack.leaves(range(self._num))
            return {name: leaf.detach() for name, leaf in leaves.items()} | self._stack.buffers
        (model,) = self.models
        rounded = _rounded_names(model) if self._is_rounded else set()
        return {
            name: _in_layout(tensor.to(torch.bfloat16)) if name in rounded else tensor
            for name, tensor in [*model.named_parameters(), *model.named_buffers()]
        }

    def refresh(self) -> None:
        if self._stack is not None or not self._is_rounded:
            return  # the step reads them in place
        with self._on_stream():
            (model,) = self.models
            for name, tensor in model.named_parameters():
                if self._weights[name].dtype != tensor.dtype:
                    self._weights[name].copy_(tensor)

    def _run(self) -> Tensor:
        return self._step(
            self._weights,
            self._observation,
            self._legal,
            self._seats,
            self._clock,
            self._rows,
            self._streams,
            self._keys,
            self._epsilons,
        )

    def _prepare(self, program: DeviceProgram, acting: Acting, view: Game | SeatView) -> None:
        """Compile and capture the step; where that is impossible, go on without the compiler or the graph."""
        form = form_of(self.models, acting, view)
        with capture_lock:
            if program.may_compile(form):
                try:
                    self._capture()
                    program.note_graph(form)
                    return
                except (RuntimeError, OSError) as error:  # of the compiler, or of what it calls
                    program.require_alike(form, error)
                    program.give_up_compiling(form, error)
                    self._step = program.step_of(self.models, acting, view)
            try:
                self._capture()
                program.note_graph(form)
            except RuntimeError as error:
                program.require_alike(form, error)
                self._step = program.own_step(self.models, acting)
                reason = shortened(error)
                logger.warning("the network cannot be captured as a CUDA graph (%s): it is slower", reason)

    def _capture(self) -> None:
        """Compile and record the step; seats of -1 make every choice valid meanwhile."""
        self._graph, self._packed = recorded(self._stream, self._run)

    def _on_stream(self) -> Any:
        return torch.cuda.stream(self._stream) if self._is_cuda else torch.no_grad()

    def begin(self, seed: np.uint64, epsilons: Sequence[float]) -> None:
        keys = torch.tensor([int(seed) & 0xFFFFFFFF, int(seed) >> 32])
        with self._on_stream():
            self._keys.copy_(keys)
            self._epsilons.copy_(torch.tensor(epsilons, dtype=torch.float64).repeat_interleave(self._batch))

    def act(
        self, seen: Sequence[Observations], clock: NDArray[np.void], kept: Sequence[DeviceSlot], time: int
    ) -> Results:
        self._host_clock.numpy()[:] = clock.view(np.int32).reshape(-1, 3)
        with self._on_stream():
            self._clock.copy_(self._host_clock, non_blocking=True)
            self._upload(seen)
            self._launch()
            for policy, slot in enumerate(kept):
                shape = slot.observation[time].shape
                slot.observation[time].copy_(self._observation[policy].view(shape), non_blocking=True)
                own = self._legal.view(self._num, self._batch, -1)[policy]
                slot.legal[time].copy_(own.view(slot.legal[time].shape), non_blocking=True)
        self._wait()
        return self._results()

    def _upload(self, seen: Sequence[Observations]) -> None:
        if self._num > 1:  # one upload for all
            for policy, own in enumerate(seen):
                chosen = slice(policy * self._batch, (policy + 1) * self._batch)
                self._host.observation[policy] = own.observation.reshape(self._host.observation.shape[1:])
                self._host.legal[chosen] = own.legal.reshape(self._batch, -1).view(np.int64)
                self._host.seats[chosen] = own.seats.reshape(-1)
            (columns,) = [self._host]
        else:
            columns = Observations(seen[0].observation, seen[0].legal.view(np.int64), seen[0].seats)
        targets = (self._observation, self._legal, self._seats)
        for target, column in zip(targets, columns, strict=True):
            target.copy_(torch.from_numpy(column).view(target.shape), non_blocking=True)

    def _launch(self) -> None:
        """Evaluate and choose, and download the results."""
        if self._graph is not None:
            self._graph.replay()
            self._out.copy_(self._packed, non_blocking=True)
        else:
            with torch.no_grad():
                self._out.copy_(self._run(), non_blocking=True)
        if self._is_cuda:
            self._done.record(self._stream)

    def _wait(self) -> None:
        if self._is_cuda:
            self._done.synchronize()

    def _results(self) -> Results:
        out = self._out.numpy()
        actions, log_probs, values, explored = out.reshape(4, *self._shape)
        return Results(
            actions, log_probs.view(np.float32), values.view(np.float32), explored.astype(np.bool_)
        )

    def time_steps(self, count: int) -> float:
        """Seconds of one step without its upload, averaged over `count` steps."""
        with self._on_stream():
            self._launch()
            self._wait()
            began = perf_counter()
            for _ in range(count):
                self._launch()
            self._wait()
            return (perf_counter() - began) / count

    def evaluate(self, observations: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        count = len(observations[0])
        for policy, observation in enumerate(observations):
            self._host.observation[policy, :count] = observation.reshape(
                count, *self._host.observation.shape[2:]
            )
        self._host.observation[:, count:] = 0
        self._host.legal.fill(1)
        self._host.seats.fill(-1)  # nothing is chosen
        with self._on_stream():
            for target, column in zip((self._observation, self._legal, self._seats), self._host, strict=True):
                target.copy_(torch.from_numpy(column), non_blocking=True)
            self._launch()
        self._wait()
        return self._results().values[:, :count].copy()

    def logits_at(self, policy: int, position: int) -> NDArray[np.float32]:
        with self._on_stream(), torch.no_grad():
            logits, _ = self.models[policy](self._observation[policy, position : position + 1].float())
            found: NDArray[np.float32] = logits.float().cpu().numpy()
            return found

    def finish(self) -> None:
        if self._is_cuda:
            self._stream.synchronize()


def _rounded_names(model: nn.Module) -> set[str]:
    """The parameters that autocast rounds at every use: those of linear layers and convolutions."""
    rounded = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
    return {
        f"{prefix}.{name}" if prefix else name
        for prefix, module in model.named_modules()
        if isinstance(module, rounded)
        for name, _ in module.named_parameters(recurse=False)
    }


def _in_layout(tensor: Tensor) -> Tensor:
    """Weights of 2D convolutions with channels last, as tensor cores read them."""
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor.clone()
