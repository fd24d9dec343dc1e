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
