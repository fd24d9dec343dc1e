"""Strength over time as a picture: one line per opponent, with its confidence band."""

from collections.abc import Sequence
from html import escape

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
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        *_axes(last),
    ]
    for index, opponent in enumerate(opponents):
        records = [record for record in evaluations if record["opponent"] == opponent]
        parts += _curve(records, last, COLOURS[index % len(COLOURS)], index)
    return "\n".join([*parts, "</svg>"])


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


def _join(points: Sequence[Point]) -> str:
    return " ".join(f"{x},{y}" for x, y in points)


def _short(number: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.0f}"
