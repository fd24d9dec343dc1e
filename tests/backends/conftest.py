"""Backends are tested with the last rollouts of every turn played in parts, however short they are."""

from collections.abc import Iterator

import pytest

from senju.backends import schedule


@pytest.fixture(autouse=True, scope="module")
def parts_of_any_length() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "_SHORTEST_TASK", 1e-9)
        yield
