"""Is this version of senju as fast as another one?

    python benchmarks/same_speed.py --other FOLDER

FOLDER is a checkout of the other version, 0.6 or later. For each kind of work both versions are started once,
each in a process of its own, and measured in turn. The ratios are of figures measured one after the other.
About eight minutes on two quiet cores with 8 repeats.

collect serial      Connect Four, 4 shards of 64 games, 64 steps, the preset's network, one process
collect 2 workers   the same with two worker processes
train 2 workers     the same with learning
independent         three agents in a treasure hunt: two workers play, and two learner processes train
independent serial  the same in one process
own world           `examples/own_world.py` with two workers and learners, epochs a second
start               two workers, starts a second
healing             one of two workers is killed: kills a second whose rollouts are repeated
"""

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
CONNECT_FOUR: dict[str, Any] = {
    "collect": {"num_games": 256, "games_per_shard": 64, "rollout_steps": 64},
    "algorithm": {"epochs": 1},
    "total_steps": 2**40,
}
HUNT: dict[str, Any] = {
    "game": {"num_agents": 3},
    "collect": {"num_games": 64, "games_per_shard": 32, "rollout_steps": 100},
    "model": {"name": "mlp", "hidden": [428, 428]},  # about 240,000 weights an agent
    "algorithm": {"name": "dqn", "batch_size": 64, "replay_ratio": 0.18, "learning_starts": 64},
    "total_steps": 2**40,
}
TWO: dict[str, Any] = {"name": "processes", "num_workers": 2}
Measure = Callable[[float], float]  # seconds to measure for -> work a second


def _rig(stack: ExitStack, game: str, settings: dict[str, Any], backend: dict[str, Any]) -> Any:
    """A started training loop of the version that this process imports."""
    from senju.trials.rig import Rig

    try:
        from senju.runs.run_config import resolve_config
    except ImportError:  # version 0.6
        from senju.training.run_config import resolve_config
    rig = stack.enter_context(Rig(resolve_config(game, settings), backend))
    rig.warm_up()
    return rig


def _repeatedly(work: Callable[[], float]) -> Measure:
    """Do some work for a while, and count how much it was."""

    def measure(seconds: float) -> float:
        began, done = perf_counter(), 0.0
        while perf_counter() - began < seconds or not done:
            done += work()
        return done / (perf_counter() - began)

    return measure


def collecting(stack: ExitStack, *rig_settings: Any) -> Measure:
    """Steps a second without learning."""
    rig = _rig(stack, *rig_settings)
    return _repeatedly(lambda: rig.count_steps(rig.collect()))


def training(stack: ExitStack, *rig_settings: Any) -> Measure:
    """Steps a second with learning."""
    rig = _rig(stack, *rig_settings)
    return _repeatedly(lambda: rig.count_steps(rig.update()))


def own_world(stack: ExitStack) -> Measure:
    """Epochs a second of a world in plain Python; the seconds are not used."""
    import senju
    from examples.own_world import Meadow

    parallel = {"copies": 4, "train_steps": 14, "num_workers": 2, "num_learners": 2}
    config = SimpleNamespace(experiment=SimpleNamespace(epochs=40, max_turns=100), parallel=parallel)

    def measure(_: float) -> float:
        epochs = senju.ParallelEnvironment(Meadow, config).run_experiment_parallel().epochs[3:]
        return len(epochs) / sum(epoch.seconds for epoch in epochs)

    return measure


def start(stack: ExitStack) -> Measure:
    """Starts of two workers a second."""
    from senju.trials.rig import Rig

    config = _rig(stack, "connect_four", CONNECT_FOUR, {"name": "serial"}).config

    def measure(_: float) -> float:
        began = perf_counter()
        with Rig(config, TWO):
            return 1.0 / (perf_counter() - began)

    return measure


def healing(stack: ExitStack) -> Measure:
    """Kills of one of two workers a second, each with its turn and the replacement's start."""
    rig = _rig(stack, "connect_four", CONNECT_FOUR, TWO)

    def kill_and_collect() -> float:
        workers = [worker.pid for worker in rig.backend.status().workers if worker.pid]
        if len(workers) == 2:
            os.kill(workers[0], signal.SIGKILL)
        rig.collect()
        return float(len(workers) == 2)

    return _repeatedly(kill_and_collect)


WORK: dict[str, Callable[[ExitStack], Measure]] = {
    "collect serial": lambda stack: collecting(stack, "connect_four", CONNECT_FOUR, {"name": "serial"}),
    "collect 2 workers": lambda stack: collecting(stack, "connect_four", CONNECT_FOUR, TWO),
    "train 2 workers": lambda stack: training(stack, "connect_four", CONNECT_FOUR, TWO),
    "independent": lambda stack: training(stack, "treasure_hunt", HUNT | {"learners": "processes"}, TWO),
    "independent serial": lambda stack: training(stack, "treasure_hunt", HUNT, {"name": "serial"}),
    "own world": own_world,
    "start": start,
    "healing": healing,
}


def serve(work: str) -> None:
    """In a process of one version: a line with seconds in, a line with work a second out."""
    logging.disable(logging.CRITICAL)
    with ExitStack() as stack:
        measure = WORK[work](stack)
        measure(0.0)
        print(0.0, flush=True)
        for line in sys.stdin:
            print(measure(float(line)), flush=True)


def compare(work: str, other: Path, settings: argparse.Namespace) -> tuple[list[float], list[float]]:
    """The figures of this version and of the other one, measured in turn."""
    from fleet import Fleet

    with ExitStack() as stack:
        fleets = [
            stack.enter_context(Fleet([[__file__, "--alone", work]], {"PYTHONPATH": f"{root}:{REPOSITORY}"}))
            for root in (REPOSITORY, other)
        ]
        figures: tuple[list[float], list[float]] = ([], [])
        for repeat in range(settings.repeats):
            for index in (0, 1) if repeat % 2 else (1, 0):
                figures[index].append(fleets[index].ask(1, settings.seconds))
    return figures


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--other", type=Path, help="a checkout of the other version")
    parser.add_argument("--only", default="", help="work whose name contains this")
    parser.add_argument("--seconds", type=float, default=0.8, help="for each figure")
    parser.add_argument("--repeats", type=int, default=12, help="measures of each version")
    parser.add_argument("--alone", choices=WORK, help=argparse.SUPPRESS)  # a process of one version
    settings = parser.parse_args()
    if settings.alone:
        serve(settings.alone)
        return
    if settings.other is None or not (settings.other / "senju").is_dir():
        parser.error("--other needs a folder that contains another version of senju")
    import bench_report as report

    facts, other = report.run_facts(["torch", "numba", "numpy"]), settings.other.resolve()
    rows, results = [], {}
    for work in [name for name in WORK if settings.only in name]:
        report.progress(work)
        ours, theirs = compare(work, other, settings)
        ratio = report.ratio_spread(ours, theirs)
        rows.append([work, report.spread(ours).as_text(), report.spread(theirs).as_text(), ratio.as_text()])
        results[work] = {"this": ours, "other": theirs, "ratio": ratio._asdict()}
    report.print_table("work a second", ["", "this version", "the other one", "this ÷ other"], rows)
    if not settings.only:
        report.write_results("same_speed", facts | {"repeats": settings.repeats, "figures": results})


if __name__ == "__main__":
    main()
