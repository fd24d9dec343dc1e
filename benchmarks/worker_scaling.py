"""How close do n workers come to n independent processes, which share nothing and never wait?

    .venv/bin/python benchmarks/worker_scaling.py --workers 1,2
    PYTHONPATH=. python3 benchmarks/worker_scaling.py --out scaling.json   # a copy that is not installed

For each n, all taking turns, in steps (decisions) a second of collecting:

limit  n processes with the serial backend and one math thread each, started at the same moment: the sum
       of their rates. It includes the losses of the machine with n busy cores (clock, memory, neighbours).
sync   the backend `processes` with n workers; they wait for each other at the end of a turn.
async  the same with max_lag=1: games go on into the next turn.

All are started once, and wait while another is measured. There are 8 shards for each worker of the
largest team, so that the end of a turn, when some workers wait for the last one, is a small part of it;
each independent process has 8 of its own.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import bench_report as report
from fleet import Fleet

from senju.config import Settings
from senju.machine import available_cores, inspect_machine, math_threads
from senju.memory import keep_freed_memory
from senju.runs.run_config import RunConfig
from senju.trials.rig import SERIAL, Rig, backend_settings
from senju.trials.scale import Scale, scaled_config
from senju.trials.speed import at_rest

MODES: dict[str, Settings] = {"sync": {"mode": "sync"}, "async": {"mode": "async", "max_lag": 1}}
KINDS = ("limit", *MODES)
_SHARDS_EACH = 8

Rates = dict[int, dict[str, list[float]]]  # number of workers, kind: steps a second, repeat by repeat


def make_config(settings: argparse.Namespace, num_shards: int, collect: Settings) -> RunConfig:
    """The game's own network at the scale asked for."""
    scale = Scale(num_shards, settings.games_per_shard, settings.rollout_steps)
    return scaled_config(settings.game, scale, {"collect": collect, "device": "cpu"})


def steps_a_second(rig: Rig, seconds: float, in_parts: bool) -> float:
    """Collect for a while: whole turns, or as many rollouts as there is time for."""
    began, steps, elapsed = perf_counter(), 0, 0.0
    while elapsed < seconds:
        steps += rig.count_steps(rig.backend.collect(seconds - elapsed if in_parts else None))
        elapsed = perf_counter() - began
    return steps / elapsed


class Team:
    """Workers of the backend `processes`, paused except while they are measured."""

    def __init__(self, config: RunConfig, num_workers: int) -> None:
        self._stack, self._sleep = ExitStack(), ExitStack()
        self.core_shares: list[float] = []  # of a core that this process needed for the team
        rig = self._stack.enter_context(Rig(config, backend_settings(config, "processes", num_workers)))
        self._rig, self._backend = rig, rig.backend
        found = len(self._backend.status().workers)
        if found != num_workers:
            self._stack.close()
            raise RuntimeError(f"{found} of {num_workers} workers could be started; ask for fewer")
        self._backend.collect()
        self._sleep.enter_context(at_rest(self._backend))

    def __enter__(self) -> "Team":
        return self

    def __exit__(self, *_: object) -> None:
        self._sleep.close()
        self._stack.close()

    def measure(self, seconds: float) -> float:
        """Steps a second."""
        self._sleep.close()
        self._backend.collect()  # what was begun before the sleep
        began, busy = perf_counter(), process_time()
        rate = steps_a_second(self._rig, seconds, in_parts=False)
        self.core_shares.append((process_time() - busy) / (perf_counter() - began))
        self._sleep.enter_context(at_rest(self._backend))
        return rate


def independents(settings: argparse.Namespace, number: int) -> Fleet:
    """Independent processes; each measures its own steps a second."""
    options = ["--game", settings.game, "--games-per-shard", str(settings.games_per_shard)]
    options += ["--rollout-steps", str(settings.rollout_steps), "--alone"]
    return Fleet([[__file__, *options]] * number)


def serve_alone(settings: argparse.Namespace) -> None:
    """One independent process: a line with seconds in, a line with steps a second out."""
    keep_freed_memory()  # as workers do
    with math_threads(1), Rig(make_config(settings, _SHARDS_EACH, {}), SERIAL) as rig:
        rig.backend.collect()
        print(0.0, flush=True)
        for line in sys.stdin:
            rig.backend.collect()  # as a team warms up
            print(steps_a_second(rig, float(line), in_parts=True), flush=True)


def measure_all(settings: argparse.Namespace) -> tuple[Rates, Rates, list[float]]:
    """Everything that is compared, then all again.

    Returns rates, the shares of a core that the teams needed in this process, and how many cores others kept
    busy in between.
    """
    rates: Rates = {number: {kind: [] for kind in KINDS} for number in settings.workers}
    busy: list[float] = []
    with ExitStack() as stack:
        teams: dict[tuple[int, str], Team] = {}
        for number in settings.workers:
            report.progress(f"starting {number} and {number} workers")
            for mode, collect in MODES.items():
                config = make_config(settings, settings.shards, collect)
                teams[number, mode] = stack.enter_context(Team(config, number))
        report.progress(f"starting {max(settings.workers)} independent processes")  # with a warm cache by now
        alone = stack.enter_context(independents(settings, max(settings.workers)))
        for repeat in range(settings.repeats):
            report.progress(f"repeat {repeat + 1} of {settings.repeats}")
            busy.append(inspect_machine().busy_cores)
            for number in settings.workers:
                rates[number]["limit"].append(alone.ask(number, settings.seconds))
                for mode in MODES:
                    rates[number][mode].append(teams[number, mode].measure(settings.seconds))
        shares = {n: {mode: teams[n, mode].core_shares for mode in MODES} for n in settings.workers}
    return rates, shares, busy


Spreads = dict[int, dict[str, report.Spread]]


def over_fewest(rates: Rates) -> Spreads:
    """Each kind, divided by its own figure for the smallest number."""
    first = rates[min(rates)]
    return {
        number: {kind: report.ratio_spread(of[kind], first[kind]) for kind in KINDS}
        for number, of in rates.items()
    }


def over_limit(rates: Rates) -> Spreads:
    """Each mode, divided by as many independent processes."""
    return {
        number: {mode: report.ratio_spread(of[mode], of["limit"]) for mode in MODES}
        for number, of in rates.items()
    }


def print_report(
    figures: Spreads, scaling: Spreads, nearness: Spreads, core_shares: Spreads, busy: Sequence[float]
) -> None:
    """Four tables: rates, over the smallest number, over the limit, and what the team itself needs."""
    fewest = min(figures)
    titles = {
        "Collecting, steps a second: median (min..max)": figures,
        f"÷ the same with {fewest}": scaling,
        "÷ the limit of as many": nearness,
        "Share of a core that the team needs in its own process": core_shares,
    }
    for title, spreads in titles.items():
        columns = ["workers", *spreads[fewest]]
        rows = [
            [str(number), *(spread.as_text() for spread in of.values())] for number, of in spreads.items()
        ]
        report.print_table(title, columns, rows)
        print()
    print(f"other programs kept up to {max(busy):.2f} cores busy between the measures")
    if max(figures) > available_cores():
        print(f"more workers than the {available_cores()} cores here take turns on them")


def plain(spreads: Spreads) -> dict[int, dict[str, Any]]:
    """Spreads as JSON has them."""
    return {number: {kind: spread._asdict() for kind, spread in of.items()} for number, of in spreads.items()}


def numbers(text: str) -> list[int]:
    """`1,2,4` as numbers, in order."""
    return sorted({int(word) for word in text.split(",")})


def parse_arguments() -> argparse.Namespace:
    """The settings of the run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=numbers, default=[1, 2, 4, 8, 16], help="for example 1,2,4")
    parser.add_argument("--game", default="connect_four", help="a name, or module:Class")
    parser.add_argument("--shards", type=int, help="of a team; 8 for each worker of the largest")
    parser.add_argument("--games-per-shard", type=int, default=64, help="evaluated as one batch")
    parser.add_argument("--rollout-steps", type=int, default=64, help="of each game per turn")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one measure, and up to whole turns")
    parser.add_argument("--repeats", type=int, default=5, help="measures of each number of workers")
    parser.add_argument("--commit", help="the measured commit, for a copy without git")
    parser.add_argument("--out", type=Path, help="a file to write instead of the published results")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)  # an independent process
    settings = parser.parse_args()
    settings.shards = settings.shards or _SHARDS_EACH * max(settings.workers)
    return settings


def main() -> None:
    """Measure, print, write."""
    settings = parse_arguments()
    if settings.alone:
        serve_alone(settings)
        return
    facts = report.run_facts(["torch", "numba", "numpy"])
    facts["commit"] = settings.commit or facts["commit"]
    began = perf_counter()
    rates, shares, busy = measure_all(settings)
    figures = {n: {kind: report.spread(of[kind]) for kind in KINDS} for n, of in rates.items()}
    scaling, nearness = over_fewest(rates), over_limit(rates)
    core_shares = {n: {mode: report.spread(of[mode]) for mode in MODES} for n, of in shares.items()}
    print_report(figures, scaling, nearness, core_shares, busy)
    results = {
        "settings": {name: value for name, value in vars(settings).items() if name not in ("out", "alone")},
        "config": make_config(settings, settings.shards, MODES["sync"]).model_dump(mode="json"),
        "figures": plain(figures),
        "over_fewest": plain(scaling),
        "over_limit": plain(nearness),
        "core_shares": plain(core_shares),
        "busy_cores_of_others": busy,
        "seconds": perf_counter() - began,
        "repeats": rates,
    }
    if settings.out is None:
        report.write_results("worker_scaling", facts | results)
    else:
        settings.out.write_text(json.dumps(facts | results, indent=2) + "\n")
        print(f"written: {settings.out}")


if __name__ == "__main__":
    main()
