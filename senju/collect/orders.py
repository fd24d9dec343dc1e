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
    epsilons: tuple[float, ...] = ()  # of every seat, where each has a policy of its own


NO_ORDERS = Orders()


def _layout(most_opponents: int, num_seats: int) -> np.dtype[np.void]:
    many = (most_opponents,)
    return np.dtype(
        [
            ("version", np.int64),
            ("epsilon", np.float64),
            ("count", np.int64),
            ("odds", np.float64, many),
            ("epsilons", np.float64, (num_seats,)),
            ("ids", np.int32, many),
            ("places", np.int32, many),
        ]
    )


def orders_bytes(most_opponents: int, num_seats: int = 0) -> int:
    """How long packed orders are, however many opponents they name.

    `num_seats` is how many have a policy of their own; 0 where the current policy is one.
    """
    return _layout(most_opponents, num_seats).itemsize


def pack_orders(orders: Orders, most_opponents: int, num_seats: int = 0) -> NDArray[np.uint8]:
    """Orders as bytes, to be published behind the weights."""
    count = len(orders.ids)
    assert count <= most_opponents, f"{count} opponents where there is room for {most_opponents}"
    record = np.zeros(1, _layout(most_opponents, num_seats))
    record["version"], record["epsilon"], record["count"] = orders.version, orders.epsilon, count
    for name in ("ids", "places", "odds"):
        record[name][0, :count] = getattr(orders, name)
    record["epsilons"][0, : len(orders.epsilons)] = orders.epsilons
    return record.view(np.uint8)


def unpack_orders(block: NDArray[np.uint8], most_opponents: int, num_seats: int = 0) -> Orders:
    """The orders behind the weights of a published block."""
    layout = _layout(most_opponents, num_seats)
    record = block[-layout.itemsize :].copy().view(layout)[0]
    count = int(record["count"])
    lists = {name: tuple(record[name][:count].tolist()) for name in ("ids", "places", "odds")}
    epsilons = tuple(record["epsilons"].tolist())
    return Orders(int(record["version"]), float(record["epsilon"]), **lists, epsilons=epsilons)
