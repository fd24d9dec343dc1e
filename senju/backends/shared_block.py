"""Every array that workers and the learner share, laid out in one block of memory.

The layout follows from the plan alone, so a worker computes it for itself.
"""

import bisect
import mmap

import numpy as np
from numpy.typing import NDArray

from senju.backends.building import WeightSizes, new_rings
from senju.backends.plan import Plan
from senju.backends.shared_weights import SharedWeights
from senju.collect.orders import orders_bytes
from senju.collect.rollout import STAGES
from senju.collect.shard import ShardState, new_shard_state
from senju.errors import ConfigError, ModelError
from senju.games.game import Game
from senju.machine import memory_available
from senju.models.weights import Weights
from senju.workers.shared_memory import ArrayAllocator, mebibytes, require_memory

HEARTBEAT, FIRST_STAGE = 0, 1  # columns of a worker's stats: a counter, then seconds of each stage
STATS_SIZE = -(-(FIRST_STAGE + len(STAGES)) // 8) * 8  # whole cache lines of float64


class RolloutBlock:
    """Slots, shard states, weights and the workers' stats, as views of one block.

    A shard may be `depth` turns ahead. It has states for `depth + 1` turns, one for each part of a turn. A
    part is played from its own state to the next one. So the state before a rollout outlives the rollout,
    which can be played again.
    """

    def __init__(
        self, plan: Plan, game: Game, sizes: WeightSizes, block: mmap.mmap | NDArray[np.uint8] | None
    ) -> None:
        allocate, is_counting = ArrayAllocator(block), block is None
        self.depth, self._num_parts = plan.max_lag + 1, plan.num_parts
        num_states = (self.depth + 1) * plan.num_parts
        rows = plan.games_per_shard
        orders = orders_bytes(plan.max_opponents, len(plan.policies))
        self.weights = SharedWeights(sizes.policies + orders, allocate)
        self.opponents: list[Weights] = [  # of snapshots first, then of each fixed agent
            allocate(size, np.uint8) for size in [sizes.policies] * plan.num_snapshots + sizes.fixed
        ]
        self.stats: NDArray[np.float64] = allocate((plan.num_shards, STATS_SIZE), np.float64)
        before = allocate.num_bytes
        self._states = [
            [new_shard_state(game, rows, allocate) for _ in range(num_states)]
            for _ in range(1 if is_counting else plan.num_shards)
        ]
        if is_counting:  # shards are alike, and there may be a million: count one and multiply
            allocate.num_bytes += (allocate.num_bytes - before) * (plan.num_shards - 1)
        self.rings = new_rings(plan, game, allocate)
        self.num_bytes = allocate.num_bytes

    def state(self, shard: int, turn: int, part: int = 0) -> ShardState:
        """The shard's state before that rollout, or before a part of it."""
        states = self._states[shard]
        return states[(turn * self._num_parts + part) % len(states)]

    def write_opponent(self, index: int, weights: Weights) -> None:
        """Write the weights of one opponent."""
        expected = self.opponents[index].nbytes
        if weights.nbytes != expected:
            raise ModelError(
                f"an opponent's weights of {weights.nbytes} bytes for a network of {expected} bytes: "
                "it is of another architecture"
            )
        self.opponents[index][:] = weights


def rollout_bytes(plan: Plan, game: Game, sizes: WeightSizes) -> int:
    """How many bytes the rollouts of a plan need, with networks of these sizes."""
    return RolloutBlock(plan, game, sizes, None).num_bytes


LEARNER_BYTES = 64  # of a learner for each position in its replay: links and priorities


def require_room(plan: Plan, game: Game, sizes: WeightSizes) -> int:
    """How many bytes the rollouts of a plan need; ConfigError if the machine has too little memory."""
    if len(plan.policies) == 1 and plan.policies[0].kept_turns > 1:
        _require_replay(plan, game, sizes)
    num_bytes = rollout_bytes(plan, game, sizes)
    require_memory(num_bytes)
    return num_bytes


def _require_replay(plan: Plan, game: Game, sizes: WeightSizes) -> None:
    """Refuse a replay that this machine has no room for, and say how large it may be."""
    (policy,) = plan.policies
    per_turn = plan.num_shards * plan.rollout_steps * plan.games_per_shard * game.num_acting

    def needed(kept_turns: int) -> int:
        shorter = plan.model_copy(
            update={"policies": (policy.model_copy(update={"kept_turns": kept_turns}),)}
        )
        return rollout_bytes(shorter, game, sizes) + kept_turns * per_turn * LEARNER_BYTES

    available, wanted = memory_available(), needed(policy.kept_turns)
    if wanted <= available:
        return
    usable = available - available // 20  # a reserve: free memory changes until the user follows the advice
    most = bisect.bisect_right(range(1, policy.kept_turns), usable, key=needed)
    advice = f"algorithm.replay_size may be at most {most * per_turn}"
    if not most:
        advice = "collect with fewer num_games or a smaller rollout_steps: not even one update's rollouts fit"
    raise ConfigError(
        f"the replay of {policy.kept_turns * per_turn} positions needs {mebibytes(wanted)} MiB and "
        f"{mebibytes(available)} MiB are free; {advice}"
    )
