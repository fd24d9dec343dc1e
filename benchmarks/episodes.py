"""How many episodes a minute does DQN against its own past play, with 1, 2, … workers, and what would 48 do?

    .venv/bin/python benchmarks/episodes.py --workers 1,2
    PYTHONPATH=. python3 benchmarks/episodes.py --workers 1,2,4,8,12,16 --device cuda --out episodes.json

Connect Four as `senju.train_dqn` trains it: each worker plays `--episodes` whole games per batch against
snapshots of the learner. All numbers of workers take turns, in episodes a minute:

collecting  games alone, weights as they are; the batch is a multiple of the workers, so that no worker waits
            for a last shard
training    collecting, learning (`--steps` gradient steps per batch, on the device) and publishing in turn

The model is Gunther's universal scalability law: n workers do n / (1 + s (n - 1) + k n (n - 1)) times the
work of one; s is the sequential share, k the cost of each pair of workers. It is fitted to the medians by
least squares. The output has its residuals and its prediction for 48 cores, with the range over the repeats.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import bench_report as report
import numpy as np

from senju.collect.slots import Rollout
from senju.machine import available_cores, inspect_machine, math_threads
from senju.memory import keep_freed_memory
from senju.runs.run_config import RunConfig, resolve_config
from senju.trials.rig import Rig, backend_settings
from senju.trials.speed import at_rest

KINDS = ("collecting", "training")
BEYOND = 48
_SNAPSHOTS = 8  # in the pool before anything is measured

Rates = dict[str, dict[int, list[float]]]  # kind, number of workers: episodes a minute, repeat by repeat


def make_config(settings: argparse.Namespace, num_workers: int) -> RunConfig:
    """The settings that `train_dqn` would use."""
    game_length = 42
    games = settings.shards_each * num_workers * settings.episodes
    return resolve_config(
        "connect_four",
        {
            "algorithm": {
                "name": "dqn",
                "steps_per_batch": settings.steps,
                "replay_size": 50 * games * game_length,
                "learning_starts": 1000,
            },
            "collect": {
                "num_games": games,
                "games_per_shard": settings.episodes,
                "rollout_steps": game_length,
                "whole_games": True,
                "seating": "opponents",
            },
            "opponents": {"snapshot_interval": 1, "size": _SNAPSHOTS},
            "device": settings.device,
            "threads": 1,
            "evaluation": {"opponents": [], "final_opponents": []},
        },
    )


def count_episodes(rollouts: Sequence[Rollout]) -> int:
    """The number of games that ended."""
    return sum(int((rollout.data.terminated | rollout.data.truncated).sum()) for rollout in rollouts)


def a_minute(turn: Callable[[], Sequence[Rollout]], seconds: float) -> float:
    """Episodes a minute of whole turns."""
    began, episodes, elapsed = perf_counter(), 0, 0.0
    while elapsed < seconds:
        episodes += count_episodes(turn())
        elapsed = perf_counter() - began
    return 60.0 * episodes / elapsed


class Team:
    """Workers with a learner, paused except while they are measured."""

    def __init__(self, settings: argparse.Namespace, num_workers: int) -> None:
        config = make_config(settings, num_workers)
        self._stack, self._sleep = ExitStack(), ExitStack()
        self._rig = self._stack.enter_context(Rig(config, backend_settings(config, "processes", num_workers)))
        for _ in range(_SNAPSHOTS):
            self._rig.update()
        self._sleep.enter_context(at_rest(self._rig.backend))

    def __enter__(self) -> "Team":
        return self

    def __exit__(self, *_: object) -> None:
        self._sleep.close()
        self._stack.close()

    def measure(self, kind: str, seconds: float) -> float:
        """Episodes a minute."""
        self._sleep.close()
        turn = self._rig.collect if kind == "collecting" else self._rig.update
        turn()
        rate = a_minute(turn, seconds)
        self._sleep.enter_context(at_rest(self._rig.backend))
        return rate


class Law(NamedTuple):
    """The universal scalability law, fitted."""

    one: float  # episodes a minute of one worker
    serial: float
    pairs: float

    def __call__(self, number: float) -> float:
        """Episodes a minute with this number of workers."""
        return self.one * number / (1 + self.serial * (number - 1) + self.pairs * number * (number - 1))


def fit_law(rates: dict[int, float]) -> Law:
    """Least squares on n / rate, which is linear in the unknowns; neither share may be negative."""
    numbers = np.array(sorted(rates), float)
    inverse = numbers / np.array([rates[int(number)] for number in numbers])
    terms = np.stack([np.ones_like(numbers), numbers - 1, numbers * (numbers - 1)], axis=1)
    weights = 1.0 / inverse  # so that relative errors count
    for used in ([0, 1, 2], [0, 1], [0, 2], [0]):
        if len(used) > len(numbers):
            continue
        found, *_ = np.linalg.lstsq(terms[:, used] * weights[:, None], inverse * weights, rcond=None)
        whole = np.zeros(3)
        whole[used] = found
        if (whole >= 0).all():
            break
    return Law(1 / whole[0], whole[1] / whole[0], whole[2] / whole[0])


def measure_all(settings: argparse.Namespace) -> tuple[Rates, list[float]]:
    """Measure all in turn, once per repeat; also the number of cores that other programs kept busy."""
    rates: Rates = {kind: {number: [] for number in settings.workers} for kind in KINDS}
    busy: list[float] = []
    keep_freed_memory()
    with math_threads(1), ExitStack() as stack:
        teams = {}
        for number in settings.workers:
            report.progress(f"starting {number} workers")
            teams[number] = stack.enter_context(Team(settings, number))
        for repeat in range(settings.repeats):
            report.progress(f"repeat {repeat + 1} of {settings.repeats}")
            busy.append(inspect_machine().busy_cores)
            for kind in KINDS:
                for number in settings.workers:
                    rates[kind][number].append(teams[number].measure(kind, settings.seconds))
    return rates, busy


def describe(rates: dict[int, list[float]]) -> dict[str, Any]:
    """Figures, ratios, the law with its residuals, and its prediction for 48 cores."""
    spreads = {number: report.spread(values) for number, values in rates.items()}
    fewest = min(rates)
    law = fit_law({number: spread.median for number, spread in spreads.items()})
    repeats = [
        fit_law({number: values[index] for number, values in rates.items()})(BEYOND)
        / rates[fewest][index]
        * fewest
        for index in range(len(rates[fewest]))
    ]
    return {
        "episodes_a_minute": {number: spread._asdict() for number, spread in spreads.items()},
        "over_fewest": {
            number: report.ratio_spread(values, rates[fewest])._asdict() for number, values in rates.items()
        },
        "law": law._asdict(),
        "residuals": {number: spread.median / law(number) - 1 for number, spread in spreads.items()},
        "times_at_48": {
            "median": law(BEYOND) / law(1),
            "low": float(min(repeats)),
            "high": float(max(repeats)),
        },
    }


def print_report(found: dict[str, dict[str, Any]], busy: Sequence[float]) -> None:
    """A table per kind."""
    for kind, figures in found.items():
        rows = []
        for number, spread in figures["episodes_a_minute"].items():
            ratio = figures["over_fewest"][number]
            rows.append(
                [
                    str(number),
                    f"{spread['median']:,.0f} ({spread['min']:,.0f}..{spread['max']:,.0f})",
                    f"{ratio['median']:.2f} ({ratio['min']:.2f}..{ratio['max']:.2f})",
                    f"{100 * figures['residuals'][number]:+.1f} %",
                ]
            )
        columns = ["workers", "episodes a minute", "times the fewest", "beside the law"]
        report.print_table(f"{kind}: median (min..max)", columns, rows)
        law, at = figures["law"], figures["times_at_48"]
        print(
            f"law: s = {law['serial']:.4f}, k = {law['pairs']:.6f}; {BEYOND} cores would give "
            f"{at['median']:.1f} times one ({at['low']:.1f}..{at['high']:.1f} over the repeats)\n"
        )
    print(f"other programs kept up to {max(busy):.2f} cores busy between the measures")


def parse_arguments() -> argparse.Namespace:
    """The settings of the run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", default="1,2", help="for example 1,2,4")
    parser.add_argument("--episodes", type=int, default=32, help="games of a shard, evaluated as one batch")
    parser.add_argument("--shards-each", type=int, default=4, help="shards for each worker")
    parser.add_argument("--steps", type=int, default=4, help="gradient steps per batch")
    parser.add_argument("--device", default="cpu", help="of the learner")
    parser.add_argument("--seconds", type=float, default=1.5, help="of one measure, and up to whole turns")
    parser.add_argument("--repeats", type=int, default=5, help="measures of each number of workers")
    parser.add_argument("--commit", help="the measured commit, for a copy without git")
    parser.add_argument("--out", type=Path, help="a file to write instead of the published results")
    settings = parser.parse_args()
    settings.workers = sorted({int(word) for word in settings.workers.split(",")})
    return settings


def main() -> None:
    """Measure, print, write."""
    settings = parse_arguments()
    facts = report.run_facts(["torch", "numba", "numpy"])
    facts["commit"] = settings.commit or facts["commit"]
    rates, busy = measure_all(settings)
    found = {kind: describe(rates[kind]) for kind in KINDS}
    print_report(found, busy)
    if max(settings.workers) > available_cores():
        print(f"more workers than the {available_cores()} cores here take turns on them")
    results = {
        "settings": {name: value for name, value in vars(settings).items() if name != "out"},
        "figures": found,
        "busy_cores_of_others": busy,
        "repeats": rates,
    }
    if settings.out is None:
        report.write_results("episodes", facts | results)
    else:
        settings.out.write_text(json.dumps(facts | results, indent=2) + "\n")
        print(f"written: {settings.out}")


if __name__ == "__main__":
    main()
