"""A short trial of a run's settings: how fast each stage is alone, and which one would bound it."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from senju.machine import available_cores, math_threads
from senju.memory import keep_freed_memory
from senju.training.run import Run
from senju.training.run_config import resolve_config
from senju.training.stages import explain
from senju.training.trainer import Trainer


@dataclass(frozen=True)
class Probe:
    """Decisions per second of collecting and of learning alone, and of both in turn."""

    game: str
    collecting: float
    learning: float
    end_to_end: float
    explanation: str


def probe(game: str, updates: int = 3) -> Probe:
    """Train a game for a few updates in a folder that is thrown away."""
    config = resolve_config(game, {"total_steps": 2**40, "evaluation": {"interval": 0}})
    keep_freed_memory()
    threads = math_threads(config.threads or available_cores())
    with threads, TemporaryDirectory(prefix="senju-probe-") as folder:
        trainer = Trainer(Run.create(Path(folder) / "run", config))
        backend, learner = trainer.backend, trainer.learner
        backend.start(config.plan)
        backend.publish(learner.weights(), 0)
        learner.update(backend.collect())  # warm: compiled, allocated
        backend.take_timings(), learner.take_timings()
        collecting = learning = 0.0
        for _ in range(updates):
            began = perf_counter()
            rollouts = backend.collect()
            collected = perf_counter()
            learner.update(rollouts)
            collecting += collected - began
            learning += perf_counter() - collected
        stages = backend.take_timings() | learner.take_timings()
        backend.close()
    decisions = updates * config.decisions_per_update
    return Probe(
        game=config.game["name"],
        collecting=decisions / collecting,
        learning=decisions / learning,
        end_to_end=decisions / (collecting + learning),
        explanation=explain(stages),
    )
