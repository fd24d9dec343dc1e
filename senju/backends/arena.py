"""The arena: every array that workers and the learner share, laid out in one block of memory.

Its layout follows from the plan alone, so that a worker finds everything without being told.
"""

import bisect
import dataclasses
import math
import mmap
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.backends.backend import Plan
from senju.backends.building import OpponentWeights, new_rings
from senju.backends.shared_weights import SharedWeights
from senju.collect.orders import orders_bytes
from senju.collect.rollout import STAGES
from senju.collect.shard import ShardState, new_shard_state
from senju.errors import ConfigError
from senju.games.game import Game
from senju.machine import SHARED_MEMORY, memory_available

_MOST_BYTES = 2**60  # more than any machine has, and less than NumPy can count
_ALIGNMENT = 64  # a cache line: workers must not write to each other's

BEAT, FIRST_STAGE = 0, 1  # what a worker writes to its board: a counter, then seconds of each stage
BOARD_SIZE = -(-(FIRST_STAGE + len(STAGES)) // 8) * 8  # whole cache lines of float64


class Counter:
    """Allocates nothing, and counts what an arena will need."""

    def __init__(self) -> None:
        self.num_bytes = 0

    def __call__(self, shape: tuple[int, ...] | int, dtype: Any, /) -> NDArray[Any]:
        """An array that is not there."""
        num_bytes = math.prod(shape if isinstance(shape, tuple) else (shape,)) * np.dtype(dtype).itemsize
        if num_bytes > _MOST_BYTES:
            require_memory(num_bytes)
        array = np.broadcast_to(np.zeros((), dtype), shape)
        self.num_bytes += _aligned(num_bytes)
        return array


class Carver:
    """Cuts arrays from a block, one after another."""

    def __init__(self, block: mmap.mmap | NDArray[np.uint8]) -> None:
        self._block, self._offset = block, 0

    def __call__(self, shape: tuple[int, ...] | int, dtype: Any, /) -> NDArray[Any]:
        """The next array."""
        array = np.ndarray(shape, np.dtype(dtype), self._block, self._offset)
        self._offset += _aligned(array.nbytes)
        return array


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // _ALIGNMENT) * _ALIGNMENT


class Arena:
    """Slots, shard states, weights and the workers' boards, as views of one block.

    A shard may be `depth` turns ahead, and has one state more: turn t is played from the state at
    t % (depth + 1) to the one after it. So the state a rollout began with outlives the rollout, and
    whoever plays it again finds it untouched.
    """

    def __init__(
        self, plan: Plan, game: Game, sizes: Sequence[int], block: mmap.mmap | NDArray[np.uint8] | None
    ) -> None:
        allocate = Carver(block) if block is not None else Counter()
        self.depth = plan.max_lag + 1
        rows = plan.games_per_shard
        orders = orders_bytes(plan.most_opponents, len(plan.policies))
        self.weights = SharedWeights(sizes[0] + orders, allocate)
        self.opponents = OpponentWeights(plan, sizes, allocate)
        self.boards: NDArray[np.float64] = allocate((plan.num_shards, BOARD_SIZE), np.float64)
        counter = allocate if isinstance(allocate, Counter) else None
        before = counter.num_bytes if counter else 0
        self._states = [
            [new_shard_state(game, rows, allocate) for _ in range(self.depth + 1)]
            for _ in range(1 if counter else plan.num_shards)
        ]
        if counter:  # shards are alike, and there may be a million: one is counted so often
            counter.num_bytes += (counter.num_bytes - before) * (plan.num_shards - 1)
        self.rings = new_rings(plan, game, allocate)
        self.num_bytes = allocate.num_bytes if isinstance(allocate, Counter) else 0

    def state(self, shard: int, turn: int) -> ShardState:
        """The shard's state before that rollout."""
        return self._states[shard][turn % (self.depth + 1)]


def arena_bytes(plan: Plan, game: Game, sizes: Sequence[int]) -> int:
    """How large the arena of a plan is, with networks of these sizes."""
    return Arena(plan, game, sizes, None).num_bytes


LEARNER_BYTES = 64  # what a learner keeps of each position in its replay: links and priorities


def require_room(plan: Plan, game: Game, sizes: Sequence[int]) -> int:
    """How large the arena of a plan is; refused, before anything is allocated, where it does not fit."""
    if plan.kept_turns > 1:
        _require_replay(plan, game, sizes)
    num_bytes = arena_bytes(plan, game, sizes)
    require_memory(num_bytes)
    return num_bytes


def _require_replay(plan: Plan, game: Game, sizes: Sequence[int]) -> None:
    """Refuse a replay that this machine has no room for, and say how large it may be."""
    per_turn = plan.num_shards * plan.rollout_steps * plan.games_per_shard * game.num_acting

    def needed(kept_turns: int) -> int:
        shorter = dataclasses.replace(plan, kept_turns=kept_turns)
        return arena_bytes(shorter, game, sizes) + kept_turns * per_turn * LEARNER_BYTES

    available, wanted = memory_available(), needed(plan.kept_turns)
    if wanted <= available:
        return
    sparing = available - available // 20  # what is free changes: what is said here is to hold in a minute
    most = bisect.bisect_right(range(1, plan.kept_turns), sparing, key=needed)
    advice = f"algorithm.replay_size may be at most {most * per_turn}"
    if not most:
        advice = "collect with fewer num_games or a smaller rollout_steps: not even one update's rollouts fit"
    raise ConfigError(
        f"the replay of {plan.kept_turns * per_turn} positions needs {_mebibytes(wanted)} MiB and "
        f"{_mebibytes(available)} MiB are free; {advice}"
    )


def open_anonymous(num_bytes: int) -> int:
    """A file descriptor of so much shared memory that has no name, so that nothing can be left behind.

    Linux gives memory that belongs to no file system, which a container's small /dev/shm does not
    limit. Elsewhere a file is unlinked as soon as it is open.
    """
    require_memory(num_bytes)
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("senju")
        os.ftruncate(descriptor, num_bytes)
        return descriptor
    return _open_unlinked(num_bytes, _folder_with_room(num_bytes))


def require_memory(num_bytes: int) -> None:
    """Refuse what this machine, or the container's limit, has no room for."""
    available = memory_available()
    if num_bytes > available:
        raise ConfigError(
            f"the rollouts need {_mebibytes(num_bytes)} MiB of shared memory and {_mebibytes(available)} MiB "
            "are free; collect with fewer num_games, a smaller rollout_steps or a smaller max_lag, or give "
            "the container more memory"
        )


def _folder_with_room(num_bytes: int) -> Path:
    """Shared memory's own folder, or the one for temporary files where only that has the room."""
    folders = [folder for folder in (SHARED_MEMORY, Path(tempfile.gettempdir())) if folder.is_dir()]
    return next((folder for folder in folders if num_bytes <= _room(folder)), folders[0])


def _room(folder: Path) -> int:
    system = os.statvfs(folder)
    return system.f_bavail * system.f_frsize


def _open_unlinked(num_bytes: int, folder: Path) -> int:
    """A file without a name in `folder`, with its room reserved."""
    room = _room(folder)
    if num_bytes > room:
        raise ConfigError(
            f"the rollouts need {_mebibytes(num_bytes)} MiB of shared memory and {folder} has "
            f"{_mebibytes(room)} MiB; in a container raise it with "
            f"--shm-size={_mebibytes(2 * num_bytes)}m, or collect with fewer num_games or rollout_steps"
        )
    descriptor, name = tempfile.mkstemp(prefix="senju-", dir=folder)
    try:
        os.unlink(name)
        os.ftruncate(descriptor, num_bytes)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, num_bytes)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def map_shared(descriptor: int, num_bytes: int) -> mmap.mmap:
    """The memory behind a descriptor; zeroed when it is new."""
    return mmap.mmap(descriptor, num_bytes, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)


def new_private_block(num_bytes: int) -> NDArray[np.uint8]:
    """Zeroed memory of this process alone, that begins where a cache line does."""
    memory = np.zeros(num_bytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + num_bytes]


def _mebibytes(num_bytes: int) -> int:
    return math.ceil(num_bytes / 2**20)


def seconds_per_stage(board: NDArray[np.float64]) -> Iterator[tuple[str, float]]:
    """What a worker's board says of where its time went."""
    return zip(STAGES, board[FIRST_STAGE : FIRST_STAGE + len(STAGES)].tolist(), strict=True)
