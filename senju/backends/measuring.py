"""How fast this machine plays a game: measurements of a few seconds, for automatic settings."""

import logging
import threading
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from time import perf_counter
from typing import NamedTuple, Protocol

import numpy as np
import torch

from senju.backends.building import WeightSizes, new_models
from senju.backends.plan import Plan
from senju.backends.shared_block import RolloutBlock
from senju.collect.device_actor import DeviceEvaluation, DeviceProgram
from senju.collect.device_columns import DeviceColumns
from senju.collect.policy import Policy, PolicyInPlay
from senju.collect.policy_groups import DeviceGroup, PolicyGroup, grouped
from senju.collect.rollout import policy_view
from senju.cuda import Kernels, free_memory, has_native_bfloat16, is_out_of_memory, release_memory
from senju.games import make_game
from senju.games.game import Game
from senju.games.rows import ACTION, Rows, choose_at_random
from senju.machine import available_cores, math_threads, memory_available

logger = logging.getLogger(__name__)

Announce = Callable[[str], None]

_STEP_SECONDS, _PAIR_SECONDS, _EVALUATE_SECONDS, _DEVICE_SECONDS = 0.5, 0.3, 0.3, 0.15
_LOOP_SECONDS = 0.01  # of one pass over the rows: long enough that the interpreter costs little
_MOST_ROWS, _PROBED_ROWS = 1024, 4
_CORE_ROWS = 64  # of a batch that a core evaluates
_RELEASING = 1.4  # two threads ÷ one, from which on the game runs without Python's lock


class Meter(Protocol):
    """What automatic settings depend on; speeds are steps of one row a second, memory is in bytes."""

    @property
    def device_name(self) -> str:
        """The device, as its maker calls it."""

    @property
    def has_bfloat16(self) -> bool:
        """Whether the device computes bfloat16 itself."""

    @property
    def cores(self) -> int:
        """Cores that this run may use."""

    @property
    def device_bytes(self) -> int:
        """Free memory of the device."""

    @property
    def host_bytes(self) -> int:
        """Free memory of this machine."""

    @property
    def core_steps(self) -> float:
        """How fast one core observes and steps the game."""

    @property
    def releases_lock(self) -> bool:
        """Whether threads step the game at the same time, because its code is compiled."""

    @property
    def core_evaluates(self) -> float:
        """How fast one core evaluates the networks."""

    def device_evaluates(self, num_rows: int, precision: str, kernels: Kernels) -> float:
        """How fast the device evaluates batches of this many rows; 0 where they do not fit."""


class MachineMeter:
    """Measures this machine with a plan's game and networks; each figure once, when it is asked for.

    `num_runs` runs that are trained side by side share cores and memory.
    """

    def __init__(self, plan: Plan, device: str, announce: Announce, num_runs: int = 1) -> None:
        self._plan, self._game, self._device = plan, make_game(**plan.game), torch.device(device)
        self._announce, self._num_runs = announce, num_runs
        self.device_evaluates = lru_cache(None)(self._device_evaluates)

    @cached_property
    def device_name(self) -> str:
        """The device, as its maker calls it."""
        return torch.cuda.get_device_name(self._device) if self._device.type == "cuda" else self._device.type

    @cached_property
    def has_bfloat16(self) -> bool:
        """Whether the device computes bfloat16 itself."""
        return self._device.type == "cuda" and has_native_bfloat16(str(self._device))

    @cached_property
    def cores(self) -> int:
        """Cores that each run may use."""
        return max(1, available_cores() // self._num_runs)

    @cached_property
    def device_bytes(self) -> int:
        """Free memory of the device for each run."""
        return free_memory(self._device) // self._num_runs

    @cached_property
    def host_bytes(self) -> int:
        """Free memory of this machine for each run."""
        return memory_available() // self._num_runs

    @cached_property
    def _num_rows(self) -> int:
        """So many rows that one pass over them takes about as long as `_LOOP_SECONDS`."""
        self._game.warm_up()
        play_at_random(self._game, _PROBED_ROWS, 0.0)  # compiles what is not compiled yet
        return int(np.clip(play_at_random(self._game, _PROBED_ROWS, 0.0) * _LOOP_SECONDS, 4, _MOST_ROWS))

    @cached_property
    def core_steps(self) -> float:
        """How fast one core observes, chooses at random and steps."""
        self._announce(f"measuring this machine: one core plays {self._game.name}")
        return play_at_random(self._game, self._num_rows, _STEP_SECONDS)

    @cached_property
    def releases_lock(self) -> bool:
        """Whether two threads step the game faster than one; true where a second core is missing."""
        if available_cores() < 2:
            return True
        alone, rates = self.core_steps, list[float]()

        def play() -> None:
            rates.append(play_at_random(self._game, self._num_rows, _PAIR_SECONDS))

        threads = [threading.Thread(target=play) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(rates) > _RELEASING * alone

    @cached_property
    def core_evaluates(self) -> float:
        """How fast one core evaluates the networks, in batches of a usual shard."""
        self._announce("measuring this machine: one core evaluates the network")
        view = policy_view(self._game, len(self._plan.policies))
        groups = self._groups(_CORE_ROWS, None)
        shape = (_CORE_ROWS * view.num_acting, *view.observation_shape)
        seen = np.zeros(shape, view.observation_dtype)

        def evaluate() -> None:
            for group in groups:
                group.evaluate([seen for _ in group.policies])

        with math_threads(1), torch.inference_mode():
            return _CORE_ROWS / seconds_of(evaluate, _EVALUATE_SECONDS)

    def _device_evaluates(self, num_rows: int, precision: str, kernels: Kernels) -> float:
        """How fast the device evaluates and chooses; compiled kernels are compiled first."""
        how = "compiles and evaluates" if kernels != "eager" else "evaluates"
        self._announce(f"measuring this machine: {self.device_name} {how} {num_rows} positions at once")
        try:
            program = DeviceProgram(DeviceEvaluation(str(self._device), precision, kernels))
            groups = [group for group in self._groups(num_rows, program) if isinstance(group, DeviceGroup)]
            once = sum(group.time_steps(2) for group in groups)
            count = int(np.clip(_DEVICE_SECONDS / max(once, 1e-6), 2, 1000))
            return num_rows / sum(group.time_steps(count) for group in groups)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            logger.info("%d positions at once do not fit into the memory of %s", num_rows, self.device_name)
            return 0.0
        finally:
            groups = []
            release_memory()

    def _groups(self, num_rows: int, program: DeviceProgram | None) -> Sequence[PolicyGroup]:
        """The plan's networks as they are evaluated, with fresh models: a device takes them over."""
        models = new_models(self._plan, self._game).policies
        seats = [None] if len(models) == 1 else range(len(models))
        policies = [
            PolicyInPlay(self._game, Policy(model, policy.acting), num_rows, seat)
            for model, policy, seat in zip(models, self._plan.policies, seats, strict=True)
        ]
        return grouped(policies, num_rows, False, program)


def play_at_random(game: Game, num_rows: int, seconds: float) -> float:
    """Steps a second of random legal moves, measured for at least one step and about `seconds`."""
    rows = Rows(game, np.arange(num_rows, dtype=np.uint32), seed=0)
    seen, outcomes = game.new_observations(num_rows), game.new_outcomes(num_rows)
    actions = np.zeros((num_rows, game.num_acting), np.int32)

    def step() -> None:
        rows.observe(seen)
        choose_at_random(seen.legal, rows.clock, rows.seed, ACTION, actions)
        rows.step(actions, outcomes)
        rows.advance(outcomes)

    return num_rows / seconds_of(step, seconds)


def seconds_of(call: Callable[[], object], seconds: float) -> float:
    """Seconds of one call, averaged over about `seconds`; the first call is left out if there is time."""
    began = perf_counter()
    call()
    elapsed = perf_counter() - began
    if elapsed >= seconds:
        return elapsed
    began, count = perf_counter(), 0
    while True:
        call()
        count += 1
        elapsed = perf_counter() - began
        if elapsed >= seconds:
            return elapsed / count


class MemoryNeed(NamedTuple):
    """Bytes that the rollouts of a plan take."""

    host: int
    device: int  # of what stays on the device after it was evaluated


def memory_need(plan: Plan, game: Game, sizes: WeightSizes) -> MemoryNeed:
    """What a plan's rollouts take on the host, and on the device if it evaluates."""
    block = RolloutBlock(plan, game, sizes, None)
    view = policy_view(game, len(plan.policies))
    shapes = [ring.shape for ring in block.rings]
    kept = sum(
        (shape.ahead + shape.transient) * DeviceColumns.bytes_per_turn(view, shape) for shape in shapes
    )
    return MemoryNeed(block.num_bytes, kept)
