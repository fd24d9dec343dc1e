"""Strength over time as pictures: one line per opponent or per agent, with its confidence band."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from senju.runs.metrics import Record
from senju.svg import round_step, svg_picture, svg_text

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 56, 210, 24, 44
LONGEST_NAME = 22  # characters that fit beside the plot
NAMED_AGENTS = 14  # more do not fit beside the picture
MOST_POINTS = 150  # of a curve; of more points, means of neighbours are drawn
PANEL = 250  # height of one of the two panels of rewards, in pixels
COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#b83280", "#4a5568")
GRID, ZERO_LINE = "#e2e8f0", "#a0aec0"
Point = tuple[float, float]


class _Panel(NamedTuple):
    """A coordinate system in a picture: its position, and the range of its axes."""

    top: float
    height: float
    last: float  # steps
    low: float
    high: float

    @classmethod
    def of_rewards(cls, top: float, last: float, rewards: Iterable[float]) -> "_Panel":
        """A panel that has room for these rewards, and for 0."""
        values = [0.0, *rewards]
        low, high = min(values), max(values)
        margin = 0.05 * (high - low) or 1.0
        return cls(top, PANEL, last, low - margin * (low < 0), high + margin)

    def place(self, steps: float, value: float) -> Point:
        x = LEFT + (WIDTH - LEFT - RIGHT) * steps / self.last
        height = self.height - TOP - BOTTOM
        return round(x, 1), round(self.top + TOP + height * (self.high - value) / (self.high - self.low), 1)

    def axes(self, title: str, ticks: Sequence[tuple[float, str]]) -> list[str]:
        parts = [svg_text(LEFT, self.top + 14, title)]
        for value, label in ticks:
            x, y = self.place(0, value)
            colour = ZERO_LINE if value == 0 else GRID
            parts.append(f'<line x1="{x}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="{colour}"/>')
            parts.append(svg_text(x - 6, y + 4, label, "end"))
        y = self.top + self.height - BOTTOM + 16
        for quarter in range(5):
            steps = self.last * quarter / 4
            parts.append(svg_text(self.place(steps, 0)[0], y, _short(steps), "middle"))
        return [*parts, svg_text((LEFT + WIDTH - RIGHT) / 2, y + 18, "steps learned from", "middle")]

    def reward_ticks(self) -> list[tuple[float, str]]:
        step = round_step((self.high - self.low) / 5)
        numbers = range(math.ceil(self.low / step), math.floor(self.high / step) + 1)
        return [(number * step, f"{number * step:.6g}") for number in numbers]

    def curve(self, points: Sequence[Point], colour: str, width: float = 2, more: str = "") -> str:
        placed = self._join(points)
        return f'<polyline points="{placed}" fill="none" stroke="{colour}" stroke-width="{width}"{more}/>'

    def measured(
        self,
        steps: Sequence[float],
        means: Sequence[float],
        intervals: Sequence[Sequence[float]],
        colour: str,
    ) -> list[str]:
        """A curve of means with a dot for each, in the band of their intervals."""
        points = list(zip(steps, means, strict=True))
        lower, upper = (
            [(at, bounds[i]) for at, bounds in zip(steps, intervals, strict=True)] for i in (0, 1)
        )
        band = self._join([*upper, *reversed(lower)])
        parts = [f'<polygon points="{band}" fill="{colour}" opacity="0.15"/>', self.curve(points, colour)]
        places = (self.place(*point) for point in points)
        return parts + [f'<circle cx="{x}" cy="{y}" r="2.5" fill="{colour}"/>' for x, y in places]

    def _join(self, points: Sequence[Point]) -> str:
        return " ".join(f"{x},{y}" for x, y in (self.place(*point) for point in points))


def strength_svg(evaluations: Sequence[Record]) -> str:
    """The scores of all evaluations as an SVG picture."""
    panel = _Panel(0, HEIGHT, _last(evaluations), 0.0, 1.0)
    ticks = [(percent / 100, f"{percent} %") for percent in (0, 25, 50, 75, 100)]
    parts = panel.axes("score, with 95 % intervals", ticks)
    for index, opponent in enumerate(dict.fromkeys(record["opponent"] for record in evaluations)):
        records = [record for record in evaluations if record["opponent"] == opponent]
        steps, scores, intervals = (
            [record[key] for record in records] for key in ("steps", "score", "interval")
        )
        colour, name = COLOURS[index % len(COLOURS)], shortened(opponent, LONGEST_NAME)
        parts += panel.measured(steps, scores, intervals, colour)
        parts.append(_label(TOP + 14 + 18 * index, f"{name} {100 * scores[-1]:.0f} %", colour))
    return svg_picture(WIDTH, HEIGHT, parts)


def rewards_svg(episodes: Sequence[Record], updates: Sequence[Record]) -> str:
    """The rewards of each agent over time: in whole episodes beside a random player's, and in training."""
    last = _last([*episodes, *updates])
    num_agents = len(episodes[-1]["rewards"]) if episodes else 0
    parts = _measured(episodes, num_agents, last)
    return svg_picture(WIDTH, 2 * PANEL, parts + _while_training(updates, num_agents, last))


def _measured(episodes: Sequence[Record], num_agents: int, last: float) -> list[str]:
    bounds = [bound for record in episodes for pair in record["intervals"] for bound in pair]
    at_random = [reward for record in episodes for reward in record["random"]]
    panel = _Panel.of_rewards(0, last, [*bounds, *at_random])
    title = "reward per episode, with 95 % intervals; dashed: played at random"
    parts = panel.axes(title, panel.reward_ticks())
    for agent in range(num_agents):
        colour, random = _colour(agent, num_agents), episodes[-1]["random"][agent]
        steps = [record["steps"] for record in episodes]
        rewards, intervals = ([record[key][agent] for record in episodes] for key in ("rewards", "intervals"))
        parts.append(panel.curve([(0, random), (last, random)], colour, 1, ' stroke-dasharray="5 4"'))
        parts += panel.measured(steps, rewards, intervals, colour)
    return parts + _agent_names(episodes, num_agents)


def _agent_names(episodes: Sequence[Record], num_agents: int) -> list[str]:
    parts = []
    for agent in range(min(num_agents, NAMED_AGENTS)):
        reward, random = (episodes[-1][name][agent] for name in ("rewards", "random"))
        label = f"agent {agent}: {reward:.3g} (random {random:.3g})"
        parts.append(_label(TOP + 14 + 16 * agent, label, _colour(agent, num_agents)))
    if num_agents > NAMED_AGENTS:
        parts.append(_label(TOP + 14 + 16 * NAMED_AGENTS, f"and {num_agents - NAMED_AGENTS} more", "black"))
    return parts


def _while_training(updates: Sequence[Record], num_agents: int, last: float) -> list[str]:
    """The rewards of a turn, with random moves, as the agents learned from them."""
    curves = [_thinned(updates, f"agent_{agent}/reward") for agent in range(num_agents)]
    panel = _Panel.of_rewards(PANEL, last, [reward for curve in curves for _, reward in curve])
    parts = panel.axes("reward per turn while training, random moves included", panel.reward_ticks())
    return parts + [
        panel.curve(curve, _colour(agent, num_agents), 1.5) for agent, curve in enumerate(curves) if curve
    ]


def _thinned(updates: Sequence[Record], name: str) -> list[Point]:
    points = [(float(record["steps"]), float(record[name])) for record in updates if name in record]
    size = -(-len(points) // MOST_POINTS) or 1
    groups = [points[first : first + size] for first in range(0, len(points), size)]
    return [(group[-1][0], sum(reward for _, reward in group) / len(group)) for group in groups]


def _last(records: Sequence[Record]) -> float:
    return max((record["steps"] for record in records), default=1)


def _colour(agent: int, num_agents: int) -> str:
    """A different colour for each agent, as far as possible."""
    if num_agents <= len(COLOURS):
        return COLOURS[agent]
    return f"hsl({360 * agent // num_agents}, 60%, {(38, 52)[agent % 2]}%)"


def _label(y: float, text: str, colour: str) -> str:
    return svg_text(WIDTH - RIGHT + 8, y, text, more=f' fill="{colour}"')


def shortened(name: str, longest: int) -> str:
    """The end of a name, which distinguishes runs."""
    return name if len(name) <= longest else f"…{name[1 - longest :]}"


def _short(number: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.0f}"
