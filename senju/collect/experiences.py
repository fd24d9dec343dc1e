"""Experiences: decisions as flat arrays, for users who write their own training loop.

A rollout has axes for time, row and acting seat; an experience batch has one entry per decision,
and says of each which weights made it, in which row, game and step, and for which seat.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.arguments import is_whole
from senju.collect.slots import NO_CLOCK, Rollout, new_slot
from senju.config import shown
from senju.errors import SenjuError
from senju.games.game import Game
from senju.kernels import unpack_legal


class ExperienceError(SenjuError, ValueError):
    """Experiences of different games are merged, or a buffer has no room for them."""


@dataclass(frozen=True, eq=False, repr=False)
class Experiences:
    """Decisions, one entry each in every array; `len(experiences)` is their number.

    A decision's own step may give its seat no reward although the opponent's reply decides the game: learn
    from `advantages` and `returns`, which include the rewards up to the seat's next decision.
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
    is_known: NDArray[np.bool_]  # False where the outcome is unknown: do not learn from it
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
        """One batch with copies of these batches, in order."""
        if not batches:
            raise ExperienceError("nothing to merge: expected one batch or more")
        for batch in batches[1:]:
            _require_alike(batches[0], batch)
        return Experiences(
            **{name: np.concatenate([getattr(batch, name) for batch in batches]) for name in _NAMES}
        )


_NAMES = tuple(field.name for field in fields(Experiences))


class ExperienceBuffer:
    """Room for `capacity` decisions of one game; the first batch allocates it."""

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
        """The content: views, which `add_batch` overwrites after a `clear`."""
        if self._columns is None:
            raise ExperienceError("nothing was ever added to this buffer, so its game is not known")
        return self._columns.select(slice(self._size))

    def add_batch(self, batch: Experiences) -> None:
        """Append a copy of a batch. If it does not fit, nothing is added."""
        if not isinstance(batch, Experiences):
            raise ExperienceError(f"{shown(batch)} are no Experiences; add what collect_experiences gives")
        if self._columns is not None:
            _require_alike(self._columns, batch)
        stop = self._size + len(batch)
        if stop > self.capacity:
            raise ExperienceError(
                f"{len(batch)} experiences do not fit: {self._size} of {self.capacity} entries are taken; "
                f"clear() the buffer first, or make it with a capacity of {stop} or more"
            )
        if self._columns is None:
            rooms = {n: np.empty((self.capacity, *c.shape[1:]), c.dtype) for n, c in batch.columns().items()}
            self._columns = Experiences(**rooms)
        for name in _NAMES:
            getattr(self._columns, name)[self._size : stop] = getattr(batch, name)
        self._size = stop

    def merge(self, other: "ExperienceBuffer") -> None:
        """Append a copy of another buffer's content."""
        if not isinstance(other, ExperienceBuffer):
            raise ExperienceError(f"{shown(other)} is no ExperienceBuffer; add_batch adds Experiences")
        if len(other):
            self.add_batch(other.batch)

    def clear(self) -> None:
        """Forget the content; the memory stays allocated."""
        self._size = 0


def _require_alike(expected: Experiences, batch: Experiences) -> None:
    """Refuse to put experiences of different games into one array."""
    for name in _NAMES:
        wanted, column = getattr(expected, name), getattr(batch, name)
        if (column.shape[1:], column.dtype) != (wanted.shape[1:], wanted.dtype):
            raise ExperienceError(
                f"experiences of another game: {name} has the shape {column.shape[1:]} and {column.dtype}, "
                f"expected {wanted.shape[1:]} and {wanted.dtype}; keep each game in a batch of its own"
            )


def no_experiences(game: Game) -> Experiences:
    """An empty batch of a game."""
    slot = new_slot(game, 0, 0)
    nothing = decisions_of(Rollout(0, 0, (slot,), NO_CLOCK), slot.values, slot.values, slot.explored)
    return Experiences.merge([nothing])


def decisions_of(
    rollout: Rollout,
    advantages: NDArray[np.float32],
    returns: NDArray[np.float32],
    is_known: NDArray[np.bool_],
) -> Experiences:
    """A rollout's decisions in order of time, then row, with their estimates ([time, row, acting]).

    Some arrays may be views of the rollout's slot: `Experiences.merge` copies them out.
    """
    slot, clock = rollout.data, rollout.clock
    acts = slot.seats >= 0  # [time, row, acting]
    is_full = bool(acts.all())

    def flat(array: NDArray[Any]) -> NDArray[Any]:
        return array.reshape(-1, *array.shape[3:]) if is_full else array[acts]

    def of_rows(array: NDArray[Any]) -> NDArray[Any]:
        """A [time, row] array, repeated for the acting seats."""
        return flat(np.broadcast_to(array[..., None], acts.shape))

    ended = slot.terminated | slot.truncated  # [time, row]
    times, first = np.arange(slot.num_steps + 1)[:, None], -clock["step"].astype(np.int64)
    began = np.maximum.accumulate(np.vstack([first, np.where(ended, times[1:], first)]))[:-1]
    own_rewards = np.take_along_axis(slot.rewards, np.where(acts, slot.seats, 0).astype(np.int64), axis=2)
    return Experiences(
        observation=flat(slot.observation),
        legal=flat(slot.legal),
        actions=flat(slot.actions),
        log_probs=flat(slot.log_probs),
        values=flat(slot.values),
        rewards=flat(own_rewards),
        terminated=of_rows(slot.terminated),
        truncated=of_rows(slot.truncated),
        advantages=flat(advantages),
        returns=flat(returns),
        is_known=flat(is_known),
        version=np.full(np.count_nonzero(acts), rollout.version, np.int64),
        row=of_rows(np.broadcast_to(clock["row"].astype(np.int64), ended.shape)),
        game=of_rows(clock["game"] + np.cumsum(ended, axis=0) - ended),
        seat=flat(slot.seats),
        step=of_rows(times[:-1] - began),
    )
