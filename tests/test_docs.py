"""What the documents say of settings, files and commands is true."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from senju.algorithms.ppo import PPOConfig
from senju.backends.pool import PoolConfig
from senju.cli.main import app
from senju.config import Part
from senju.models.mlp import MlpConfig
from senju.models.resnet import ResNetConfig
from senju.training.parallel_config import ParallelConfig
from senju.training.run_config import CheckpointConfig, CollectConfig, EvaluationConfig, RunConfig

ROOT = Path(__file__).parent.parent
SECTIONS: dict[str, type[Part]] = {
    "The run": RunConfig,
    "collect": CollectConfig,
    "algorithm: ppo": PPOConfig,
    "model: mlp": MlpConfig,
    "model: resnet": ResNetConfig,
    "evaluation": EvaluationConfig,
    "checkpoint": CheckpointConfig,
    "backend: threads, processes": PoolConfig,
    "ParallelManager": ParallelConfig,
}


def setting_rows(part: type[Part]) -> Iterator[str]:
    """The lines of a table: name, default, what it is."""
    for name, field in part.model_fields.items():
        default = field.get_default()
        if isinstance(default, Part):
            continue  # has a section of its own
        shown = "required" if field.is_required() else f"`{default}`".replace("`None`", "none")
        yield f"| `{name}` | {shown} | {field.description} |"


@pytest.mark.parametrize("section", SECTIONS)
def test_every_setting_stands_in_the_configuration_guide(section: str) -> None:
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    body = text.split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    expected = list(setting_rows(SECTIONS[section]))
    assert [line for line in body.splitlines() if line.startswith("| `")] == expected


def test_every_setting_has_a_sentence() -> None:
    for part in SECTIONS.values():
        for name, field in part.model_fields.items():
            described = field.description or isinstance(field.get_default(), Part)
            assert described, f"{part.__name__}.{name}"


def test_every_command_stands_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert set(re.findall(r"^\| `senju (\w+)", readme, re.MULTILINE)) == set(commands)


@pytest.mark.parametrize("document", ["README.md", "docs/architecture.md", "docs/configuration.md"])
def test_linked_files_exist(document: str) -> None:
    path = ROOT / document
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


def test_every_module_stands_in_the_architecture() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    layout = text.split("```")[1]
    for path in (ROOT / "senju").rglob("*.py"):
        if path.name != "__init__.py" and path.parent.name != "cli":
            assert path.name in layout, path
