"""What the benchmarks of independent agents share: worlds with networks of one size, and loops to measure."""

import argparse
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import bench_report as report

from senju.algorithms.learner_group import LearnerGroup
from senju.config import Settings
from senju.games import make_game
from senju.machine import math_threads
from senju.models import make_model
from senju.runs.run_config import RunConfig, resolve_config
from senju.trials.rig import Rig
from senju.trials.speed import at_rest

# of two hidden layers; with what the world shows, that makes about 240,000 weights an agent
WIDTHS = {"treasure_hunt": 428, "cleanup": 172, "tag": 352}
BATCH = 64
_REPLAY = 25_600  # decisions of an agent: four epochs of 64 copies of 100 turns

ALL_CORES = 0


class Entrant(NamedTuple):
    """One way to run the same work."""

    name: str
    num_copies: int  # of the world
    num_shards: int = 1
    num_cores: int = ALL_CORES
    settings: Settings | None = None  # override those of the work


class Pace(NamedTuple):
    """How fast an entrant was, in turns of the world a second."""

    played: float
    steps: float  # gradient steps that were taken, for each that was due

    @property
    def trained(self) -> float:
        """Turns a second whose due gradient steps were taken."""
        return self.played * min(self.steps, 1.0)


def episode_length(world: str) -> int:
    """Turns of an episode, which is one epoch."""
    length: int = resolve_config(world).game["max_turns"]
    return length


def count_weights(config: RunConfig) -> int:
    """The weights of one agent's network."""
    game = make_game(**config.game)
    model = make_model(config.model, game.observation_shape, game.num_actions, 0)
    return sum(parameter.numel() for parameter in model.parameters())


def world_config(world: str, entrant: Entrant, steps_per_episode: float, *layers: Settings) -> RunConfig:
    """The world's preset, with another network and another number of train steps.

    Each agent is trained after every epoch (an episode of each copy), with `steps_per_episode` train steps
    of 64 for every copy, so more copies at once do not mean less learning.
    """
    length = episode_length(world)
    return resolve_config(
        world,
        {
            "collect": {
                "num_games": entrant.num_copies,
                "games_per_shard": entrant.num_copies // entrant.num_shards,
                "rollout_steps": length,
            },
            "model": {"name": "mlp", "hidden": [WIDTHS[world]] * 2},
            "algorithm": {
                "name": "dqn",
                "batch_size": BATCH,
                "replay_ratio": steps_per_episode * BATCH / length,
                "replay_size": _REPLAY,
                "learning_starts": BATCH,
                "epsilon_start": 0.05,  # as late in a run
            },
            "total_steps": 2**40,
        },
        *layers,
        entrant.settings or {},
    )


@contextmanager
def on_cores(count: int) -> Iterator[None]:
    """Restrict this process, and processes that it starts, to `count` cores; 0: no restriction."""
    if not count or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class MeasuredWorld:
    """A world with its agents and learners, paused except while it is measured."""

    def __init__(self, entrant: Entrant, new_config: Callable[[Entrant], RunConfig]) -> None:
        self.entrant = entrant
        self._stack, self._sleep = ExitStack(), ExitStack()
        with on_cores(entrant.num_cores):
            self.config = new_config(entrant)
            self._turns_per_step = BATCH / self.config.algorithm["replay_ratio"]
            with math_threads(self.config.threads):
                self.rig = self._stack.enter_context(Rig(self.config, self.config.backend))
                self.rig.warm_up()
                self.rig.finish()
        self._sleep.enter_context(at_rest(self.rig.backend))

    def __enter__(self) -> "MeasuredWorld":
        return self

    def __exit__(self, *_: object) -> None:
        self._sleep.close()
        self._stack.close()

    @property
    def agents(self) -> LearnerGroup:
        """The learners."""
        return self.rig.learner

    @property
    def is_free_running(self) -> bool:
        """Whether collecting goes on while agents learn."""
        return self.config.collect.mode == "async"

    @contextmanager
    def _awake(self) -> Iterator[None]:
        self._sleep.close()
        with on_cores(self.entrant.num_cores), math_threads(self.config.threads):
            yield
        self._sleep.enter_context(at_rest(self.rig.backend))

    def collecting(self, seconds: float) -> float:
        """Turns a second without learning."""
        with self._awake():
            began, turns = perf_counter(), 0
            while perf_counter() - began < seconds or not turns:
                turns += self.rig.count_moves(self.rig.collect())
            return turns / (perf_counter() - began)

    def learning(self, seconds: float) -> float:
        """Turns a second that are learned from, while no game is played."""
        with self._awake():
            self._take_steps()
            spent, steps = 0.0, 0.0
            while spent < seconds or not steps:
                self.rig.publish()
                rollouts = self.rig.collect()
                with at_rest(self.rig.backend):
                    began = perf_counter()
                    self.rig.learn(rollouts)
                    self.rig.finish()
                    spent += perf_counter() - began
                steps += self._take_steps()
            return steps * self._turns_per_step / spent

    def together(self, seconds: float) -> Pace:
        """Collect and learn for whole epochs, up to the end of the last training."""
        fewest = 6 if self.is_free_running else 1  # its first and last epoch overlap with nothing
        with self._awake():
            self._take_steps()
            began, turns, epochs = perf_counter(), 0, 0
            while perf_counter() - began < seconds or epochs < fewest:
                turns += self.rig.count_moves(self.rig.update())
                epochs += 1
            self.rig.finish()
            if (
                self.is_free_running
            ):  # what was played since the last training began is yet to be learned from
                turns += self.rig.count_moves(self.rig.update())
                self.rig.finish()
            spent = perf_counter() - began
        return Pace(turns / spent, self._take_steps() * self._turns_per_step / turns)

    def _take_steps(self) -> float:
        """Gradient steps of an agent since the last call."""
        learned = self.agents.take_trained()
        return sum(each.metrics["gradient_steps"] for each in learned) / len(self.agents.settings)


def spreads(figures: dict[str, list[float]]) -> dict[str, Any]:
    """Spreads by name, for JSON."""
    return {name: report.spread(values)._asdict() for name, values in figures.items()}


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that every script has."""
    parser.add_argument("--quick", action="store_true", help="a short test that everything works")
    parser.add_argument("--commit", help="the measured commit, for a copy without git")
    parser.add_argument("--out", type=Path, help="a file to write instead of the published results")


def begin(settings: argparse.Namespace) -> dict[str, Any]:
    """The facts of the run."""
    facts = report.run_facts(["torch", "numba", "numpy"])
    facts["commit"] = settings.commit or facts["commit"]
    return facts | {"settings": {name: value for name, value in vars(settings).items() if name != "out"}}


def write(name: str, results: dict[str, Any], settings: argparse.Namespace) -> None:
    """Write the results; those of --quick are never published."""
    if settings.out is not None:
        settings.out.write_text(json.dumps(results, indent=2) + "\n")
        print(f"written: {settings.out}")
    elif settings.quick:
        print("quick: nothing is written")
    else:
        report.write_results(name, results)
