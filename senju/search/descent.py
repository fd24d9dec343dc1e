"""Selection: which leaves the next batch evaluates, and the moves that lead to them."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from senju.kernels import compiled
from senju.search.proofs import can_improve, clip_to_bounds, value_of
from senju.search.tree import PENDING, Edges, Nodes, TreeSizes, move_best_prior_first, new_node


class SelectionSettings(NamedTuple):
    """The settings of selection, as in `SearchConfig`."""

    exploration: float
    exploration_base: float
    first_play: float
    virtual_loss: float


@compiled
def _choose(nodes: Nodes, edges: Edges, index: int, settings: SelectionSettings) -> int:
    """The offset of the edge to follow from an unproven node; ties go to the lowest action.

    Silver et al. 2018, "A general reinforcement learning algorithm …", methods: the mean value plus
    c(N) · prior · √N / (1 + n), where c grows slowly with the node's visits N. Pending visits count as
    visits, and as `virtual_loss` losses each. An unvisited move has its node's value minus
    `first_play` · √(prior mass of the visited moves).
    """
    node = nodes[index]
    sign = 1.0 if node["seat"] == 0 else -1.0
    visits = node["visits"] + node["pending"] - 1  # without the present visit
    base = settings.exploration_base
    scale = (math.log((1.0 + visits + base) / base) + settings.exploration) * math.sqrt(visits)
    first, num_opened = node["first_edge"], node["num_opened"]
    best, best_score, best_action, mass = -1, -np.inf, 0, 0.0
    for offset in range(num_opened):
        edge = edges[first + offset]
        child = nodes[edge["child"]]
        mass += edge["prior"]
        if not can_improve(child, node):
            continue
        taken = child["visits"] + child["pending"]
        score = value_of(child, sign, settings.virtual_loss) + scale * edge["prior"] / (1.0 + taken)
        if score > best_score or (score == best_score and edge["action"] < best_action):
            best, best_score, best_action = offset, score, edge["action"]
    if num_opened < node["num_edges"]:
        edge = edges[first + num_opened]
        mean = clip_to_bounds(sign * node["total"] / node["visits"], node, sign)
        score = mean - settings.first_play * math.sqrt(mass) + scale * edge["prior"]
        if score > best_score or (score == best_score and edge["action"] < best_action):
            best = num_opened
    return best


@compiled
def _open(nodes: Nodes, edges: Edges, sizes: TreeSizes, index: int) -> int:
    """Add a child at the node's next unopened edge."""
    node = nodes[index]
    edge = edges[node["first_edge"] + node["num_opened"]]
    child = new_node(nodes, sizes, index, edge["action"], node["depth"] + 1)
    edge["child"] = child
    node["num_opened"] += 1
    if node["num_opened"] < node["num_edges"]:
        move_best_prior_first(edges, node["first_edge"], node["num_opened"], node["num_edges"])
    return int(child)


@compiled
def select(
    nodes: Nodes,
    edges: Edges,
    sizes: TreeSizes,
    wanted: int,
    settings: SelectionSettings,
    leaves: NDArray[np.int32],  # at least `wanted`
    collisions: NDArray[np.int32],
) -> tuple[int, int]:
    """Descend to `wanted` new leaves; return the number of leaves and of collisions.

    A descent that ends at a leaf already in the batch is a collision. It stays pending until the batch
    is backed up, so that the next descent goes elsewhere. The length of `collisions` limits them, so a
    batch may be smaller than wanted.
    """
    num_leaves, num_collisions = 0, 0
    while num_leaves < wanted and num_collisions < collisions.shape[0]:
        index = 0
        while True:
            nodes[index]["pending"] += 1
            if nodes[index]["kind"] == PENDING:
                collisions[num_collisions] = index
                num_collisions += 1
                break
            offset = _choose(nodes, edges, index, settings)
            if offset == nodes[index]["num_opened"]:
                leaf = _open(nodes, edges, sizes, index)
                nodes[leaf]["pending"] = 1
                leaves[num_leaves] = leaf
                num_leaves += 1
                break
            index = edges[nodes[index]["first_edge"] + offset]["child"]
    return num_leaves, num_collisions


@compiled
def trace(
    nodes: Nodes,
    leaves: NDArray[np.int32],
    actions: NDArray[np.int32],  # [level, row, 1]
    rows_at: NDArray[np.int64],  # [level]
) -> int:
    """Write the moves from the root to the leaves, level by level; return the number of levels.

    Sorts the leaves by depth, deepest first (stable), so that the rows with a move at a level are the
    first `rows_at[level]`.
    """
    for row in range(1, leaves.shape[0]):
        leaf, position = leaves[row], row
        while position > 0 and nodes[leaves[position - 1]]["depth"] < nodes[leaf]["depth"]:
            leaves[position] = leaves[position - 1]
            position -= 1
        leaves[position] = leaf
    num_levels = nodes[leaves[0]]["depth"]
    rows_at[:num_levels] = 0
    for row in range(leaves.shape[0]):
        index = leaves[row]
        for level in range(nodes[index]["depth"] - 1, -1, -1):
            actions[level, row, 0] = nodes[index]["action"]
            rows_at[level] += 1
            index = nodes[index]["parent"]
    return int(num_levels)
