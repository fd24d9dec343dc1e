"""How much shorter is an epoch if acting and training take half of the time each?

    .venv/bin/python benchmarks/independent_epochs.py [--quick]

Three agents hunt treasure, each with its own network of about 240,000 weights, DQN and memory; 64 copies of
the world, an epoch is an episode of each. First the script finds how often to train each agent after an
epoch, so that acting and training take the same time in the plain sequential loop. Then all take turns:

disabled  `parallel.enabled=false`: act, then train one agent after another
sync      copies of the world in workers on all cores, then the agents' learners in processes
async     the same, collecting and learning at the same time

`less time` is of an epoch, `experience` is decisions a second, both against disabled in the same repeat.
`steps` are the gradient steps taken for each that was due; where it is below 1, an epoch's time is counted
up to when it would be 1. n cores can save at most 1 - 1/n of the time. About three minutes on two cores.
"""

import argparse
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import bench_report as report
import measured_world as common
from measured_world import ALL_CORES, Entrant, MeasuredWorld, Pace

from senju.config import Settings
from senju.machine import available_cores, inspect_machine
from senju.memory import keep_freed_memory
from senju.runs.run_config import RunConfig

WORLD, NUM_AGENTS = "treasure_hunt", 3
DISABLED, SYNC, ASYNC = "disabled", "sync", "async"
VARIANTS: dict[str, Settings] = {
    DISABLED: {"parallel": {"enabled": False}},
    SYNC: {"learners": "processes"},
    ASYNC: {"learners": "processes", "parallel": {"async_learning": True}},
}
WANTED = (0.4, 0.6)  # of an epoch's time less, at least

Paces = dict[str, list[Pace]]


def new_config(entrant: Entrant, steps: int) -> RunConfig:
    """Three agents, each trained with this number of steps after every epoch."""
    agents: Settings = {"game": {"num_agents": NUM_AGENTS}}
    return common.world_config(WORLD, entrant, steps / entrant.num_copies, agents)


def find_balance(settings: argparse.Namespace, shards: int) -> tuple[int, dict[str, float]]:
    """How many steps per epoch and agent take as long as collecting; and the shares they then have."""
    entrant = Entrant(DISABLED, settings.copies, shards, ALL_CORES, VARIANTS[DISABLED])
    steps = 4
    for _ in range(2):  # a step costs a little less where there are many
        collecting, learning = _seconds_of_epoch(settings, entrant, steps)
        steps = max(1, round(steps * collecting / learning))
    collecting, learning = _seconds_of_epoch(settings, entrant, steps)
    whole = collecting + learning
    return steps, {"acting": collecting / whole, "training": learning / whole}


def _seconds_of_epoch(settings: argparse.Namespace, entrant: Entrant, steps: int) -> tuple[float, float]:
    with MeasuredWorld(entrant, lambda one: new_config(one, steps)) as disabled:
        turns = entrant.num_copies * disabled.config.collect.rollout_steps
        return turns / disabled.collecting(settings.seconds), turns / disabled.learning(settings.seconds)


def measure_all(settings: argparse.Namespace, steps: int, shards: int) -> tuple[Paces, list[float]]:
    """All variants in turn, then all again; with how many cores others kept busy in between."""
    paces: Paces = {name: [] for name in VARIANTS}
    busy: list[float] = []
    with ExitStack() as stack:
        worlds = []
        for name, variant in VARIANTS.items():
            report.progress(f"starting {name}")
            entrant = Entrant(name, settings.copies, shards, ALL_CORES, variant)
            worlds.append(stack.enter_context(MeasuredWorld(entrant, lambda one: new_config(one, steps))))
        for repeat in range(settings.repeats):
            report.progress(f"repeat {repeat + 1} of {settings.repeats}")
            busy.append(inspect_machine().busy_cores)
            for each in worlds:
                paces[each.entrant.name].append(each.together(settings.seconds))
    return paces, busy


def describe(paces: Paces, turns_of_epoch: int) -> dict[str, Any]:
    """Spreads, and ratios to the sequential loop."""
    before = [pace.trained for pace in paces[DISABLED]]
    found: dict[str, Any] = {}
    for name, figures in paces.items():
        speeds = [pace.trained for pace in figures]
        less = [1.0 - own / new for own, new in zip(before, speeds, strict=True)]
        found[name] = common.spreads(
            {
                "epoch_seconds": [turns_of_epoch / each for each in speeds],
                "decisions_a_second": [each * NUM_AGENTS for each in speeds],
                "steps": [pace.steps for pace in figures],
                "less_time": less,
            }
        )
        found[name]["experience"] = report.ratio_spread(speeds, before)._asdict()
        found[name]["repeats"] = [pace._asdict() for pace in figures]
    return found


def print_report(found: Mapping[str, Any], shares: Mapping[str, float], steps: int) -> None:
    """One table."""
    rows = []
    for name, figures in found.items():
        less = figures["less_time"]
        percent = [100 * less[end] for end in ("median", "min", "max")]
        spreads = [report.Spread(**figures[kind]) for kind in ("epoch_seconds", "decisions_a_second")]
        rows.append(
            [
                name,
                *(spread.as_text() for spread in spreads),
                f"{figures['steps']['median']:.2f}",
                f"{percent[0]:.0f} % ({percent[1]:.0f}..{percent[2]:.0f})",
                report.Spread(**figures["experience"]).as_text(),
            ]
        )
    split = f"acting {shares['acting']:.0%}, training {shares['training']:.0%}"
    title = f"{WORLD}, {NUM_AGENTS} agents, {steps} steps each per epoch ({split}), {available_cores()} cores"
    columns = ["", "seconds of an epoch", "decisions a second", "steps", "less time", "× experience"]
    report.print_table(title, columns, rows)
    low, high = (100 * share for share in WANTED)
    print(
        f"wanted: {low:.0f} to {high:.0f} % less time; {available_cores()} cores allow at most "
        f"{100 * (1 - 1 / available_cores()):.0f} %"
    )


def parse_arguments() -> argparse.Namespace:
    """The settings of the run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--copies", type=int, default=64, help="of the world, at once")
    parser.add_argument("--seconds", type=float, default=3.0, help="of one measure, and up to whole epochs")
    parser.add_argument("--repeats", type=int, default=7, help="measures of each variant")
    common.add_common_arguments(parser)
    settings = parser.parse_args()
    if settings.quick:
        settings.copies, settings.seconds, settings.repeats = 8, 0.1, 1
    return settings


def main() -> None:
    """Balance, measure, print, write."""
    settings = parse_arguments()
    results = common.begin(settings)
    keep_freed_memory()
    shards = next(
        n for n in range(min(available_cores(), settings.copies), 0, -1) if settings.copies % n == 0
    )
    report.progress("how many steps take as long as acting?")
    steps, shares = find_balance(settings, shards)
    paces, busy = measure_all(settings, steps, shards)
    found = describe(paces, settings.copies * common.episode_length(WORLD))
    print_report(found, shares, steps)
    balance = {"steps_per_epoch": steps, "shares": shares}
    common.write(
        "independent_epochs",
        results | {"balance": balance, "figures": found, "busy_cores_of_others": busy},
        settings,
    )


if __name__ == "__main__":
    main()
