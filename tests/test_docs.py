"""What the documents say of settings, files, commands and messages is true."""

import ast
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from senju.algorithms.dqn import DQNConfig
from senju.algorithms.ppo import PPOConfig
from senju.backends.parallel import ParallelBackendConfig
from senju.cli.app import app
from senju.config import Part, merged, parse_assignment, read_yaml
from senju.evaluation.matches import play_match
from senju.evaluation.opponents import make_player
from senju.games import make_game
from senju.games.shogi.game import ShogiConfig
from senju.models.mlp import MlpConfig
from senju.models.plane_net import PlaneNetConfig
from senju.models.resnet import ResNetConfig
from senju.opponents.pool import OpponentsConfig
from senju.runs.parallel_options import RunParallelOptions
from senju.runs.run_config import (
    CheckpointConfig,
    CollectConfig,
    EvaluationConfig,
    RunConfig,
    resolve_config,
)
from senju.runs.seats import SeatConfig
from senju.search.settings import SearchConfig
from senju.training.parallel_config import ParallelConfig, resolved
from senju.usi.options import EngineConfig, option_lines

ROOT = Path(__file__).parent.parent
DOCUMENTS = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
SECTIONS: dict[str, type[Part]] = {
    "The run": RunConfig,
    "collect": CollectConfig,
    "algorithm: ppo": PPOConfig,
    "algorithm: dqn": DQNConfig,
    "opponents": OpponentsConfig,
    "model: mlp": MlpConfig,
    "model: resnet": ResNetConfig,
    "evaluation": EvaluationConfig,
    "checkpoint": CheckpointConfig,
    "backend: threads, processes": ParallelBackendConfig,
    "model: plane_net": PlaneNetConfig,
    "ParallelManager": ParallelConfig,
    "seats": SeatConfig,
    "parallel": RunParallelOptions,
}
SECTIONS_OF_SHOGI: dict[str, type[Part]] = {"### Settings": ShogiConfig, "## The search": SearchConfig}


def read(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def blocks(document: str, *languages: str) -> list[str]:
    """What stands between the fences of these languages."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", read(document), re.MULTILINE | re.DOTALL)
    return [content for language, content in found if language in languages]


def numbered(*languages: str, documents: Sequence[str] = DOCUMENTS) -> list[Any]:
    """The blocks of documents, each with its document's name and number, shown when a test fails."""
    return [
        pytest.param(content, id=f"{document}-{number}")
        for document in documents
        for number, content in enumerate(blocks(document, *languages), 1)
    ]


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
    body = read("docs/configuration.md").split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    expected = list(setting_rows(SECTIONS[section]))
    assert [line for line in body.splitlines() if line.startswith("| `")] == expected


@pytest.mark.parametrize("heading", SECTIONS_OF_SHOGI)
def test_every_setting_of_shogi_stands_in_its_guide(heading: str) -> None:
    body = read("docs/shogi.md").split(f"\n{heading}\n", 1)[1].split("\n## ", 1)[0].split("\n### ", 1)[0]
    expected = list(setting_rows(SECTIONS_OF_SHOGI[heading]))
    assert [line for line in body.splitlines() if line.startswith("| `")] == expected


def test_every_option_of_the_engine_stands_in_the_guide() -> None:
    announced = [line.split()[2] for line in option_lines(EngineConfig())]
    table = read("docs/shogi.md").split("\n### Options\n", 1)[1].split("\n### ", 1)[0]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == announced


def test_every_setting_has_a_sentence() -> None:
    for part in (*SECTIONS.values(), *SECTIONS_OF_SHOGI.values()):
        for name, field in part.model_fields.items():
            described = field.description or isinstance(field.get_default(), Part)
            assert described, f"{part.__name__}.{name}"


@pytest.mark.parametrize(
    "block", numbered("yaml", documents=["docs/configuration.md", "docs/independent.md"])
)
def test_configurations_of_the_guide_are_accepted(block: str, tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    path.write_text(block, encoding="utf-8")
    resolve_config(None, read_yaml(path), {"device": "cpu"})  # a GPU may not be here


@pytest.mark.parametrize("block", numbered("yaml", documents=["docs/own_loop.md"]))
def test_configurations_of_the_parallel_manager_are_accepted(block: str, tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    path.write_text(block, encoding="utf-8")
    resolved(path)


def test_every_command_stands_in_the_readme() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert set(re.findall(r"`senju ([\w-]+)", read("README.md"))) == set(commands)


def typed_commands(block: str) -> Iterator[list[str]]:
    """The words of every `senju` command in a block, without prompts and comments."""
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words[:1] == ["senju"]:
            yield words[1:]


@pytest.mark.parametrize("block", numbered("bash", "sh"))
def test_commands_can_be_typed_as_they_stand(block: str) -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for name, *words in typed_commands(block):
        given = commands[name].make_context(name, list(words)).params  # parsed, not run
        algorithm = [{"algorithm": given["algorithm"]}] if given.get("algorithm") else []
        settings = merged(*algorithm, *map(parse_assignment, given.get("assignments") or ()))
        if settings and given.get("game") and not given.get("config"):
            resolve_config(given["game"], settings)


@pytest.mark.parametrize("block", numbered("python"))
def test_examples_in_python_compile(block: str) -> None:
    compile(block, "example", "exec")


@pytest.mark.parametrize("name", ["centre", "Centre"])
def test_own_opponents_of_the_guide_play_near_the_centre(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = next(block for block in blocks("docs/opponents.md", "python") if re.search(rf"\b{name}\b", block))
    (tmp_path / f"bots_of_{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    game = make_game("connect_four")
    player = make_player(game, f"bots_of_{name}:{name}")
    result = play_match(game, player, make_player(game, "random"), num_games=20)
    assert result.score.mean > 0.5  # the centre is worth something, and every move was legal


@pytest.mark.parametrize("document", DOCUMENTS)
def test_linked_files_and_headings_exist(document: str) -> None:
    for target, _, heading in re.findall(r"\]\(([^)#:]*)(#([^)]+))?\)", read(document)):
        path = (ROOT / document).parent / target if target else ROOT / document
        assert path.exists(), target
        if heading:
            assert heading in headings(path.read_text(encoding="utf-8")), f"{target}#{heading}"


def headings(text: str) -> set[str]:
    """The anchors of a document's headings, as they are made for links."""
    found = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


PLACEHOLDER = "\0"
FEWEST_LETTERS = 12  # of a message's fixed text; what is shorter is found everywhere
FORMATTED = re.compile(r"%[drsg]|\{\w+\}")  # of logging and of str.format


@cache
def messages() -> tuple[tuple[str, ...], ...]:
    """Every line of text in the source, as the fixed pieces between what is filled in."""
    found = set()
    for path in (ROOT / "senju").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for line in text_of(node).splitlines():
                pieces = tuple(piece for piece in line.split(PLACEHOLDER) if piece)
                if sum(map(len, pieces)) >= FEWEST_LETTERS:
                    found.add(pieces)
    return tuple(found)


def text_of(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or PLACEHOLDER for part in node.values)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return FORMATTED.sub(PLACEHOLDER, node.value)
    return ""


def without_known_text(line: str) -> str:
    """What is left of a quoted message when the source's fixed pieces are taken out."""
    left = list(line)
    for pieces in messages():
        if all(piece in line for piece in pieces):
            for match in re.finditer("(.*?)".join(f"({re.escape(piece)})" for piece in pieces), line):
                for group in range(1, 2 * len(pieces), 2):
                    left[match.start(group) : match.end(group)] = "|" * len(match[group])
    return "".join(left)


@pytest.mark.parametrize("block", numbered("text"))
def test_quoted_messages_are_those_of_the_source(block: str) -> None:
    for line in block.splitlines():
        left = without_known_text(line)
        assert left != line, f"nothing like this in the source: {line}"
        unknown = re.search(r"\b[a-z]+( [a-z]+){3,}\b", left)  # names and numbers are examples, sentences not
        assert unknown is None, f"not in the source: {unknown[0] if unknown else ''!r} of {line}"


def test_architecture_names_every_folder_with_its_contract() -> None:
    layout = read("docs/architecture.md").split("## Layout", 1)[1].split("```")[1]
    listed = dict(re.findall(r"^  (\w+)/ +(\w+\.py)?", layout, re.MULTILINE))
    folders = {path.name for path in (ROOT / "senju").iterdir() if any(path.glob("*.py"))}
    assert set(listed) == folders
    for folder, contract in listed.items():
        assert not contract or (ROOT / "senju" / folder / contract).exists(), f"{folder}/{contract}"


@pytest.mark.parametrize(("document", "limit"), [("README.md", 110), ("docs/architecture.md", 350)])
def test_first_documents_stay_short(document: str, limit: int) -> None:
    assert len(read(document).splitlines()) <= limit
