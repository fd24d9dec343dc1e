"""Compiled code on disk: it is found again, and it is never used where anything in it has changed."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import config as numba_config

from senju import kernels
from senju.kernel_cache import kernel_cache_folder
from senju.kernels import compiled


class Project:
    """A user's own files, imported again at each call, as in a new process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hits = 0  # of the disk cache, in the last call

    def write(self, **files: str) -> None:
        for name, text in files.items():
            path = self.folder / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    def call(self, *arguments: Any, module: str = "game", kernel: str = "step") -> Any:
        self.forget()
        found = getattr(importlib.import_module(module), kernel)
        answer = found(*arguments)
        self.hits = sum(found.stats.cache_hits.values())
        return answer

    def forget(self) -> None:
        importlib.invalidate_caches()
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None)).startswith(str(self.folder)):
                del sys.modules[name]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A folder of the user's, importable, and a new disk cache."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "project").mkdir()
    monkeypatch.setattr(kernels, "_CACHE_FOLDER", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it notices no edit within the same second
    monkeypatch.syspath_prepend(tmp_path / "project")
    project = Project(tmp_path / "project")
    yield project
    project.forget()


COMPILED = "from senju.kernels import compiled\n"
STEP = "@compiled\ndef step(x):\n    return x + MORE\n"
ADD = "@compiled\ndef add(x):\n    return x + 1.0\n"
CALLS_ADD = "@compiled\ndef step(x):\n    return add(x)\n"
MAKE = f"{COMPILED}def make(n):\n    @compiled\n    def add(x):\n        return x + n\n    return add\n"
POINT = "from typing import NamedTuple\nclass Point(NamedTuple):\n    a: float\n    b: float\n"

# files, the edit of one of them (file, old, new), and what step(1.0) gives after it
EDITS: dict[str, tuple[dict[str, str], tuple[str, str, str], float]] = {
    "own constant": ({"game": f"{COMPILED}MORE = 1.0\n{STEP}"}, ("game", "MORE = 1.0", "MORE = 5.0"), 6.0),
    "constant of the code": (
        {"game": f"{COMPILED}@compiled\ndef step(x):\n    return x + 1.0\n"},
        ("game", "1.0", "5.0"),
        6.0,
    ),
    "imported constant": (
        {"rules": "MORE = 1.0\n", "game": f"from rules import MORE\n{COMPILED}{STEP}"},
        ("rules", "1.0", "5.0"),
        6.0,
    ),
    "imported by a star": (
        {"rules": "MORE = 1.0\n", "game": f"from rules import *\n{COMPILED}{STEP}"},
        ("rules", "1.0", "5.0"),
        6.0,
    ),
    "constant of a constant": (
        {
            "basics": "UNIT = 1.0\n",
            "rules": "import basics\nMORE = 2 * basics.UNIT\n",
            "game": f"from rules import MORE\n{COMPILED}{STEP}",
        },
        ("basics", "1.0", "5.0"),
        11.0,
    ),
    "attribute of a module": (
        {
            "rules": "MORE = 1.0\n",
            "game": f"import rules\n{COMPILED}{STEP}".replace("+ MORE", "+ rules.MORE"),
        },
        ("rules", "1.0", "5.0"),
        6.0,
    ),
    "attribute of a module in a package": (
        {
            "pack/__init__": "",
            "pack/rules": "MORE = 1.0\n",
            "game": f"import pack.rules\n{COMPILED}{STEP}".replace("+ MORE", "+ pack.rules.MORE"),
        },
        ("pack/rules", "1.0", "5.0"),
        6.0,
    ),
    "imported at run time": (
        {
            "rules": "MORE = 1.0\n",
            "game": f"import importlib\nMORE = importlib.import_module('rules').MORE\n{COMPILED}{STEP}",
        },
        ("rules", "1.0", "5.0"),
        6.0,
    ),
    "imported kernel": (
        {"rules": f"{COMPILED}{ADD}", "game": f"from rules import add\n{COMPILED}{CALLS_ADD}"},
        ("rules", "1.0", "5.0"),
        6.0,
    ),
    "imported kernel's constant": (
        {
            "basics": "UNIT = 1.0\n",
            "rules": f"from basics import UNIT\n{COMPILED}{ADD}".replace("+ 1.0", "+ UNIT"),
            "game": f"import rules\n{COMPILED}{CALLS_ADD}".replace("add(", "rules.add("),
        },
        ("basics", "1.0", "5.0"),
        6.0,
    ),
    "kernel of plain Numba": (
        {
            "rules": f"import numba\n{ADD}".replace("compiled", "numba.njit"),
            "game": f"from rules import add\n{COMPILED}{CALLS_ADD}",
        },
        ("rules", "1.0", "5.0"),
        6.0,
    ),
    "another kernel of the same name": (
        {
            "rules": f"{MAKE}one, five = make(1.0), make(5.0)\n",
            "game": f"from rules import one as add\n{COMPILED}{CALLS_ADD}",
        },
        ("game", "one as", "five as"),
        6.0,
    ),
    "two kernels changed places": (
        {
            "rules": f"{MAKE}a, b = make(1.0), make(5.0)\n",
            "game": f"from rules import a, b\n{COMPILED}"
            "@compiled\ndef step(x):\n    return a(x) * 10 + b(x) + a(x)\n",
        },
        ("rules", "make(1.0), make(5.0)", "make(5.0), make(1.0)"),
        68.0,
    ),
    "array": (
        {
            "rules": "import numpy as np\nTABLE = np.array([0.0, 1.0])\n",
            "game": f"from rules import TABLE\n{COMPILED}{STEP}".replace("+ MORE", "+ TABLE[1]"),
        },
        ("rules", "1.0", "5.0"),
        6.0,
    ),
    "tuple of tuples": (
        {
            "rules": "MORE = ((0.0, 1.0),)\n",
            "game": f"from rules import MORE\n{COMPILED}{STEP}[0][1]\n".replace("MORE\n[0][1]", "MORE[0][1]"),
        },
        ("rules", "1.0", "5.0"),
        6.0,
    ),
    "named tuple": (
        {
            "rules": f"{POINT}MORE = Point(1.0, 5.0)\n",
            "game": f"from rules import MORE\n{COMPILED}{STEP}".replace("+ MORE", "+ MORE.a"),
        },
        ("rules", "    a: float\n    b: float\n", "    b: float\n    a: float\n"),
        6.0,
    ),
    "enumeration": (
        {
            "rules": "import enum\nclass Kind(enum.IntEnum):\n    FEW = 1\n    MANY = 9\n",
            "game": f"from rules import Kind\n{COMPILED}{STEP}".replace(
                "x + MORE", "x + 5.0 if Kind.FEW == 5 else x"
            ),
        },
        ("rules", "FEW = 1", "FEW = 5"),
        6.0,
    ),
    "default of a parameter": (
        {
            "rules": "MORE = 1.0\n",
            "game": f"from rules import MORE\n{COMPILED}"
            "@compiled\ndef step(x, more=MORE):\n    return x + more\n",
        },
        ("rules", "1.0", "5.0"),
        6.0,
    ),
    "type of a local variable": (
        {
            "rules": "import numba\n@numba.njit(locals={'third': numba.float32})\n"
            "def add(x):\n    third = x / 3\n    return third\n",
            "game": f"from rules import add\n{COMPILED}{CALLS_ADD}",
        },
        ("rules", "float32", "float64"),
        1 / 3,
    ),
    "negative zero": (
        {"game": f"{COMPILED}ZERO = 0.0\n@compiled\ndef step(x):\n    return x / ZERO\n"},
        ("game", "ZERO = 0.0", "ZERO = -0.0"),
        -np.inf,
    ),
}


@pytest.mark.parametrize(("files", "edit", "expected"), EDITS.values(), ids=EDITS)
def test_edit_is_noticed_and_unchanged_code_is_found_again(
    project: Project, files: dict[str, str], edit: tuple[str, str, str], expected: float
) -> None:
    project.write(**files)
    before = project.call(1.0)
    assert project.call(1.0) == before
    assert project.hits == 1
    name, old, new = edit
    project.write(**{name: files[name].replace(old, new)})
    assert project.call(1.0) == expected != before
    project.write(**{name: files[name]})
    assert project.call(1.0) == before
    assert project.hits == 1  # the first version is still there


def test_edit_that_keeps_size_and_time_of_the_file_is_noticed(project: Project) -> None:
    project.write(rules="MORE = 1.0\n", game=f"from rules import MORE\n{COMPILED}{STEP}")
    assert project.call(1.0) == 2.0
    for name, text in (("rules", "MORE = 5.0\n"), ("game", f"from rules import MORE\n{COMPILED}{STEP}")):
        path = project.folder / f"{name}.py"
        time = path.stat().st_mtime_ns
        path.write_text(text.replace("x +", "x -"))
        os.utime(path, ns=(time, time))
    assert project.call(1.0) == -4.0


@pytest.mark.parametrize("source", ["os.environ['MORE']", "Path('more.txt').read_text()"])
def test_constant_from_outside_of_python_files_is_noticed(
    project: Project, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.folder)
    project.write(game=f"import os\nfrom pathlib import Path\nMORE = float({source})\n{COMPILED}{STEP}")
    for more in ("1.0", "5.0", "1.0"):
        monkeypatch.setenv("MORE", more)
        (project.folder / "more.txt").write_text(more)
        assert project.call(1.0) == 1.0 + float(more)
    assert project.hits == 1


def test_order_of_a_named_tuples_fields_counts_for_arguments_too(project: Project) -> None:
    step = f"from rules import Point\n{COMPILED}@compiled\ndef step(point):\n    return point.a\n"
    project.write(rules=POINT, game=step)

    def call() -> Any:
        project.forget()
        point = importlib.import_module("rules").Point(1.0, 5.0)
        return importlib.import_module("game").step(point)

    assert call() == 1.0
    project.write(rules=POINT.replace("    a: float\n    b: float", "    b: float\n    a: float"))
    assert call() == 5.0


OVERLOADS = (
    "from numba.extending import intrinsic, overload, overload_method\nimport numba\nimport numpy as np\n"
)
IMPLEMENTATION = "def implementation(x):\n    return lambda x: x + 1.0\n"
NOT_KEPT = {
    "overload of a function of the user's": f"""\
def more(x):
    pass
@overload(more)
{IMPLEMENTATION}
@compiled
def step(x):
    return more(x)
""",
    "overloaded method": f"""\
@overload_method(numba.types.Float, "raised")
{IMPLEMENTATION}
@compiled
def step(x):
    return x.raised()
""",
    "intrinsic": """\
@intrinsic
def more(context, x):
    def generate(context, builder, signature, arguments):
        return builder.fadd(arguments[0], context.get_constant(numba.types.float64, 1.0))
    return numba.types.float64(numba.types.float64), generate
@compiled
def step(x):
    return more(x)
""",
    "lowered function": """\
import math
from numba.extending import lower_builtin
@lower_builtin(math.erf, numba.types.float64)
def implementation(context, builder, signature, arguments):
    return builder.fadd(arguments[0], context.get_constant(numba.types.float64, 1.0))
@compiled
def step(x):
    return math.erf(x)
""",
    "vectorized function of no module": """\
names = {}
exec("def add(x): return x + 1.0", names)
add = numba.vectorize(["float64(float64)"])(names["add"])
@compiled
def step(x):
    return add(x)
""",
    "object that cannot be shown": """\
class Odd:
    def __str__(self):
        raise ZeroDivisionError
    __repr__ = __str__
ODD = Odd()
IS_ODD = False
@compiled
def step(x):
    if IS_ODD:
        return ODD.more(x)
    return x + 1.0
""",
    "kernel in Numba's own cache": f"{ADD.replace('compiled', 'numba.njit(cache=True)')}{CALLS_ADD}",
    "overload of a function of NumPy's": f"""\
@overload(np.busday_count)
{IMPLEMENTATION}
@compiled
def step(x):
    return np.busday_count(x)
""",
    "overloaded operator, which counts for all that follow": f"""\
import operator
@overload(operator.matmul)
{IMPLEMENTATION.replace("(x)", "(x, y)").replace("lambda x", "lambda x, y")}
@compiled
def step(x):
    return x @ x
""",
}


CALL_ALL = """\
import importlib, json, sys
answers = {}
for name in sys.argv[1:]:
    step = importlib.import_module(name).step
    answers[name] = step(1.0), sum(step.stats.cache_hits.values())
print(json.dumps(answers))
"""


@pytest.mark.slow
def test_code_that_cannot_be_compared_is_compiled_at_each_start(project: Project) -> None:
    """In a process of their own, since overloads are for the whole process."""
    names = [f"case_{number}" for number in range(len(NOT_KEPT))]
    for more in ("1.0", "5.0"):
        for name, text in zip(names, NOT_KEPT.values(), strict=True):
            project.write(**{name: f"{COMPILED}{OVERLOADS}{text.replace('1.0', more)}"})
        found = subprocess.run(
            [sys.executable, "-c", CALL_ALL, *names],
            cwd=project.folder,
            env={
                **os.environ,
                "SENJU_CACHE": str(project.folder.parent / "cache"),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(found.stdout) == {name: [1.0 + float(more), 0] for name in names}


def test_constant_that_the_program_changes_is_not_kept_with_the_old_code(project: Project) -> None:
    project.write(
        rules=f"{COMPILED}MORE = 1.0\n{ADD}".replace("+ 1.0", "+ MORE"),
        game=f"from rules import add\n{COMPILED}{CALLS_ADD}",
    )
    project.call(1.0, module="rules", kernel="add")
    sys.modules["rules"].MORE = 5.0  # type: ignore[attr-defined]  # `add` is compiled already and stays as it is
    assert importlib.import_module("game").step(1.0) == 2.0
    project.write(rules=f"{COMPILED}MORE = 5.0\n{ADD}".replace("+ 1.0", "+ MORE"))
    assert project.call(1.0) == 6.0


def test_kernels_that_call_each_other_in_a_circle_are_kept(project: Project) -> None:
    loop = "    if x < 1:\n        return 0.0\n    return 1.0 + step(x - 1)\n"
    text = f"{COMPILED}@compiled\ndef step(x):\n{loop}"
    project.write(game=text)
    assert [project.call(3.0) for _ in range(2)] == [3.0, 3.0]
    assert project.hits == 1
    project.write(game=text.replace("1.0 +", "2.0 +"))
    assert project.call(3.0) == 6.0


@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: data[: len(data) // 2], lambda data: b"\0" * 99]
)
def test_damaged_file_is_compiled_anew(
    project: Project, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    project.write(game=f"{COMPILED}MORE = 1.0\n{STEP}")
    project.call(1.0)
    for suffix in ("nbi", "nbc"):
        (path,) = (project.folder.parent / "cache").rglob(f"game.step-*.{suffix}")
        path.write_bytes(damage(path.read_bytes()))
        assert project.call(1.0) == 2.0
        assert "is damaged" in caplog.text
        caplog.clear()
        assert project.call(1.0) == 2.0
        assert project.hits == 1


@pytest.mark.slow
def test_old_versions_are_removed(project: Project) -> None:
    for more in range(20):
        project.write(game=f"{COMPILED}MORE = {more}.0\n{STEP}")
        assert project.call(1.0) == 1.0 + more
    files = list((project.folder.parent / "cache").rglob("game.step-*"))
    assert len(files) == 2 * 16


def test_all_of_senjus_own_kernels_are_kept(project: Project, caplog: pytest.LogCaptureFixture) -> None:
    """None of those that other tests use reads anything that cannot be compared."""
    from senju.kernel_fingerprint import fingerprint

    found = 0
    for name, module in list(sys.modules.items()):
        if name.startswith("senju."):
            for value in vars(module).values():
                if hasattr(value, "py_func"):
                    fingerprint(value)
                    found += 1
    assert found > 100


def test_decorating_leaves_numbas_own_cache_folder_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba_config, "CACHE_DIR", "somewhere/else")
    compiled(run_kernel)
    assert numba_config.CACHE_DIR == "somewhere/else"


def test_code_that_stands_in_no_file_is_compiled_all_the_same() -> None:
    names: dict[str, object] = {}
    exec("def double(x):\n    return 2 * x", names)
    assert compiled(names["double"])(21) == 42  # type: ignore[type-var, operator]


def run_kernel(cache: Path) -> subprocess.CompletedProcess[str]:
    """A fresh process that compiles one small kernel, and says where it keeps it."""
    program = (
        "import numpy as np\n"
        "from senju.kernel_cache import kernel_cache_folder\n"
        "from senju.kernels import random_word\n"
        "print(hex(random_word(np.uint64(0), 0, 0, 0, 0)), kernel_cache_folder())\n"
    )
    environment = {**os.environ, "SENJU_CACHE": str(cache)}
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )


@pytest.mark.slow
def test_compiled_code_is_kept_in_the_folder_that_senju_cache_names(tmp_path: Path) -> None:
    finished = run_kernel(tmp_path / "deep" / "cache")
    answer, folder = finished.stdout.split()
    assert answer == "0xe169c58d6627e8d5"
    assert Path(folder).parent == tmp_path / "deep" / "cache"
    kept = {path.name.split("-")[0] for path in Path(folder).rglob("*.nbc")}
    assert {"kernels.random_word", "kernels.philox"} <= kept
    assert "cannot be cached" not in finished.stderr


@pytest.mark.slow
def test_cache_folder_that_cannot_be_made_only_warns(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    finished = run_kernel(tmp_path / "file" / "cache")
    assert finished.stdout.startswith("0xe169c58d6627e8d5")
    assert "cannot be cached" in finished.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_cache_folder_that_cannot_be_written_only_warns(tmp_path: Path) -> None:
    folder = tmp_path / kernel_cache_folder().name
    folder.mkdir(mode=0o500)
    finished = run_kernel(tmp_path)
    assert finished.stdout.startswith("0xe169c58d6627e8d5")
    assert "cannot be cached" in finished.stderr


def test_checked_and_unchecked_code_are_kept_apart(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(game=f"{COMPILED}@compiled\ndef step(array, i):\n    return array[i]\n")
    memory = np.arange(8.0)
    for _ in range(2):
        monkeypatch.setattr(numba_config, "BOUNDSCHECK", 0)
        assert project.call(memory[:4], 5) == 5.0
        monkeypatch.setattr(numba_config, "BOUNDSCHECK", 1)
        with pytest.raises(IndexError):
            project.call(memory[:4], 5)


def test_kernel_may_be_compiled_for_a_signature(project: Project) -> None:
    project.write(
        game=f"import numba\n{COMPILED}MORE = 1.0\n{STEP}step.compile(numba.float64(numba.float64))\n"
    )
    assert project.call(1) == 2.0


CLASSES = """\
from enum import Enum
from typing import NamedTuple
def make():
    class Odd(Exception): pass
    class Point(NamedTuple):
        x: float
    class Kind(Enum):
        FEW = 1
    @compiled
    def step(x, point):
        if x < 0:
            raise Odd
        return (Point(x), point, Kind.FEW)
    return step, Odd, Point, Kind
step, Odd, Point, Kind = make()
"""


def test_classes_inside_a_function_are_those_of_this_process(project: Project) -> None:
    project.write(game=f"{COMPILED}{CLASSES}")
    for _ in range(2):
        project.forget()
        game = importlib.import_module("game")
        made, passed, kind = game.step(1.0, game.Point(2.0))
        assert (type(made), type(passed), kind) == (game.Point, game.Point, game.Kind.FEW)
        with pytest.raises(game.Odd):
            game.step(-1.0, game.Point(2.0))


def test_class_of_another_module_is_another_class(project: Project) -> None:
    step = f"from one import Point\n{COMPILED}@compiled\ndef step(point):\n    return point\n"
    project.write(one=POINT, two=POINT, game=step)
    for module in ("one", "two"):
        project.write(game=step.replace("one", module))
        project.forget()
        point = importlib.import_module(module).Point(1.0, 5.0)
        assert type(importlib.import_module("game").step(point)) is type(point)
