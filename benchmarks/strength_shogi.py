"""How strong is an agent after `senju train shogi` on two cores, with several seeds, and in what time?

    .venv/bin/python benchmarks/strength_shogi.py --folder runs/strength_shogi

Trains Shogi with its preset once per seed (about fifteen minutes each on two cores; seeds that are
already in the folder are not trained again), then plays each agent's best moves, colours swapped in
pairs, against random play, against players that count material one and two plies deep, and against
its own checkpoint from a third of the way; and its search against its policy without search. The learning
curves are drawn to docs/strength_shogi.svg.
"""

import argparse
from pathlib import Path
from typing import Any

import bench_report as report

import senju
from senju.evaluation.matches import play_match
from senju.evaluation.opponents import make_player
from senju.evaluation.search_player import SearchPlayer
from senju.runs.run import Run
from senju.search.settings import SearchConfig

SEARCHED = "search against the bare policy"


def trained(seed: int, folder: Path) -> Run:
    """The finished run of a seed, trained now if it is missing."""
    path = folder / f"seed-{seed}"
    if not path.exists():
        report.progress(f"training with seed {seed}")
        return senju.train("shogi", seed=seed, run=path)
    run = Run(path)
    if not run.metrics or run.metrics[-1]["update"] < run.config.total_updates:
        raise SystemExit(f"{path} is not finished; continue with: senju train --resume {path}")
    return run


def measure(seed: int, run: Run, num_games: int, nodes: int) -> dict[str, Any]:
    """One seed's time, results and learning curve."""
    report.progress(f"measuring seed {seed}")
    player, results = run.agent.player(), {}
    checkpoints = run.checkpoints.all()
    older = run.agent_at(checkpoints[len(checkpoints) // 3].name)
    opponents = {name: make_player(run.game, name) for name in ("random", "greedy:1", "greedy:2")}
    for name, opponent in {**opponents, "older": older.player()}.items():
        result = play_match(run.game, player, opponent, num_games, seed=1000 + seed)
        results[name] = result.as_dict()
    searcher = SearchPlayer(run.game, run.agent.model, player.name, SearchConfig(nodes=nodes))
    num_searched = max(2, num_games // 10 * 2)
    results[SEARCHED] = play_match(run.game, searcher, player, num_searched, seed=1000 + seed).as_dict()
    last = run.metrics[-1]
    return {
        "seed": seed,
        "seconds": last["seconds"],
        "steps": last["steps"],
        "older": older.name,
        "results": results,
        "evaluations": run.evaluations,
    }


def main() -> None:
    """Train, measure, print, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--games", type=int, default=400, help="per opponent; a fifth for the search")
    parser.add_argument("--nodes", type=int, default=128, help="of the search")
    parser.add_argument("--folder", type=Path, required=True)
    settings = parser.parse_args()
    facts = report.run_facts(["torch", "numba", "numpy"])
    runs = [
        measure(seed, trained(seed, settings.folder), settings.games, settings.nodes)
        for seed in settings.seeds
    ]
    opponents = list(runs[0]["results"])
    rows = []
    for run in runs:
        cells = [f"{100 * run['results'][name]['score']:.1f} %" for name in opponents]
        rows.append([f"seed {run['seed']}", *cells, f"{run['steps'] / 1e6:.1f} M", f"{run['seconds']:.0f} s"])
    report.print_table(
        f"Score over {settings.games} games each", ["", *opponents, "steps", "time of training"], rows
    )
    report.draw_learning_curves("strength_shogi", runs, ("random", "greedy:1"))
    report.write_results(
        "strength_shogi", facts | {"settings": vars(settings) | {"folder": None}, "runs": runs}
    )


if __name__ == "__main__":
    main()
