"""Orders: settings that the learner publishes to the workers with each version of the weights."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Orders(NamedTuple):
    """How much each policy explores, and which opponents play.

    An opponent of probability 0 finishes its running games and begins no new one.
    """

    version: int = 0
    epsilons: tuple[float, ...] = ()  # of each policy: share of random moves, if it acts by action values
    ids: tuple[int, ...] = ()  # opponents
    weight_indices: tuple[int, ...] = ()  # of each opponent's weights in the backend; -1 if it needs none
    probabilities: tuple[float, ...] = ()  # of being drawn for a new game; they add up to 1


NO_ORDERS = Orders()
_LISTS = ("ids", "weight_indices", "probabilities")  # of the opponents


def _layout(max_opponents: int, num_policies: int) -> np.dtype[np.void]:
    many = (max_opponents,)
    return np.dtype(
        [
            ("version", np.int64),
            ("count", np.int64),
            ("probabilities", np.float64, many),
            ("epsilons", np.float64, (num_policies,)),
            ("ids", np.int32, many),
            ("weight_indices", np.int32, many),
        ]
    )


def orders_bytes(max_opponents: int, num_policies: int) -> int:
    """The length of packed orders, however many opponents they name."""
    return _layout(max_opponents, num_policies).itemsize


def pack_orders(orders: Orders, max_opponents: int, num_policies: int) -> NDArray[np.uint8]:
    """Orders as bytes, to be published behind the weights."""
    count = len(orders.ids)
    assert count <= max_opponents, f"{count} opponents where there is room for {max_opponents}"
    record = np.zeros(1, _layout(max_opponents, num_policies))
    record["version"], record["count"] = orders.version, count
    for name in _LISTS:
        record[name][0, :count] = getattr(orders, name)
    record["epsilons"][0, : len(orders.epsilons)] = orders.epsilons
    return record.view(np.uint8)


def unpack_orders(block: NDArray[np.uint8], max_opponents: int, num_policies: int) -> Orders:
    """The orders behind the weights of a published block."""
    layout = _layout(max_opponents, num_policies)
    record = block[-layout.itemsize :].copy().view(layout)[0]
    count = int(record["count"])
    lists = {name: tuple(record[name][:count].tolist()) for name in _LISTS}
    return Orders(int(record["version"]), tuple(record["epsilons"].tolist()), **lists)
