"""A tournament as a picture: a heat map of the scores of all pairs, and the ratings with error bars."""

from collections.abc import Sequence

from senju.evaluation.plot import COLOURS, GRID, shortened
from senju.evaluation.tournament.result import PairResult, TournamentResult
from senju.opponents.score import Z95
from senju.svg import round_step, svg_picture, svg_text, xml_escaped

CELL = 46  # pixels of a square of the map
TOP, MARGIN, RATINGS, GAP, LINE = 130, 16, 300, 44, 18
LONGEST_NAME = 26  # characters
LETTER = 7.4  # pixels, about
AHEAD, BEHIND = (43, 108, 176), (192, 86, 33)  # wins are blue, losses orange
FAINT = "#718096"


def tournament_svg(result: TournamentResult) -> str:
    """The picture as SVG; players are sorted by rating."""
    names = [shortened(result.names[index], LONGEST_NAME) for index in result.ranking]
    left = MARGIN + 12 + LETTER * max(map(len, names))
    size = CELL * len(names)
    right = left + size + GAP
    notes = _notes(result)
    widest = max(len(note) for note in notes) * LETTER + 2 * MARGIN
    width = round(max(right + RATINGS + GAP, widest))
    height = TOP + size + 44 + LINE * len(notes) + MARGIN
    bottom = TOP + size + 62
    parts = [
        svg_text(MARGIN, 24, f"{result.game}: who beats whom", more=' font-size="15"'),
        *_labels(names, left),
        *_map(result, left),
        *_ratings(result, right, size),
        *(
            svg_text(MARGIN, bottom + LINE * line, note, more=f' fill="{FAINT}"')
            for line, note in enumerate(notes)
        ),
    ]
    return svg_picture(width, height, parts) + "\n"


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
        parts.append(svg_text(left - 8, TOP + middle + 4, name, "end"))
        x, y = left + middle + 4, TOP - 8
        short = xml_escaped(shortened(name, 14))
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
    style = f' fill="{"white" if strength > 0.6 else "black"}"'
    style += ' font-weight="bold"' if pair.is_separated else ""
    label = svg_text(x + CELL / 2, y + CELL / 2 + 4, f"{100 * pair.score.mean:.0f}", "middle", style)
    return [_square(x, y, f"rgb({red},{green},{blue})"), label]


def _square(x: float, y: float, fill: str) -> str:
    return f'<rect x="{x:.1f}" y="{y}" width="{CELL}" height="{CELL}" fill="{fill}" stroke="white"/>'


def _ratings(result: TournamentResult, left: float, size: int) -> list[str]:
    ratings = [result.ratings[index] for index in result.ranking]
    spans = [(r.mean - Z95 * r.deviation, r.mean + Z95 * r.deviation) for r in ratings]
    ticks = _ticks(min(low for low, _ in spans), max(high for _, high in spans))
    scale = RATINGS / (ticks[-1] - ticks[0])

    def place(points: float) -> float:
        return round(left + (points - ticks[0]) * scale, 1)

    parts = []
    for tick in ticks:
        x = place(tick)
        parts.append(f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{TOP + size}" stroke="{GRID}"/>')
        parts.append(svg_text(x, TOP + size + 16, str(tick), "middle"))
    parts.append(svg_text(left + RATINGS / 2, TOP + size + 34, "rating", "middle"))
    for index, (rating, (low, high)) in enumerate(zip(ratings, spans, strict=True)):
        y = TOP + (index + 0.5) * CELL
        x, text = place(rating.mean), f"{rating.mean:+.0f} ± {Z95 * rating.deviation:.0f}"
        bar = f'x1="{place(low)}" y1="{y}" x2="{place(high)}" y2="{y}" stroke="{COLOURS[0]}"'
        parts.append(f'<line {bar} stroke-width="2"/>')
        parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{COLOURS[0]}"/>')
        parts.append(svg_text(x, y - 8, text, "middle"))
    return parts


def _ticks(low: float, high: float) -> list[int]:
    """Round numbers from below the lowest to above the highest, some of them."""
    step = int(round_step(max((high - low) / 5, 50)))
    first, last = int(low // step), int(-(-high // step))
    return [step * number for number in range(first, max(last, first + 1) + 1)]
