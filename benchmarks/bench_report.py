"""What the benchmarks share: the facts of a run, spreads and ratios, tables, and the peers' environment."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from senju.evaluation.plot import strength_svg
from senju.machine import available_cores, processor_name
from senju.trials.speed import Spread, ratio_spread, spread  # noqa: F401  # as report.spread

BENCHMARKS = Path(__file__).resolve().parent
REPOSITORY = BENCHMARKS.parent
PEERS_FOLDER = REPOSITORY / ".venvs" / "peers"
PEERS_PYTHON = PEERS_FOLDER / "bin" / "python"
PEERS_CONSTRAINTS = BENCHMARKS / "peers-constraints.txt"
# torch goes first, so that nothing else can pull another build of it
PEERS_PACKAGES = ("torch", "stable-baselines3", "sb3-contrib", "pettingzoo", "pygame", "jax", "jaxlib", "pgx")
PEERS_OPTIONAL = ("open_spiel",)  # has no wheel on some platforms

Json = dict[str, Any]


def _git(*arguments: str) -> str | None:
    try:
        answer = subprocess.run(
            ["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()


def commit() -> str:
    """The commit, with `+changes` where tracked files differ from it; `unknown` where there is none."""
    name = _git("rev-parse", "--verify", "HEAD")
    if name is None:
        return "unknown"
    # the results are what a benchmark itself rewrites
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks/results")
    return f"{name}+changes" if changed else name


def machine() -> Json:
    """The processor, its cores and their present load."""
    return {
        "cpu": processor_name(),
        "cores": os.cpu_count(),
        "usable_cores": available_cores(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Python's version and those of `packages`, as installed in this environment."""
    return {"python": platform.python_version()} | {name: metadata.version(name) for name in packages}


def run_facts(packages: Iterable[str]) -> Json:
    """When, what, where: call it before measuring, for the load average."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine(),
        "versions": versions(packages),
    }


def write_results(name: str, results: Mapping[str, Any]) -> Path:
    """Write `benchmarks/results/<name>.json` and print its path."""
    path = BENCHMARKS / "results" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n")
    print(f"written: {path.relative_to(REPOSITORY)}")
    return path


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A plain table; the first column is text, the others are figures."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    # a pipe has no width of its own, and 80 columns would cut the figures
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def progress(line: str) -> None:
    """Print the progress to standard error."""
    print(line, file=sys.stderr, flush=True)


def ensure_peers() -> Path:
    """The peers' Python; the first call creates their environment, which takes minutes."""
    wanted = "\n".join([*PEERS_PACKAGES, *PEERS_OPTIONAL, PEERS_CONSTRAINTS.read_text()])
    stamp = PEERS_FOLDER / "installed.txt"
    if stamp.exists() and stamp.read_text() == wanted:
        return PEERS_PYTHON
    progress(f"peers: creating {PEERS_FOLDER.relative_to(REPOSITORY)} (some minutes, about 2 GB)")
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(PEERS_FOLDER)], check=True)
    for package in PEERS_PACKAGES:
        if not _install_peer(package):
            raise RuntimeError(f"{package} could not be installed; pip's error is above")
    for package in PEERS_OPTIONAL:
        if not _install_peer(package):
            progress(f"peers: {package} does not install here and is left out")
    stamp.write_text(wanted)
    return PEERS_PYTHON


def _install_peer(package: str) -> bool:
    progress(f"peers: installing {package}")
    pip = [str(PEERS_PYTHON), "-m", "pip", "install", "--quiet", "--quiet"]
    command = [*pip, "--constraint", str(PEERS_CONSTRAINTS), package]
    return subprocess.run(command, check=False).returncode == 0


def peer_has(module: str) -> bool:
    """Whether the peers' environment can import `module`."""
    answer = subprocess.run([str(PEERS_PYTHON), "-c", f"import {module}"], capture_output=True, check=False)
    return answer.returncode == 0


def draw_learning_curves(name: str, runs: Iterable[Json], opponents: Sequence[str]) -> None:
    """Draw the scores that runs had while they learned to docs/NAME.svg, a line per seed and opponent."""
    curves = [
        {**record, "opponent": f"{record['opponent']}, seed {run['seed']}"}
        for run in runs
        for record in run["evaluations"]
        if record["opponent"] in opponents
    ]
    (REPOSITORY / "docs" / f"{name}.svg").write_text(strength_svg(curves), encoding="utf-8")
