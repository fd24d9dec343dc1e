"""The way down: which leaves the next batch evaluates, and the moves that lead to them."""

import math

import numpy as np
from numpy.typing import NDArray

from senju.kernels import compiled
from senju.search.proofs import can_improve, value_of, within
from senju.search.tree import PENDING, Edges, Nodes, Sizes, bring_forward, new_node


@compiled
def _choose(
    nodes: Nodes,
    edges: Edges,
    index: int,
    exploration: float,
    exploration_base: float,
    first_play: float,
    virtual_loss: float,
) -> int:
    """The edge to follow from an unproven node, counted from its first; ties go to the lowest action.

    Silver et al. 2018, "A general reinforcement learning algorithm …", methods: the mean value plus
    c(N) · prior · √N / (1 + n), where c grows slowly with the node's visits N. Visits on their way
    count as visits, and as losses by the share `virtual_loss`. An unvisited move is worth its node's
    value less `first_play` · √(prior mass of the visited ones).
    """
    node = nodes[index]
    sign = 1.0 if node["seat"] == 0 else -1.0
    visits = node["visits"] + node["pending"] - 1  # the one that is choosing does not count
    scale = (math.log((1.0 + visits + exploration_base) / exploration_base) + exploration) * math.sqrt(visits)
    first, num_opened = node["first_edge"], node["num_opened"]
    best, best_score, best_action, mass = -1, -np.inf, 0, 0.0
    for offset in range(num_opened):
        edge = edges[first + offset]
        child = nodes[edge["child"]]
        mass += edge["prior"]
        if not can_improve(child, node):
            continue
        taken = child["visits"] + child["pending"]
        score = value_of(child, sign, virtual_loss) + scale * edge["prior"] / (1.0 + taken)
        if score > best_score or (score == best_score and edge["action"] < best_action):
            best, best_score, best_action = offset, score, edge["action"]
    if num_opened < node["num_edges"]:
        edge = edges[first + num_opened]
        mean = within(sign * node["total"] / node["visits"], node, sign)
        score = mean - first_play * math.sqrt(mass) + scale * edge["prior"]
        if score > best_score or (score == best_score and edge["action"] < best_action):
            best = num_opened
    return best


@compiled
def _open(nodes: Nodes, edges: Edges, sizes: Sizes, index: int) -> int:
    """Give the node's next edge a child."""
    node = nodes[index]
    edge = edges[node["first_edge"] + node["num_opened"]]
    child = new_node(nodes, sizes, index, edge["action"], node["depth"] + 1)
    edge["child"] = child
    node["num_opened"] += 1
    if node["num_opened"] < node["num_edges"]:
        bring_forward(edges, node["first_edge"], node["num_opened"], node["num_edges"])
    return int(child)


@compiled
def select(
    nodes: Nodes,
    edges: Edges,
    sizes: Sizes,
    wanted: int,
    exploration: float,
    exploration_base: float,
    first_play: float,
    virtual_loss: float,
    leaves: NDArray[np.int32],  # at least `wanted`
    collisions: NDArray[np.int32],
) -> tuple[int, int]:
    """Walk down to `wanted` new leaves; return how many were found, and how many walks were in vain.

    A walk that meets a leaf which waits already is a collision: it stays counted as on its way until
    the batch is backed up, so that the next walk turns elsewhere. The length of `collisions` bounds
    them, and a batch may stay smaller than wanted.
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
            offset = _choose(nodes, edges, index, exploration, exploration_base, first_play, virtual_loss)
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
    """The lines from the root to the leaves, level by level; return the number of levels.

    The leaves are put in order of depth, deepest first (stable): the rows that still descend at a
    level are then its first `rows_at[level]`.
    """
    for row in range(1, leaves.shape[0]):
        leaf, place = leaves[row], row
        while place > 0 and nodes[leaves[place - 1]]["depth"] < nodes[leaf]["depth"]:
            leaves[place] = leaves[place - 1]
            place -= 1
        leaves[place] = leaf
    num_levels = nodes[leaves[0]]["depth"]
    rows_at[:num_levels] = 0
    for row in range(leaves.shape[0]):
        index = leaves[row]
        for level in range(nodes[index]["depth"] - 1, -1, -1):
            actions[level, row, 0] = nodes[index]["action"]
            rows_at[level] += 1
            index = nodes[index]["parent"]
    return int(num_levels)
