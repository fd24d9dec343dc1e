"""A short trial of a run's settings: how fast each stage is alone, and which one would bound it."""

from contextlib import closing
from dataclasses import dataclass
from time import perf_counter

from senju.games import make_game
from senju.machine import available_cores, math_threads
from senju.memory import keep_freed_memory
from senju.runs.run_config import resolve_config
from senju.runs.stages import explain
from senju.training.loop import Loop


@dataclass(frozen=True)
class Probe:
    """Decisions per second of collecting and of learning alone, and of both in turn."""

    game: str
    collecting: float
    learning: float
    end_to_end: float
    explanation: str


def probe(game: str, updates: int = 3) -> Probe:
    """Train a game for a few updates, and keep nothing."""
    config = resolve_config(game, {"total_steps": 2**40, "evaluation": {"interval": 0}})
    keep_freed_memory()
    threads = math_threads(config.threads or available_cores())
    with threads, closing(Loop(config, make_game(**config.game))) as loop:
        loop.start()
        loop.publish_all()
        loop.learn(loop.collect())  # warm: compiled, allocated
        loop.backend.report(), loop.learner.take_timings()
        collecting = learning = 0.0
        for _ in range(updates):
            began = perf_counter()
            rollouts = loop.collect()
            collected = perf_counter()
            loop.learn(rollouts)
            collecting += collected - began
            learning += perf_counter() - collected
        stages = loop.backend.report().timings | loop.learner.take_timings()
    decisions = updates * config.decisions_per_update
    return Probe(
        game=config.game["name"],
        collecting=decisions / collecting,
        learning=decisions / learning,
        end_to_end=decisions / (collecting + learning),
        explanation=explain(stages),
    )
