"""The guide to gridworlds: its code runs and gives the output that it shows."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from senju.games import make_game
from senju.games.gridworld import Gridworld

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "gridworld.md").read_text(encoding="utf-8")
EXAMPLE = (ROOT / "examples" / "mushrooms.py").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)  # language, content


def test_code_of_the_guide_runs_and_draws_the_boards_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "guide"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for language, code in BLOCKS:
            if language == "python":
                exec(compile(code, "gridworld.md", "exec"), names)
    boards = [content for language, content in BLOCKS if not language and "turn" in content]
    assert printed.getvalue() == "".join(boards)
    assert (tmp_path / "mushrooms.gif").stat().st_size > 1_000


def test_long_code_of_the_guide_is_that_of_the_example() -> None:
    world = next(code for _, code in BLOCKS if "class Mushrooms(" in code)
    assert world.split("\nFOREST", 1)[1] in EXAMPLE
    training = next(code for _, code in BLOCKS if "senju.train(" in code)
    assert training.split("\n", 1)[1] in EXAMPLE  # but for its first line, which has no types


@pytest.mark.parametrize("name", ["treasure_hunt", "cleanup", "tag"])
def test_guide_lists_all_settings_and_planes_of_a_world(name: str) -> None:
    game = make_game(name)
    assert isinstance(game, Gridworld)
    section = GUIDE.split(f"\n### {name}\n", 1)[1].split("\n### ", 1)[0].split("\n## ", 1)[0]
    expected = [
        f"| `{setting}` | `{field.get_default()}` | {field.description} |"
        for setting, field in type(game.config).model_fields.items()
    ]
    assert [line for line in section.splitlines() if line.startswith("| `")] == expected
    planes = re.search(r"planes ((`[\w ]+`[,\s]*)+)", section)
    assert planes is not None
    assert tuple(re.findall(r"`([\w ]+)`", planes[1])) == game.plane_names
