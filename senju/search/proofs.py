"""Proven bounds of positions' values, and how they propagate through the tree.

The end of a game has an exact value; a node's bounds follow from its children's (Cazenave and Saffidine
2010, "Score Bounded Monte-Carlo Tree Search"). A move that cannot beat the mover's guaranteed value is not
visited again, and a position whose bounds meet is solved.
"""

import numpy as np

from senju.kernels import compiled
from senju.search.tree import Edges, Nodes


@compiled
def clip_to_bounds(value: float, node: np.void, sign: float) -> float:
    """A value clipped to the node's proven bounds; `sign` is 1 for seat 0's values, -1 for seat 1's."""
    one, other = sign * node["lower"], sign * node["upper"]
    return float(min(max(value, min(one, other)), max(one, other)))


@compiled
def value_of(node: np.void, sign: float, virtual_loss: float) -> float:
    """A node's mean value for that seat; each pending visit counts as `virtual_loss` losses."""
    visits = node["visits"] + node["pending"]
    # no visits: the look-ahead opened and proved it
    mean = (sign * node["total"] - virtual_loss * node["pending"]) / visits if visits else 0.0
    return clip_to_bounds(mean, node, sign)


@compiled
def can_improve(child: np.void, node: np.void) -> bool:
    """Whether a child's value may exceed the mover's guaranteed value."""
    if node["seat"] == 0:
        return bool(child["upper"] > node["lower"])
    return bool(child["lower"] < node["upper"])


@compiled
def proven_choice(nodes: Nodes, edges: Edges, index: int) -> int:
    """The edge with the mover's guaranteed value: the shortest win, else the longest draw or loss.

    -1 if no child is proven to have that value.
    """
    node = nodes[index]
    guaranteed = node["lower"] if node["seat"] == 0 else node["upper"]
    is_won = guaranteed > 0.0 if node["seat"] == 0 else guaranteed < 0.0
    best, best_distance, best_action = -1, 0, 0
    for offset in range(node["num_opened"]):
        edge = edges[node["first_edge"] + offset]
        child = nodes[edge["child"]]
        if child["lower"] != guaranteed or child["upper"] != guaranteed:
            continue
        distance = child["distance"]
        is_better = distance < best_distance if is_won else distance > best_distance
        if best < 0 or is_better or (distance == best_distance and edge["action"] < best_action):
            best, best_distance, best_action = offset, distance, edge["action"]
    return best


@compiled
def _tighten_bounds(nodes: Nodes, edges: Edges, index: int) -> bool:
    """Compute a node's bounds from its children's; return whether they changed."""
    node = nodes[index]
    is_first, is_open = node["seat"] == 0, node["num_opened"] < node["num_edges"]
    # seat 0 takes the maximum, seat 1 the minimum; an unopened move may have any value
    lower = -1.0 if is_first or is_open else 1.0
    upper = 1.0 if is_open or not is_first else -1.0
    for position in range(node["first_edge"], node["first_edge"] + node["num_opened"]):
        child = nodes[edges[position]["child"]]
        if is_first:
            lower, upper = max(lower, child["lower"]), max(upper, child["upper"])
        else:
            lower, upper = min(lower, child["lower"]), min(upper, child["upper"])
    if lower == node["lower"] and upper == node["upper"]:
        return False
    node["lower"], node["upper"] = lower, upper
    if lower == upper:
        best = edges[node["first_edge"] + proven_choice(nodes, edges, index)]["child"]
        node["distance"] = nodes[best]["distance"] + 1
    return True


@compiled
def prove_upwards(nodes: Nodes, edges: Edges, index: int) -> None:
    """Update the bounds of a node and its ancestors, as far as they change.

    When a node is solved, all its visits count the exact value, at the node and its ancestors, instead of
    the estimates that were backed up before.
    """
    while index >= 0 and _tighten_bounds(nodes, edges, index):
        node = nodes[index]
        if node["lower"] == node["upper"]:
            change, above = node["visits"] * node["lower"] - node["total"], index
            while above >= 0:
                nodes[above]["total"] += change
                above = nodes[above]["parent"]
        index = node["parent"]
