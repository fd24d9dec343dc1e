"""A ring that is read while it is written: nothing is torn or mixed, and if it were, it would be seen."""

import mmap
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.algorithms.busy_readers import BlindReader, Reader
from tests.algorithms.busy_ring import NUM_BYTES, NUM_WRITERS, SHAPE, BusyRing, busy_ring, write

REPOSITORY = Path(__file__).resolve().parents[2]
NUM_READERS = 2
SECONDS = 60  # until the slowest machine has begun
LONG_TESTS = "SENJU_LONG_TESTS"  # set it to 1 for the tests that take minutes
ROLLOUT_ROWS = SHAPE.num_steps * SHAPE.num_rows


def wait_for_writers(busy: BusyRing) -> None:
    deadline = time.monotonic() + SECONDS
    while not (busy.progress > SHAPE.depth).all():
        assert time.monotonic() < deadline, f"rollouts written so far: {busy.progress.tolist()}"
        time.sleep(0.002)


@contextmanager
def writing_threads() -> Iterator[BusyRing]:
    """Compiled code holds no lock, so threads write at the same time as others read."""
    busy = busy_ring(mmap.mmap(-1, NUM_BYTES))
    writers = [threading.Thread(target=write, args=(busy, shard)) for shard in range(NUM_WRITERS)]
    for writer in writers:
        writer.start()
    try:
        wait_for_writers(busy)
        yield busy
    finally:
        busy.orders[0] = 1
        for writer in writers:
            writer.join()


@contextmanager
def writing_processes() -> Iterator[BusyRing]:
    """Four processes that have the ring in common with this one, and nothing else."""
    descriptor = os.memfd_create("senju-test")
    with ExitStack() as stack:
        stack.callback(os.close, descriptor)
        os.ftruncate(descriptor, NUM_BYTES)
        busy = busy_ring(mmap.mmap(descriptor, NUM_BYTES))
        command = [sys.executable, "-m", "tests.algorithms.busy_ring", str(descriptor)]
        for shard in range(NUM_WRITERS):
            writer = subprocess.Popen([*command, str(shard)], cwd=REPOSITORY, pass_fds=[descriptor])
            stack.callback(writer.wait)
            stack.callback(writer.kill)
        wait_for_writers(busy)
        yield busy


def read(readers: Sequence[Reader]) -> None:
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()


def test_readers_see_no_torn_row_while_threads_write() -> None:
    """A small part of the test below that is done at once."""
    with writing_threads() as busy:
        readers = [Reader(busy.ring, seed, 4_000) for seed in range(NUM_READERS)]
        read(readers)
    for reader in readers:
        assert reader.num_rows >= 4_000
        assert reader.num_wrong == 0


@pytest.fixture(scope="module")
def written_by_processes() -> Iterator[BusyRing]:
    if not hasattr(os, "memfd_create"):
        pytest.skip("needs memory that has no name")
    with writing_processes() as busy:
        yield busy


@pytest.mark.slow
def test_readers_see_no_torn_row_while_processes_write(written_by_processes: BusyRing) -> None:
    """A million rows and more, read and written; with SENJU_LONG_TESTS=1 many millions."""
    busy, enough = written_by_processes, 2_000_000 if os.environ.get(LONG_TESTS) == "1" else 100_000
    readers = [Reader(busy.ring, seed, enough) for seed in range(NUM_READERS)]
    before = busy.progress.copy()
    read(readers)
    for reader in readers:
        assert reader.num_rows >= enough
        assert reader.num_wrong == 0
        assert reader.replay.num_redrawn > 0, "rows were written over while they were read, and replaced"
    written = busy.progress - before
    assert (written > 2 * SHAPE.depth).all(), "all writers went round meanwhile"
    assert ROLLOUT_ROWS * int(written.sum()) > 1_000_000


@pytest.mark.slow
def test_readers_that_do_not_look_at_the_sequence_numbers_see_torn_rows(
    written_by_processes: BusyRing,
) -> None:
    """The test above can fail."""
    readers = [BlindReader(written_by_processes.ring, seed, 50_000) for seed in range(NUM_READERS)]
    read(readers)
    assert sum(reader.num_wrong for reader in readers) > 0
