"""Compares several agents: their numbers side by side, and a round robin."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from senju.evaluation.tournament.result import TournamentResult
from senju.evaluation.tournament.round_robin import run_tournament
from senju.evaluation.tournament.tasks import TournamentSettings
from senju.runs.interrupt import StopRequest
from senju.runs.run_folder import ARENA, write_file
from senju.training.multi_run.group import Trainee

COMPARISON = "comparison.json"
GAMES_PER_PAIR = 40
_FEW_PAIRS = 3  # up to here, starting workers takes longer than the games

_REWARDS = ("update", "episodes", "rewards", "overall", "overall_interval", "random_overall")

Comparison = dict[str, Any]


def compare(
    folder: Path, agents: Sequence[Trainee], round_robin: TournamentResult | None = None
) -> Comparison:
    """Speed and strength of all agents, their mean and spread, and the round robin."""
    rows = [_describe(agent) for agent in agents]
    opponents = dict.fromkeys(name for row in rows for name in row["strengths"])
    scores = {
        name: [row["strengths"][name]["score"] for row in rows if name in row["strengths"]]
        for name in opponents
    }
    # the first in the round robin, even by a small margin
    strongest = round_robin.names[round_robin.ranking[0]] if round_robin is not None else ""
    return {
        "run": str(folder),
        "finished": all(agent.state == "finished" for agent in agents),
        "agents": rows,
        "steps_per_second": _spread([row["steps_per_second"] for row in rows if row["seconds"]]),
        "strengths": {name: _spread(found) for name, found in scores.items()},
        "rewards": _spread([row["rewards"]["overall"] for row in rows if row["rewards"]]),
        "strongest": strongest.rpartition("@")[0] or None,
        "round_robin": round_robin.as_dict() if round_robin is not None else None,
    }


def _describe(agent: Trainee) -> dict[str, Any]:
    run, metrics = agent.run, agent.run.metrics
    last = metrics[-1] if metrics else {"update": 0, "steps": 0, "seconds": 0.0}
    found = {
        "name": agent.name,
        "run": str(run.path),
        "state": agent.state,
        "seed": run.config.seed,
        "device": run.config.device,
        "cores": list(agent.cores),
        "update": last["update"],
        "steps": last["steps"],
        "seconds": last["seconds"],
        "steps_per_second": last["steps"] / last["seconds"] if last["seconds"] else 0.0,
        "strengths": {
            record["opponent"]: {key: record[key] for key in ("update", "games", "score", "interval")}
            for record in run.evaluations  # of each opponent the last
        },
        "rewards": {key: run.episodes[-1][key] for key in _REWARDS} if run.episodes else None,
    }
    failure = {"why": agent.why, "last_lines": list(agent.last_lines)} if agent.state == "failed" else {}
    return found | failure


def _spread(values: list[float]) -> dict[str, float] | None:
    """Mean, extremes and standard deviation."""
    if not values:
        return None
    return {
        "mean": statistics.fmean(values),
        "low": min(values),
        "high": max(values),
        "deviation": statistics.stdev(values) if len(values) > 1 else 0.0,
        "agents": len(values),
    }


def play_each_other(
    folder: Path, agents: Sequence[Trainee], stop: StopRequest, games: int = GAMES_PER_PAIR
) -> TournamentResult | None:
    """A small round robin of the agents that did not fail; None if fewer than two can play."""
    fit = [agent for agent in agents if agent.state != "failed" and agent.run.checkpoints.all()]
    if len(fit) < 2 or stop.is_set:
        return None
    game = fit[0].run.game
    if game.num_seats != 2 or game.num_acting != 1:
        return None  # it has no matches
    num_pairs = len(fit) * (len(fit) - 1) // 2
    return run_tournament(
        game,
        [str(agent.run.path) for agent in fit],
        folder / ARENA,
        TournamentSettings(games=games),
        num_workers=1 if num_pairs <= _FEW_PAIRS else 0,
        fresh=True,
        stop=stop,
    )


def save_comparison(folder: Path, comparison: Comparison) -> None:
    """Write a comparison to the folder."""
    write_file(folder, COMPARISON, json.dumps(comparison, indent=2, ensure_ascii=False) + "\n")
