"""Experiences: decisions as flat arrays, for people who learn in a loop of their own.

A rollout has axes for time, row and acting seat; an experience batch has one entry per decision,
and says of each which weights made it, in which row, game and step, and for which seat.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.arguments import is_whole
from senju.collect.slots import Rollout
from senju.config import shown
from senju.errors import SenjuError
from senju.games.game import Game
from senju.kernels import compiled, legal_words, unpack_legal


class ExperienceError(SenjuError, ValueError):
    """Experiences of different games are put together, or a buffer has no room for them."""


@dataclass(frozen=True, eq=False, repr=False)
class Experiences:
    """Decisions, one entry each in every array; `len(experiences)` is their number.

    A decision's own step may pay its seat nothing while the opponent's answer decides the game: learn
    from `advantages` and `returns`, which have the rewards up to the seat's next decision in them.
    """

    observation: NDArray[Any]  # [decision, *observation_shape]
    legal: NDArray[np.uint64]  # [decision, words], bit a % 64 of word a // 64 is action a
    actions: NDArray[np.int32]
    log_probs: NDArray[np.float32]  # of the policy that acted
    values: NDArray[np.float32]
    rewards: NDArray[np.float32]  # of the seat that acted, in this one step
    terminated: NDArray[np.bool_]  # the step ended the game by its rules
    truncated: NDArray[np.bool_]  # a limit ended it; the position has a value still
    advantages: NDArray[np.float32]
    returns: NDArray[np.float32]  # values + advantages
    is_known: NDArray[np.bool_]  # False where what followed is not: there is nothing to learn from it
    version: NDArray[np.int64]  # of the weights that acted
    row: NDArray[np.int64]
    game: NDArray[np.int64]  # of the row, counted from 0
    seat: NDArray[np.int8]
    step: NDArray[np.int64]  # of the game, counted from 0

    def __len__(self) -> int:
        return len(self.actions)

    def __repr__(self) -> str:
        return f"<{len(self)} experiences of observation shape {self.observation.shape[1:]}>"

    def columns(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, in the order above."""
        return {name: getattr(self, name) for name in _NAMES}

    def select(self, chosen: slice | NDArray[Any]) -> "Experiences":
        """Some of the decisions: a slice (views), indices or a mask (copies)."""
        return Experiences(**{name: column[chosen] for name, column in self.columns().items()})

    def legal_mask(self, num_actions: int) -> NDArray[np.bool_]:
        """The legal actions as booleans: [decision, num_actions]."""
        return unpack_legal(self.legal, num_actions)

    @staticmethod
    def merge(batches: Sequence["Experiences"]) -> "Experiences":
        """One batch of all of them, in order; its memory is its own."""
        if not batches:
            raise ExperienceError("there is nothing to merge: expected one batch or more")
        for batch in batches[1:]:
            _require_alike(batches[0], batch)
        return Experiences(
            **{name: np.concatenate([getattr(batch, name) for batch in batches]) for name in _NAMES}
        )


_NAMES = tuple(field.name for field in fields(Experiences))


class ExperienceBuffer:
    """Room for `capacity` decisions of one game, taken once with the first batch and used again."""

    def __init__(self, capacity: int) -> None:
        if not is_whole(capacity, 1):
            raise ExperienceError(f"capacity={shown(capacity)}: expected room for 1 decision or more")
        self.capacity = capacity
        self._columns: Experiences | None = None
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def batch(self) -> Experiences:
        """What is in the buffer: views, which the next `clear` and `add_batch` write over."""
        if self._columns is None:
            raise ExperienceError("nothing was ever added to this buffer, so its game is not known")
        return self._columns.select(slice(self._size))

    def add_batch(self, batch: Experiences) -> None:
        """Copy a batch behind what is there; all of it, or none where it does not fit."""
        if not isinstance(batch, Experiences):
            raise ExperienceError(f"{shown(batch)} are no Experiences; add what collect_experiences gives")
        if self._columns is not None:
            _require_alike(self._columns, batch)
        stop = self._size + len(batch)
        if stop > self.capacity:
            raise ExperienceError(
                f"{len(batch)} experiences do not fit: {self._size} of {self.capacity} places are taken; "
                f"clear() the buffer first, or make it with a capacity of {stop} or more"
            )
        if self._columns is None:
            self._columns = _room_for(batch, self.capacity)
        for name in _NAMES:
            getattr(self._columns, name)[self._size : stop] = getattr(batch, name)
        self._size = stop

    def merge(self, other: "ExperienceBuffer") -> None:
        """Add all that is in another buffer, which keeps it."""
        if not isinstance(other, ExperienceBuffer):
            raise ExperienceError(f"{shown(other)} is no ExperienceBuffer; add_batch adds Experiences")
        if len(other):
            self.add_batch(other.batch)

    def clear(self) -> None:
        """Forget what is there; the room stays."""
        self._size = 0


def _room_for(batch: Experiences, capacity: int) -> Experiences:
    """Arrays like the batch's, of that length."""
    return Experiences(
        **{name: np.empty((capacity, *c.shape[1:]), c.dtype) for name, c in batch.columns().items()}
    )


def _require_alike(expected: Experiences, batch: Experiences) -> None:
    """Refuse to put experiences of different games into one array."""
    for name in _NAMES:
        wanted, column = getattr(expected, name), getattr(batch, name)
        if (column.shape[1:], column.dtype) != (wanted.shape[1:], wanted.dtype):
            raise ExperienceError(
                f"experiences of another game: {name} has the shape {column.shape[1:]} and {column.dtype}, "
                f"expected {wanted.shape[1:]} and {wanted.dtype}; keep each game's in a batch of their own"
            )


def no_experiences(game: Game) -> Experiences:
    """A batch of a game without a single decision."""
    types: dict[str, Any] = {
        "actions": np.int32,
        "terminated": np.bool_,
        "truncated": np.bool_,
        "is_known": np.bool_,
        "seat": np.int8,
        **dict.fromkeys(("log_probs", "values", "rewards", "advantages", "returns"), np.float32),
        **dict.fromkeys(("version", "row", "game", "step"), np.int64),
    }
    return Experiences(
        observation=np.empty((0, *game.observation_shape), game.observation_dtype),
        legal=np.empty((0, legal_words(game.num_actions)), np.uint64),
        **{name: np.empty(0, dtype) for name, dtype in types.items()},
    )


@compiled
def _locate(
    seats: NDArray[np.int8],  # [time, row, acting]
    all_rewards: NDArray[np.float32],  # [time, row, seat]
    terminated: NDArray[np.bool_],  # [time, row]
    truncated: NDArray[np.bool_],
    clock: NDArray[np.void],  # [row], when the rollout began
    rewards: NDArray[np.float32],  # this and the following: [decision]
    has_terminated: NDArray[np.bool_],
    was_truncated: NDArray[np.bool_],
    rows: NDArray[np.int64],
    games: NDArray[np.int64],
    steps: NDArray[np.int64],
) -> None:
    """Write where each decision was made, and what its step led to."""
    num_steps, num_rows, num_places = seats.shape
    game, step = np.empty(num_rows, np.int64), np.empty(num_rows, np.int64)
    for row in range(num_rows):
        game[row], step[row] = clock[row]["game"], clock[row]["step"]
    decision = 0
    for time in range(num_steps):
        for row in range(num_rows):
            for place in range(num_places):
                seat = seats[time, row, place]
                if seat < 0:
                    continue
                rewards[decision] = all_rewards[time, row, seat]
                has_terminated[decision] = terminated[time, row]
                was_truncated[decision] = truncated[time, row]
                rows[decision] = clock[row]["row"]
                games[decision], steps[decision] = game[row], step[row]
                decision += 1
            step[row] += 1
            if terminated[time, row] or truncated[time, row]:
                game[row] += 1
                step[row] = 0


def decisions_of(
    rollout: Rollout,
    advantages: NDArray[np.float32],
    returns: NDArray[np.float32],
    is_known: NDArray[np.bool_],
) -> Experiences:
    """A rollout's decisions in order of time, then row, with their estimates ([time, row, acting]).

    Some arrays may be views of the rollout's slot: `Experiences.merge` copies them out.
    """
    slot = rollout.data
    acts = slot.seats.reshape(-1) >= 0
    is_full = bool(acts.all())

    def flat(array: NDArray[Any]) -> NDArray[Any]:
        entries = array.reshape(-1, *array.shape[3:])
        return entries if is_full else entries[acts]

    count = int(acts.sum())
    rewards = np.empty(count, np.float32)
    terminated, truncated = np.empty(count, np.bool_), np.empty(count, np.bool_)
    row, game, step = (np.empty(count, np.int64) for _ in range(3))
    _locate(
        slot.seats,
        slot.rewards,
        slot.terminated,
        slot.truncated,
        rollout.clock,
        rewards,
        terminated,
        truncated,
        row,
        game,
        step,
    )
    return Experiences(
        observation=flat(slot.observation),
        legal=flat(slot.legal),
        actions=flat(slot.actions),
        log_probs=flat(slot.log_probs),
        values=flat(slot.values),
        rewards=rewards,
        terminated=terminated,
        truncated=truncated,
        advantages=flat(advantages),
        returns=flat(returns),
        is_known=flat(is_known),
        version=np.full(count, rollout.version, np.int64),
        row=row,
        game=game,
        seat=flat(slot.seats),
        step=step,
    )
