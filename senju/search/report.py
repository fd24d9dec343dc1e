"""Results of a tree: the move to play, the principal variation, and statistics of the root's moves."""

import math

import numpy as np
from numpy.typing import NDArray

from senju.kernels import compiled
from senju.search.proofs import can_improve, clip_to_bounds, proven_choice, value_of
from senju.search.tree import INNER, Edges, Nodes, find_edge


@compiled
def _best_edge(nodes: Nodes, edges: Edges, index: int) -> int:
    """The offset of the best move's edge.

    The most visited move that may still be best; the proven move if its value is larger; an unvisited
    move rather than a proven loss.
    """
    node = nodes[index]
    sign = 1.0 if node["seat"] == 0 else -1.0
    proven = proven_choice(nodes, edges, index)
    best, best_visits, best_value, best_action = -1, -1, 0.0, 0
    for offset in range(node["num_opened"]):
        edge = edges[node["first_edge"] + offset]
        child = nodes[edge["child"]]
        if not can_improve(child, node):
            continue
        visits, value, action = child["visits"], value_of(child, sign, 0.0), edge["action"]
        is_better = visits > best_visits or (visits == best_visits and value > best_value)
        is_equal = visits == best_visits and value == best_value
        if is_better or (is_equal and action < best_action):
            best, best_visits, best_value, best_action = offset, visits, value, action
    guaranteed = node["lower"] if sign > 0.0 else -node["upper"]
    if best < 0 and node["num_opened"] < node["num_edges"] and guaranteed <= -1.0:
        return int(node["num_opened"])
    if proven >= 0 and (best < 0 or guaranteed > best_value):
        return proven
    return best if best >= 0 else 0


@compiled
def best_line(nodes: Nodes, edges: Edges, first_action: int, line: NDArray[np.int32]) -> int:
    """Write the line of best moves that starts with this action at the root; return its length."""
    index, length = 0, 0
    while length < line.shape[0] and nodes[index]["kind"] == INNER:
        node = nodes[index]
        if length > 0 and node["num_opened"] == 0:
            break  # only its priors are known
        is_root = length == 0
        offset = find_edge(nodes, edges, 0, first_action) if is_root else _best_edge(nodes, edges, index)
        edge = edges[node["first_edge"] + offset]
        line[length] = edge["action"]
        length += 1
        if offset >= node["num_opened"]:
            break
        index = edge["child"]
    return length


@compiled
def describe_root(
    nodes: Nodes,
    edges: Edges,
    first_play: float,
    visits: NDArray[np.int64],  # out: [edge], as are the next two
    values: NDArray[np.float64],  # the mover's
    is_worse: NDArray[np.bool_],  # proven to be no better than the guaranteed value
) -> int:
    """Write the statistics of the root's moves, in the order of its edges; return the best move's edge.

    An unvisited move has the value that selection gives it.
    """
    node = nodes[0]
    sign, mass = 1.0 if node["seat"] == 0 else -1.0, 0.0
    best = _best_edge(nodes, edges, 0)
    for offset in range(node["num_opened"]):
        edge = edges[node["first_edge"] + offset]
        child = nodes[edge["child"]]
        mass += edge["prior"]
        visits[offset], values[offset] = child["visits"], value_of(child, sign, 0.0)
        is_worse[offset] = offset != best and not can_improve(child, node)
    mean = clip_to_bounds(sign * node["total"] / node["visits"], node, sign)
    for offset in range(node["num_opened"], node["num_edges"]):
        visits[offset], values[offset], is_worse[offset] = 0, mean - first_play * math.sqrt(mass), False
    return best
