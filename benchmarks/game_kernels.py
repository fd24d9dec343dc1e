"""How many Connect Four moves a second does one core play?

Each move comes with its observation, its legal mask, a random legal choice, and a new game where
one ended. Senju is compared with PettingZoo, OpenSpiel (where it installs) and Pgx, all pinned to the
same core. They are measured in turn, so that a change of the machine's speed affects all alike.

    python benchmarks/game_kernels.py

The first run creates the peers' environment in `.venvs/peers`, which takes minutes.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import bench_report as report

BATCHES = (1, 64, 1024, 4096)
PEERS = report.BENCHMARKS / "peers"
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
    "PYGAME_HIDE_SUPPORT_PROMPT": "1",
}

Figures = dict[str, dict[int, list[dict[str, Any]]]]  # name, batch: the answers, repeat by repeat


class Candidate(NamedTuple):
    """A script that answers like `peers/meter.py`."""

    name: str
    script: str
    arguments: tuple[str, ...]
    batches: tuple[int, ...]
    is_peer: bool = True


class Process:
    """A running candidate; it waits, asleep, while others are measured."""

    def __init__(self, candidate: Candidate, peers_python: Path) -> None:
        python = str(peers_python) if candidate.is_peer else sys.executable
        # the checkout beside this script is measured, installed or not
        search_path = {} if candidate.is_peer else {"PYTHONPATH": str(report.REPOSITORY)}
        self._name = candidate.name
        self._process = subprocess.Popen(
            [python, str(PEERS / candidate.script), *candidate.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | ONE_THREAD | search_path,
        )
        self.versions: dict[str, str] = self._read_answer()["versions"]

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def measure(self, batch: int, seconds: float) -> dict[str, Any]:
        """Steps, seconds and games of one measure."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"batch": batch, "seconds": seconds}) + "\n")
        self._process.stdin.flush()
        return self._read_answer()

    def _read_answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):  # libraries print banners to standard output
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise RuntimeError(f"{self._name} ended with status {self._process.wait()}; its error is above")


def candidates(batches: tuple[int, ...], seed: int) -> list[Candidate]:
    """Senju first: the others are compared with it."""
    seeds = (str(seed),)
    chosen = [
        Candidate("senju", "senju_connect_four.py", seeds, batches, is_peer=False),
        Candidate("Pgx, one call per step", "pgx_connect_four.py", ("step", *seeds), batches),
        Candidate("Pgx, 128 steps per call", "pgx_connect_four.py", ("scan", *seeds), batches),
        Candidate("PettingZoo", "pettingzoo_connect_four.py", seeds, (1,)),
    ]
    if report.peer_has("pyspiel"):
        chosen.append(Candidate("OpenSpiel", "open_spiel_connect_four.py", seeds, (1,)))
    return chosen


def measure_all(
    chosen: Sequence[Candidate], processes: Sequence[Process], repeats: int, seconds: float
) -> Figures:
    """Every candidate at every batch, then all again; the first round only warms up."""
    figures: Figures = {one.name: {batch: [] for batch in one.batches} for one in chosen}
    batches = sorted({batch for one in chosen for batch in one.batches})
    for repeat in range(-1, repeats):
        report.progress("warming up" if repeat < 0 else f"repeat {repeat + 1} of {repeats}")
        for batch in batches:
            for one, process in zip(chosen, processes, strict=True):
                if batch not in one.batches:
                    continue
                answer = process.measure(batch, seconds)
                if repeat >= 0:
                    figures[one.name][batch].append(answer)
    return figures


def rates(answers: Sequence[dict[str, Any]]) -> list[float]:
    """Steps a second, repeat by repeat."""
    return [answer["steps"] / answer["seconds"] for answer in answers]


def moves_per_game(figures: dict[int, list[dict[str, Any]]]) -> float:
    """The mean length of a game: all candidates play the same one if these agree."""
    answers = [answer for of_batch in figures.values() for answer in of_batch]
    return float(sum(answer["steps"] for answer in answers) / sum(answer["games"] for answer in answers))


def disturbance(figures: Figures) -> float:
    """The most cores that other processes kept busy during any one measure."""
    answers = [answer for of_batch in figures.values() for one in of_batch.values() for answer in one]
    return max((answer["other_cores"] or 0.0 for answer in answers), default=0.0)


def senju_ratios(figures: Figures) -> dict[str, dict[int, report.Spread]]:
    """Senju over each peer; a peer without batches has one figure, which stands for every batch."""
    ours = {batch: rates(answers) for batch, answers in figures["senju"].items()}
    ratios: dict[str, dict[int, report.Spread]] = {}
    for name, of_batch in figures.items():
        if name != "senju":
            theirs = {batch: rates(of_batch.get(batch, of_batch[min(of_batch)])) for batch in ours}
            ratios[name] = {batch: report.ratio_spread(ours[batch], theirs[batch]) for batch in ours}
    return ratios


def print_report(figures: Figures, ratios: dict[str, dict[int, report.Spread]]) -> None:
    """Two tables: steps a second, and senju over each peer."""
    batches = list(figures["senju"])
    columns = [f"batch {batch}" for batch in batches]
    rows = []
    for name, of_batch in figures.items():
        millions = [[rate / 1e6 for rate in rates(of_batch.get(batch, []))] for batch in batches]
        cells = [report.spread(figure).as_text() if figure else "" for figure in millions]
        rows.append([name, *cells, f"{moves_per_game(of_batch):.2f}"])
    title = "Connect Four, million moves a second on one core: median (min..max)"
    report.print_table(title, ["", *columns, "moves/game"], rows)
    print()
    report.print_table(
        "senju ÷ peer (a peer without batches: ÷ its one figure)",
        ["", *columns],
        [[name, *(of_batch[batch].as_text() for batch in batches)] for name, of_batch in ratios.items()],
    )
    print(f"\nother processes kept up to {disturbance(figures):.2f} cores busy meanwhile")


def as_json(figures: Figures, ratios: dict[str, dict[int, report.Spread]]) -> dict[str, Any]:
    """All raw answers with their medians, and the ratios."""
    steps = {
        name: {
            batch: {
                "steps_per_second": report.spread(rates(answers))._asdict(),
                "repeats": answers,
            }
            for batch, answers in of_batch.items()
        }
        for name, of_batch in figures.items()
    }
    over = {
        name: {batch: ratio._asdict() for batch, ratio in of_batch.items()}
        for name, of_batch in ratios.items()
    }
    return {"figures": steps, "senju_over_peer": over}


def parse_arguments() -> argparse.Namespace:
    """The settings of the run."""
    parser = argparse.ArgumentParser(description="Connect Four moves a second on one core.")
    parser.add_argument("--repeats", type=int, default=5, help="measures of each figure")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one measure")
    parser.add_argument("--seed", type=int, default=1, help="seed of every candidate")
    parser.add_argument("--core", type=int, default=None, help="the core to use; the last one by default")
    parser.add_argument("--batches", type=int, nargs="+", default=list(BATCHES), help="rows side by side")
    return parser.parse_args()


def main() -> None:
    """Measure, print, write."""
    settings = parse_arguments()
    peers_python = report.ensure_peers()
    facts = report.run_facts(["numba", "llvmlite", "numpy"])
    core = max(os.sched_getaffinity(0)) if settings.core is None else settings.core
    os.sched_setaffinity(0, {core})  # the candidates inherit it
    chosen = candidates((1, *sorted(set(settings.batches) - {1})), settings.seed)
    with ExitStack() as stack:
        processes = [stack.enter_context(Process(one, peers_python)) for one in chosen]
        figures = measure_all(chosen, processes, settings.repeats, settings.seconds)
        peer_versions = {one.name: process.versions for one, process in zip(chosen, processes, strict=True)}
    ratios = senju_ratios(figures)
    print()
    print_report(figures, ratios)
    settings_used = vars(settings) | {"core": core}
    report.write_results(
        "game_kernels",
        facts | {"settings": settings_used, "candidates": peer_versions} | as_json(figures, ratios),
    )


if __name__ == "__main__":
    main()
