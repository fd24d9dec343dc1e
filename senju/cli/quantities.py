"""Numbers as text: durations, sizes, counts, shares, scores and rewards; a dash for an unknown one."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

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
    """A whole number with separators between thousands.

    >>> count_text(1234567), count_text(12.3), count_text("many")
    ('1,234,567', '12', '—')
    """
    return f"{count:,.0f}" if _is_number(count) else UNKNOWN


def figure_text(figure: float) -> str:
    """A metric: four digits of a fraction, every digit of a whole number.

    >>> figure_text(0.058341), figure_text(61180.0), figure_text(0.0)
    ('0.05834', '61,180', '0')
    """
    return count_text(figure) if _is_number(figure) and figure == round(figure) else f"{figure:.4g}"


def share_text(share: object, digits: int = 0) -> str:
    """A share as a percentage.

    >>> share_text(0.714), share_text(0.714, digits=1), share_text(math.nan)
    ('71 %', '71.4 %', '—')
    """
    return f"{100 * share:.{digits}f} %" if _is_number(share) else UNKNOWN


def score_text(mean: float, interval: Sequence[float]) -> str:
    """A mean score with its interval."""
    low, high = interval
    return f"{share_text(mean, 1)} [dim]({share_text(low, 1)} to {share_text(high, 1)})[/]"


def gpu_text(found: Mapping[str, Any]) -> str:
    """A GPU's load in a status or a sample.

    >>> gpu_text({"gpu_busy": 0.92, "gpu_memory": 2**34, "gpu_memory_total": 2**37})
    '92 % busy, 16.0 GiB of 128.0 GiB'
    """
    used, total = (size_text(found.get(name)) for name in ("gpu_memory", "gpu_memory_total"))
    return f"{share_text(found.get('gpu_busy'))} busy, {used} of {total}"


def reward_text(reward: object) -> str:
    """A reward, rounded according to its size.

    >>> reward_text(12.345), reward_text(-0.031), reward_text(1234.0), reward_text(None)
    ('12.3', '-0.03', '1,234', '—')
    """
    if not _is_number(reward):
        return UNKNOWN
    return f"{reward:,.0f}" if abs(reward) >= 1000 else f"{reward:.{1 if abs(reward) >= 10 else 2}f}"


def reward_interval_text(reward: float, interval: Sequence[float]) -> str:
    """A reward with half the width of its interval."""
    return f"{reward_text(reward)} [dim]± {reward_text((interval[1] - interval[0]) / 2)}[/]"


def plural(count: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "worker"), plural(3, "worker")
    ('1 worker', '3 workers')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and math.isfinite(value)
