"""Shared weights: each reader gets one whole publication, and no reader can make the writer wait."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from senju.backends.shared_weights import NUM_COPIES, SharedWeights
from senju.workers.shared_memory import open_anonymous
from tests.backends.weights_player import NUM_PATTERNS, carver, is_pattern, pattern

BLOCK_BYTES = 200_000
MEMORY_BYTES = 4 * 64 + NUM_COPIES * BLOCK_BYTES

Player = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def memory() -> Iterator[int]:
    descriptor = open_anonymous(MEMORY_BYTES)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def weights(memory: int) -> SharedWeights:
    """Shared weights with version 1 in them."""
    weights = SharedWeights(BLOCK_BYTES, carver(memory, MEMORY_BYTES))
    publish(weights, 1)
    return weights


def publish(weights: SharedWeights, version: int) -> None:
    block = np.zeros(weights.num_bytes, np.uint8)
    pattern(version, block)
    weights.write(block, version)


@pytest.fixture
def play(memory: int) -> Iterator[Player]:
    """Starts another process that reads or writes the same memory without end."""
    processes: list[subprocess.Popen[str]] = []

    def start(role: str) -> "subprocess.Popen[str]":
        arguments = [role, str(memory), str(MEMORY_BYTES), str(BLOCK_BYTES)]
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "tests.backends.weights_player", *arguments],
                pass_fds=(memory,),
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def heard(process: "subprocess.Popen[str]") -> int:
    """The next number it says; a failure where it has found a mixture."""
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line.isdigit(), line or "it ended"
    return int(line)


def test_what_is_written_is_read_with_its_version(weights: SharedWeights) -> None:
    block, expected = np.zeros(BLOCK_BYTES, np.uint8), np.zeros(BLOCK_BYTES, np.uint8)
    for version in (1, 7, 3, 8, 9, 10):  # an older version can be published again
        publish(weights, version)
        assert weights.version == version
        assert weights.read(block)[1] == version
        assert is_pattern(block, version, expected)


def test_stamp_differs_for_every_publication(weights: SharedWeights) -> None:
    stamps = [weights.stamp]
    for _ in range(20):
        publish(weights, version=5)
        stamps.append(weights.stamp)
        assert weights.read(np.zeros(BLOCK_BYTES, np.uint8)) == (stamps[-1], 5)
    assert len(set(stamps)) == len(stamps)


@pytest.mark.slow
def test_reader_never_sees_a_mixture_while_the_writer_never_waits(
    weights: SharedWeights, play: Player
) -> None:
    """The reader is stopped again and again, often in mid-copy, and finds other weights when it goes on."""
    reader = play("read")
    read = heard(reader)
    blocks = np.zeros((NUM_PATTERNS, BLOCK_BYTES), np.uint8)
    for version, block in enumerate(blocks):
        pattern(version, block)
    version = 1
    for _ in range(300):
        reader.send_signal(signal.SIGSTOP)
        for _ in range(NUM_COPIES + 1):
            weights.write(blocks[(version := version + 1) % NUM_PATTERNS], version)
        reader.send_signal(signal.SIGCONT)
        for _ in range(10):
            weights.write(blocks[(version := version + 1) % NUM_PATTERNS], version)
    while heard(reader) < read + 400:  # what it read meanwhile, and after
        pass
    reader.send_signal(signal.SIGSTOP)
    reader.kill()
    block, expected = np.zeros(BLOCK_BYTES, np.uint8), np.zeros(BLOCK_BYTES, np.uint8)
    for later in range(version + 1, version + 2 * NUM_COPIES):
        publish(weights, later)
        assert weights.read(block)[1] == later
        assert is_pattern(block, later, expected)


@pytest.mark.slow
def test_reader_gets_the_last_whole_weights_of_a_writer_that_stands_still_or_is_killed(
    weights: SharedWeights, play: Player
) -> None:
    writer = play("write")
    heard(writer)
    block, expected = np.zeros(BLOCK_BYTES, np.uint8), np.zeros(BLOCK_BYTES, np.uint8)
    last = 0
    for _ in range(60):
        writer.send_signal(signal.SIGSTOP)  # at any moment, also in the middle of writing
        _, version = weights.read(block)
        assert version >= last
        assert is_pattern(block, version, expected)
        last = version
        writer.send_signal(signal.SIGCONT)
        heard(writer)
    writer.kill()
    writer.wait()
    _, version = weights.read(block)
    assert version >= last
    assert is_pattern(block, version, expected)
