"""How strong is an agent trained by DQN or against its own past, with several seeds?

    PYTHONPATH=. .venv/bin/python benchmarks/strength_opponents.py [--seeds 0 1 2] [--threads 2]

Connect Four, 1,000 games each against random, minimax and the perfect player: PPO by plain self-play, PPO
against its pool and DQN against its pool, each with its preset. Tic-tac-toe by DQN: every game that
can happen while the agent plays its best moves, and the largest error of its values.
A run takes two to five minutes on two cores.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import bench_report as report
import numpy as np

import senju
from senju.config import Settings
from senju.runs.agent import Agent
from tests.training.solved import solved_values, walk

OPPONENTS = ("random", "minimax:2", "minimax:4", "perfect")
KINDS: dict[str, Settings] = {
    "ppo, plain self-play": {},
    "ppo, pool": {"opponents": "pool"},
    "ppo, pool, half of the games": {"collect": {"seating": "opponents"}, "opponents": {"self_share": 0.5}},
    "dqn, pool": {"algorithm": "dqn", "opponents": "pool"},
}
_KEPT = ("wins", "draws", "losses", "games", "score", "interval")


def train_connect_four(kind: str, settings: argparse.Namespace, seed: int, folder: Path) -> dict[str, Any]:
    """One seed's results against all opponents, at the end."""
    evaluation = {"interval": 0, "games": settings.games, "opponents": [], "final_opponents": OPPONENTS}
    run = senju.train(
        "connect_four",
        seed=seed,
        run=folder / f"{kind} {seed}",
        threads=settings.threads,
        evaluation=evaluation,
        **KINDS[kind],
    )
    return {record["opponent"]: {name: record[name] for name in _KEPT} for record in run.evaluations}


def judge_tic_tac_toe(agent: Agent) -> dict[str, Any]:
    """All games that can happen to an agent, moving first and second."""
    found = {}
    for seat, name in enumerate(("moves first", "moves second")):
        walked = walk(agent, seat)
        errors = np.abs(walked.values - solved_values(agent.game, walked.states))
        found[name] = {
            "positions": len(errors),
            "games_lost": walked.num_lost,
            "largest_error": round(float(errors.max()), 4),
        }
    return found


def main() -> None:
    """Train, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--games", type=int, default=1000, help="per opponent")
    parser.add_argument("--threads", type=int, default=2, help="of the learner")
    settings = parser.parse_args()
    facts = report.run_facts(["torch", "numba", "numpy"])
    connect_four: dict[str, Any] = {kind: {"seeds": {}} for kind in KINDS}
    tic_tac_toe: dict[int, Any] = {}
    with TemporaryDirectory() as folder:
        for seed in settings.seeds:
            for kind in KINDS:
                report.progress(f"connect_four, {kind}, seed {seed}")
                result = train_connect_four(kind, settings, seed, Path(folder))
                connect_four[kind]["seeds"][seed] = result
            report.progress(f"tic_tac_toe, dqn, seed {seed}")
            path = Path(folder) / f"tic_tac_toe {seed}"
            run = senju.train("tic_tac_toe", algorithm="dqn", seed=seed, run=path)
            tic_tac_toe[seed] = judge_tic_tac_toe(run.agent)
    for kind, figures in connect_four.items():
        rows = [
            [f"seed {seed}", *(f"{100 * result[name]['score']:.1f} %" for name in OPPONENTS)]
            for seed, result in figures["seeds"].items()
        ]
        report.print_table(kind, ["", *OPPONENTS], rows)
    rows = [
        [f"seed {seed}, {name}", *map(str, result.values())]
        for seed, found in tic_tac_toe.items()
        for name, result in found.items()
    ]
    report.print_table("tic_tac_toe, dqn", ["", "positions", "games lost", "largest error"], rows)
    results = {"settings": vars(settings), "connect_four": connect_four, "tic_tac_toe_dqn": tic_tac_toe}
    report.write_results("strength_opponents", facts | results)


if __name__ == "__main__":
    main()
