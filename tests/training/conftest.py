"""A disk of its own that can be filled."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.small_disks import mounted


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of 4 MB."""
    with mounted(tmp_path / "disk", megabytes=4) as place:
        yield place


def fill(disk: Path, leave: int) -> Path:
    """Fill a disk up to `leave` bytes."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(b"\0" * 4096):
                pass
        except OSError:
            file.truncate(file.tell() - leave)
    return filler
