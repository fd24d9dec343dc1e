"""Cycles: A beats B, B beats C, and C beats A, so that no rating can tell the whole story."""

from collections import deque
from collections.abc import Mapping, Set


def find_cycles(beats: Mapping[int, Set[int]]) -> list[list[int]]:
    """One cycle for each group whose members all beat each other in the end: its shortest.

    >>> find_cycles({0: {1}, 1: {2}, 2: {0, 3}, 3: {4}, 4: set()})
    [[0, 1, 2]]
    """
    reachable = {player: _reachable(beats, player) for player in beats}
    cycles: list[list[int]] = []
    seen: set[int] = set()
    for player in sorted(beats):
        if player in seen or player not in reachable[player]:
            continue
        group = sorted(other for other in reachable[player] if player in reachable[other])
        seen.update(group)
        found = (_shortest_cycle(beats, member) for member in group)
        cycles.append(min(found, key=len))  # the first of equals
    return cycles


def _reachable(beats: Mapping[int, Set[int]], start: int) -> set[int]:
    """Whom a player beats, directly or by way of others; itself only by a cycle."""
    found: set[int] = set()
    left = [start]
    while left:
        for other in beats[left.pop()] - found:
            found.add(other)
            left.append(other)
    return found


def _shortest_cycle(beats: Mapping[int, Set[int]], start: int) -> list[int]:
    """The shortest way from a player back to itself."""
    ways = deque([[start]])
    reached: set[int] = set()
    while ways:
        way = ways.popleft()
        for other in sorted(beats[way[-1]]):
            if other == start:
                return way
            if other not in reached:
                reached.add(other)
                ways.append([*way, other])
    raise AssertionError(f"{start} is in no cycle")
