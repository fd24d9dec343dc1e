"""What does a train step of one agent cost, for 2, 8 and 32 agents, trained in each variant?

    .venv/bin/python benchmarks/independent_learners.py [--agents 2 8 32] [--quick]
    PYTHONPATH=. python3 benchmarks/independent_learners.py --device cuda --out learners.json

DQN with about 240,000 weights an agent and batches of 64, on what the agents see in a small treasure hunt:
each has its own ring. One turn of it is collected, then each variant trains all agents 100 steps from
their own rings, and all again. Seconds are those of a training, divided by agents and steps.

sequential            one agent after another, one math thread
processes             in learner processes, one math thread each, as many as cores
stacked               all agents as one batched computation, one math thread
stacked, all threads  the same with as many threads as cores
sequential on DEVICE  one agent after another, where --device names another than the cpu
stacked on DEVICE     as one batched computation there

About five minutes on two cores.
"""

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from time import perf_counter
from typing import Any, NamedTuple

import bench_report as report
import measured_world as common
import torch

from senju.algorithms.learner_runner import LearnerRunner, LearnerSettings, SequentialLearners, TrainingTask
from senju.algorithms.stacked_learners import StackedLearners
from senju.machine import available_cores, inspect_machine, math_threads
from senju.memory import keep_freed_memory
from senju.runs.run_config import RunConfig, resolve_config
from senju.runs.seats import new_learner
from senju.training.learner_processes import LearnerProcesses
from senju.trials.rig import SERIAL, Rig

SEQUENTIAL = "sequential"
_ROWS, _TURNS, _EPOCHS_KEPT = 16, 50, 8  # copies of the world, turns of a rollout, rollouts in a ring


def new_config(num_agents: int, steps: int) -> RunConfig:
    """A small treasure hunt whose rings learner processes can read."""
    kept = _EPOCHS_KEPT * _ROWS * _TURNS
    return resolve_config(
        "treasure_hunt",
        {
            "game": {"num_agents": num_agents},
            "collect": {"num_games": _ROWS, "games_per_shard": _ROWS, "rollout_steps": _TURNS},
            "model": {"name": "mlp", "hidden": [common.WIDTHS["treasure_hunt"]] * 2},
            "algorithm": {
                "name": "dqn",
                "batch_size": common.BATCH,
                "steps_per_batch": steps,
                "replay_size": kept,
                "learning_starts": common.BATCH,
            },
            "total_steps": 2**40,
            "learners": "processes",
            "backend": SERIAL,
        },
    )


class Entrant(NamedTuple):
    """A variant of how to train the agents, with its math threads."""

    name: str
    runner: LearnerRunner
    threads: int
    device: str = "cpu"


def on_device(seats: Sequence[LearnerSettings], device: str) -> list[LearnerSettings]:
    """The same agents, trained elsewhere."""
    return [dataclasses.replace(seat, device=device) for seat in seats]


@contextmanager
def entrants(rig: Rig, devices: Sequence[str]) -> Iterator[list[Entrant]]:
    """All variants, attached to the same rings; each has learners of its own."""
    seats, view = rig.config.learner_settings, rig.game.seat_view
    cores = available_cores()
    processes = rig.learner.runner
    assert isinstance(processes, LearnerProcesses)
    field = [
        Entrant(SEQUENTIAL, SequentialLearners([new_learner(seat, view) for seat in seats]), 1),
        Entrant("processes", processes, 1),
        Entrant("stacked", StackedLearners(seats, [new_learner(seat, view) for seat in seats]), 1),
        Entrant(
            "stacked, all threads", StackedLearners(seats, [new_learner(seat, view) for seat in seats]), cores
        ),
    ]
    for device in devices:
        there = on_device(seats, device)
        one_by_one = SequentialLearners([new_learner(seat, view) for seat in there])
        stacked = StackedLearners(there, [new_learner(seat, view) for seat in there])
        field.append(Entrant(f"{SEQUENTIAL} on {device}", one_by_one, 1, device))
        field.append(Entrant(f"stacked on {device}", stacked, 1, device))
    with ExitStack() as stack:
        for entrant in field:
            if entrant.runner is not processes:  # the rig has attached those, and closes them
                stack.callback(entrant.runner.close)
                entrant.runner.attach(rig.backend.rings, view)
        yield field


def train(entrant: Entrant, num_agents: int, turn: int) -> float:
    """Seconds in which all agents learn from a new turn, and from older ones in their rings."""
    tasks = [TrainingTask(seat, (turn,), ((0,),)) for seat in range(num_agents)]
    with math_threads(entrant.threads):
        began = perf_counter()
        learned = entrant.runner.learn(tasks)
        if entrant.device != "cpu":
            torch.cuda.synchronize(entrant.device)
        spent = perf_counter() - began
    assert len(learned) == num_agents
    assert all(each.metrics["gradient_steps"] for each in learned)
    return spent


def measure(num_agents: int, settings: argparse.Namespace) -> tuple[dict[str, list[float]], list[float]]:
    """Milliseconds of a step of one agent, repeat by repeat; and how many cores others kept busy."""
    seconds: dict[str, list[float]] = {}
    busy: list[float] = []
    devices = [settings.device] if settings.device != "cpu" else []
    with Rig(new_config(num_agents, settings.steps), SERIAL) as rig, entrants(rig, devices) as field:
        for repeat in range(-1, settings.repeats):  # the first is to warm up
            which = "warming up" if repeat < 0 else f"repeat {repeat + 1} of {settings.repeats}"
            report.progress(f"{num_agents} agents: {which}")
            busy.append(inspect_machine().busy_cores)
            turn = rig.collect()[0].turn
            for entrant in field:
                spent = train(entrant, num_agents, turn)
                if repeat >= 0:
                    seconds.setdefault(entrant.name, []).append(spent)
    scale = 1000.0 / (num_agents * settings.steps)
    return {name: [scale * each for each in spent] for name, spent in seconds.items()}, busy


def describe(figures: dict[str, list[float]]) -> dict[str, Any]:
    """Spreads, and how many times as fast as one after another on the cpu."""
    return {
        name: {
            "milliseconds": report.spread(values)._asdict(),
            "over_sequential": report.ratio_spread(figures[SEQUENTIAL], values)._asdict(),
            "repeats": values,
        }
        for name, values in figures.items()
    }


def print_report(found: dict[int, dict[str, Any]]) -> None:
    """One table: the variants down, the numbers of agents across."""
    columns = [""]
    for number in found:
        columns += [f"ms, {number} agents", "× sequential"]
    rows = []
    for name in next(iter(found.values())):
        row = [name]
        for variants in found.values():
            kinds = ("milliseconds", "over_sequential")
            row += [report.Spread(**variants[name][kind]).as_text() for kind in kinds]
        rows.append(row)
    report.print_table("a train step of one agent: median (min..max)", columns, rows)


def parse_arguments() -> argparse.Namespace:
    """The settings of the run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agents", type=int, nargs="+", default=[2, 8, 32])
    parser.add_argument("--steps", type=int, default=100, help="of each agent in a training")
    parser.add_argument("--device", default="cpu", help="one more device to train on, like cuda")
    parser.add_argument("--repeats", type=int, default=5, help="measures of each variant")
    common.add_common_arguments(parser)
    settings = parser.parse_args()
    if settings.quick:
        settings.agents, settings.steps, settings.repeats = [min(settings.agents)], 5, 1
    return settings


def main() -> None:
    """Measure, print, write."""
    settings = parse_arguments()
    results = common.begin(settings)
    if settings.device != "cpu":
        results["device"] = torch.cuda.get_device_name(settings.device)
    keep_freed_memory()
    found: dict[int, dict[str, Any]] = {}
    busy: dict[int, list[float]] = {}
    for number in settings.agents:
        figures, busy[number] = measure(number, settings)
        found[number] = describe(figures)
    print_report(found)
    weights = common.count_weights(new_config(2, 1))
    facts = {"weights_of_an_agent": weights, "batch_size": common.BATCH, "busy_cores_of_others": busy}
    common.write("independent_learners", results | facts | {"agents": found}, settings)


if __name__ == "__main__":
    main()
