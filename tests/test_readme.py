"""The README's promises are kept: its example runs as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from senju.cli.console import settings_from
from senju.training.api import prepare

README = Path(__file__).parent.parent / "README.md"


def examples() -> list[str]:
    """The blocks of Python that train something."""
    text = README.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [block for block in blocks if "senju.train" in block]


def test_example_is_one_block_of_eight_lines() -> None:
    assert [len(example.splitlines()) for example in examples()] == [8]


def test_commands_and_example_are_in_the_first_30_lines() -> None:
    beginning = "\n".join(README.read_text(encoding="utf-8").splitlines()[:30])
    assert "make train" in beginning
    assert "make test" in beginning
    assert examples()[0] in beginning


COMMANDS = re.findall(r"`senju train (\S+) ?(.*?)`", README.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("game", "options"), [each for each in COMMANDS if not each[0].startswith("-")])
def test_commands_that_train_a_game_are_accepted(game: str, options: str, tmp_path: Path) -> None:
    settings = settings_from(None, re.findall(r"--set (\S+)", options))
    assert prepare(game, tmp_path / "run", None, None, settings).config.total_steps


@pytest.mark.slow
def test_example_runs_as_it_stands(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", examples()[0]],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
