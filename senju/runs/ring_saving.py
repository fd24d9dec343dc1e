"""Saving the ring of rollouts while training goes on: each turn once, as a blob, by a thread of its own.

A checkpoint names the blobs of all turns that the ring keeps. Most were written long before, so saving waits
only for the last ones, however large the ring is.
"""

import logging
import re
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.collect.slots import TRANSIENT, Ring, Slot
from senju.errors import CheckpointError
from senju.runs.blobs import BlobStore

logger = logging.getLogger(__name__)

_FINAL = ("final_observation", "final_legal", "final_seats")


class RingSaver:
    """Writes turns of a ring as blobs, and fills a ring from them.

    saver.note(turn)                               # after each collected turn that the next checkpoint needs
    names = saver.finish(first_turn, last_turn)    # at a checkpoint
    turns = saver.load(names)                      # at a resume

    Only the trainer's thread calls it. The saver's own thread hashes and writes, mostly without the GIL.
    """

    def __init__(self, ring: Ring, store: BlobStore, prefix: str = "", keeps_all: bool = False) -> None:
        """`prefix` tells the blobs of several rings apart; `keeps_all` saves the `TRANSIENT` columns too."""
        self._ring, self._store = ring, store
        self._prefix, self._left_out = prefix, () if keeps_all else TRANSIENT
        self._blob_name = re.compile(rf"{prefix}turn_(\d{{9,}})-.*")
        self._names: dict[int, str] = {}  # by turn: blobs that existed at the last look
        self._under_way: dict[int, Future[str]] = {}  # oldest first
        self._is_failing = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="senju saver")

    def note(self, turn: int) -> None:
        """Write a turn that was collected from all shards, in the background; `finish` retries failures.

        Waits only for turns so old that the next one may overwrite them.
        """
        self._under_way[turn] = self._thread.submit(self._write, turn)
        gone = turn + 1 - self._ring.shape.kept
        wait([future for old, future in self._under_way.items() if old <= gone])
        self._take_results()

    def finish(self, first_turn: int, last_turn: int) -> tuple[str, ...]:
        """The blobs of these turns, all still in the ring; CheckpointError where one cannot be written."""
        wait(self._under_way.values())
        self._take_results()
        there, turns = self._store.names(), range(first_turn, last_turn + 1)
        self._names = {t: name for t, name in self._names.items() if t in turns and name in there}
        for turn in turns:
            if turn not in self._names:
                self._names[turn] = self._write(turn)
        return tuple(self._names[turn] for turn in turns)

    def load(self, names: Iterable[str]) -> list[int]:
        """Fill the ring, to which no worker may write now, with the newest turns; return them, oldest first.

        Blobs that hold no turn are ignored.
        """
        found = {int(match[1]): name for name in names if (match := self._blob_name.fullmatch(name))}
        turns = sorted(found)[-self._ring.shape.kept :]
        for turn in turns:
            self._fill(turn, found[turn])
            self._names[turn] = found[turn]
        return turns

    def close(self) -> None:
        """Finish writing the present turn, and no other; may be called twice."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._under_way.clear()

    def _take_results(self) -> None:
        for turn in [turn for turn, future in self._under_way.items() if future.done()]:
            try:
                self._names[turn] = self._under_way.pop(turn).result()
                self._is_failing = False
            except CheckpointError as error:
                if not self._is_failing:
                    logger.warning("turn %d is not saved yet: %s", turn, error)
                self._is_failing = True

    def _write(self, turn: int) -> str:
        shards = self._shards_with(turn)
        arrays: dict[str, NDArray[Any]] = {}
        for shard in shards:
            slot = self._ring.slot(shard, turn)
            columns = self._saved_columns(slot, slot.final_at)
            arrays |= {f"{shard}.{column}": values for column, values in columns.items()}
        name = self._store.write(f"{self._prefix}turn_{turn:09d}", arrays)
        assert self._shards_with(turn) == shards, f"turn {turn} was overwritten while it was saved"
        return name

    def _shards_with(self, turn: int) -> list[int]:
        """The shards that have played that turn: all but those set aside before."""
        ring, index = self._ring, turn % self._ring.shape.depth
        assert ring.begun_turns[:, index].max() <= turn, f"turn {turn} is in the ring no more"
        found: list[int] = np.flatnonzero(ring.finished_turns[:, index] == turn).tolist()
        assert found, f"turn {turn} is not in the ring yet"
        return found

    def _fill(self, turn: int, name: str) -> None:
        rollouts: dict[int, dict[str, NDArray[Any]]] = {}
        for key, values in self._store.read(name).items():
            shard, _, column = key.partition(".")
            if not re.fullmatch("[0-9]{1,9}", shard):
                raise CheckpointError(f"{name} holds {key!r}, which names no shard: it is damaged")
            rollouts.setdefault(int(shard), {})[column] = values
        if not rollouts:
            raise CheckpointError(f"{name} holds no rollout: it is damaged")
        for index, saved in rollouts.items():
            targets = self._targets(index, turn, saved, name)
            self._ring.open(index, turn)
            for column, target in targets.items():
                target[:] = saved[column]
            self._ring.complete(index, turn)
            if self._ring.on_device is not None:
                self._ring.on_device.upload(index, turn, self._ring.slot(index, turn))

    def _targets(
        self, shard: int, turn: int, saved: dict[str, NDArray[Any]], name: str
    ) -> dict[str, NDArray[Any]]:
        """The arrays of the ring for a saved rollout, which is refused if its shape differs."""
        if shard >= self._ring.shape.num_shards:
            shards = f"{self._ring.shape.num_shards} shards"
            raise CheckpointError(_other_settings(name, f"a shard {shard}", shards))
        slot = self._ring.slot(shard, turn)
        final_at = saved.get("final_at")
        if final_at is None or _describe(final_at) != _describe(slot.final_at):
            final_at = slot.final_at  # the comparison below refuses the rollout, whichever array is used here
        targets = self._saved_columns(slot, final_at)
        for column, target in targets.items():
            have, room = _describe(saved.get(column)), _describe(target)
            if have != room:
                raise CheckpointError(_other_settings(name, f"{column} as {have}", f"{room}"))
        return targets

    def _saved_columns(self, slot: Slot, final_at: NDArray[np.int32]) -> dict[str, NDArray[Any]]:
        """The columns of a rollout to save, with as many truncated positions as there are."""
        columns = {name: values for name, values in slot._asdict().items() if name not in self._left_out}
        num_final = int(final_at.max(initial=-1)) + 1
        return columns | {name: columns[name][:num_final] for name in _FINAL}


def _describe(array: NDArray[Any] | None) -> str:
    return f"{array.dtype}{list(array.shape)}" if array is not None else "nothing"


def _other_settings(name: str, have: str, room: str) -> str:
    return f"{name} has {have}, and there is room for {room}: resume with the settings it was saved with"
