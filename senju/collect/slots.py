"""Slots: the arrays that one rollout is written to, and the ring that holds all slots."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from senju.collect.seating import Failure
from senju.games.game import Game, Observations, Outcomes, SeatView
from senju.games.rows import CLOCK
from senju.kernels import compiled, inlined, legal_words, memory_fence

if TYPE_CHECKING:
    from senju.collect.device_columns import DeviceColumns


class Slot(NamedTuple):
    """T consecutive steps of one shard. Observations are bytes, legal masks are bits.

    `bootstrap[t]` is the value of the position after step t for each seat, NaN where it is not
    known. It is filled where the step truncated the game, and after the last step. A replay also keeps
    the positions in which games were truncated (`final_…`), because it values them when it learns from
    them, with newer weights.
    """

    observation: NDArray[Any]  # [time, row, acting, *observation_shape]
    legal: NDArray[np.uint64]  # [time, row, acting, words]
    seats: NDArray[np.int8]  # [time, row, acting], -1 where the current policy does not act
    actions: NDArray[np.int32]  # [time, row, acting], also of seats that are not learned from
    explored: NDArray[np.bool_]  # [time, row, acting], whether the current policy moved at random
    rewards: NDArray[np.float32]  # [time, row, seat]
    terminated: NDArray[np.bool_]  # [time, row]
    truncated: NDArray[np.bool_]  # [time, row]
    final_at: NDArray[np.int32]  # [time, row], which final position the step led to; -1: none
    final_observation: NDArray[Any]  # [final, acting, *observation_shape]
    final_legal: NDArray[np.uint64]  # [final, acting, words]
    final_seats: NDArray[np.int8]  # [final, acting]
    log_probs: NDArray[np.float32]  # [time, row, acting], of the policy that acted
    values: NDArray[np.float32]  # [time, row, acting]
    bootstrap: NDArray[np.float32]  # [time, row, seat]
    seated: NDArray[np.int32]  # [time, row, seat], 0: the current policy, else an opponent's id

    @property
    def num_steps(self) -> int:
        """T, the rollout's length."""
        return len(self.seats)

    def observations_at(self, time: int) -> Observations:
        """The arrays for the observations of one step."""
        return Observations(self.observation[time], self.legal[time], self.seats[time])

    def outcomes_at(self, time: int) -> Outcomes:
        """The arrays for the outcomes of one step."""
        return Outcomes(self.rewards[time], self.terminated[time], self.truncated[time])


UPLOADED = ("observation", "legal")  # columns that a device may keep instead of the host
TRANSIENT = ("log_probs", "values", "bootstrap", "seated")  # columns that only the newest turns keep


class Rollout(NamedTuple):
    """A finished slot, with the shard that was played and the weights version that acted."""

    shard: int
    version: int
    slots: tuple[Slot, ...]  # of each policy
    clock: NDArray[np.void]  # [row], each row's id, game and step when it began
    turn: int = 0  # of the shard's rollouts; one is collected from every shard in each turn
    failures: tuple[Failure, ...] = ()  # opponents that failed

    @property
    def data(self) -> Slot:
        """The slot of the first policy."""
        return self.slots[0]

    def of_all_seats(self, column: str) -> NDArray[Any]:
        """A column [time, row, seat] of all seats, whether one policy plays them or one each."""
        arrays = [getattr(slot, column) for slot in self.slots]
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=-1)


NO_CLOCK = np.zeros(0, CLOCK)


# shape and dtype -> zeroed array, private or in shared memory
Allocate = Callable[[tuple[int, ...] | int, Any], NDArray[Any]]


@dataclass(frozen=True)
class RingShape:
    """The number of rollouts in a ring, and their size.

    `kept` turns can be read at any time, while workers are up to `ahead` turns beyond the newest.
    """

    num_shards: int
    num_steps: int
    num_rows: int
    kept: int = 1
    ahead: int = 0
    keeps_final: bool = False
    transient: int = 1  # turns of which the `TRANSIENT` columns are kept as well
    keeps_uploaded: bool = True  # False: the host has the `UPLOADED` columns of the current step alone

    @property
    def depth(self) -> int:
        """Slots of a shard."""
        return self.kept + self.ahead

    @property
    def final_rows(self) -> int:
        """Room for truncated positions: one step in eight may truncate; more are not learned from."""
        return max(self.num_rows, self.num_steps * self.num_rows // 8) if self.keeps_final else 0


class Ring:
    """The slots of all shards: turn t of a shard is written to its slot t % depth.

    Each column is one array with the axes [shard, slot, …], so that any decision of any kept rollout
    is one index away. A reader compares a slot's sequence number before and after reading: t + 1 where
    turn t is complete, -1 - t while it is written, 0 where no turn was written.
    """

    on_device: "DeviceColumns | None" = None  # what a device that evaluates keeps for the learner

    def __init__(self, game: Game | SeatView, shape: RingShape, allocate: Allocate = np.zeros) -> None:
        self.shape = shape
        steps = (shape.num_steps, shape.num_rows)
        decisions = (*steps, game.num_acting)
        finals = (shape.final_rows, game.num_acting)
        words = legal_words(game.num_actions)
        sizes: dict[str, tuple[tuple[int, ...], Any]] = {
            "observation": ((*decisions, *game.observation_shape), game.observation_dtype),
            "legal": ((*decisions, words), np.uint64),
            "seats": (decisions, np.int8),
            "actions": (decisions, np.int32),
            "explored": (decisions, np.bool_),
            "rewards": ((*steps, game.num_seats), np.float32),
            "terminated": (steps, np.bool_),
            "truncated": (steps, np.bool_),
            "final_at": (steps if shape.keeps_final else (0, 0), np.int32),
            "final_observation": ((*finals, *game.observation_shape), game.observation_dtype),
            "final_legal": ((*finals, words), np.uint64),
            "final_seats": (finals, np.int8),
            "log_probs": (decisions, np.float32),
            "values": (decisions, np.float32),
            "bootstrap": ((*steps, game.num_seats), np.float32),
            "seated": ((*steps, game.num_seats), np.int32),
        }
        depths = dict.fromkeys(sizes, shape.depth) | dict.fromkeys(TRANSIENT, shape.ahead + shape.transient)
        columns = {
            name: allocate((shape.num_shards, depths[name], *size), dtype)
            for name, (size, dtype) in sizes.items()
            if shape.keeps_uploaded or name not in UPLOADED
        }
        if not shape.keeps_uploaded:
            for name in UPLOADED:
                size, dtype = sizes[name]
                step = allocate((shape.num_shards, 1, 1, *size[1:]), dtype)
                columns[name] = _repeated(step, (shape.num_shards, depths[name], *size))
        self.columns = Slot(**columns)
        self.sequence_numbers: NDArray[np.int64] = allocate((shape.num_shards, shape.depth), np.int64)

    def slot(self, shard: int, turn: int) -> Slot:
        """The slot of that rollout."""
        return Slot(*(column[shard, turn % column.shape[1]] for column in self.columns))

    def open(self, shard: int, turn: int) -> None:
        """Mark the rollout's slot as being written."""
        _set_sequence_number(self.sequence_numbers, shard, turn % self.shape.depth, -1 - turn)
        if self.on_device is not None:
            self.on_device.open(shard, turn)

    def complete(self, shard: int, turn: int) -> None:
        """Mark the rollout's slot as complete."""
        _set_sequence_number(self.sequence_numbers, shard, turn % self.shape.depth, turn + 1)

    def forget(self, turn: int) -> None:
        """Forget rollouts from that turn on: they will be played again. No worker may be writing."""
        self.sequence_numbers[self.begun_turns >= turn] = 0
        if self.on_device is not None:
            self.on_device.forget(turn)

    def is_complete(self, shard: int, turn: int) -> bool:
        """Whether the slot holds the whole rollout; earlier reads come before the check, later ones after."""
        return _is_complete(self.sequence_numbers, shard, turn % self.shape.depth, turn)

    @property
    def begun_turns(self) -> NDArray[np.int64]:
        """[shard, slot], the newest turn that was begun there, complete or not; -1: none."""
        numbers = self.sequence_numbers.copy()  # workers may change them
        return np.maximum(numbers - 1, -1 - numbers)

    @property
    def finished_turns(self) -> NDArray[np.int64]:
        """[shard, slot], the complete turn there; -1: none."""
        return np.maximum(self.sequence_numbers, 0) - 1

    def complete_turns(self, shard: int) -> list[int]:
        """The complete turns, oldest first."""
        return sorted(turn for turn in self.finished_turns[shard].tolist() if turn >= 0)


def _repeated(step: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """A column in which all turns and steps of a shard share the memory of one step."""
    strides = (step.strides[0], 0, 0, *step.strides[3:])
    return np.lib.stride_tricks.as_strided(step, shape, strides)


@inlined
def holds_turn(sequence_number: int, turn: int) -> bool:
    """Whether the sequence number of a slot says that this turn is complete there."""
    return sequence_number == turn + 1


@compiled
def _is_complete(sequence_numbers: NDArray[np.int64], shard: int, index: int, turn: int) -> bool:
    memory_fence()
    is_complete = holds_turn(sequence_numbers[shard, index], turn)
    memory_fence()
    return bool(is_complete)


@compiled
def _set_sequence_number(sequence_numbers: NDArray[np.int64], shard: int, index: int, number: int) -> None:
    memory_fence()
    sequence_numbers[shard, index] = number
    memory_fence()


def new_slot(game: Game | SeatView, num_steps: int, num_rows: int, keeps_final: bool = False) -> Slot:
    """Zeroed arrays for one rollout."""
    return Ring(game, RingShape(1, num_steps, num_rows, keeps_final=keeps_final)).slot(0, 0)
