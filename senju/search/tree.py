"""The search tree: an array of nodes and an array of edges.

A node is a position that was reached; an edge is a legal move of a node. Only visited positions are
nodes, so a node takes 64 bytes plus 12 for each legal move. All values are seat 0's: the same number is
backed up at every level, whichever seat is to move.

The opened edges of a node (those with a child) come first. After them comes the unopened edge with the
largest prior: unvisited moves differ only in their priors, so no other unvisited move can be selected.
Selection therefore looks at the visited moves and one more, and never sorts.

Both arrays have their full size from the start. The system commits memory only when it is written to, so
this costs nothing, and a growing tree is never copied.
"""

import logging

import numpy as np
from numpy.typing import NDArray

from senju.kernels import compiled

NODE = np.dtype(
    [
        ("total", np.float64),  # sum of the values backed up, seat 0's
        ("lower", np.float64),  # proven bounds of seat 0's value
        ("upper", np.float64),
        ("first_edge", np.int64),
        ("parent", np.int32),  # -1 at the root; always a smaller index than the node's own
        ("action", np.int32),  # that leads from the parent to this node
        ("num_edges", np.int32),
        ("num_opened", np.int32),
        ("visits", np.int32),
        ("depth", np.int32),  # plies below the root
        ("pending", np.int16),  # visits selected but not yet backed up
        ("distance", np.int16),  # plies to the end of the game, once the value is proven
        ("seat", np.int8),  # to move
        ("kind", np.uint8),
        ("is_tried", np.bool_),  # all its moves were checked for ending the game
        ("spare", np.uint8),
    ],
    align=True,
)
EDGE = np.dtype([("action", np.int32), ("prior", np.float32), ("child", np.int32)], align=True)

Nodes = NDArray[np.void]  # of NODE
Edges = NDArray[np.void]  # of EDGE
TreeSizes = NDArray[np.int64]

logger = logging.getLogger(__name__)

PENDING, INNER, ENDED = 0, 1, 2  # kinds of a node; PENDING: not yet evaluated
NUM_NODES, NUM_EDGES, DEPTH = 0, 1, 2  # indices into a tree's sizes; DEPTH: of the deepest node
MIN_BYTES = 1 << 20  # a machine without memory for a tree of this size cannot search


@compiled
def new_node(nodes: Nodes, sizes: TreeSizes, parent: int, action: int, depth: int) -> int:
    """Add a node without its evaluation."""
    index = sizes[NUM_NODES]
    sizes[NUM_NODES] += 1
    sizes[DEPTH] = max(sizes[DEPTH], depth)
    node = nodes[index]
    node["total"], node["lower"], node["upper"] = 0.0, -1.0, 1.0
    node["parent"], node["action"], node["depth"] = parent, action, depth
    node["first_edge"], node["num_edges"], node["num_opened"] = 0, 0, 0
    node["visits"], node["pending"], node["distance"] = 0, 0, 0
    node["seat"], node["kind"], node["is_tried"], node["spare"] = 0, PENDING, False, 0
    return int(index)


@compiled
def start_tree(nodes: Nodes, sizes: TreeSizes) -> None:
    """Start a tree: a root without its evaluation."""
    sizes[:] = 0
    new_node(nodes, sizes, -1, -1, 0)
    nodes[0]["pending"] = 1


@compiled
def move_best_prior_first(edges: Edges, first: int, num_opened: int, num_edges: int) -> None:
    """Put the unopened edge with the largest prior (then the lowest action) right after the opened ones."""
    front = first + num_opened
    best = front
    for position in range(front + 1, first + num_edges):
        prior, largest = edges[position]["prior"], edges[best]["prior"]
        if prior > largest or (prior == largest and edges[position]["action"] < edges[best]["action"]):
            best = position
    if best > front:
        swap_edges(edges, front, best)


@compiled
def swap_edges(edges: Edges, one: int, other: int) -> None:
    """Swap two edges."""
    a, b = edges[one], edges[other]
    a["action"], b["action"] = b["action"], a["action"]
    a["prior"], b["prior"] = b["prior"], a["prior"]
    a["child"], b["child"] = b["child"], a["child"]


@compiled
def find_edge(nodes: Nodes, edges: Edges, index: int, action: int) -> int:
    """The offset of an action's edge from the node's first edge; -1 if there is none."""
    first = nodes[index]["first_edge"]
    for offset in range(nodes[index]["num_edges"]):
        if edges[first + offset]["action"] == action:
            return offset
    return -1


@compiled
def _number_kept_nodes(nodes: Nodes, num_nodes: int, root: int, new_index: NDArray[np.int32]) -> None:
    """Write the new index of every node below `root`, -1 for the others."""
    num_kept = 0
    new_index[:root] = -1
    for index in range(root, num_nodes):
        parent = nodes[index]["parent"]  # has a smaller index
        if index == root or (parent >= root and new_index[parent] >= 0):
            new_index[index] = num_kept
            num_kept += 1
        else:
            new_index[index] = -1


@compiled
def _move_edges(nodes: Nodes, edges: Edges, order: NDArray[np.int64], new_index: NDArray[np.int32]) -> int:
    """Move the edges of the kept nodes to the front, in their order; return how many."""
    position = 0
    for index in order:
        first, num_opened = nodes[index]["first_edge"], nodes[index]["num_opened"]
        nodes[index]["first_edge"] = position
        for offset in range(nodes[index]["num_edges"]):
            edges[position] = edges[first + offset]
            if offset < num_opened:
                edges[position]["child"] = new_index[edges[position]["child"]]
            position += 1
    return position


@compiled
def _move_nodes(nodes: Nodes, num_nodes: int, root: int, new_index: NDArray[np.int32]) -> tuple[int, int]:
    """Move the kept nodes to the front; return how many, and the depth of the deepest."""
    num_kept, deepest, root_depth = 0, 0, nodes[root]["depth"]
    for index in range(root, num_nodes):
        new = new_index[index]
        if new < 0:
            continue
        nodes[new] = nodes[index]
        nodes[new]["depth"] -= root_depth
        nodes[new]["parent"] = new_index[nodes[new]["parent"]] if index > root else -1
        deepest = max(deepest, nodes[new]["depth"])
        num_kept += 1
    return num_kept, deepest


class Tree:
    """Nodes and edges; kernels work on the arrays, whose content beyond `sizes` is undefined.

    The caller respects the bounds: `room` is the number of nodes that may be added. The arrays are larger
    than the bounds by the edges of one batch, and by one position's moves that end the game.
    """

    def __init__(self, max_nodes: int, max_bytes: int, num_actions: int, batch_size: int) -> None:
        self.max_bytes = max_bytes
        while True:
            # every node but the root has an edge that leads to it
            self.max_nodes = min(max_nodes, 1 + self.max_bytes // (NODE.itemsize + EDGE.itemsize))
            self._max_edges = min(max_nodes * num_actions, self.max_bytes // EDGE.itemsize)
            try:
                self.nodes = np.empty(self.max_nodes + num_actions, NODE)
                self.edges = np.empty(self._max_edges + batch_size * num_actions, EDGE)
                break
            except MemoryError:
                if self.max_bytes < MIN_BYTES:
                    raise
                self.max_bytes //= 2
        if self.max_bytes < max_bytes:
            logger.warning(
                "not enough memory for a search tree of %d MiB; using %d MiB",
                max_bytes >> 20,
                self.max_bytes >> 20,
            )
        self.sizes = np.zeros(3, np.int64)  # by NUM_NODES, NUM_EDGES, DEPTH
        self._peak_nodes = self._peak_edges = 0  # so far: their memory stays committed

    @property
    def num_nodes(self) -> int:
        """Positions in the tree."""
        return int(self.sizes[NUM_NODES])

    @property
    def num_edges(self) -> int:
        """Legal moves of all positions in the tree."""
        return int(self.sizes[NUM_EDGES])

    @property
    def depth(self) -> int:
        """Plies from the root to the deepest node."""
        return int(self.sizes[DEPTH])

    @property
    def used_bytes(self) -> int:
        """Memory of the current nodes and edges."""
        return self.num_nodes * NODE.itemsize + self.num_edges * EDGE.itemsize

    @property
    def num_bytes(self) -> int:
        """Memory that was written to and is therefore committed."""
        num_nodes, num_edges = max(self.num_nodes, self._peak_nodes), max(self.num_edges, self._peak_edges)
        return num_nodes * NODE.itemsize + num_edges * EDGE.itemsize

    @property
    def room(self) -> int:
        """How many nodes may be added, if they have as many moves on average as the current ones."""
        num_moves = max(self.num_edges / self.num_nodes, 1.0)
        again = min(self._peak_nodes - self.num_nodes, (self._peak_edges - self.num_edges) / num_moves)
        new = (self.max_bytes - self.num_bytes) / (NODE.itemsize + EDGE.itemsize * num_moves)
        return min(self.max_nodes - self.num_nodes, int(max(again, 0) + max(new, 0)))

    def clear(self) -> None:
        """Remove all nodes; the memory stays committed."""
        self._update_peaks()
        self.sizes[:] = 0

    def prune_to(self, root: int) -> None:
        """Keep a node and its descendants; the node becomes the root."""
        self._update_peaks()
        new_index = np.empty(self.num_nodes, np.int32)
        _number_kept_nodes(self.nodes, self.num_nodes, root, new_index)
        kept = np.flatnonzero(new_index >= 0)
        # in the order of their edges: these move to the front without overwriting each other
        order = kept[np.argsort(self.nodes["first_edge"][kept], kind="stable")]
        num_edges = _move_edges(self.nodes, self.edges, order, new_index)
        num_kept, depth = _move_nodes(self.nodes, self.num_nodes, root, new_index)
        self.sizes[NUM_NODES], self.sizes[NUM_EDGES], self.sizes[DEPTH] = num_kept, num_edges, depth

    def _update_peaks(self) -> None:
        self._peak_nodes = min(max(self.num_nodes, self._peak_nodes), self.max_nodes)
        self._peak_edges = min(max(self.num_edges, self._peak_edges), self._max_edges)
