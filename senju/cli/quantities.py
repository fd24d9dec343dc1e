"""Durations, sizes and counts as people read them; a dash for what is not known."""

import math
from typing import TypeGuard

UNKNOWN = "—"
GIB = 2**30


def duration_text(seconds: object) -> str:
    """A duration as minutes and seconds, with hours where there are some.

    >>> duration_text(75), duration_text(3675.2), duration_text(None)
    ('1:15', '1:01:15', '—')
    """
    if not _is_number(seconds):
        return UNKNOWN
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def size_text(num_bytes: object) -> str:
    """A size in MiB, or in GiB from one on.

    >>> size_text(3 * 2**20), size_text(2**31)
    ('3 MiB', '2.0 GiB')
    """
    if not _is_number(num_bytes):
        return UNKNOWN
    return f"{num_bytes / GIB:.1f} GiB" if num_bytes >= GIB else f"{num_bytes / 2**20:.0f} MiB"


def count_text(count: object) -> str:
    """A number with its thousands set apart.

    >>> count_text(1234567), count_text(12.3), count_text("many")
    ('1,234,567', '12', '—')
    """
    return f"{count:,.0f}" if _is_number(count) else UNKNOWN


def figure_text(figure: float) -> str:
    """A figure of any kind: four digits of a fraction, and every digit of what is counted.

    >>> figure_text(0.058341), figure_text(61180.0), figure_text(0.0)
    ('0.05834', '61,180', '0')
    """
    return count_text(figure) if _is_number(figure) and figure == round(figure) else f"{figure:.4g}"


def share_text(share: object) -> str:
    """A share as a percentage.

    >>> share_text(0.714)
    '71 %'
    """
    return f"{100 * share:.0f} %" if _is_number(share) else UNKNOWN


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and math.isfinite(value)
