"""How fast are the Shogi rules on one core, and how long do they take to start?

    python benchmarks/shogi_rules.py

Four measures, all on the same core:

steps     random play through the Game contract: observe (legal mask and 48 planes), choose, step, and a
          new game where one ended; and the same with the legal mask alone. The choice is a xorshift
          generator in compiled code, so that it costs little.
stages    the time of each of these.
lines     all lines of five moves from the start (perft), in nodes a second.
start     from an empty cache of compiled code, and from a full one, until a move can be played.

Steps are compared with cshogi (driven from Python), Pgx and EnvPool, measured in turn so that a change of
the machine's speed affects all alike. Peers have 119 planes each. Random games last about 390 moves; a slow
peer with many rows plays mostly openings in the given time.

The first run creates the peers' environment in `.venvs/peers`, which takes minutes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import bench_report as report
from game_kernels import Candidate, Figures, Process, as_json, disturbance, measure_all, rates
from peers.other_load import OtherLoad
from peers.shogi_play import RandomPlay

from senju.games.shogi.position import Position

BATCHES = (1, 2, 4, 8, 64, 256, 1024)
MASK_BATCHES = (1, 8, 256, 1024)
STAGE_BATCHES = (1, 256)
OURS, MASK_ALONE = "senju", "senju, mask alone"
MORE_PEERS = {"cshogi": "cshogi==1.1.0", "envpool": "envpool==1.2.5"}  # module: what pip installs
PERFT_DEPTH, PERFT_NODES = 5, 19_861_490
MIXING_TURNS = 1000  # longer than any game, so that rows stand anywhere in theirs

START_SCRIPT = """
import json, time
began = time.perf_counter()
from senju.games import make_game
game = make_game("shogi")
imported = time.perf_counter()
game.warm_up()
print(json.dumps({"import": imported - began, "warm_up": time.perf_counter() - imported}))
"""

Ratios = dict[str, dict[int, report.Spread]]  # peer, batch of senju
Repeats = dict[str, list[float]]  # what was measured: a figure for each repeat


def missing_peers() -> dict[str, str]:
    """Install what Shogi needs beside the other benchmarks' peers; what does not install, and why not."""
    python = report.ensure_peers()
    missing = {}
    for module, package in MORE_PEERS.items():
        if report.peer_has(module):
            continue
        report.progress(f"peers: installing {package}")
        pip = [str(python), "-m", "pip", "install", "--quiet", "--quiet"]
        command = [*pip, "--constraint", str(report.PEERS_CONSTRAINTS), package]
        subprocess.run(command, check=False)
        if not report.peer_has(module):
            missing[module] = f"{package} does not install here"
    return missing


def candidates(batches: tuple[int, ...], seed: int, missing: dict[str, str]) -> list[Candidate]:
    """Senju first: the others are compared with it."""
    seeds = (str(seed),)
    mask_batches = tuple(batch for batch in batches if batch in MASK_BATCHES)
    chosen = [
        Candidate(OURS, "senju_shogi.py", ("planes", *seeds), batches, is_peer=False),
        Candidate(MASK_ALONE, "senju_shogi.py", ("mask", *seeds), mask_batches, is_peer=False),
        Candidate("Pgx", "pgx_shogi.py", seeds, (1, 64)),  # each batch compiles for half a minute
    ]
    if "cshogi" not in missing:
        chosen.append(Candidate("cshogi", "cshogi_shogi.py", seeds, (1,)))
    if "envpool" not in missing:
        chosen.append(Candidate("EnvPool", "envpool_shogi.py", seeds, (1, 64, 256)))
    return chosen


def ratios_to_best(figures: Figures) -> Ratios:
    """Senju, with planes, over each peer at that peer's best batch."""
    ratios: Ratios = {}
    for name, of_batch in figures.items():
        if name not in (OURS, MASK_ALONE):
            best = max((rates(answers) for answers in of_batch.values()), key=median)
            ratios[name] = {
                batch: report.ratio_spread(rates(ours), best) for batch, ours in figures[OURS].items()
            }
    return ratios


def timed_stages(batch: int, seconds: float, seed: int) -> Iterator[dict[str, float]]:
    """Nanoseconds a step of each stage, again for each time it is asked."""
    game = RandomPlay(batch, seed)
    stages: dict[str, Callable[[], object]] = {
        "observe": game.observe,
        "choose": game.choose,
        "step": game.step,
        "restart": game.restart,
    }
    game.play(MIXING_TURNS)
    while True:
        took, turns, began = dict.fromkeys(stages, 0.0), 0, perf_counter()
        while (before := perf_counter()) - began < seconds:
            turns += 1
            for name, stage in stages.items():
                stage()
                after = perf_counter()
                took[name] += after - before
                before = after
        yield {name: total / (turns * batch) * 1e9 for name, total in took.items()}


def measure_stages(repeats: int, seconds: float, seed: int) -> dict[int, Repeats]:
    """Every stage at every batch, in turn."""
    clocks = {batch: timed_stages(batch, seconds, seed) for batch in STAGE_BATCHES}
    answers: dict[int, list[dict[str, float]]] = {batch: [] for batch in STAGE_BATCHES}
    for _ in range(repeats):
        for batch, clock in clocks.items():
            answers[batch].append(next(clock))
    return {batch: {name: [one[name] for one in of] for name in of[0]} for batch, of in answers.items()}


def nodes_a_second(repeats: int) -> list[float]:
    """The last moves of all lines of five, counted but not played, over the time; the count is checked."""
    position, figures = Position(), []
    for repeat in range(-1, repeats):  # the first compiles
        began = perf_counter()
        nodes = position.perft(PERFT_DEPTH)
        if nodes != PERFT_NODES:
            raise RuntimeError(f"perft({PERFT_DEPTH}) is {PERFT_NODES:,}; counted {nodes:,}")
        if repeat >= 0:
            figures.append(nodes / (perf_counter() - began))
    return figures


def seconds_to_start(cache: str) -> dict[str, float]:
    """A process that imports senju and compiles, or loads, all that Shogi needs to play a move."""
    began = perf_counter()
    answer = subprocess.run(
        [sys.executable, "-c", START_SCRIPT],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ | {"SENJU_CACHE": cache, "PYTHONPATH": str(report.REPOSITORY)},
    )
    whole = perf_counter() - began
    return {**json.loads(answer.stdout), "whole_process": whole}


def measure_start(cold_repeats: int, warm_repeats: int) -> dict[str, Repeats]:
    """From an empty cache, and from the full one that this leaves."""
    answers: dict[str, list[dict[str, float]]] = {"cold": [], "warm": []}
    for _ in range(cold_repeats):
        with tempfile.TemporaryDirectory() as cache:
            answers["cold"].append(seconds_to_start(cache))
            for _ in range(-(-warm_repeats // cold_repeats)):  # rounded up
                answers["warm"].append(seconds_to_start(cache))
    return {kind: {name: [one[name] for one in of] for name in of[0]} for kind, of in answers.items()}


def _spreads(repeats: Repeats) -> dict[str, Any]:
    return {
        name: report.spread(figures)._asdict() | {"repeats": figures} for name, figures in repeats.items()
    }


def plies_per_game(of_batch: dict[int, list[dict[str, Any]]]) -> str:
    """The mean length of a game, where enough of them ended; all play the same one if these agree."""
    answers = [answer for answers in of_batch.values() for answer in answers]
    games = sum(answer["games"] for answer in answers)
    return f"{sum(answer['steps'] for answer in answers) / games:.0f}" if games >= 100 else "few ended"


def print_steps(figures: Figures, ratios: Ratios, missing: dict[str, str]) -> None:
    """Two tables: steps a second, and senju over each peer."""
    batches = list(figures[OURS])
    rows = []
    for name, of_batch in figures.items():
        thousands = [[rate / 1e3 for rate in rates(of_batch.get(batch, []))] for batch in batches]
        cells = [report.spread(figure).as_text() if figure else "" for figure in thousands]
        rows.append([name, *cells, plies_per_game(of_batch)])
    columns = [f"batch {batch}" for batch in batches]
    title = "Shogi, thousand steps a second on one core: median (min..max)"
    report.print_table(title, ["", *columns, "plies/game"], rows)
    for reason in missing.values():
        print(f"not measured: {reason}")
    print()
    report.print_table(
        "senju with mask and planes ÷ the peer at its best batch",
        ["", *columns],
        [[name, *(of_batch[batch].as_text() for batch in batches)] for name, of_batch in ratios.items()],
    )


def print_rest(stages: dict[int, Repeats], nodes: Sequence[float], start: dict[str, Repeats]) -> None:
    """Stages, perft, starts."""
    print()
    report.print_table(
        "Nanoseconds a step of each stage, called from Python",
        ["", *next(iter(stages.values()))],
        [
            [f"batch {batch}", *(report.spread(of[name]).as_text() for name in of)]
            for batch, of in stages.items()
        ],
    )
    millions = report.spread([figure / 1e6 for figure in nodes]).as_text()
    print(f"\nperft({PERFT_DEPTH}): {millions} million nodes a second\n")
    report.print_table(
        "Seconds until a move can be played",
        ["cache", *start["cold"]],
        [[kind, *(report.spread(of[name]).as_text() for name in of)] for kind, of in start.items()],
    )


def parse_arguments() -> argparse.Namespace:
    """The settings of the run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="measures of each figure")
    parser.add_argument("--cold-repeats", type=int, default=3, help="starts from an empty cache")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of one measure")
    parser.add_argument("--seed", type=int, default=1, help="seed of every candidate")
    parser.add_argument("--core", type=int, default=None, help="the core to use; the last one by default")
    parser.add_argument("--batches", type=int, nargs="+", default=list(BATCHES), help="rows side by side")
    parser.add_argument("--out", type=Path, help="a file to write instead of the published results")
    return parser.parse_args()


def main() -> None:
    """Measure, print, write."""
    settings = parse_arguments()
    missing = missing_peers()
    facts = report.run_facts(["numba", "llvmlite", "numpy"])
    core = max(os.sched_getaffinity(0)) if settings.core is None else settings.core
    os.sched_setaffinity(0, {core})  # the candidates inherit it
    began = perf_counter()
    report.progress("starting, from an empty cache and from a full one")
    start = measure_start(settings.cold_repeats, settings.repeats)
    report.progress("counting lines, timing stages")
    others = OtherLoad()
    nodes = nodes_a_second(settings.repeats)
    stages = measure_stages(settings.repeats, settings.seconds, settings.seed)
    others_cores = others.cores()
    chosen = candidates(tuple(sorted({1, *settings.batches})), settings.seed, missing)
    with ExitStack() as stack:
        processes = [stack.enter_context(Process(one, report.PEERS_PYTHON)) for one in chosen]
        figures = measure_all(chosen, processes, settings.repeats, settings.seconds)
        versions = {one.name: process.versions for one, process in zip(chosen, processes, strict=True)}
    ratios = ratios_to_best(figures)
    print()
    print_steps(figures, ratios, missing)
    print_rest(stages, nodes, start)
    print(f"\nother processes kept up to {disturbance(figures):.2f} cores busy during the steps")
    steps = as_json(figures, ratios)
    results = {
        "settings": {name: value for name, value in vars(settings).items() if name != "out"} | {"core": core},
        "candidates": versions,
        "not_measured": missing,
        "steps": steps["figures"],
        "senju_over_peer_at_its_best": steps["senju_over_peer"],
        "stage_nanoseconds": {batch: _spreads(of) for batch, of in stages.items()},
        "perft_nodes_per_second": _spreads({"perft_5": nodes}),
        "seconds_to_start": {kind: _spreads(of) for kind, of in start.items()},
        "other_cores_during_stages": others_cores,
        "seconds": perf_counter() - began,
    }
    if settings.out is None:
        report.write_results("shogi_rules", facts | results)
    else:
        settings.out.write_text(json.dumps(facts | results, indent=2) + "\n")


if __name__ == "__main__":
    main()
