"""Do independent agents learn in the gridworlds, with several seeds?

    .venv/bin/python benchmarks/strength_worlds.py [--worlds tag] [--seeds 0 1 2] [--quick]

Each world with its preset; three agents in the treasure hunt. Then, per agent, the mean reward of an episode
with a 95 % interval: of the trained agents together, of random ones, and of each trained agent alone among
random ones, since in tag one agent's gain is the others' loss. Draws docs/learning_WORLD.svg: the reward per
episode of every agent over the turns it learned from. About two minutes on two cores for each seed and world.
"""

import argparse
import math
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import bench_report as report
import measured_world as common
import torch

import senju
from senju.config import Settings
from senju.evaluation.episodes import EpisodesResult, play_episodes
from senju.evaluation.plot import BOTTOM, COLOURS, HEIGHT, LEFT, RIGHT, TOP, WIDTH
from senju.games.game import Game
from senju.models import make_model
from senju.runs.agent import Agent
from senju.runs.run import Run
from senju.runs.run_config import resolve_config
from senju.svg import round_step

WORLDS: dict[str, Settings] = {"treasure_hunt": {"num_agents": 3}, "tag": {}, "cleanup": {}}
WANTED = {"treasure_hunt": 5.0}  # times what random agents get, each agent of each seed
_POINTS, _POINTS_QUICK = 20, 3  # of a learning curve
_CURVE_EPISODES = 64  # of a point
_RANDOM_TIMES = 10  # as many episodes of random agents

Json = dict[str, Any]


def train(world: str, seed: int, settings: argparse.Namespace, folder: Path) -> Run:
    """A run of the preset; it measures itself as often as a curve needs."""
    game = {"name": world} | WORLDS[world]
    config = resolve_config(None, {"game": game})
    last = _POINTS_QUICK if settings.quick else config.total_updates
    return senju.train(
        game,
        seed=seed,
        run=folder / f"{world}-{seed}",
        total_steps=last * config.decisions_per_update,
        evaluation={"interval": max(1, last // _POINTS), "games": _CURVE_EPISODES},
        checkpoint={"interval": last, "keep": 1},  # with the agents' memories it is large
    )


def judge(run: Run, num_episodes: int, seed: int) -> Json:
    """Rewards of each agent: with the others, alone among random ones, and as a random one itself."""
    game, agents = run.game, run.agents
    cut = run.config.collect.max_game_length
    # what all are compared with, and so small that it takes many episodes to be sure of
    random = play_episodes(game, None, _RANDOM_TIMES * num_episodes, seed, max_length=cut)
    together = play_episodes(game, agents, num_episodes, seed, max_length=cut, random=random)
    alone = []
    for seat in range(game.num_seats):
        seated = [agent if place == seat else random_agent(game) for place, agent in enumerate(agents)]
        result = play_episodes(game, seated, num_episodes, seed, max_length=cut, random=random)
        alone.append(figures_of(result, random, seat))
    return {
        "random": [_reward(random, seat) for seat in range(game.num_seats)],
        "together": [figures_of(together, random, seat) for seat in range(game.num_seats)],
        "alone": alone,
    }


def random_agent(game: Game) -> Agent:
    """An agent that draws all actions with equal probability."""
    model = make_model({"name": "mlp", "hidden": [1]}, game.observation_shape, game.num_actions, 0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    return Agent(game, model, "random")


def _reward(result: EpisodesResult, seat: int) -> Json:
    return {"reward": result.rewards[seat], "interval": list(result.intervals[seat])}


def figures_of(result: EpisodesResult, random: EpisodesResult, seat: int) -> Json:
    """A seat's reward, how much more that is than a random agent's, and how many times as much."""
    gain = result.rewards[seat] - random.rewards[seat]
    widths = [each.intervals[seat].high - each.intervals[seat].low for each in (result, random)]
    reach = math.hypot(*widths) / 2
    times = result.ratio(seat)
    return _reward(result, seat) | {
        "gain": gain,
        "gain_interval": [gain - reach, gain + reach],
        "times_random": None if math.isnan(times) else times,  # JSON knows no NaN
    }


def curve_of(run: Run) -> list[Json]:
    """Rewards per episode over turns of the world."""
    agents = run.game.num_seats
    kept = ("rewards", "intervals", "random")
    return [
        {"turns": record["steps"] // agents} | {name: record[name] for name in kept}
        for record in run.episodes
    ]


class Picture:
    """Learning curves of a world: a line for each agent, in its seed's colour."""

    def __init__(self, world: str, seeds: dict[int, Json]) -> None:
        self.world, self.seeds = world, seeds
        curves = [record for found in seeds.values() for record in found["curve"]]
        rewards = [reward for record in curves for reward in (*record["rewards"], *record["random"])]
        self.last = max(record["turns"] for record in curves)
        margin = 0.05 * (max(rewards) - min(rewards)) or 1.0
        self.low, self.high = min(rewards) - margin, max(rewards) + margin

    def svg(self) -> str:
        """The whole picture."""
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
            f'height="{HEIGHT}" font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            *self._axes(),
        ]
        for index, (seed, found) in enumerate(self.seeds.items()):
            parts += self._seed(seed, found["curve"], index)
        return "\n".join([*parts, "</svg>"])

    def _place(self, turns: float, reward: float) -> tuple[float, float]:
        x = LEFT + (WIDTH - LEFT - RIGHT) * turns / self.last
        y = TOP + (HEIGHT - TOP - BOTTOM) * (self.high - reward) / (self.high - self.low)
        return round(x, 1), round(y, 1)

    def _axes(self) -> list[str]:
        title = f"{self.world}: reward per episode of each agent; dashed: random agents"
        parts = [f'<text x="{LEFT}" y="14">{title}</text>']
        step = round_step((self.high - self.low) / 6)
        for tick in range(math.ceil(self.low / step), math.floor(self.high / step) + 1):
            x, y = self._place(0, tick * step)
            colour = "#e2e8f0" if tick else "#a0aec0"
            parts.append(f'<line x1="{x}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="{colour}"/>')
            parts.append(f'<text x="{x - 6}" y="{y + 4}" text-anchor="end">{tick * step:g}</text>')
        for quarter in range(5):
            turns = self.last * quarter / 4
            x, _ = self._place(turns, 0)
            words = f"{turns / 1000:,.0f}k" if self.last >= 10_000 else f"{turns:,.0f}"
            parts.append(f'<text x="{x}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{words}</text>')
        middle = (LEFT + WIDTH - RIGHT) / 2
        words = "turns of the world, in all its copies"
        return [*parts, f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{words}</text>']

    def _seed(self, seed: int, curve: list[Json], index: int) -> list[str]:
        colour, parts = COLOURS[index % len(COLOURS)], []
        rewards, random = curve[-1]["rewards"], curve[-1]["random"]
        for agent in range(len(rewards)):
            points = [self._place(record["turns"], record["rewards"][agent]) for record in curve]
            parts.append(self._line(points, colour, 'stroke-width="1.5" opacity="0.8"'))
        mean = sum(random) / len(random)
        ends = [self._place(0, mean), self._place(self.last, mean)]
        parts.append(self._line(ends, colour, 'stroke-dasharray="5 4"'))
        words = f"seed {seed}: {sum(rewards) / len(rewards):.3g} (random {mean:.3g})"
        x, y = WIDTH - RIGHT + 8, TOP + 14 + 18 * index
        return [*parts, f'<text x="{x}" y="{y}" fill="{colour}">{words}</text>']

    @staticmethod
    def _line(points: list[tuple[float, float]], colour: str, more: str) -> str:
        joined = " ".join(f"{x},{y}" for x, y in points)
        return f'<polyline points="{joined}" fill="none" stroke="{colour}" {more}/>'


def print_world(world: str, seeds: dict[int, Json]) -> None:
    """A row for each agent of each seed."""
    rows = []
    for seed, found in seeds.items():
        for seat, (random, together, alone) in enumerate(
            zip(found["random"], found["together"], found["alone"], strict=True)
        ):
            times = together["times_random"]
            rows.append(
                [
                    f"seed {seed}, agent {seat}",
                    *(_text(each["reward"], each["interval"]) for each in (random, together)),
                    "" if times is None else f"{times:.2f}",
                    _text(together["gain"], together["gain_interval"]),
                    _text(alone["reward"], alone["interval"]),
                    _text(alone["gain"], alone["gain_interval"]),
                ]
            )
    columns = ["", "random", "together", "× random", "gain", "alone", "gain alone"]
    report.print_table(f"{world}: reward per episode, with 95 % intervals", columns, rows)


def _text(value: float, interval: list[float]) -> str:
    return f"{value:.2f} ± {(interval[1] - interval[0]) / 2:.2f}"


def summarise(world: str, seeds: dict[int, Json]) -> Json:
    """The weakest of all agents of all seeds, by the measures of the world."""
    found: Json = {}
    for kind in ("together", "alone"):
        agents = [agent for judged in seeds.values() for agent in judged[kind]]
        times = [agent["times_random"] for agent in agents]
        found[kind] = {
            "least_gain": min(agent["gain"] for agent in agents),
            "surely_better": sum(agent["gain_interval"][0] > 0 for agent in agents),
            "agents": len(agents),
            "least_times_random": None if None in times else min(times),
        }
        text = (
            f"{world}, {kind}: {found[kind]['surely_better']} of {len(agents)} agents are surely better than "
        )
        text += f"random ones, by {found[kind]['least_gain']:.2f} at least"
        if found[kind]["least_times_random"] is not None:
            text += f", {found[kind]['least_times_random']:.2f} times as much"
        if kind == "together" and world in WANTED:
            text += f" (wanted: {WANTED[world]:g} times)"
        print(text)
    return found


def parse_arguments() -> argparse.Namespace:
    """The settings of the run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=list(WORLDS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--episodes", type=int, default=400, help="of every measure at the end")
    common.add_common_arguments(parser)
    settings = parser.parse_args()
    if settings.quick:
        settings.seeds, settings.episodes = settings.seeds[:1], 8
    return settings


def draw(world: str, seeds: dict[int, Json], settings: argparse.Namespace) -> None:
    """Write the picture beside the results."""
    picture = Picture(world, seeds).svg()
    if settings.out is None and settings.quick:
        return
    folder = report.REPOSITORY / "docs" if settings.out is None else settings.out.parent
    (folder / f"learning_{world}.svg").write_text(picture, encoding="utf-8")


def main() -> None:
    """Train, measure, print, draw, write."""
    settings = parse_arguments()
    results = common.begin(settings)
    worlds: Json = {}
    for world in settings.worlds:
        seeds: dict[int, Json] = {}
        for seed in settings.seeds:
            report.progress(f"{world}, seed {seed}")
            with TemporaryDirectory() as folder:
                began = perf_counter()
                run = train(world, seed, settings, Path(folder))
                seconds = perf_counter() - began
                seeds[seed] = judge(run, settings.episodes, seed) | {
                    "curve": curve_of(run),
                    "training_seconds": seconds,
                }
        print_world(world, seeds)
        worlds[world] = {"weakest": summarise(world, seeds), "seeds": seeds}
        print()
        draw(world, seeds, settings)
    common.write("strength_worlds", results | {"worlds": worlds}, settings)


if __name__ == "__main__":
    main()
