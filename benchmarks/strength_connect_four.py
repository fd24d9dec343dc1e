"""How strong is an agent after `make train`, with several seeds, and how long does training take?

    .venv/bin/python benchmarks/strength_connect_four.py [--precision bfloat16]

Trains Connect Four with its preset once per seed (about three minutes each on two cores), then plays
each agent's best moves against random, minimax and the perfect player, colours swapped in pairs. The
learning curves of all seeds are drawn to docs/strength_connect_four.svg.
"""

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import bench_report as report

import senju
from senju.evaluation.matches import play_match
from senju.evaluation.opponents import make_player

OPPONENTS = ("random", "minimax:2", "minimax:4", "perfect")


def train_and_measure(seed: int, num_games: int, precision: str, folder: Path) -> dict[str, Any]:
    """One seed's time, results and learning curve."""
    report.progress(f"training with seed {seed}")
    began = time.perf_counter()
    algorithm = {"precision": precision}
    path = folder / f"seed-{seed}"
    run = senju.train("connect_four", workers=0, seed=seed, run=path, algorithm=algorithm)  # as `make train`
    seconds = time.perf_counter() - began
    report.progress(f"  {seconds:.0f} s; measuring")
    player, results = run.agent.player(), {}
    for name in OPPONENTS:
        opponent = make_player(run.game, name)
        results[name] = play_match(run.game, player, opponent, num_games, seed=1000 + seed).as_dict()
    return {"seed": seed, "seconds": seconds, "results": results, "evaluations": run.evaluations}


def main() -> None:
    """Train, measure, print, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--games", type=int, default=1000, help="per opponent")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    settings = parser.parse_args()
    facts = report.run_facts(["torch", "numba", "numpy"])
    with TemporaryDirectory() as folder:
        runs = [
            train_and_measure(seed, settings.games, settings.precision, Path(folder))
            for seed in settings.seeds
        ]
    rows = []
    for run in runs:
        cells = [f"{100 * run['results'][name]['score']:.1f} %" for name in OPPONENTS]
        judgement = run["results"]["perfect"]["judgement"]
        shares = [f"{100 * judgement[name]:.1f} %" for name in ("share", "decisive_share")]
        rows.append([f"seed {run['seed']}", *cells, *shares, f"{run['seconds']:.0f} s"])
    columns = ["", *OPPONENTS, "perfect moves", "where it mattered", "time"]
    report.print_table(f"Score over {settings.games} games each", columns, rows)
    name = "strength_connect_four" + ("" if settings.precision == "float32" else f"_{settings.precision}")
    report.draw_learning_curves(name, runs, ("random", "minimax:2"))
    report.write_results(name, facts | {"settings": vars(settings), "runs": runs})


if __name__ == "__main__":
    main()
