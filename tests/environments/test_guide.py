"""The guide's table of options is that of the source, and its example runs."""

from pathlib import Path

import numpy as np
import pytest

from examples import own_world
from senju.environments.config import WorldOptions
from senju.environments.environment import ParallelEnvironment
from tests.test_docs import setting_rows

GUIDE = Path(__file__).parents[2] / "docs" / "own_world.md"


def test_every_option_stands_in_the_guide() -> None:
    body = GUIDE.read_text(encoding="utf-8").split("\n## Options\n", 1)[1].split("\n## ", 1)[0]
    assert [line for line in body.splitlines() if line.startswith("| `")] == list(setting_rows(WorldOptions))


def test_example_trains_its_three_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    environments = []

    def remembered(*arguments: object) -> ParallelEnvironment:
        environments.append(ParallelEnvironment(*arguments))  # type: ignore[arg-type]
        return environments[0]

    monkeypatch.setattr("senju.ParallelEnvironment", remembered, raising=False)
    rewards = own_world.main(epochs=2, enabled=False)
    assert rewards.shape == (2, 3)
    assert (rewards > 0).all()
    sizes = [len(agent.model.memory) for agent in environments[0].agents]
    assert np.array_equal(sizes, [2 * 8 * 50] * 3)
