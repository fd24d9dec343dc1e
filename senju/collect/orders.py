"""Orders: what the centre asks of whoever plays, valid together with one version of the weights."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Orders(NamedTuple):
    """How much to explore, and which opponents there are.

    An opponent whose odds are 0 sits in games under way and in no new one.
    """

    version: int = 0
    epsilon: float = 0.0  # share of the moves made at random, where a policy explores that way
    ids: tuple[int, ...] = ()
    places: tuple[int, ...] = ()  # where each one's weights lie; -1 where it needs none
    odds: tuple[float, ...] = ()  # of being drawn for a new game; they add up to 1


NO_ORDERS = Orders()


def _layout(most_opponents: int) -> np.dtype[np.void]:
    many = (most_opponents,)
    return np.dtype(
        [
            ("version", np.int64),
            ("epsilon", np.float64),
            ("count", np.int64),
            ("odds", np.float64, many),
            ("ids", np.int32, many),
            ("places", np.int32, many),
        ]
    )


def orders_bytes(most_opponents: int) -> int:
    """How long packed orders are, however many opponents they name."""
    return _layout(most_opponents).itemsize


def pack_orders(orders: Orders, most_opponents: int) -> NDArray[np.uint8]:
    """Orders as bytes, to be published behind the weights."""
    count = len(orders.ids)
    assert count <= most_opponents, f"{count} opponents where there is room for {most_opponents}"
    record = np.zeros(1, _layout(most_opponents))
    record["version"], record["epsilon"], record["count"] = orders.version, orders.epsilon, count
    for name in ("ids", "places", "odds"):
        record[name][0, :count] = getattr(orders, name)
    return record.view(np.uint8)


def unpack_orders(block: NDArray[np.uint8], most_opponents: int) -> Orders:
    """The orders behind the weights of a published block."""
    record = block[-orders_bytes(most_opponents) :].copy().view(_layout(most_opponents))[0]
    count = int(record["count"])
    lists = (tuple(record[name][:count].tolist()) for name in ("ids", "places", "odds"))
    return Orders(int(record["version"]), float(record["epsilon"]), *lists)
