"""Objects as users' agents have them, for tests of serialising and restoring."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Slotted:
    """Something without a dictionary."""

    value: int
    more: list[int] = field(default_factory=list)


class Holder:
    """Something with attributes, as the factory makes it."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)
