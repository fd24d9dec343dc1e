"""An arena as a picture: a heat map of the scores of all pairs, and the ratings with error bars."""

from collections.abc import Sequence
from html import escape

from senju.evaluation.plot import shortened
from senju.evaluation.tournament.result import PairResult, TournamentResult
from senju.opponents.score import Z95

CELL = 46  # pixels of a square of the map
TOP, MARGIN, RATINGS, GAP, LINE = 130, 16, 300, 44, 18
LONGEST_NAME = 26  # characters
LETTER = 7.4  # pixels, about
AHEAD, BEHIND = (43, 108, 176), (192, 86, 33)  # who wins is blue, who loses orange
GRID, TEXT, FAINT = "#e2e8f0", "#1a202c", "#718096"


def tournament_svg(result: TournamentResult) -> str:
    """The picture as SVG; players are sorted by rating."""
    names = [shortened(result.names[place], LONGEST_NAME) for place in result.ranking]
    left = MARGIN + 12 + LETTER * max(map(len, names))
    size = CELL * len(names)
    right = left + size + GAP
    notes = _notes(result)
    widest = max(len(note) for note in notes) * LETTER + 2 * MARGIN
    width = round(max(right + RATINGS + GAP, widest))
    height = TOP + size + 44 + LINE * len(notes) + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="12" fill="{TEXT}">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{MARGIN}" y="24" font-size="15">{escape(result.game)}: who beats whom</text>',
        *_labels(names, left),
        *_map(result, left),
        *_ratings(result, right, size),
        *(
            f'<text x="{MARGIN}" y="{TOP + size + 62 + LINE * line}" fill="{FAINT}">{escape(note)}</text>'
            for line, note in enumerate(notes)
        ),
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _notes(result: TournamentResult) -> list[str]:
    cycles = [" beats ".join([*cycle, cycle[0]]) for cycle in result.cycles]
    return [
        "Score of the row against the column in %; bold where it is clear who is stronger.",
        "Ratings with 95 % intervals: 400 points are odds of ten to one.",
        *(f"A cycle: {cycle}." for cycle in cycles),
        *([] if result.is_finished else ["Not finished."]),
    ]


def _labels(names: Sequence[str], left: float) -> list[str]:
    parts = []
    for index, name in enumerate(names):
        middle = (index + 0.5) * CELL
        parts.append(
            f'<text x="{left - 8:.1f}" y="{TOP + middle + 4:.1f}" text-anchor="end">{escape(name)}</text>'
        )
        x, y = left + middle + 4, TOP - 8
        short = escape(shortened(name, 14))
        parts.append(f'<text transform="translate({x:.1f} {y}) rotate(-45)">{short}</text>')
    return parts


def _map(result: TournamentResult, left: float) -> list[str]:
    parts = []
    for row, first in enumerate(result.ranking):
        for column, second in enumerate(result.ranking):
            x, y = left + column * CELL, TOP + row * CELL
            if first == second:
                parts.append(_square(x, y, GRID))
            else:
                parts += _cell(result.between(first, second), x, y)
    return parts


def _cell(pair: PairResult, x: float, y: float) -> list[str]:
    if not pair.score.games:
        return [_square(x, y, "white")]
    strength = abs(2 * pair.score.mean - 1)
    target = AHEAD if pair.score.mean > 0.5 else BEHIND
    red, green, blue = (round(255 + (part - 255) * strength) for part in target)
    ink = "white" if strength > 0.6 else TEXT
    weight = ' font-weight="bold"' if pair.is_separated else ""
    middle = f'x="{x + CELL / 2:.1f}" y="{y + CELL / 2 + 4:.1f}" text-anchor="middle"'
    return [
        _square(x, y, f"rgb({red},{green},{blue})"),
        f'<text {middle} fill="{ink}"{weight}>{100 * pair.score.mean:.0f}</text>',
    ]


def _square(x: float, y: float, fill: str) -> str:
    return f'<rect x="{x:.1f}" y="{y}" width="{CELL}" height="{CELL}" fill="{fill}" stroke="white"/>'


def _ratings(result: TournamentResult, left: float, size: int) -> list[str]:
    ratings = [result.ratings[place] for place in result.ranking]
    spans = [(r.mean - Z95 * r.deviation, r.mean + Z95 * r.deviation) for r in ratings]
    ticks = _ticks(min(low for low, _ in spans), max(high for _, high in spans))
    scale = RATINGS / (ticks[-1] - ticks[0])

    def place(points: float) -> float:
        return round(left + (points - ticks[0]) * scale, 1)

    parts = []
    for tick in ticks:
        x = place(tick)
        parts.append(f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{TOP + size}" stroke="{GRID}"/>')
        parts.append(f'<text x="{x}" y="{TOP + size + 16}" text-anchor="middle">{tick}</text>')
    middle = left + RATINGS / 2
    parts.append(f'<text x="{middle:.1f}" y="{TOP + size + 34}" text-anchor="middle">rating</text>')
    for index, (rating, (low, high)) in enumerate(zip(ratings, spans, strict=True)):
        y = TOP + (index + 0.5) * CELL
        bar = f'x1="{place(low)}" y1="{y}" x2="{place(high)}" y2="{y}" stroke="#2b6cb0" stroke-width="2"'
        parts.append(f"<line {bar}/>")
        parts.append(f'<circle cx="{place(rating.mean)}" cy="{y}" r="4" fill="#2b6cb0"/>')
        text = f"{rating.mean:+.0f} ± {Z95 * rating.deviation:.0f}"
        parts.append(f'<text x="{place(rating.mean)}" y="{y - 8}" text-anchor="middle">{text}</text>')
    return parts


def _ticks(low: float, high: float) -> list[int]:
    """Round numbers from below the lowest to above the highest, some of them."""
    step = next((step for step in (50, 100, 200, 500, 1000, 2000) if (high - low) / step <= 5), 5000)
    first, last = int(low // step), int(-(-high // step))
    return [step * number for number in range(first, max(last, first + 1) + 1)]
