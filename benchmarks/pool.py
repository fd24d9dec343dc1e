"""How much does a step cost with opponents from a pool, compared with plain self-play?

Connect Four with the network of its preset, 256 games in this process, on one core. No game is self-play,
which is the slowest case; `self_share` sets the share of self-play games. Pools of 1, 4, 16 and 64
snapshots are compared, with the default number in play; then 1, 4 and 16 in play of 64. All cases are
measured in turn, so that a change of the machine's speed affects all alike. Before each rollout the orders
get a new version with new active opponents, as in training. Times are processor time of this process, so
that other processes disturb little.

    python benchmarks/pool.py
"""

import argparse
import dataclasses
from collections.abc import Sequence
from time import process_time
from typing import Any

import bench_report as report
import numpy as np
import torch

from senju.collect.slots import Slot
from senju.games import make_game
from senju.models import make_model
from senju.models.weights import WeightBlock, Weights
from senju.opponents.pool import OpponentsConfig
from senju.runs.run_config import resolve_config
from senju.training.loop import Loop

GAME = "connect_four"
IN_PLAY = OpponentsConfig().in_play
SELF_PLAY = "self-play"


@dataclasses.dataclass
class Case:
    """One assignment of players to seats, with its measured cost."""

    snapshots: int = 0  # none: self-play
    in_play: int = IN_PLAY
    seconds: list[float] = dataclasses.field(default_factory=list)  # per step, rollout by rollout
    opponents_seconds: list[float] = dataclasses.field(default_factory=list)  # of these, for opponents
    batches: list[float] = dataclasses.field(default_factory=list)  # opponents that decide in a shard's step

    @property
    def name(self) -> str:
        """Its name in the tables."""
        if not self.snapshots:
            return SELF_PLAY
        return f"pool of {self.snapshots}, {min(self.in_play, self.snapshots)} in play"


class Player:
    """A case that is played."""

    def __init__(self, case: Case, seed: int) -> None:
        self.case, self._version = case, 0
        self._unpublished: dict[int, Weights] = {}  # of opponents, by weight index
        seating = {"seating": "opponents"} if case.snapshots else {}
        opponents = {
            "snapshot_interval": 1,
            "size": max(case.snapshots, 1),
            "in_play": case.in_play,
            "self_share": 0.0,
        }
        layer = {"collect": seating, "opponents": opponents, "backend": {"name": "serial"}, "seed": seed}
        config = resolve_config(GAME, layer)
        self._game = make_game(**config.game)
        self._loop = Loop(config, self._game)
        self._loop.start()
        self._num_steps = config.decisions_per_update
        self._fill(case.snapshots)

    def _fill(self, num_snapshots: int) -> None:
        """Fill the pool with `snapshots` snapshots; their weights have no influence on their cost."""
        loop = self._loop
        for number in range(1, num_snapshots + 1):
            assert loop.pool is not None
            model = make_model(
                loop.config.model, self._game.observation_shape, self._game.num_actions, number
            )
            self._unpublished |= loop.pool.add_snapshot(number, WeightBlock(model).read())

    def measure(self) -> None:
        """Play one rollout of all games."""
        loop = self._loop
        self._version += 1
        if loop.pool is not None:
            weights, orders = loop.learner.weights(), loop.pool.orders(self._version, (0.0,))
            loop.backend.publish(weights, self._version, orders, self._unpublished)
            self._unpublished = {}
        loop.backend.report()
        began = process_time()
        rollouts = loop.collect()
        self.case.seconds.append((process_time() - began) / self._num_steps)
        stages = loop.backend.report().timings
        share = stages.get("opponents", 0.0) / sum(stages.values())
        self.case.opponents_seconds.append(self.case.seconds[-1] * share)
        self.case.batches.append(float(np.mean([_count_batches(rollout.data) for rollout in rollouts])))

    def forget(self) -> None:
        """Discard the figures of the warm-up."""
        self.case.seconds.clear()
        self.case.opponents_seconds.clear()
        self.case.batches.clear()


def _count_batches(slot: Slot) -> float:
    """How many opponents decide in a step, on average; those of games begun earlier are among them."""
    is_theirs = slot.seats[..., 0] < 0
    who = slot.seated.max(axis=-1)  # the learner is 0
    return float(np.mean([len(np.unique(who[time][is_theirs[time]])) for time in range(slot.num_steps)]))


def new_cases(pools: Sequence[int], in_play: Sequence[int]) -> list[Case]:
    """Self-play first; the largest pool is also tried with other numbers in play."""
    sizes = [Case(), *(Case(size) for size in pools)]
    return [*sizes, *(Case(max(pools), number) for number in in_play if number != IN_PLAY)]


def measure_all(cases: Sequence[Case], repeats: int, seed: int) -> None:
    """Every case once, then all again; the first two rounds only warm up."""
    players = [Player(case, seed) for case in cases]
    for repeat in range(-2, repeats):
        report.progress("warming up" if repeat < 0 else f"repeat {repeat + 1} of {repeats}")
        for player in players:
            player.measure()
        if repeat == -1:
            for player in players:
                player.forget()


def over_self_play(cases: Sequence[Case]) -> dict[str, report.Spread]:
    """What a step costs for each step of self-play, in the same round."""
    plain = cases[0].seconds
    return {case.name: report.ratio_spread(case.seconds, plain) for case in cases}


def print_report(cases: Sequence[Case]) -> None:
    """One table: microseconds of a step, of these for opponents, in how many batches, and × self-play."""
    ratios = over_self_play(cases)
    rows = []
    for case in cases:
        micros = [[second * 1e6 for second in of] for of in (case.seconds, case.opponents_seconds)]
        figures = [*map(report.spread, (*micros, case.batches)), ratios[case.name]]
        rows.append([case.name, *(figure.as_text() for figure in figures)])
    title = f"{GAME}, processor time of a step of one game: median (min..max)"
    columns = ["", "µs per step", "for opponents", "batches of opponents", "× self-play"]
    report.print_table(title, columns, rows)


def as_json(cases: Sequence[Case]) -> dict[str, Any]:
    """All figures, and their ratios."""
    ratios = over_self_play(cases)
    figures = {
        case.name: {
            "snapshots": case.snapshots,
            "in_play": min(case.in_play, case.snapshots),
            "seconds_per_step": report.spread(case.seconds)._asdict(),
            "opponents_seconds_per_step": report.spread(case.opponents_seconds)._asdict(),
            "batches_per_step": report.spread(case.batches)._asdict(),
            "over_self_play": ratios[case.name]._asdict(),
            "repeats": case.seconds,
        }
        for case in cases
    }
    return {"figures": figures}


def parse_arguments() -> argparse.Namespace:
    """The settings of the run."""
    parser = argparse.ArgumentParser(description="What a step costs with a pool of opponents.")
    parser.add_argument("--repeats", type=int, default=12, help="rollouts of each case")
    parser.add_argument("--seed", type=int, default=1, help="seed of every case")
    parser.add_argument("--pools", type=int, nargs="+", default=[1, 4, 16, 64], help="sizes of the pool")
    parser.add_argument("--in-play", type=int, nargs="+", default=[1, 16], help="tried with the largest pool")
    return parser.parse_args()


def main() -> None:
    """Measure, print, write."""
    settings = parse_arguments()
    torch.set_num_threads(1)
    facts = report.run_facts(["numba", "numpy", "torch"])
    cases = new_cases(settings.pools, settings.in_play)
    measure_all(cases, settings.repeats, settings.seed)
    print()
    print_report(cases)
    report.write_results("pool", facts | {"settings": vars(settings)} | as_json(cases))


if __name__ == "__main__":
    main()
