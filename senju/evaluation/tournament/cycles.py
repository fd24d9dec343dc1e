"""Cycles: A beats B, B beats C, and C beats A, which no rating can express."""

from collections import deque
from collections.abc import Mapping, Set


def find_cycles(beats: Mapping[int, Set[int]]) -> list[list[int]]:
    """The shortest cycle of each group in which every player beats every other, directly or through others.

    >>> find_cycles({0: {1}, 1: {2}, 2: {0, 3}, 3: {4}, 4: set()})
    [[0, 1, 2]]
    """
    paths = {player: _shortest_paths(beats, player) for player in beats}
    cycles: list[list[int]] = []
    seen: set[int] = set()
    for player in sorted(beats):
        if player in seen or player not in paths[player]:
            continue
        group = sorted(other for other in paths[player] if player in paths[other])
        seen.update(group)
        cycles.append(min((paths[member][member] for member in group), key=len))  # the first of equals
    return cycles


def _shortest_paths(beats: Mapping[int, Set[int]], start: int) -> dict[int, list[int]]:
    """The path to each player that `start` beats, directly or through others; to itself if it is in a cycle.

    A path does not contain its last player, so that of `start` is a cycle.
    """
    paths: dict[int, list[int]] = {}
    waiting = deque([[start]])
    while waiting:
        path = waiting.popleft()
        for other in sorted(beats[path[-1]] - paths.keys()):
            paths[other] = path
            waiting.append([*path, other])
    return paths
