"""Seatings: which policy sits where.

`self_play` seats the current policy everywhere: all decisions of a step are one batch, and all
of them are learned from.
"""

from typing import Literal

Seating = Literal["self_play"]
