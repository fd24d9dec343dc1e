"""The kernels of one batch: selecting leaves, expanding them, and backing up their values."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from senju.kernels import ONE, WORD_BITS, ZERO, compiled, count_allowed, log_normaliser, trailing_zeros
from senju.search import tree
from senju.search.proofs import can_improve, clip_to_bounds, prove_upwards, value_of
from senju.search.tree import Edges, Nodes, TreeSizes, move_best_prior_first, new_node, swap_edges

# the largest value that the network can give; only the end of a game proves a win
ALMOST_WON = 1.0 - 2.0**-10

EXPANDED, NO_MOVES, BAD_VALUE, BAD_PRIORS, BAD_REWARD = 0, 1, 2, 3, 4  # verdicts of `expand`


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
    visits = node["visits"] + node["pending"] - 1  # without the current visit
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
            if nodes[index]["kind"] == tree.PENDING:
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
def write_paths(
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


@compiled
def _end(node: np.void, value: float) -> None:
    node["kind"], node["lower"], node["upper"], node["distance"] = tree.ENDED, value, value, 0


@compiled
def _add_edges(
    node: np.void, edges: Edges, sizes: TreeSizes, scores: NDArray[np.float32], legal: NDArray[np.uint64]
) -> bool:
    """Add a node's edges with the policy's probabilities of legal moves; False if these are not finite."""
    normaliser = log_normaliser(scores, legal)
    if np.isnan(normaliser):
        return False
    first = sizes[tree.NUM_EDGES]
    num_edges = int(count_allowed(legal))
    position = first
    for word in range(legal.shape[0]):
        bits = legal[word]
        while bits != ZERO:
            edge = edges[position]
            action = word * WORD_BITS + int(trailing_zeros(bits))
            edge["action"], edge["child"] = action, -1
            # all logits are minus infinity: uniform
            edge["prior"] = math.exp(scores[action] - normaliser) if normaliser > -np.inf else 1.0 / num_edges
            position += 1
            bits &= bits - ONE
    sizes[tree.NUM_EDGES] = position
    node["first_edge"], node["num_edges"], node["num_opened"] = first, num_edges, 0
    node["kind"] = tree.INNER
    move_best_prior_first(edges, first, 0, num_edges)
    return True


@compiled
def expand(
    nodes: Nodes,
    edges: Edges,
    sizes: TreeSizes,
    leaves: NDArray[np.int32],
    rewards: NDArray[np.float32],  # [row, seat], outcomes of the move to the leaf
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    logits: NDArray[np.float32],  # [row, action], evaluation of the leaf
    values: NDArray[np.float32],
    legal: NDArray[np.uint64],
    seats: NDArray[np.int8],
    results: NDArray[np.float64],  # out: [row], the value to back up, seat 0's
) -> tuple[int, int]:
    """Expand the leaves; return a verdict and its row.

    A terminated game has its reward as value; a truncated one has the network's value of its last
    position, as in training, and gets no edges. There must be room for the edges.
    """
    for row in range(leaves.shape[0]):
        node, seat = nodes[leaves[row]], seats[row, 0]
        if terminated[row]:
            if not abs(rewards[row, 0]) <= 1.0:
                return BAD_REWARD, row
            results[row] = rewards[row, 0]
            _end(node, results[row])
            continue
        value = values[row]
        if not np.isfinite(value):
            return BAD_VALUE, row
        if rewards[row, 0] != 0.0:
            return BAD_REWARD, row
        results[row] = min(max(value if seat == 0 else -value, -ALMOST_WON), ALMOST_WON)
        if truncated[row]:
            _end(node, results[row])
            continue
        node["seat"] = seat
        if count_allowed(legal[row, 0]) == ZERO:
            return NO_MOVES, row
        if not _add_edges(node, edges, sizes, logits[row], legal[row, 0]):
            return BAD_PRIORS, row
    return EXPANDED, 0


@compiled
def add_ends(
    nodes: Nodes,
    edges: Edges,
    sizes: TreeSizes,
    index: int,
    rewards: NDArray[np.float32],  # [row, seat], of the unopened edges in their order
    terminated: NDArray[np.bool_],
) -> bool:
    """Add children for the moves of a node that end the game; False if a reward is above 1."""
    node = nodes[index]
    first = node["first_edge"]
    num_opened = node["num_opened"]
    for row in range(terminated.shape[0]):
        if terminated[row]:
            if not abs(rewards[row, 0]) <= 1.0:
                return False
            swap_edges(edges, first + node["num_opened"], first + num_opened + row)
            edge = edges[first + node["num_opened"]]
            edge["child"] = new_node(nodes, sizes, index, edge["action"], node["depth"] + 1)
            _end(nodes[edge["child"]], rewards[row, 0])
            node["num_opened"] += 1
    node["is_tried"] = True
    if node["num_opened"] < node["num_edges"]:
        move_best_prior_first(edges, first, node["num_opened"], node["num_edges"])
    prove_upwards(nodes, edges, index)
    return True


@compiled
def back_up(
    nodes: Nodes,
    edges: Edges,
    leaves: NDArray[np.int32],
    results: NDArray[np.float64],  # [row]
    collisions: NDArray[np.int32],
) -> None:
    """Add the leaves' values to all their ancestors, and remove their pending visits.

    The value is clipped to each node's proven bounds: a mover with a guaranteed draw does not lose value
    by exploring worse moves.
    """
    for row in range(leaves.shape[0]):
        index, value = leaves[row], results[row]
        if nodes[index]["kind"] == tree.ENDED:
            prove_upwards(nodes, edges, nodes[index]["parent"])
        while index >= 0:
            node = nodes[index]
            value = clip_to_bounds(value, node, 1.0)
            node["total"] += value
            node["visits"] += 1
            node["pending"] -= 1
            index = node["parent"]
    for row in range(collisions.shape[0]):
        index = collisions[row]
        while index >= 0:
            nodes[index]["pending"] -= 1
            index = nodes[index]["parent"]


@compiled
def mix_noise(nodes: Nodes, edges: Edges, share: float, noise: NDArray[np.float64]) -> None:
    """Mix noise [edge] into the root's priors."""
    first, num_edges = nodes[0]["first_edge"], nodes[0]["num_edges"]
    for offset in range(num_edges):
        prior = edges[first + offset]["prior"]
        edges[first + offset]["prior"] = (1.0 - share) * prior + share * noise[offset]
    if nodes[0]["num_opened"] < num_edges:
        move_best_prior_first(edges, first, nodes[0]["num_opened"], num_edges)
