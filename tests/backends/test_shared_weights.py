"""Shared weights: whoever reads gets one whole publication, and nobody can make the writer wait."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from random import Random

import numpy as np
import pytest

from senju.backends.arena import open_anonymous
from senju.backends.shared_weights import NUM_PLACES, SharedWeights
from tests.backends.weights_player import NUM_PATTERNS, carver, is_pattern, pattern

BLOCK_BYTES = 200_000
MEMORY_BYTES = 4 * 64 + NUM_PLACES * BLOCK_BYTES

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


def test_stamp_tells_every_publication_from_all_others(weights: SharedWeights) -> None:
    stamps = [weights.stamp]
    for _ in range(20):
        publish(weights, version=5)
        stamps.append(weights.stamp)
        assert weights.read(np.zeros(BLOCK_BYTES, np.uint8)) == (stamps[-1], 5)
    assert len(set(stamps)) == len(stamps)


def test_reader_never_sees_a_mixture_while_the_writer_hammers(weights: SharedWeights, play: Player) -> None:
    """Another process reads what this one writes as fast as it can; so reads are overtaken, and repeated."""
    reader = play("read")
    read = heard(reader)
    blocks = np.zeros((NUM_PATTERNS, BLOCK_BYTES), np.uint8)
    for version, block in enumerate(blocks):
        pattern(version, block)
    for version in range(2, 10_000):
        weights.write(blocks[version % NUM_PATTERNS], version)
    assert heard(reader) > read
    while heard(reader) < read + 100:  # what it read meanwhile, and after
        pass


@pytest.mark.slow
def test_writer_does_not_wait_for_readers_that_stand_still_or_die(
    weights: SharedWeights, play: Player
) -> None:
    random, readers = Random(3), [play("read"), play("read")]
    for reader in readers:
        heard(reader)
    version = 1
    for _ in range(40):  # it is stopped anywhere, also in the middle of reading
        readers[0].send_signal(signal.SIGSTOP)
        for _ in range(random.randint(1, 5)):
            version += 1
            publish(weights, version)
        readers[0].send_signal(signal.SIGCONT)
        publish(weights, version := version + 1)
    readers[1].kill()
    for _ in range(5):
        publish(weights, version := version + 1)
    block, expected = np.zeros(BLOCK_BYTES, np.uint8), np.zeros(BLOCK_BYTES, np.uint8)
    assert weights.read(block)[1] == version
    assert is_pattern(block, version, expected)
    assert heard(readers[0]) < heard(readers[0])


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
