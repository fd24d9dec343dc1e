"""SVG pictures: a white ground, texts, and round numbers for an axis."""

import math
from collections.abc import Sequence
from html import escape


def svg_picture(width: float, height: float, parts: Sequence[str], more: str = "") -> str:
    """A picture on a white ground."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="12"{more}>'
    )
    return "\n".join([head, f'<rect width="{width}" height="{height}" fill="white"/>', *parts, "</svg>"])


def svg_text(x: float, y: float, text: str, anchor: str = "start", more: str = "") -> str:
    """A text that begins, ends or has its middle at x."""
    place = f'x="{round(x, 1)}" y="{round(y, 1)}"'
    return f'<text {place} text-anchor="{anchor}"{more}>{xml_escaped(text)}</text>'


def xml_escaped(text: str) -> str:
    """Text without control characters, such as a traceback's colours, which XML does not allow."""
    return escape("".join(character if character.isprintable() else " " for character in text))


def round_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is not less.

    >>> [round_step(least) for least in (0.3, 1.0, 12.0, 60.0)]
    [0.5, 1.0, 20.0, 100.0]
    """
    power = 10.0 ** math.floor(math.log10(max(least, 1e-9)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))
