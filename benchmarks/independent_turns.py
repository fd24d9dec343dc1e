"""How many turns of a world a second, with learning, compared with a plain loop and a plain framework?

    .venv/bin/python benchmarks/independent_turns.py [--quick] [--worlds tag]
    PYTHONPATH=. python3 benchmarks/independent_turns.py --device cuda --out turns.json

Three worlds as they are by default, about 240,000 weights an agent, DQN as in the presets. All variants learn
the same amount for each turn: one train step of 64 per agent and episode of each copy of the world. They
are measured in turn:

plain          one copy of the world, one step after another, on one core
rows           64 copies at once, else the same, on one core
rows, stacked  the same, with the agents trained as one batched computation, on one core
parallel       copies on all cores, then the agents' learners in processes on all cores (sync)
async          collecting and learning at the same time, on all cores
stacked        workers collect; meanwhile the agents are trained as one computation, on --device

`collecting` and `learning` are each stage alone; `in turn` is what those two would give one after the other,
and `reached` is the measured speed divided by that (above 1 where they overlap). `products` is a step's
matrix products alone: what one core could learn if everything else cost nothing. `steps` is the number of
gradient steps taken, divided by the number due: where it is below 1, learning is the slower side, and the
turns a second are scaled down to those with finished training. The plain framework's figures (441, 54, 140)
were measured elsewhere, on a machine of the same kind. About a quarter of an hour on two cores.
"""

import argparse
from contextlib import ExitStack
from functools import partial
from time import perf_counter
from typing import Any

import bench_report as report
import measured_world as common
import torch
from measured_world import ALL_CORES, Entrant, MeasuredWorld

from senju.games import make_game
from senju.machine import available_cores, inspect_machine, math_threads
from senju.memory import keep_freed_memory
from senju.models import make_model

PLAIN_FRAMEWORK = {
    "treasure_hunt": 441.0,
    "cleanup": 54.0,
    "tag": 140.0,
}  # turns a second, measured elsewhere
AIM = 20.0  # times the plain framework, on one core
FIGURES = ("turns", "played", "steps", "collecting", "learning")

Repeats = dict[str, dict[str, list[float]]]  # entrant, figure: repeat by repeat


def entrants(settings: argparse.Namespace) -> list[Entrant]:
    """Plain comes first: the others are compared with it."""
    copies, cores = settings.copies, available_cores()
    many = cores * max(copies // cores, settings.copies_each)  # in shards, one for every core
    plain = {"parallel": {"enabled": False}}
    together = {"learners": "stacked", "parallel": {"parallel_actions": False}}
    free = {"parallel": {"async_learning": True}}
    return [
        Entrant("plain", 1, 1, 1, plain),
        Entrant("rows", copies, 1, 1, plain),
        Entrant("rows, stacked", copies, 1, 1, together),
        Entrant("parallel", many, cores, ALL_CORES, {"learners": "processes"}),
        Entrant("async", many, cores, ALL_CORES, {"learners": "processes"} | free),
        Entrant("stacked", many, cores, ALL_CORES, {"learners": "stacked", "device": settings.device} | free),
    ]


def products_alone(world: str, seconds: float) -> float:
    """Turns a second, if learning were the matrix products of its steps and nothing else, on one core.

    A double DQN's step evaluates the next positions with both networks and the positions with one, and
    backpropagates through that one.
    """
    config = common.world_config(world, Entrant("", 1), 1.0)
    game = make_game(**config.game)
    model = make_model(config.model, game.observation_shape, game.num_actions, 0)
    layers = [parameter for parameter in model.parameters() if parameter.dim() == 2]
    inputs = [torch.rand(common.BATCH, layer.shape[1]) for layer in layers]
    outputs = [torch.rand(common.BATCH, layer.shape[0]) for layer in layers]
    with common.on_cores(1), math_threads(1), torch.inference_mode():
        began, steps = perf_counter(), 0
        while perf_counter() - began < seconds:
            for index, (layer, before, after) in enumerate(zip(layers, inputs, outputs, strict=True)):
                for _ in range(3):
                    before @ layer.T
                after.T @ before  # the weights' gradient
                if index:
                    after @ layer  # the inputs' gradient; observations need no gradient
            steps += 1
        spent = perf_counter() - began
    return steps / spent * config.collect.rollout_steps / game.num_seats


def measure_world(world: str, settings: argparse.Namespace) -> tuple[Repeats, list[float], list[float]]:
    """Measure all variants in turn, once per repeat; also matrix products alone, and other programs' load."""
    field, seconds = entrants(settings), settings.seconds
    repeats: Repeats = {one.name: {figure: [] for figure in FIGURES} for one in field}
    products: list[float] = []
    busy: list[float] = []
    with ExitStack() as stack:
        worlds = []
        for one in field:
            report.progress(f"{world}: starting {one.name}")
            new_config = partial(common.world_config, world, steps_per_episode=1.0)
            worlds.append(stack.enter_context(MeasuredWorld(one, new_config)))
        for repeat in range(settings.repeats):
            report.progress(f"{world}: repeat {repeat + 1} of {settings.repeats}")
            busy.append(inspect_machine().busy_cores)
            products.append(products_alone(world, seconds / 2))
            for each in worlds:
                found = repeats[each.entrant.name]
                found["collecting"].append(each.collecting(seconds / 2))
                found["learning"].append(each.learning(seconds / 2))
                pace = each.together(seconds)
                found["turns"].append(pace.trained)
                found["played"].append(pace.played)
                found["steps"].append(pace.steps)
    return repeats, products, busy


def describe(world: str, repeats: Repeats, products: list[float]) -> dict[str, Any]:
    """Spreads and ratios of a world."""
    plain = repeats["plain"]["turns"]
    elsewhere = [PLAIN_FRAMEWORK[world]] * len(plain)
    found: dict[str, Any] = {}
    for name, figures in repeats.items():
        pairs = zip(figures["collecting"], figures["learning"], strict=True)
        in_turn = [1.0 / (1.0 / collecting + 1.0 / learning) for collecting, learning in pairs]
        ratios = {
            "over_plain": report.ratio_spread(figures["turns"], plain)._asdict(),
            "over_plain_framework": report.ratio_spread(figures["turns"], elsewhere)._asdict(),
            "reached": report.ratio_spread(figures["turns"], in_turn)._asdict(),
        }
        found[name] = common.spreads(figures | {"in_turn": in_turn}) | ratios
    config = common.world_config(world, Entrant("", 1), 1.0)
    return {
        "weights_of_an_agent": common.count_weights(config),
        "agents": make_game(**config.game).num_seats,
        "turns_of_an_episode": config.collect.rollout_steps,
        "plain_framework": PLAIN_FRAMEWORK[world],
        "products_alone": report.spread(products)._asdict(),
        "entrants": found,
        "repeats": repeats,
    }


def print_world(world: str, found: dict[str, Any]) -> None:
    """Two tables: how fast, and what bounds it."""

    def text(spread: dict[str, float]) -> str:
        return report.Spread(**spread).as_text()

    rows, limits = [], []
    for name, figures in found["entrants"].items():
        ratios = (figures["over_plain"], figures["over_plain_framework"])
        rows.append([name, text(figures["turns"]), f"{figures['steps']['median']:.2f}", *map(text, ratios)])
        bounds = ("collecting", "learning", "in_turn", "reached")
        limits.append([name, *(text(figures[bound]) for bound in bounds)])
    size = f"{found['agents']} agents of {found['weights_of_an_agent']:,} weights"
    title = f"{world}, {size}: with learning (plain framework: {found['plain_framework']:.0f})"
    report.print_table(title, ["", "turns a second", "steps", "× plain", "× plain framework"], rows)
    print()
    columns = ["turns a second", "collecting alone", "learning alone", "in turn", "reached"]
    report.print_table(f"{world}: what bounds it", columns, limits)
    one_core = [name for name in ("rows", "rows, stacked") if name in found["entrants"]]
    best = max(found["entrants"][name]["over_plain_framework"]["median"] for name in one_core)
    print(
        f"one core: {best:.1f} times the plain framework, {AIM:.0f} were aimed at; a step's matrix products "
        f"alone would allow {text(found['products_alone'])} turns a second\n"
    )


def parse_arguments() -> argparse.Namespace:
    """The settings of the run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", nargs="+", default=list(PLAIN_FRAMEWORK), choices=list(PLAIN_FRAMEWORK))
    parser.add_argument("--copies", type=int, default=64, help="of the world, at once")
    parser.add_argument("--copies-each", type=int, default=16, help="at least, of every core")
    parser.add_argument("--device", default="cpu", help="of the entrant `stacked`")
    parser.add_argument("--seconds", type=float, default=3.0, help="of one measure, and up to whole epochs")
    parser.add_argument("--repeats", type=int, default=5, help="measures of each variant")
    common.add_common_arguments(parser)
    settings = parser.parse_args()
    if settings.quick:
        settings.copies, settings.copies_each, settings.seconds, settings.repeats = 4, 1, 0.1, 1
        settings.worlds = settings.worlds[:1]
    return settings


def main() -> None:
    """Measure, print, write."""
    settings = parse_arguments()
    results = common.begin(settings)
    keep_freed_memory()
    worlds: dict[str, Any] = {}
    for world in settings.worlds:
        repeats, products, busy = measure_world(world, settings)
        worlds[world] = describe(world, repeats, products) | {"busy_cores_of_others": busy}
        print_world(world, worlds[world])
    common.write("independent_turns", results | {"worlds": worlds}, settings)


if __name__ == "__main__":
    main()
