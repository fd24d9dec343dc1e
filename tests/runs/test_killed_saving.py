"""Saving under kill -9: wherever the process dies, checkpoints are whole, and the next one ends alike."""

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from senju.runs.blobs import BlobStore
from senju.runs.checkpoint import CheckpointFolder, load_checkpoint
from senju.runs.ring_saving import RingSaver
from tests.runs.rings import new_ring, play, require_turns, save

ROOT = Path(__file__).parents[2]
LAST = 5  # turn of the process that is killed; each turn is followed by a checkpoint


def go_on(path: Path, last: int) -> None:
    """Train from the newest checkpoint to the turn `last`, as a process of its own does."""
    folder, ring = CheckpointFolder(path), new_ring()
    saver = RingSaver(ring, BlobStore(folder.blobs))
    folder.remove_unfinished()
    turn = -1
    if folder.all():
        saved = load_checkpoint(folder.latest())
        turn = saved.state["turn"]
        saver.load(saved.blobs)
    for following in range(turn + 1, last + 1):
        play(ring, following)
        saver.note(following)
        save(folder, saver, following)
    saver.close()


def die_at(number: int) -> None:
    """Be killed when the number-th file is about to be opened, made, renamed or removed."""
    left = number

    def count(event: str, _: tuple[Any, ...]) -> None:
        nonlocal left
        if event in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def die_in_a_file(num_bytes: int) -> None:
    """Be killed in the middle of the first file that grows beyond so many bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, num_bytes))


def go_on_until_killed(path: Path, prepare: Callable[[int], None], number: int) -> int:
    """Which signal has ended a process that went on; 0 where none did."""
    child = os.fork()
    if not child:
        prepare(number)
        go_on(path, LAST)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0
    return os.WTERMSIG(status)


def kill_everywhere(path: Path) -> None:
    """Leave a folder for each place at which a process can die in its last turn."""
    go_on(path / "whole", LAST + 1)
    go_on(path / "begun", LAST - 1)
    for number in (100, 2000, 10_000):  # in a turn, and in the tensors
        shutil.copytree(path / "begun", path / f"killed_in_{number}")
        assert go_on_until_killed(path / f"killed_in_{number}", die_in_a_file, number) == signal.SIGXFSZ
    number, is_killed = 0, True
    while is_killed:
        shutil.copytree(path / "begun", path / f"killed_at_{number}")
        is_killed = go_on_until_killed(path / f"killed_at_{number}", die_at, number) == signal.SIGKILL
        number += 1


def listing(path: Path) -> dict[str, bytes]:
    """All files, with what is in them."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.mark.slow
def test_process_killed_anywhere_leaves_whole_checkpoints_and_the_next_one_ends_alike(tmp_path: Path) -> None:
    # forks, which only a process without threads can do
    code = f"from pathlib import Path; from {__name__} import *; kill_everywhere(Path({str(tmp_path)!r}))"
    command = [sys.executable, "-c", code]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=True, timeout=120)
    killed = list(tmp_path.glob("killed_*"))
    assert len(killed) > 20
    newest = set()
    for path in killed:
        folder = CheckpointFolder(path)
        for checkpoint in folder.all():
            saved, ring = load_checkpoint(checkpoint), new_ring()
            RingSaver(ring, BlobStore(folder.blobs)).load(saved.blobs)
            require_turns(ring, range(saved.state["turn"] - 2, saved.state["turn"] + 1))
        newest.add(folder.latest().name)
        go_on(path, LAST + 1)
        assert listing(path) == listing(tmp_path / "whole"), path.name
    assert newest == {f"update_00000000{update}" for update in (LAST, LAST + 1)}
