"""How many Shogi moves a second do all cores of a machine play, each with its legal mask and 48 planes?

    python benchmarks/shogi_all_cores.py
    PYTHONPATH=. python3 benchmarks/shogi_all_cores.py --out shogi.json   # a copy that is not installed

Each worker plays its own batch of games at random, through the Game contract (see `peers/shogi_play.py`).
For each number of workers, taking turns:

processes  workers are processes, which share nothing.
threads    workers are threads of one process. The kernels run without Python's lock, but the few calls
           between them need it, one thread at a time.

The figure is all moves over the time until the last worker stopped. No worker is bound to a core.
"""

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier
from time import perf_counter
from typing import Any, Protocol

import bench_report as report
from fleet import Fleet
from peers.shogi_play import RandomPlay

from senju.machine import available_cores, inspect_machine

MIXING_TURNS = 1000  # longer than any game, so that rows stand anywhere in theirs

Rates = dict[int, dict[str, list[float]]]  # number of workers, kind: steps a second, repeat by repeat
Spreads = dict[int, dict[str, report.Spread]]


class Team(Protocol):
    """Workers that wait until they are measured."""

    def measure(self, number: int, seconds: float) -> float:
        """Steps a second of the first `number` workers together."""


def play_for(games: RandomPlay, batch: int, seconds: float) -> int:
    """Play whole turns until the time is over; returns the steps."""
    turns, until = 0, perf_counter() + seconds
    while perf_counter() < until:
        games.play(1)
        turns += 1
    return turns * batch


class Threads:
    """Workers in this process."""

    def __init__(self, number: int, batch: int) -> None:
        self._batch = batch
        self._games = [RandomPlay(batch, seed) for seed in range(number)]
        self._pool = ThreadPoolExecutor(number)
        list(self._pool.map(lambda games: games.play(MIXING_TURNS), self._games))

    def __enter__(self) -> "Threads":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def measure(self, number: int, seconds: float) -> float:
        """Steps a second of the first `number` workers together."""
        start = Barrier(number + 1)

        def work(games: RandomPlay) -> int:
            start.wait()
            return play_for(games, self._batch, seconds)

        answers = [self._pool.submit(work, games) for games in self._games[:number]]
        start.wait()
        began = perf_counter()
        steps = sum(answer.result() for answer in answers)
        return steps / (perf_counter() - began)


class Processes(Fleet):
    """Workers in processes of their own; each answers with its steps."""

    def __init__(self, number: int, batch: int) -> None:
        super().__init__([[__file__, "--batch", str(batch), "--worker", str(seed)] for seed in range(number)])

    def measure(self, number: int, seconds: float) -> float:
        """Steps a second of the first `number` workers together."""
        began = perf_counter()
        return self.ask(number, seconds) / (perf_counter() - began)


KINDS: dict[str, type[Processes] | type[Threads]] = {"processes": Processes, "threads": Threads}


def serve(seed: int, batch: int) -> None:
    """One worker process."""
    games = RandomPlay(batch, seed)
    games.play(MIXING_TURNS)
    print(0, flush=True)
    for line in sys.stdin:
        print(play_for(games, batch, float(line)), flush=True)


def measure_all(settings: argparse.Namespace) -> tuple[Rates, list[float]]:
    """Every number and kind, then all again; with how many cores others kept busy in between."""
    rates: Rates = {number: {kind: [] for kind in settings.kinds} for number in settings.workers}
    busy: list[float] = []
    report.progress("compiling")
    RandomPlay(1, 0).play(1)  # the rules, kept on disk for all workers
    with ExitStack() as stack:
        teams: dict[str, Team] = {}
        for kind in settings.kinds:
            report.progress(f"starting {max(settings.workers)} {kind}")
            teams[kind] = stack.enter_context(KINDS[kind](max(settings.workers), settings.batch))
        for repeat in range(settings.repeats):
            report.progress(f"repeat {repeat + 1} of {settings.repeats}")
            busy.append(inspect_machine().busy_cores)
            for number in settings.workers:
                for kind, team in teams.items():
                    rates[number][kind].append(team.measure(number, settings.seconds))
    return rates, busy


def over_fewest(rates: Rates) -> Spreads:
    """Each kind over its own figure for the smallest number."""
    first = rates[min(rates)]
    return {
        number: {kind: report.ratio_spread(of[kind], first[kind]) for kind in of}
        for number, of in rates.items()
    }


def print_report(rates: Rates, scaling: Spreads, busy: list[float]) -> None:
    """Two tables: rates, and over the smallest number."""
    millions: Spreads = {
        number: {kind: report.spread([figure / 1e6 for figure in figures]) for kind, figures in of.items()}
        for number, of in rates.items()
    }
    titles = {
        "Shogi with mask and planes, million steps a second: median (min..max)": millions,
        f"÷ the same with {min(rates)}": scaling,
    }
    for title, spreads in titles.items():
        rows = [[str(number), *(one.as_text() for one in of.values())] for number, of in spreads.items()]
        report.print_table(title, ["workers", *spreads[min(rates)]], rows)
        print()
    print(f"other programs kept up to {max(busy):.2f} cores busy between the measures")
    if max(rates) > available_cores():
        print(f"more workers than the {available_cores()} cores here take turns on them")


def numbers(text: str) -> list[int]:
    """`1,2,4` as numbers, in order."""
    return sorted({int(word) for word in text.split(",")})


def kinds(text: str) -> list[str]:
    """`processes,threads` as a list, in the order asked for."""
    chosen = text.split(",")
    if unknown := [kind for kind in chosen if kind not in KINDS]:
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(KINDS)}; got {', '.join(unknown)}")
    return chosen


def parse_arguments() -> argparse.Namespace:
    """The settings of the run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=numbers, default=[1, 2, 4, 8, 16], help="for example 1,2,4")
    parser.add_argument("--kinds", type=kinds, default=list(KINDS), help="processes, threads or both")
    parser.add_argument("--batch", type=int, default=256, help="games of one worker")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one measure")
    parser.add_argument("--repeats", type=int, default=5, help="measures of each number of workers")
    parser.add_argument("--commit", help="the measured commit, for a copy without git")
    parser.add_argument("--out", type=Path, help="a file to write instead of the published results")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)  # the seed of a worker process
    return parser.parse_args()


def main() -> None:
    """Measure, print, write."""
    settings = parse_arguments()
    if settings.worker is not None:
        serve(settings.worker, settings.batch)
        return
    facts = report.run_facts(["numba", "llvmlite", "numpy"])
    facts["commit"] = settings.commit or facts["commit"]
    began = perf_counter()
    rates, busy = measure_all(settings)
    scaling = over_fewest(rates)
    print_report(rates, scaling, busy)
    figures: dict[int, dict[str, Any]] = {
        number: {
            kind: {
                "steps_per_second": report.spread(of[kind])._asdict(),
                "over_fewest": scaling[number][kind]._asdict(),
                "repeats": of[kind],
            }
            for kind in of
        }
        for number, of in rates.items()
    }
    results = {
        "settings": {name: value for name, value in vars(settings).items() if name not in ("out", "worker")},
        "figures": figures,
        "busy_cores_of_others": busy,
        "seconds": perf_counter() - began,
    }
    if settings.out is None:
        report.write_results("shogi_all_cores", facts | results)
    else:
        settings.out.write_text(json.dumps(facts | results, indent=2) + "\n")
        print(f"written: {settings.out}")


if __name__ == "__main__":
    main()
