"""A sum tree: draws indices in proportion to their weights, and changes weights, in logarithmic time."""

import numpy as np
from numpy.typing import NDArray

from senju.kernels import compiled, random_word, unit_interval


@compiled
def _set(tree: NDArray[np.float64], indices: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
    """Set leaves. Each sum is computed again from its two parts, so that rounding errors do not add up."""
    first = tree.shape[0] // 2
    for each in range(indices.shape[0]):
        node = first + indices[each]
        tree[node] = weights[each]
        while node > 1:
            node //= 2
            tree[node] = tree[2 * node] + tree[2 * node + 1]


@compiled
def _draw(
    tree: NDArray[np.float64], seed: np.uint64, step: int, stream: int, chosen: NDArray[np.int64]
) -> None:
    """Draw one index from each of `len(chosen)` equal parts of the total weight.

    All searches descend together, level by level: the processor then waits for many nodes at once.
    """
    leaves, count = tree.shape[0] // 2, chosen.shape[0]
    targets = np.empty(count, np.float64)
    for each in range(count):
        word = random_word(seed, step & 0xFFFFFFFF, step >> 32, each, stream)
        targets[each] = (each + unit_interval(word)) / count * tree[1]
        chosen[each] = 1
    width = 1
    while width < leaves:
        width *= 2
        for each in range(count):
            node, target = 2 * chosen[each], targets[each]
            left, right = tree[node], tree[node + 1]
            # no branch to predict; and rounding must not lead to an index of weight 0
            goes_right = (right > 0.0) & ((target >= left) | (left == 0.0))
            targets[each] = target - left if goes_right else target
            chosen[each] = node + goes_right
    for each in range(count):
        chosen[each] -= leaves


class SumTree:
    """Weights of `size` indices, all 0 at first.

    >>> tree = SumTree(3)
    >>> tree.set(np.array([0, 2]), np.array([1.0, 3.0]))
    >>> tree.total, tree.weights(np.array([0, 1, 2])).tolist()
    (4.0, [1.0, 0.0, 3.0])
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._tree = np.zeros(2 * (1 << max(size - 1, 1).bit_length()))

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self._tree[1])

    def weights(self, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """The weights of some indices."""
        return self._tree[len(self._tree) // 2 + indices]

    def all_weights(self) -> NDArray[np.float64]:
        """A view of every weight."""
        leaves = len(self._tree) // 2
        return self._tree[leaves : leaves + self.size]

    def set(self, indices: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
        """Change some weights; if an index occurs twice, the last one counts."""
        _set(self._tree, indices, weights)

    def draw(self, seed: np.uint64, step: int, stream: int, chosen: NDArray[np.int64]) -> None:
        """Write indices drawn in proportion to the weights, one from each equal part of the total."""
        _draw(self._tree, seed, step, stream, chosen)
