"""Strength over time as pictures: one line per opponent or per agent, with its confidence band."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from senju.training.metrics import Record

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 56, 210, 24, 44
LONGEST_NAME = 22  # characters that fit beside the plot
COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#b83280", "#4a5568")
Point = tuple[float, float]


def strength_svg(evaluations: Sequence[Record]) -> str:
    """The scores of all evaluations as an SVG picture."""
    last = max((record["steps"] for record in evaluations), default=1)
    opponents = list(dict.fromkeys(record["opponent"] for record in evaluations))
    parts = [*_head(HEIGHT), *_axes(last)]
    for index, opponent in enumerate(opponents):
        records = [record for record in evaluations if record["opponent"] == opponent]
        parts += _curve(records, last, COLOURS[index % len(COLOURS)], index)
    return "\n".join([*parts, "</svg>"])


def _head(height: float) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]


def _place(steps: float, score: float, last: float) -> Point:
    x = LEFT + (WIDTH - LEFT - RIGHT) * steps / last
    return round(x, 1), round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * score, 1)


def _axes(last: float) -> list[str]:
    parts = []
    for percent in (0, 25, 50, 75, 100):
        x, y = _place(0, percent / 100, last)
        parts.append(f'<line x1="{x}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="#e2e8f0"/>')
        parts.append(f'<text x="{x - 6}" y="{y + 4}" text-anchor="end">{percent} %</text>')
    for quarter in range(5):
        x, y = _place(last * quarter / 4, 0, last)
        parts.append(f'<text x="{x}" y="{y + 16}" text-anchor="middle">{_short(last * quarter / 4)}</text>')
    middle, bottom = (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8
    parts.append(f'<text x="{middle}" y="{bottom}" text-anchor="middle">steps learned from</text>')
    parts.append(f'<text x="{LEFT}" y="14">score, with 95 % intervals</text>')
    return parts


def _curve(records: Sequence[Record], last: float, colour: str, index: int) -> list[str]:
    points = [_place(record["steps"], record["score"], last) for record in records]
    upper = [_place(record["steps"], record["interval"][1], last) for record in records]
    lower = [_place(record["steps"], record["interval"][0], last) for record in records]
    name, score = records[-1]["opponent"].rsplit("/", 1)[-1], records[-1]["score"]
    if len(name) > LONGEST_NAME:
        name = f"…{name[1 - LONGEST_NAME :]}"
    label = escape(f"{name} {100 * score:.0f} %")
    return [
        f'<polygon points="{_join([*upper, *reversed(lower)])}" fill="{colour}" opacity="0.15"/>',
        f'<polyline points="{_join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>',
        *(f'<circle cx="{x}" cy="{y}" r="2.5" fill="{colour}"/>' for x, y in points),
        f'<text x="{WIDTH - RIGHT + 8}" y="{TOP + 14 + 18 * index}" fill="{colour}">{label}</text>',
    ]


NAMED_AGENTS = 14  # more do not fit beside the picture
MOST_POINTS = 150  # of a curve; where there are more, means of neighbours are drawn
PANEL = 250  # height of one of the two parts, in pixels


class _Panel(NamedTuple):
    """One of the two parts of the picture of rewards: where it stands, and what its axes show."""

    top: float
    last: float  # steps
    low: float  # rewards
    high: float

    @classmethod
    def of(cls, top: float, last: float, rewards: Iterable[float]) -> "_Panel":
        """One that has room for these rewards, and for 0."""
        values = [0.0, *rewards]
        low, high = min(values), max(values)
        margin = 0.05 * (high - low) or 1.0
        return cls(top, last, low - margin * (low < 0), high + margin)

    def place(self, steps: float, reward: float) -> Point:
        x = LEFT + (WIDTH - LEFT - RIGHT) * steps / self.last
        height = PANEL - TOP - BOTTOM
        return round(x, 1), round(self.top + TOP + height * (self.high - reward) / (self.high - self.low), 1)

    def axes(self, title: str) -> list[str]:
        parts = [f'<text x="{LEFT}" y="{self.top + 14}">{escape(title)}</text>']
        step = round_step((self.high - self.low) / 5)
        for tick in range(math.ceil(self.low / step), math.floor(self.high / step) + 1):
            x, y = self.place(0, tick * step)
            colour = "#a0aec0" if tick == 0 else "#e2e8f0"
            parts.append(f'<line x1="{x}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="{colour}"/>')
            parts.append(f'<text x="{x - 6}" y="{y + 4}" text-anchor="end">{tick * step:.6g}</text>')
        y = self.top + PANEL - BOTTOM + 16
        for quarter in range(5):
            steps = self.last * quarter / 4
            x, _ = self.place(steps, 0)
            parts.append(f'<text x="{x}" y="{y}" text-anchor="middle">{_short(steps)}</text>')
        middle = (LEFT + WIDTH - RIGHT) / 2
        return [*parts, f'<text x="{middle}" y="{y + 18}" text-anchor="middle">steps learned from</text>']

    def curve(self, points: Sequence[Point], colour: str, width: float = 2, more: str = "") -> str:
        placed = _join([self.place(*point) for point in points])
        return f'<polyline points="{placed}" fill="none" stroke="{colour}" stroke-width="{width}"{more}/>'


def rewards_svg(episodes: Sequence[Record], updates: Sequence[Record]) -> str:
    """What each agent gets, over time: in whole episodes beside a random player's, and in training."""
    last = max((record["steps"] for record in (*episodes, *updates)), default=1)
    num_agents = len(episodes[-1]["rewards"]) if episodes else 0
    parts = [*_head(2 * PANEL), *_measured(episodes, num_agents, last)]
    parts += _while_training(updates, num_agents, last)
    return "\n".join([*parts, "</svg>"])


def _measured(episodes: Sequence[Record], num_agents: int, last: float) -> list[str]:
    bounds = [bound for record in episodes for pair in record["intervals"] for bound in pair]
    panel = _Panel.of(0, last, [*bounds, *(reward for record in episodes for reward in record["random"])])
    parts = panel.axes("reward per episode, with 95 % intervals; dashed: played at random")
    for agent in range(num_agents):
        colour = _colour(agent, num_agents)
        sides = [
            [(record["steps"], record["intervals"][agent][side]) for record in episodes] for side in (0, 1)
        ]
        band = _join([panel.place(*point) for point in (*sides[1], *reversed(sides[0]))])
        points = [(record["steps"], record["rewards"][agent]) for record in episodes]
        random = episodes[-1]["random"][agent]
        parts.append(f'<polygon points="{band}" fill="{colour}" opacity="0.12"/>')
        parts.append(panel.curve([(0, random), (last, random)], colour, 1, ' stroke-dasharray="5 4"'))
        parts.append(panel.curve(points, colour))
        places = (panel.place(*point) for point in points)
        parts += [f'<circle cx="{x}" cy="{y}" r="2.5" fill="{colour}"/>' for x, y in places]
    return parts + _agent_names(episodes, num_agents)


def _agent_names(episodes: Sequence[Record], num_agents: int) -> list[str]:
    parts, x = [], WIDTH - RIGHT + 8
    for agent in range(min(num_agents, NAMED_AGENTS)):
        reward, random = (episodes[-1][name][agent] for name in ("rewards", "random"))
        label = f"agent {agent}: {reward:.3g} (random {random:.3g})"
        y, colour = TOP + 14 + 16 * agent, _colour(agent, num_agents)
        parts.append(f'<text x="{x}" y="{y}" fill="{colour}">{label}</text>')
    if num_agents > NAMED_AGENTS:
        y = TOP + 14 + 16 * NAMED_AGENTS
        parts.append(f'<text x="{x}" y="{y}">and {num_agents - NAMED_AGENTS} more</text>')
    return parts


def _while_training(updates: Sequence[Record], num_agents: int, last: float) -> list[str]:
    """The rewards of a turn, exploration and all, as the agents learned from them."""
    curves = [_thinned(updates, f"agent_{agent}/reward") for agent in range(num_agents)]
    panel = _Panel.of(PANEL, last, [reward for curve in curves for _, reward in curve])
    parts = panel.axes("reward per turn while training, random moves included")
    return parts + [
        panel.curve(curve, _colour(agent, num_agents), 1.5) for agent, curve in enumerate(curves) if curve
    ]


def _thinned(updates: Sequence[Record], name: str) -> list[Point]:
    points = [(float(record["steps"]), float(record[name])) for record in updates if name in record]
    size = -(-len(points) // MOST_POINTS) or 1
    groups = [points[first : first + size] for first in range(0, len(points), size)]
    return [(group[-1][0], sum(reward for _, reward in group) / len(group)) for group in groups]


def _colour(agent: int, num_agents: int) -> str:
    """Colours that can be told apart, as far as there are enough of them."""
    if num_agents <= len(COLOURS):
        return COLOURS[agent]
    return f"hsl({360 * agent // num_agents}, 60%, {(38, 52)[agent % 2]}%)"


def round_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is not less.

    >>> [round_step(least) for least in (0.3, 1.0, 12.0, 60.0)]
    [0.5, 1.0, 20.0, 100.0]
    """
    power = 10.0 ** math.floor(math.log10(max(least, 1e-9)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def _join(points: Sequence[Point]) -> str:
    return " ".join(f"{x},{y}" for x, y in points)


def _short(number: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.0f}"
