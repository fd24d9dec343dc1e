"""Rollouts written by hand: who sat where, and how games ended."""

from collections.abc import Mapping, Sequence

import numpy as np

from senju.collect.slots import Rollout, new_slot
from senju.games import make_game
from senju.games.rows import CLOCK

WIN, DRAW, LOSS = 1.0, 0.0, -1.0  # of the first seat

GAME = make_game("tic_tac_toe")


def rollout(
    seated: Sequence[Sequence[Sequence[int]]],  # [time][row][seat]
    ends: Mapping[tuple[int, int], float] | None = None,  # (time, row): what the first seat gets
    shard: int = 0,
    version: int = 0,
) -> Rollout:
    """A rollout of noughts and crosses in which these sat, and these games ended."""
    who = np.array(seated, np.int32)
    slot = new_slot(GAME, len(who), who.shape[1])
    slot.seated[:] = who
    for (time, row), reward in (ends or {}).items():
        slot.rewards[time, row] = reward, -reward
        slot.terminated[time, row] = True
    return Rollout(shard, version, (slot,), np.zeros(who.shape[1], CLOCK))


def games(opponent: int, *results: float) -> Rollout:
    """One step that ends a game in each row, the learner in the first seat."""
    ends = {(0, row): result for row, result in enumerate(results)}
    return rollout([[[0, opponent]] * len(results)], ends)


def nothing(version: int = 0, shard: int = 0) -> Rollout:
    """A rollout in which the learner plays itself."""
    return rollout([[[0, 0]]], shard=shard, version=version)
