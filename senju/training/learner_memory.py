"""The memory that the run and the learners share: each agent's newest weights, last complete state and ring.

Every agent has its own arrays, with one writer at a time and no lock: a reader that a writer has overtaken
notices it, and reads again.
"""

import json
import mmap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import safetensors.torch
from numpy.typing import NDArray

from senju.algorithms.learner import LearnerState
from senju.algorithms.learner_runner import TrainingResult
from senju.backends.shared_weights import SharedWeights
from senju.collect.slots import Ring, RingShape
from senju.errors import WorkerError
from senju.games.game import SeatView
from senju.models.weights import Weights
from senju.workers.shared_memory import ArrayAllocator

_LENGTHS = np.dtype([("numbers", np.int64), ("tensors", np.int64)])
_BYTES_PER_NAME = 256  # what safetensors writes of a tensor besides its content
_SPARE_BYTES = 2**16


class TrainingReport(NamedTuple):
    """The report of one training."""

    trained: TrainingResult
    epsilon: float  # the share of random moves from now on
    stages: dict[str, float]  # seconds

    @classmethod
    def of_json(cls, fields: Any) -> "TrainingReport":
        """The report in fields read from JSON."""
        trained, epsilon, stages = fields
        return cls(TrainingResult(*trained), epsilon, stages)


class SavedState(NamedTuple):
    """An agent's learner after a training, or as it was loaded."""

    number: int  # of trainings
    state: LearnerState
    report: TrainingReport | None  # of the last training; None where it was loaded
    stamp: int


class SharedState(SharedWeights):
    """A learner's whole state and the report of its last training; its version is the number of trainings."""

    def save(self, number: int, state: LearnerState, report: TrainingReport | None = None) -> None:
        """Make this the last complete state."""
        data = _encode(state, report)
        if data.nbytes > self.num_bytes:
            raise WorkerError(
                f"a learner's state of {data.nbytes} bytes, where {self.num_bytes} were expected from its "
                "state at the start; learners=sequential has no such limit"
            )
        block = np.zeros(self.num_bytes, np.uint8)
        block[: data.nbytes] = data
        self.write(block, number)

    def load(self) -> SavedState:
        """The last complete state; does not wait for a writer."""
        block = np.empty(self.num_bytes, np.uint8)
        stamp, number = self.read(block)
        return SavedState(number, *_decode(block), stamp)


def _encode(state: LearnerState, report: TrainingReport | None) -> NDArray[np.uint8]:
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.tensors.items()}
    numbers = json.dumps([state.numbers, report]).encode()
    content = safetensors.torch.save(tensors)
    lengths = np.array([(len(numbers), len(content))], _LENGTHS)
    return np.frombuffer(lengths.tobytes() + numbers + content, np.uint8)


def _decode(block: NDArray[np.uint8]) -> tuple[LearnerState, TrainingReport | None]:
    (lengths,) = block[: _LENGTHS.itemsize].view(_LENGTHS)
    start, end = _LENGTHS.itemsize, _LENGTHS.itemsize + int(lengths["numbers"])
    numbers, report = json.loads(block[start:end].tobytes())
    tensors = safetensors.torch.load(block[end : end + int(lengths["tensors"])].tobytes())
    return LearnerState(tensors, numbers), TrainingReport.of_json(report) if report else None


class AgentBytes(NamedTuple):
    """The shared memory that an agent needs."""

    weight_bytes: int
    state_bytes: int


def agent_bytes(state: LearnerState, weights: Weights) -> AgentBytes:
    """The memory that a learner will need; at its start it does not have Adam's two moments yet."""
    num_tensors = len(state.tensors)
    to_come = 2 * weights.nbytes + 3 * num_tensors * _BYTES_PER_NAME + _SPARE_BYTES
    return AgentBytes(weights.nbytes, _encode(state, None).nbytes + to_come)


class LearnerMemory:
    """Weights and states of all agents, and heartbeats of their learners, as views of one block."""

    def __init__(self, sizes: Sequence[AgentBytes], block: mmap.mmap | None) -> None:
        self.sizes = list(sizes)
        allocate = ArrayAllocator(block)
        self.weights = [SharedWeights(size.weight_bytes, allocate) for size in sizes]
        self.states = [SharedState(size.state_bytes, allocate) for size in sizes]
        self.heartbeats = allocate(len(self.sizes), np.float64)  # by worker; there are at most as many
        self.num_bytes = allocate.num_bytes


def find_ring(ring: Ring) -> tuple[dict[str, Any], int]:
    """A ring's shape, and where its arrays begin in their block."""
    block = ring.sequence_numbers.base
    assert isinstance(block, mmap.mmap), "the ring does not lie in shared memory"
    return asdict(ring.shape), ring.columns[0].ctypes.data - np.frombuffer(block, np.uint8).ctypes.data


def map_ring(location: tuple[dict[str, Any], int], view: SeatView, block: mmap.mmap) -> Ring:
    """The ring that another process described by `find_ring`."""
    allocate = ArrayAllocator(block)
    shape, allocate.num_bytes = location
    return Ring(view, RingShape(**shape), allocate)
