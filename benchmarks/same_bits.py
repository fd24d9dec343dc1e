"""Do two versions of senju give the same bytes on one machine?

Short runs of every kind are trained, and the SHA-256 of the final state of each is written to a file:
weights and optimizer, the states of all games, replay and pool, and the metrics that are not times. With
`--compare` they are compared with an earlier file. Equal bytes are promised only for one machine and one
version of PyTorch, so both files must come from the same machine and version.

    python benchmarks/same_bits.py --out before.json
    python benchmarks/same_bits.py --compare before.json
"""

import argparse
import hashlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import bench_report as report
from safetensors import safe_open

import senju
from senju.config import Settings, merged
from senju.evaluation.tournament.round_robin import run_tournament
from senju.evaluation.tournament.tasks import TournamentSettings
from senju.runs.control import ask
from senju.runs.run import Run
from senju.training.trainer import TrainingListener, TrainingProgress

Fingerprint = dict[str, str]  # SHA-256 of each part
TIMES = ("seconds", "per_second", "share", "time", "memory", "stage", "timing", "engine")

QUIET: Settings = {"evaluation": {"interval": 1_000_000, "games": 4, "opponents": ["random"]}}
PPO: dict[str, Settings] = {
    "tic_tac_toe": {
        "total_steps": 20_000,
        "collect": {"num_games": 32, "games_per_shard": 8, "rollout_steps": 16},
        "algorithm": {"name": "ppo", "minibatch_size": 128},
    },
    "connect_four": {
        "total_steps": 40_000,
        "collect": {"num_games": 64, "games_per_shard": 16, "rollout_steps": 32},
        "algorithm": {"name": "ppo", "minibatch_size": 256},
    },
    "shogi": {
        "total_steps": 4_096,
        "collect": {"num_games": 32, "games_per_shard": 8, "rollout_steps": 32},
        "algorithm": {"name": "ppo", "minibatch_size": 256},
    },
}
DQN: Settings = {
    "total_steps": 16_000,
    "collect": {"num_games": 32, "games_per_shard": 8, "rollout_steps": 32},
    "algorithm": {
        "name": "dqn",
        "n_step": 3,
        "prioritised": True,
        "batch_size": 64,
        "replay_size": 10_000,
        "learning_starts": 1_000,
        "replay_ratio": 1,
    },
}
WORLD: Settings = {
    "total_steps": 12_000,
    "collect": {"seating": "independent", "num_games": 16, "games_per_shard": 8, "rollout_steps": 20},
    "model": {"name": "mlp", "hidden": [32]},
    "evaluation": {"interval": 1_000_000, "games": 4, "opponents": []},
    "parallel": {"parallel_actions": False},
}
WORLD_DQN: Settings = {"name": "dqn", "batch_size": 32, "replay_size": 2_000, "learning_starts": 200}
WORLD_PPO: Settings = {"name": "ppo", "minibatch_size": 160, "epochs": 1}
ALGORITHMS: dict[str, Settings] = {
    "dqn": {"algorithm": WORLD_DQN},
    "ppo": {"algorithm": WORLD_PPO},
    "mixed": {"algorithm": WORLD_DQN, "seats": {"1": {"algorithm": WORLD_PPO}}},
}


class KillsWorkers(TrainingListener):
    """Kills a worker in the middle of a run, a few times."""

    def __init__(self, run: Path) -> None:
        self._run = run

    def on_update(self, progress: TrainingProgress) -> None:
        """Every fourth time."""
        if progress.update % 4 == 2:
            for worker in ask(self._run, "status")["backend"]["workers"][:1]:
                if worker["pid"]:
                    os.kill(worker["pid"], signal.SIGKILL)


def fingerprint(run: Run) -> Fingerprint:
    """The sums of a run's final state."""
    tensors, state = _newest(run)
    groups: dict[str, list[str]] = {}
    for name, digest in tensors.items():
        groups.setdefault(name.partition(".")[0], []).append(digest)
    found = {name: _joined(sorted(digests)) for name, digests in groups.items()}
    found["replay and pool"] = _joined(sorted(_blobs(state)))
    found["metrics"] = _joined(json.dumps(_timeless(record)) for record in run.metrics)
    return found


def _newest(run: Run) -> tuple[dict[str, str], dict[str, Any]]:
    folder = run.checkpoints.latest()
    digests = {}
    with safe_open(folder / "tensors.safetensors", framework="np") as file:
        for name in file.keys():  # noqa: SIM118  # it is no mapping
            array = file.get_tensor(name)
            digests[name] = hashlib.sha256(
                f"{array.dtype}{array.shape}".encode() + array.tobytes()
            ).hexdigest()
    return digests, json.loads((folder / "state.json").read_text())


def _blobs(state: Any) -> Iterable[str]:
    """The SHA-256 sums in the names of all blobs that a checkpoint needs."""
    if isinstance(state, dict):
        state = list(state.values())
    if isinstance(state, list):
        for each in state:
            yield from _blobs(each)
    elif isinstance(state, str) and state.endswith(".safetensors"):
        yield state.rpartition("-")[2].removesuffix(".safetensors")


def _timeless(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in sorted(record.items()) if not any(t in name for t in TIMES)}


def _joined(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def cases(folder: Path) -> dict[str, Callable[[], Fingerprint]]:
    """All runs, by name."""

    def train(name: str, *settings: Settings, **more: Any) -> Run:
        return senju.train(run=folder / name.replace(" ", "_"), **merged(QUIET, *settings), **more)

    def plain(name: str, *settings: Settings, **more: Any) -> Callable[[], Fingerprint]:
        return lambda: fingerprint(train(name, *settings, **more))

    found: dict[str, Callable[[], Fingerprint]] = {}
    for game, settings in PPO.items():
        found[f"ppo {game}"] = plain(f"ppo {game}", {"game": {"name": game}}, settings)
    four = {"game": {"name": "connect_four"}}
    found["ppo connect_four, 2 workers"] = plain("ppo 2", four, PPO["connect_four"], workers=2)
    with_pool = {"collect": {"seating": "opponents"}, "opponents": {"snapshot_interval": 4}}
    found["ppo connect_four, pool"] = plain("ppo pool", four, PPO["connect_four"], with_pool)
    found["dqn connect_four, pool"] = plain("dqn pool", four, DQN, with_pool)
    found["dqn tic_tac_toe"] = plain("dqn", {"game": {"name": "tic_tac_toe"}}, DQN)
    for world in ("treasure_hunt", "cleanup", "tag"):
        for algorithm, settings in ALGORITHMS.items():
            for learners in ("sequential", "processes", "stacked"):
                name = f"{algorithm} {world}, {learners}"
                kind = {"game": {"name": world}, "learners": learners}
                found[name] = plain(name, WORLD, kind, settings)

    def killed() -> Fingerprint:
        path = folder / "killed"
        settings = merged(QUIET, four, PPO["connect_four"])
        return fingerprint(senju.train(run=path, workers=2, listener=KillsWorkers(path), **settings))

    def resumed() -> Fingerprint:
        train("resumed", four, DQN, with_pool, max_updates=11)
        return fingerprint(senju.train(resume=folder / "resumed"))

    def arena() -> Fingerprint:
        run = train("arena", four, PPO["connect_four"], with_pool)
        players = [str(run.path), "random", "minimax:2"]
        result = run_tournament(
            run.game, players, folder / "table", TournamentSettings(games=8), num_workers=1
        )
        return {"result": _joined([json.dumps(result.as_dict()["pairs"], sort_keys=True)])}

    return found | {"with kills": killed, "resumed": resumed, "arena": arena}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="where to write the sums")
    parser.add_argument("--compare", type=Path, help="an earlier file")
    parser.add_argument("--only", default="", help="runs whose name contains this")
    options = parser.parse_args()
    earlier = json.loads(options.compare.read_text())["runs"] if options.compare else {}
    found: dict[str, Fingerprint] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, run in cases(Path(folder)).items():
            if options.only in name:
                found[name] = run()
                differing = [
                    part for part, sum_ in earlier.get(name, {}).items() if found[name].get(part) != sum_
                ]
                verdict = (
                    "" if name not in earlier else "differs: " + ", ".join(differing) if differing else "same"
                )
                print(f"{name:45} {found[name].get('learner', '')[:12]:14} {verdict}", flush=True)
    if options.out:
        options.out.write_text(json.dumps({"commit": report.commit(), "runs": found}, indent=1) + "\n")
    if any(earlier[name] != found[name] for name in found if name in earlier):
        sys.exit(1)


if __name__ == "__main__":
    main()
