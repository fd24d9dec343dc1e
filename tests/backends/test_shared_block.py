"""The block of rollouts: laid out by the plan alone, without a name that could be left behind."""

import os
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from senju.backends.building import WeightSizes
from senju.backends.plan import Plan
from senju.backends.shared_block import RolloutBlock, rollout_bytes
from senju.errors import ConfigError
from senju.games import make_game
from senju.workers import shared_memory
from senju.workers.shared_memory import map_shared, new_private_block, open_anonymous
from tests.backends.common import GAMES, PLAN, changed, new_plan, started
from tests.facts import mentions
from tests.small_disks import mounted

CACHE_LINE = 64


def arrays_of(block: RolloutBlock, plan: Plan) -> list[NDArray[Any]]:
    """Every array in the block."""
    turns = range(block.depth + 1)
    states = [block.state(shard, turn) for shard in range(plan.num_shards) for turn in turns]
    found = [block.weights._header, block.weights._copies, *block.stats, *block.opponents]
    (ring,) = block.rings
    return [*found, *(array for state in states for array in state), *ring.columns, ring.sequence_numbers]


def start_of(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


plans = st.builds(
    new_plan,
    game=st.sampled_from(GAMES).map(lambda name: {"name": name}),
    model=st.just({}),
    seed=st.just(0),
    num_shards=st.integers(1, 4),
    games_per_shard=st.integers(1, 5),
    rollout_steps=st.integers(1, 7),
    max_lag=st.integers(0, 3),
    kept_turns=st.integers(1, 4),
    keeps_final=st.booleans(),
    num_snapshots=st.integers(0, 2),
)
sizes = st.builds(WeightSizes, st.integers(1, 300), st.lists(st.integers(1, 300), max_size=2))


@settings(max_examples=40, deadline=None)
@given(plan=plans, sizes=sizes)
def test_arrays_do_not_overlap_and_each_begins_with_a_cache_line(plan: Plan, sizes: WeightSizes) -> None:
    game = make_game(**plan.game)
    num_bytes = rollout_bytes(plan, game, sizes)
    memory = new_private_block(num_bytes)
    block = RolloutBlock(plan, game, sizes, memory)
    places = sorted((start_of(array), array.nbytes) for array in arrays_of(block, plan))
    for (start, size), (following, _) in pairwise(places):
        assert start + size <= following
    assert all(start % CACHE_LINE == 0 for start, _ in places)
    assert start_of(memory) <= places[0][0]
    assert places[-1][0] + places[-1][1] <= start_of(memory) + num_bytes


@settings(max_examples=40, deadline=None)
@given(plan=plans, sizes=sizes)
def test_equal_plans_give_equal_layouts(plan: Plan, sizes: WeightSizes) -> None:
    """A worker makes its own block over the same memory, and must find what another wrote."""
    game = make_game(**plan.game)
    block = new_private_block(rollout_bytes(plan, game, sizes))
    writer = RolloutBlock(plan, game, sizes, block)
    reader = RolloutBlock(changed(plan), make_game(**plan.game), sizes, block)
    for number, array in enumerate(arrays_of(writer, plan)):
        array.view(np.uint8).fill(number % 251 + 1)
    for number, (wrote, found) in enumerate(
        zip(arrays_of(writer, plan), arrays_of(reader, plan), strict=True)
    ):
        assert (wrote.shape, wrote.dtype, start_of(wrote)) == (found.shape, found.dtype, start_of(found))
        assert (found.view(np.uint8) == number % 251 + 1).all()


@pytest.mark.parametrize("kept_turns", [1, 4])
@pytest.mark.parametrize("max_lag", [0, 1, 3])
def test_rollout_never_writes_over_what_it_began_with_or_what_the_caller_has(
    max_lag: int, kept_turns: int
) -> None:
    plan = changed(PLAN, max_lag=max_lag, kept_turns=kept_turns)
    game = make_game(**plan.game)
    block = RolloutBlock(
        plan, game, WeightSizes(8, []), new_private_block(rollout_bytes(plan, game, WeightSizes(8, [])))
    )
    for released in range(6):  # the caller may hold turns from here on
        turns = range(released - kept_turns + 1, released + block.depth)
        slots = [block.rings[0].slot(1, turn) for turn in turns]
        assert len({start_of(slot.seats) for slot in slots}) == len(turns) == kept_turns + max_lag
        assert len({start_of(slot.values) for slot in slots[kept_turns - 1 :]}) == block.depth
        states = range(released, released + block.depth + 1)  # one more: after the last
        assert len({start_of(block.state(1, turn).clock) for turn in states}) == block.depth + 1


def test_more_memory_than_there_is_is_refused_before_anything_is_started() -> None:
    plan = changed(PLAN, rollout_steps=10**10)
    for name in ("serial", "threads", "processes"):
        with (
            pytest.raises(ConfigError, match=r"\d+ MiB of shared memory .*\d+ MiB are free.*num_games"),
            started(plan, name),
        ):
            pass


def named_memory() -> set[str]:
    return set(os.listdir("/dev/shm"))


def test_memory_has_no_name_and_begins_zeroed() -> None:
    before = named_memory()
    descriptor = open_anonymous(100_000)
    try:
        block = map_shared(descriptor, 100_000)
        assert named_memory() == before
        assert not np.frombuffer(block, np.uint8).any()
    finally:
        os.close(descriptor)


@pytest.fixture
def small_memory(tmp_path: Path) -> Iterator[Path]:
    """Shared memory as a container gives it, only smaller: 1 MB."""
    with mounted(tmp_path / "shm", megabytes=1) as place:
        yield place


def test_small_shared_memory_is_refused_with_what_to_do(small_memory: Path) -> None:
    with pytest.raises(ConfigError, match=mentions("2 MiB", "1 MiB", "--shm-size=4m", "num_games")):
        shared_memory._open_unlinked(2 * 2**20, small_memory)
    assert list(small_memory.iterdir()) == []


def test_room_is_reserved_and_the_file_has_no_name(small_memory: Path) -> None:
    """Without a reservation a worker would be killed in the middle by a full file system."""
    descriptor = shared_memory._open_unlinked(600_000, small_memory)
    try:
        assert list(small_memory.iterdir()) == []
        assert os.fstat(descriptor).st_size == 600_000
        with pytest.raises(ConfigError, match="1 MiB of shared memory"):
            shared_memory._open_unlinked(600_000, small_memory)
        np.frombuffer(map_shared(descriptor, 600_000), np.uint8)[:] = 1
    finally:
        os.close(descriptor)
    os.close(shared_memory._open_unlinked(600_000, small_memory))  # the room is free again


@pytest.fixture
def no_memfd(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a system without memory that belongs to no file system."""
    monkeypatch.delattr(os, "memfd_create")


def test_without_memfd_the_files_lie_where_there_is_room(
    no_memfd: None, small_memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_memory, "SHARED_MEMORY", small_memory)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    devices = {}
    for num_bytes in (500_000, 5_000_000):
        descriptor = open_anonymous(num_bytes)
        devices[num_bytes] = os.fstat(descriptor).st_dev
        os.close(descriptor)
    assert devices == {500_000: small_memory.stat().st_dev, 5_000_000: tmp_path.stat().st_dev}
    assert [path.name for path in tmp_path.iterdir()] == ["shm"]


def test_without_memfd_a_lack_of_room_everywhere_is_refused(
    no_memfd: None, small_memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_memory, "SHARED_MEMORY", small_memory)
    monkeypatch.setattr(tempfile, "tempdir", str(small_memory))
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ConfigError, match="--shm-size="):
        open_anonymous(3 * 2**20)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.slow
def test_processes_play_without_memfd(no_memfd: None) -> None:
    before = named_memory()
    with started(PLAN) as serial, started(PLAN, "processes", num_workers=1) as backend:
        assert named_memory() == before
        expected = [rollout.data.actions.tobytes() for rollout in serial.collect()]
        assert [rollout.data.actions.tobytes() for rollout in backend.collect()] == expected


def test_room_of_a_million_shards_is_counted_by_one_of_them() -> None:
    plan = changed(PLAN, num_shards=2**20, games_per_shard=1, rollout_steps=1)
    game = make_game(**plan.game)
    block = RolloutBlock(plan, game, WeightSizes(64, []), None)
    assert len(block._states) == 1
    few = [
        rollout_bytes(changed(plan, num_shards=count), game, WeightSizes(64, [])) for count in (64, 128, 192)
    ]
    assert few[2] - few[1] == few[1] - few[0]
    assert block.num_bytes == few[0] + (2**20 - 64) // 64 * (few[1] - few[0])


def test_room_beyond_what_numpy_counts_is_refused() -> None:
    plan = changed(PLAN, num_shards=2**20, games_per_shard=2**20, rollout_steps=2**16)
    with pytest.raises(ConfigError, match="MiB are free"):
        rollout_bytes(plan, make_game(**plan.game), WeightSizes(64, []))
