"""Imports point one way, kernels are functions of a module, and only the command line prints."""

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import senju

ROOT = Path(senju.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# The folders from the bottom up. A part imports from levels below its own, and from itself.
LEVELS: tuple[tuple[str, ...], ...] = (
    ("presets", "games"),
    ("models",),
    ("collect",),
    ("algorithms",),
    ("opponents", "search", "workers"),
    ("backends",),
    ("runs",),
    ("evaluation",),
    ("environments",),
    ("training",),
    ("trials",),
    ("usi",),
    ("cli", "__init__"),
)
# The contract of each folder: the module to read first.
CONTRACTS: dict[str, str] = {
    "games": "game",
    "models": "model",
    "collect": "rollout",
    "algorithms": "learner",
    "opponents": "players",
    "search": "puct",
    "workers": "role",
    "backends": "backend",
    "runs": "run",
    "evaluation": "matches",
    "environments": "environment",
    "training": "trainer",
    "trials": "rig",
    "usi": "protocol",
    "cli": "main",
}
# What each part may import besides itself and the foundation. A trailing dot allows all of a part;
# without it, only that module: its contract or its data, and none of its insides.
ALLOWED: dict[str, tuple[str, ...]] = {
    "games": (),
    "models": (),
    "collect": ("games.", "models."),
    "algorithms": (
        "collect.exploration",
        "collect.slots",
        "games.game",
        "models.model",
        "models.stacked",
        "models.weights",
    ),
    "opponents": ("collect.", "games.game", "games.rows", "models.model", "models.weights"),
    "search": ("collect.", "games.", "models."),
    "workers": (),  # it knows nothing of games
    "backends": (
        "collect.",
        "games.",
        "models.",
        "opponents.opponent_players",
        "workers.process",
        "workers.role",
        "workers.script",
        "workers.shared_memory",
        "workers.team",
        "workers.thread",
    ),
    "runs": ("algorithms.", "backends.", "collect.", "games.", "models.", "opponents.", "workers.role"),
    "evaluation": (
        "algorithms.",
        "collect.",
        "games.",
        "models.",
        "opponents.",
        "runs.",
        "search.",
        "workers.conditions",
        "workers.process",
        "workers.role",
        "workers.script",
        "workers.tasks",
        "workers.team",
    ),
    "environments": (
        "algorithms.optimising",
        "models.weights",
        "runs.",
        "workers.block",
        "workers.conditions",
        "workers.process",
        "workers.role",
        "workers.script",
        "workers.shared_memory",
        "workers.tasks",
        "workers.team",
        "workers.thread",
    ),
    "training": (
        "algorithms.",
        "backends.",
        "collect.",
        "evaluation.",
        "games.",
        "models.",
        "opponents.",
        "runs.",
        "search.",
        "workers.conditions",
        "workers.process",
        "workers.role",
        "workers.script",
        "workers.shared_memory",
        "workers.tasks",
        "workers.team",
        "workers.thread",
    ),
    "trials": (
        "algorithms.",
        "backends.",
        "collect.",
        "games.",
        "models.",
        "runs.",
        "training.",
        "workers.role",
    ),
    "usi": ("games.", "models.model", "search."),
    "cli": (
        "trials.",
        "training.",
        "environments.",
        "evaluation.",
        "runs.",
        "games.",
        "backends.",
        "models.model",
        "opponents.players",
        "opponents.ratings",
        "opponents.score",
        "search.",
        "usi.",
    ),
    "presets": (),
    "__init__": ("environments.", "games.", "models.", "runs.", "training."),
}
LARGEST_SHARE = 0.25  # of the package's lines, that one folder may hold
# What all modules may import, and what these modules may import themselves.
FOUNDATION: dict[str, tuple[str, ...]] = {
    "errors": (),
    "files": (),
    "version": (),
    "timing": (),
    "events": (),
    "machine": (),
    "gpus": (),
    "cuda": ("errors", "machine"),
    "memory": (),
    "kernel_fingerprint": (),
    "kernel_cache": ("kernel_fingerprint",),
    "kernels": ("kernel_cache",),
    "safe_yaml": (),
    "divisors": (),
    "svg": (),
    "descendants": (),
    "usercode": ("errors",),
    "config": ("errors", "safe_yaml"),
    "arguments": ("config", "errors"),
    "trust": ("config", "errors"),
    "registry": ("config", "errors", "trust"),
}

COMPILERS = ("compiled", "inlined")
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib"}


def module_of(file: Path) -> str:
    """`games.rows` for senju/games/rows.py, `games` for senju/games/__init__.py."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES = {module_of(file) for file in FILES}


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


def imported_names(file: Path) -> Iterator[tuple[str, str, str]]:
    """(name here, module, name there) of every import, wherever in the file it stands."""
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname or alias.name).split(".")[0], alias.name, ""
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative imports hide where they point"
            for alias in node.names:
                yield alias.asname or alias.name, node.module or "", alias.name


def imports_within(file: Path) -> set[str]:
    """Modules of senju that a file imports, without the leading `senju.`."""
    found = set()
    for _, module, name in imported_names(file):
        inner = f"{module}.{name}".removeprefix("senju.")
        if module == "senju" or module.startswith("senju."):
            found.add(inner if inner in MODULES else module.removeprefix("senju."))
    return found


def may_import(importer: str, imported: str) -> bool:
    part, target = importer.partition(".")[0], imported.partition(".")[0]
    if part in FOUNDATION:
        return imported in FOUNDATION[part]
    if part == target or target in FOUNDATION:
        return True
    return imported in ALLOWED[part] or f"{target}." in ALLOWED[part]


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_imports_point_one_way(file: Path) -> None:
    importer = module_of(file)
    against = sorted(name for name in imports_within(file) if not may_import(importer, name))
    assert not against, f"senju.{importer} may not import {against}; see the table in {Path(__file__).name}"


def test_table_names_every_part_and_nothing_else() -> None:
    assert {module.partition(".")[0] for module in MODULES} == {*ALLOWED, *FOUNDATION}


def test_every_module_that_the_table_allows_exists() -> None:
    allowed = {name for names in (*ALLOWED.values(), *FOUNDATION.values()) for name in names}
    assert {name.removesuffix(".") for name in allowed} <= MODULES


def test_table_points_down_the_levels() -> None:
    """Every part may import lower levels only, so there are no circles."""
    height = {part: number for number, parts in enumerate(LEVELS) for part in parts}
    assert set(height) == set(ALLOWED)
    for part, names in ALLOWED.items():
        upwards = [name for name in names if height[name.partition(".")[0]] >= height[part]]
        assert not upwards, f"{part} stands below {upwards}"


def test_every_folder_has_a_contract_that_its_docstring_names() -> None:
    assert set(CONTRACTS) == set(ALLOWED) - {"__init__", "presets"}  # presets are no modules
    for folder, contract in CONTRACTS.items():
        assert f"{folder}.{contract}" in MODULES
        described = ast.get_docstring(tree_of(ROOT / folder / "__init__.py"))
        assert f"{contract}.py" in (described or ""), f"senju/{folder}/__init__.py"


def test_no_folder_holds_too_much_of_the_package() -> None:
    num_lines: Counter[str] = Counter()
    for file in FILES:
        num_lines[module_of(file).partition(".")[0]] += len(file.read_text(encoding="utf-8").splitlines())
    largest, count = num_lines.most_common(1)[0]
    assert count / num_lines.total() <= LARGEST_SHARE, f"{largest} holds {count} of {num_lines.total()} lines"


def test_no_module_imports_the_command_line() -> None:
    importers = [module_of(file) for file in FILES if any(n.startswith("cli") for n in imports_within(file))]
    assert [name for name in importers if not name.startswith("cli.")] == []


def calls(file: Path, name: str) -> list[int]:
    """Lines that call the plain function of that name."""
    return [
        node.lineno
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    ]


def test_only_the_command_line_prints() -> None:
    printing = {module_of(file): lines for file in FILES if (lines := calls(file, "print"))}
    assert [name for name in printing if not name.startswith("cli.")] == []


@pytest.mark.slow
def test_nothing_that_could_run_code_is_loaded() -> None:
    """No pickle, by whatever name, and no `torch.load`, which is pickle inside."""
    for file in FILES:
        imported = {module.partition(".")[0] for _, module, _ in imported_names(file)}
        assert not imported & FORBIDDEN_MODULES, f"{file} imports {imported & FORBIDDEN_MODULES}"
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.Attribute) and node.attr in ("load", "save"):
                assert ast.unparse(node.value) != "torch", f"{file}:{node.lineno} uses torch.{node.attr}"
        assert not [name for _, module, name in imported_names(file) if (module, name) == ("torch", "load")]
        assert not calls(file, "eval"), file
        assert not calls(file, "exec"), file


def kernels_of(file: Path) -> list[ast.FunctionDef]:
    return [
        node
        for node in tree_of(file).body
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(mark, ast.Name) and mark.id in COMPILERS for mark in node.decorator_list)
    ]


def test_kernels_are_functions_of_a_module() -> None:
    """A kernel inside a class or a function would be compiled again with each of them."""
    for file in FILES:
        found = [
            node
            for node in ast.walk(tree_of(file))
            if isinstance(node, ast.FunctionDef)
            and any(name in ast.unparse(mark) for mark in node.decorator_list for name in COMPILERS)
        ]
        assert len(found) == len(kernels_of(file)), file
        direct = {name for _, module, name in imported_names(file) if module == "numba" and "jit" in name}
        assert not direct, f"{file}: kernels are compiled by senju.kernels"


def test_the_walk_sees_the_kernels() -> None:
    names = {kernel.name for file in FILES for kernel in kernels_of(file)}
    assert {"philox", "choose_at_random", "_observe", "sample_rows", "_estimate"} <= names
