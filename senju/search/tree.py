"""The search tree: two arrays that grow, and that are cut down to a part of themselves.

A node is a position that was reached; an edge is a legal move of a node. Only visited positions are
nodes, so a node costs 64 bytes and 12 more for each legal move. Values are seat 0's throughout: what
is backed up is then the same number at every level, whoever is to move there.

The edges of a node that have been opened (have a child) stand in front. Behind them, the unopened edge
with the largest prior stands first: an unvisited move is worth the same as the others but for its
prior, so it is the only one of them that can be chosen. Selection thus looks at visited moves and one
more, not at all legal ones, and nothing is ever sorted as a whole.
"""

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

PENDING, INNER, ENDED = 0, 1, 2  # kinds of a node; PENDING: not yet evaluated
NUM_NODES, NUM_EDGES, DEPTH = 0, 1, 2  # places in a tree's sizes; DEPTH is that of the deepest node
FIRST_NODES, FIRST_EDGES = 1024, 1 << 14  # room at the beginning


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
def _mark(nodes: Nodes, num_nodes: int, root: int, places: NDArray[np.int32]) -> tuple[int, int]:
    """The new index of every node below `root`, -1 for the others; return how many nodes and edges stay."""
    num_kept, num_edges = 0, 0
    places[:root] = -1
    for index in range(root, num_nodes):
        parent = nodes[index]["parent"]  # has a smaller index
        if index == root or (parent >= root and places[parent] >= 0):
            places[index] = num_kept
            num_kept += 1
            num_edges += nodes[index]["num_edges"]
        else:
            places[index] = -1
    return num_kept, num_edges


@compiled
def _move(
    nodes: Nodes, edges: Edges, num_nodes: int, root: int, places: NDArray[np.int32], new_edges: Edges
) -> int:
    """Move what stays to the front, its edges to `new_edges`; return the depth of the deepest node."""
    position, deepest, root_depth = 0, 0, nodes[root]["depth"]
    for index in range(root, num_nodes):
        if places[index] < 0:
            continue
        first, num_edges, num_opened = (
            nodes[index]["first_edge"],
            nodes[index]["num_edges"],
            nodes[index]["num_opened"],
        )
        new = places[index]
        nodes[new] = nodes[index]
        nodes[new]["first_edge"] = position
        nodes[new]["depth"] -= root_depth
        nodes[new]["parent"] = places[nodes[new]["parent"]] if index > root else -1
        deepest = max(deepest, nodes[new]["depth"])
        for offset in range(num_edges):
            new_edges[position] = edges[first + offset]
            if offset < num_opened:
                new_edges[position]["child"] = places[edges[first + offset]["child"]]
            position += 1
    return deepest


class Tree:
    """Nodes and edges. Kernels get the arrays, and what they hold beyond `sizes` is nobody's."""

    def __init__(self) -> None:
        self.nodes = np.empty(FIRST_NODES, NODE)
        self.edges = np.empty(FIRST_EDGES, EDGE)
        self.sizes = np.zeros(3, np.int64)  # by NUM_NODES, NUM_EDGES, DEPTH

    @property
    def num_nodes(self) -> int:
        """Positions in the tree."""
        return int(self.sizes[NUM_NODES])

    @property
    def depth(self) -> int:
        """Plies from the root to the deepest node."""
        return int(self.sizes[DEPTH])

    @property
    def num_bytes(self) -> int:
        """Memory of both arrays."""
        return self.nodes.nbytes + self.edges.nbytes

    def reserve_nodes(self, num_nodes: int) -> None:
        """Make room for so many nodes in all."""
        if num_nodes > len(self.nodes):
            self.nodes = _grown(self.nodes, self.num_nodes, num_nodes)

    def reserve_edges(self, num_edges: int) -> None:
        """Make room for so many edges in all."""
        if num_edges > len(self.edges):
            self.edges = _grown(self.edges, int(self.sizes[NUM_EDGES]), num_edges)

    def clear(self) -> None:
        """Forget everything; the memory is kept."""
        self.sizes[:] = 0

    def cut_to(self, root: int) -> None:
        """Keep a node and what is below it: it becomes the root."""
        places = np.empty(self.num_nodes, np.int32)
        num_kept, num_edges = _mark(self.nodes, self.num_nodes, root, places)
        edges = np.empty(max(num_edges, FIRST_EDGES), EDGE)
        depth = _move(self.nodes, self.edges, self.num_nodes, root, places, edges)
        self.edges = edges
        self.sizes[NUM_NODES], self.sizes[NUM_EDGES], self.sizes[DEPTH] = num_kept, num_edges, depth


def _grown(array: NDArray[np.void], used: int, wanted: int) -> NDArray[np.void]:
    grown = np.empty(max(wanted, 2 * len(array)), array.dtype)
    grown[:used] = array[:used]
    return grown
