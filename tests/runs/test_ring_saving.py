"""The ring in checkpoints: each turn is written once, beside training, and comes back to the last bit."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from senju.collect.slots import TRANSIENT, Ring, RingShape
from senju.errors import CheckpointError
from senju.runs.blobs import BlobStore
from senju.runs.checkpoint import CheckpointFolder, load_checkpoint
from senju.runs.ring_saving import RingSaver
from tests.facts import mentions
from tests.runs.rings import LARGE, SHAPE, new_ring, play, require_turns, save
from tests.small_disks import fill

NewSaver = Callable[[Ring], RingSaver]


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "checkpoints" / "blobs")


@pytest.fixture
def new_saver(store: BlobStore) -> Iterator[Callable[[Ring], RingSaver]]:
    """Makes savers that end with the test."""
    savers: list[RingSaver] = []

    def new(ring: Ring) -> RingSaver:
        savers.append(RingSaver(ring, store))
        return savers[-1]

    yield new
    for saver in savers:
        saver.close()


@pytest.mark.parametrize("is_noted", [True, False])
@pytest.mark.parametrize("last", [1, 2, 3, 9, 10, 11])
def test_saved_ring_is_loaded_to_the_last_bit(new_saver: NewSaver, last: int, is_noted: bool) -> None:
    ring, loaded = new_ring(), new_ring()
    saver = new_saver(ring)
    for turn in range(last + 1):
        play(ring, turn)
        if is_noted:
            saver.note(turn)
    turns = range(max(0, last - 2), last + 1)
    names = saver.finish(turns[0], last)
    assert [name.partition("-")[0] for name in names] == [f"turn_{turn:09d}" for turn in turns]
    assert new_saver(loaded).load(names) == list(turns)
    require_turns(loaded, turns)


@pytest.mark.parametrize("shape", [replace(SHAPE, keeps_final=False), replace(SHAPE, kept=1, ahead=0)])
def test_rings_without_final_positions_and_of_one_place_are_saved(
    new_saver: NewSaver, shape: RingShape
) -> None:
    ring, loaded = new_ring(shape), new_ring(shape)
    saver = new_saver(ring)
    for turn in range(5):
        play(ring, turn)
        saver.note(turn)
    new_saver(loaded).load(saver.finish(4, 4))
    require_turns(loaded, [4])


def test_turn_is_written_before_its_place_is_written_over(new_saver: NewSaver, store: BlobStore) -> None:
    ring = new_ring(LARGE)
    saver = new_saver(ring)
    for turn in range(30):
        play(ring, turn + LARGE.ahead)  # as far as workers may be when this turn is the newest
        if turn >= LARGE.ahead:
            saver.note(turn)
    saver.finish(27, 29)
    by_turn = {int(name.partition("-")[0].removeprefix("turn_")): name for name in store.names()}
    assert sorted(by_turn) == list(range(1, 30))
    for turn, name in by_turn.items():
        loaded = new_ring(LARGE)
        new_saver(loaded).load([name])
        require_turns(loaded, [turn])


def test_only_what_stays_of_a_rollout_is_saved(new_saver: NewSaver, store: BlobStore) -> None:
    ring = new_ring()
    play(ring, 0)
    for shard in range(2):  # two of the four final positions there is room for
        ring.slot(shard, 0).final_at[ring.slot(shard, 0).final_at >= 2] = -1
    arrays = store.read(new_saver(ring).finish(0, 0)[0])
    for shard in range(2):
        slot = ring.slot(shard, 0)
        assert len(arrays[f"{shard}.final_seats"]) == slot.final_at.max() + 1 < len(slot.final_seats)
    assert {key.partition(".")[2] for key in arrays} == {*slot._fields} - {*TRANSIENT}


def test_what_was_in_unused_places_does_not_change_the_blob(new_saver: NewSaver) -> None:
    ring, other = new_ring(), new_ring()
    play(other, 2)
    for column in other.slot(0, 2):
        column.fill(1)
    for each in (ring, other):
        play(each, 2 + SHAPE.depth)
    assert new_saver(ring).finish(6, 6) == new_saver(other).finish(6, 6)


def test_turns_are_written_once(new_saver: NewSaver, store: BlobStore) -> None:
    ring = new_ring()
    saver = new_saver(ring)
    for turn in range(3):
        play(ring, turn)
    first = saver.finish(0, 2)
    before = {name: (store.folder / name).stat().st_ino for name in store.names()}
    resumed = new_saver(new_ring())
    resumed.load(first)
    play(ring, 3)
    assert saver.finish(1, 3)[:2] == resumed.finish(1, 2) == first[1:]
    assert {name: (store.folder / name).stat().st_ino for name in first} == before


def test_blob_that_is_gone_is_written_again(new_saver: NewSaver, store: BlobStore) -> None:
    ring = new_ring()
    play(ring, 0)
    saver = new_saver(ring)
    names = saver.finish(0, 0)
    (store.folder / names[0]).unlink()
    assert saver.finish(0, 0) == names
    assert store.names() == {*names}


def test_shard_that_was_set_aside_is_left_out(new_saver: NewSaver) -> None:
    ring, loaded = new_ring(), new_ring()
    play(ring, 0)
    play(ring, 1, shards=(1,))
    ring.open(0, 1)  # its worker died here for the last time
    for turn in range(2, 7):
        play(ring, turn, shards=(1,))
    assert new_saver(loaded).load(new_saver(ring).finish(5, 6)) == [5, 6]
    assert [list(loaded.complete_turns(shard)) for shard in range(2)] == [[], [5, 6]]


def test_turn_that_is_gone_or_not_there_yet_is_a_bug(new_saver: NewSaver) -> None:
    ring = new_ring()
    for turn in range(6):
        play(ring, turn)
    saver = new_saver(ring)
    with pytest.raises(AssertionError, match=mentions("turn 1", "no more")):
        saver.finish(1, 5)
    with pytest.raises(AssertionError, match=mentions("turn 6", "yet")):
        saver.finish(5, 6)
    with pytest.raises(AssertionError, match=mentions("turn 0", "yet")):
        new_saver(new_ring(replace(SHAPE, kept=1))).note(0)  # of one place: waits for the thread


def test_smaller_ring_takes_the_newest_turns_and_passes_over_other_blobs(
    new_saver: NewSaver, store: BlobStore
) -> None:
    ring, smaller = new_ring(), new_ring(replace(SHAPE, kept=2))
    for turn in range(3):
        play(ring, turn)
    names = (store.write("snapshot_3", {"weights": np.zeros(3)}), *new_saver(ring).finish(0, 2))
    assert new_saver(smaller).load(reversed(names)) == [1, 2]
    require_turns(smaller, [1, 2])


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (replace(SHAPE, num_shards=1), r"shard 1\b.* 1 shards"),
        (replace(SHAPE, num_rows=5), r"observation .*uint8\[3, 4, 1,.*uint8\[3, 5, 1,"),
        (replace(SHAPE, keeps_final=False), r"final_at .*int32\[3, 4\].*int32\[0, 0\]"),
    ],
)
def test_ring_of_other_settings_is_refused(new_saver: NewSaver, shape: RingShape, message: str) -> None:
    ring = new_ring()
    play(ring, 0)
    names = new_saver(ring).finish(0, 0)
    with pytest.raises(CheckpointError, match=message + ".*resume with the settings"):
        new_saver(new_ring(shape)).load(names)


def test_damaged_turn_is_named_and_not_loaded(new_saver: NewSaver, store: BlobStore) -> None:
    ring, loaded = new_ring(), new_ring()
    for turn in range(2):
        play(ring, turn)
    names = new_saver(ring).finish(0, 1)
    data = bytearray((store.folder / names[1]).read_bytes())
    data[-1] ^= 1
    (store.folder / names[1]).write_bytes(data)
    with pytest.raises(CheckpointError, match=f"{names[1]} is damaged.*SHA-256"):
        new_saver(loaded).load(names)
    require_turns(loaded, [0])


def test_saver_closes_twice_and_leaves_turns_that_wait_unwritten(store: BlobStore) -> None:
    ring = new_ring()
    play(ring, 0)
    saver = RingSaver(ring, store)
    saver.note(0)
    saver.close()
    saver.close()
    assert len(store.names()) <= 1
    assert [path.name for path in store.folder.parent.rglob(".*")] == []


def test_full_disk_is_reported_by_the_checkpoint_and_forgotten_when_there_is_room(
    small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ring, folder = new_ring(LARGE), CheckpointFolder(small_disk / "checkpoints")
    store = BlobStore(folder.blobs)
    saver = RingSaver(ring, store)
    play(ring, 0)
    saver.note(0)
    save(folder, saver, 0)
    filler = fill(small_disk, leave=200_000)
    with caplog.at_level(logging.WARNING):
        for turn in (1, 2):
            play(ring, turn)
            saver.note(turn)
        for _ in range(2):
            with pytest.raises(CheckpointError, match=r"disk is full.*update_000000001"):
                save(folder, saver, 2)
    assert caplog.text.count("not saved") == 1
    loaded = new_ring(LARGE)
    assert RingSaver(loaded, store).load(load_checkpoint(folder.latest()).blobs) == [0]
    require_turns(loaded, [0])
    assert len(list(store.folder.iterdir())) == 1
    filler.unlink()
    play(ring, 3)
    saver.note(3)
    save(folder, saver, 3)
    saver.close()
    loaded = new_ring(LARGE)
    RingSaver(loaded, store).load(load_checkpoint(folder.latest()).blobs)
    require_turns(loaded, [1, 2, 3])
