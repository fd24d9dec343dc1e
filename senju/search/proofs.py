"""What is proven of positions: bounds of their values, and how they spread through the tree.

The end of a game is exact; a node's bounds follow from its children's (Cazenave and Saffidine 2010,
"Score Bounded Monte-Carlo Tree Search"). A move that cannot be better than what its mover is sure of
already is not looked at again, and a position whose bounds meet is solved.
"""

import numpy as np

from senju.kernels import compiled
from senju.search.tree import Edges, Nodes


@compiled
def within(value: float, node: np.void, sign: float) -> float:
    """A value for the seat that `sign` stands for, held within what is proven of the node."""
    one, other = sign * node["lower"], sign * node["upper"]
    return float(min(max(value, min(one, other)), max(one, other)))


@compiled
def value_of(node: np.void, sign: float, virtual_loss: float) -> float:
    """A node's mean value for that seat; visits on their way count as losses by the share `virtual_loss`."""
    visits = node["visits"] + node["pending"]
    # no visit at all: opened by trying moves, which proved it
    mean = (sign * node["total"] - virtual_loss * node["pending"]) / visits if visits else 0.0
    return within(mean, node, sign)


@compiled
def can_improve(child: np.void, node: np.void) -> bool:
    """Whether a child may turn out better for the mover than what the mover is sure of already."""
    if node["seat"] == 0:
        return bool(child["upper"] > node["lower"])
    return bool(child["lower"] < node["upper"])


@compiled
def proven_choice(nodes: Nodes, edges: Edges, index: int) -> int:
    """The edge that is sure to get what the mover is sure of: the quickest win, else the longest way.

    -1 where the mover is sure of nothing that one of its moves would prove.
    """
    node = nodes[index]
    sure = node["lower"] if node["seat"] == 0 else node["upper"]
    is_won = sure > 0.0 if node["seat"] == 0 else sure < 0.0
    best, best_distance, best_action = -1, 0, 0
    for offset in range(node["num_opened"]):
        edge = edges[node["first_edge"] + offset]
        child = nodes[edge["child"]]
        if child["lower"] != sure or child["upper"] != sure:
            continue
        distance = child["distance"]
        is_better = distance < best_distance if is_won else distance > best_distance
        if best < 0 or is_better or (distance == best_distance and edge["action"] < best_action):
            best, best_distance, best_action = offset, distance, edge["action"]
    return best


@compiled
def _tighten(nodes: Nodes, edges: Edges, index: int) -> bool:
    """Take over what the children's bounds prove; whether anything is new."""
    node = nodes[index]
    is_first, is_open = node["seat"] == 0, node["num_opened"] < node["num_edges"]
    # seat 0 takes the largest, seat 1 the smallest; of an unopened move nothing is known
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
    """Carry what is newly proven as far up as it matters.

    The visits of a node whose value is now known count that value, here and at all its ancestors:
    what they counted was a guess.
    """
    while index >= 0 and _tighten(nodes, edges, index):
        node = nodes[index]
        if node["lower"] == node["upper"]:
            change, above = node["visits"] * node["lower"] - node["total"], index
            while above >= 0:
                nodes[above]["total"] += change
                above = nodes[above]["parent"]
        index = node["parent"]
