"""The search tree: two arrays that fill up, and that are cut down to a part of themselves.

A node is a position that was reached; an edge is a legal move of a node. Only visited positions are
nodes, so a node costs 64 bytes and 12 more for each legal move. Values are seat 0's throughout: what
is backed up is then the same number at every level, whoever is to move there.

The edges of a node that have been opened (have a child) stand in front. Behind them, the unopened edge
with the largest prior stands first: an unvisited move is worth the same as the others but for its
prior, so it is the only one of them that can be chosen. Selection thus looks at visited moves and one
more, not at all legal ones, and nothing is ever sorted as a whole.

Both arrays have their full size from the beginning. A system commits memory only where it is written
to, so that costs nothing, and no move ever waits for a large array to be copied into a larger one.
"""

import logging

import numpy as np
from numpy.typing import NDArray

from senju.kernels import compiled

NODE = np.dtype(
    [
        ("total", np.float64),  # sum of the values backed up, seat 0's
        ("lower", np.float64),  # seat 0 gets at least this
        ("upper", np.float64),  # and at most this
        ("first_edge", np.int64),
        ("parent", np.int32),  # -1 at the root; always a smaller index than the node's own
        ("action", np.int32),  # that led here from the parent
        ("num_edges", np.int32),
        ("num_opened", np.int32),
        ("visits", np.int32),
        ("depth", np.int32),  # plies below the root
        ("pending", np.int16),  # visits on their way: chosen, not yet backed up
        ("distance", np.int16),  # where the value is proven: plies to the end of the game
        ("seat", np.int8),  # to move
        ("kind", np.uint8),
        ("is_tried", np.bool_),  # all its moves were tried for an end of the game
        ("spare", np.uint8),
    ],
    align=True,
)
EDGE = np.dtype([("action", np.int32), ("prior", np.float32), ("child", np.int32)], align=True)

Nodes = NDArray[np.void]  # of NODE
Edges = NDArray[np.void]  # of EDGE
Sizes = NDArray[np.int64]

logger = logging.getLogger(__name__)

PENDING, INNER, ENDED = 0, 1, 2  # kinds of a node; PENDING: not yet evaluated
NUM_NODES, NUM_EDGES, DEPTH = 0, 1, 2  # places in a tree's sizes; DEPTH is that of the deepest node
LEAST_BYTES = 1 << 20  # a machine that has no memory for such a tree cannot search


@compiled
def new_node(nodes: Nodes, sizes: Sizes, parent: int, action: int, depth: int) -> int:
    """Add a node that waits for its evaluation."""
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
def plant(nodes: Nodes, sizes: Sizes) -> None:
    """Begin a tree: a root that waits for its evaluation."""
    sizes[:] = 0
    new_node(nodes, sizes, -1, -1, 0)
    nodes[0]["pending"] = 1


@compiled
def bring_forward(edges: Edges, first: int, num_opened: int, num_edges: int) -> None:
    """Let the unopened edge with the largest prior (then the lowest action) stand behind the opened ones."""
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
    """Let two edges change places."""
    a, b = edges[one], edges[other]
    a["action"], b["action"] = b["action"], a["action"]
    a["prior"], b["prior"] = b["prior"], a["prior"]
    a["child"], b["child"] = b["child"], a["child"]


@compiled
def find_edge(nodes: Nodes, edges: Edges, index: int, action: int) -> int:
    """An action's edge, counted from the node's first; -1 where it has none."""
    first = nodes[index]["first_edge"]
    for offset in range(nodes[index]["num_edges"]):
        if edges[first + offset]["action"] == action:
            return offset
    return -1


@compiled
def _mark(nodes: Nodes, num_nodes: int, root: int, places: NDArray[np.int32]) -> None:
    """Write the new index of every node below `root`, -1 for the others."""
    num_kept = 0
    places[:root] = -1
    for index in range(root, num_nodes):
        parent = nodes[index]["parent"]  # has a smaller index
        if index == root or (parent >= root and places[parent] >= 0):
            places[index] = num_kept
            num_kept += 1
        else:
            places[index] = -1


@compiled
def _move_edges(nodes: Nodes, edges: Edges, order: NDArray[np.int64], places: NDArray[np.int32]) -> int:
    """Move the edges of the nodes that stay to the front, in order of their place; return how many."""
    position = 0
    for index in order:
        first, num_opened = nodes[index]["first_edge"], nodes[index]["num_opened"]
        nodes[index]["first_edge"] = position
        for offset in range(nodes[index]["num_edges"]):
            edges[position] = edges[first + offset]
            if offset < num_opened:
                edges[position]["child"] = places[edges[position]["child"]]
            position += 1
    return position


@compiled
def _move_nodes(nodes: Nodes, num_nodes: int, root: int, places: NDArray[np.int32]) -> tuple[int, int]:
    """Move the nodes that stay to the front; return how many, and the depth of the deepest."""
    num_kept, deepest, root_depth = 0, 0, nodes[root]["depth"]
    for index in range(root, num_nodes):
        new = places[index]
        if new < 0:
            continue
        nodes[new] = nodes[index]
        nodes[new]["depth"] -= root_depth
        nodes[new]["parent"] = places[nodes[new]["parent"]] if index > root else -1
        deepest = max(deepest, nodes[new]["depth"])
        num_kept += 1
    return num_kept, deepest


class Tree:
    """Nodes and edges. Kernels get the arrays, and what they hold beyond `sizes` is nobody's.

    The bounds are kept by who adds to the tree: `room` says how much more may come. Beyond them there
    is place for the edges of a last batch, and for ended games that one position's moves lead to.
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
                if self.max_bytes < LEAST_BYTES:
                    raise
                self.max_bytes //= 2
        if self.max_bytes < max_bytes:
            logger.warning(
                "there is no memory for a search tree of %d MiB; it gets %d",
                max_bytes >> 20,
                self.max_bytes >> 20,
            )
        self.sizes = np.zeros(3, np.int64)  # by NUM_NODES, NUM_EDGES, DEPTH
        self._most_nodes = self._most_edges = 0  # there ever were: their memory stays committed

    @property
    def num_nodes(self) -> int:
        """Positions in the tree."""
        return int(self.sizes[NUM_NODES])

    @property
    def num_edges(self) -> int:
        """Legal moves of them all."""
        return int(self.sizes[NUM_EDGES])

    @property
    def depth(self) -> int:
        """Plies from the root to the deepest node."""
        return int(self.sizes[DEPTH])

    @property
    def used_bytes(self) -> int:
        """Memory of the nodes and edges that there are."""
        return self.num_nodes * NODE.itemsize + self.num_edges * EDGE.itemsize

    @property
    def num_bytes(self) -> int:
        """Memory that has been written to, and is therefore held."""
        num_nodes, num_edges = max(self.num_nodes, self._most_nodes), max(self.num_edges, self._most_edges)
        return num_nodes * NODE.itemsize + num_edges * EDGE.itemsize

    @property
    def room(self) -> int:
        """How many more nodes may come, if they have as many moves as those that are there."""
        num_moves = max(self.num_edges / self.num_nodes, 1.0)
        again = min(self._most_nodes - self.num_nodes, (self._most_edges - self.num_edges) / num_moves)
        new = (self.max_bytes - self.num_bytes) / (NODE.itemsize + EDGE.itemsize * num_moves)
        return min(self.max_nodes - self.num_nodes, int(max(again, 0) + max(new, 0)))

    def clear(self) -> None:
        """Forget everything; the memory is kept."""
        self._remember_most()
        self.sizes[:] = 0

    def cut_to(self, root: int) -> None:
        """Keep a node and what is below it: it becomes the root."""
        self._remember_most()
        places = np.empty(self.num_nodes, np.int32)
        _mark(self.nodes, self.num_nodes, root, places)
        kept = np.flatnonzero(places >= 0)
        # in the order of their edges, so that these move to the front and never onto each other
        order = kept[np.argsort(self.nodes["first_edge"][kept], kind="stable")]
        num_edges = _move_edges(self.nodes, self.edges, order, places)
        num_kept, depth = _move_nodes(self.nodes, self.num_nodes, root, places)
        self.sizes[NUM_NODES], self.sizes[NUM_EDGES], self.sizes[DEPTH] = num_kept, num_edges, depth

    def _remember_most(self) -> None:
        self._most_nodes = min(max(self.num_nodes, self._most_nodes), self.max_nodes)
        self._most_edges = min(max(self.num_edges, self._most_edges), self._max_edges)
