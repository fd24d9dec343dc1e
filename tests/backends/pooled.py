"""Backends that are played as a training loop does it, with a pool of snapshots and fixed opponents."""

from collections.abc import Iterator
from typing import Any

from senju.backends.backend import Backend
from senju.backends.plan import Plan
from senju.collect.seating import Failure
from senju.collect.slots import TRANSIENT
from senju.games import make_game
from senju.models.weights import Weights
from senju.opponents.opponent_players import OpponentSettings, OpponentSpec
from senju.opponents.pool import OpponentPool, OpponentsConfig
from tests.backends.common import PLAN, Content, changed, contents, started, weights_of

CONFIG = OpponentsConfig(
    snapshot_interval=1,
    size=2,
    fixed=("random", "minimax:1"),
    fixed_share=0.4,
    self_share=0.2,
    choose="harder",
    in_play=2,
    on_failure="drop",
)


def pooled(plan: Plan = PLAN, config: OpponentsConfig = CONFIG, **changes: Any) -> Plan:
    """The plan against opponents."""
    fixed = tuple(OpponentSpec(description) for description in config.fixed)
    settings = OpponentSettings(fixed, config.in_play, config.self_share, config.epsilon)
    return changed(plan, opponents=settings, num_snapshots=config.num_weight_slots, **changes)


class PooledPlay:
    """A backend with its pool; each turn other weights, less exploration, and now and then a snapshot."""

    def __init__(self, backend: Backend, plan: Plan, config: OpponentsConfig = CONFIG) -> None:
        assert plan.opponents is not None
        self.backend, self.plan, self.turn = backend, plan, 0
        shape = (plan.num_shards, plan.games_per_shard, make_game(**plan.game).num_seats)
        self.pool = OpponentPool(config, plan.opponents.fixed, shape)
        self.failures: list[Failure] = []
        self._new_opponents: dict[int, Weights] = {}

    def play(self, turns: int) -> list[list[Content]]:
        """All bytes of the next turns."""
        return list(self._turns(turns))

    def _turns(self, turns: int) -> Iterator[list[Content]]:
        plan, backend = self.plan, self.backend
        for turn in range(self.turn, self.turn + turns):
            orders = self.pool.orders(turn, (0.9 / (turn + 1),))
            backend.publish(weights_of(plan, plan.seed + turn), turn, orders, self._new_opponents)
            rollouts = backend.collect()
            yield contents(rollouts)
            failures = [failure for rollout in rollouts for failure in rollout.failures]
            self.failures += failures
            self.pool.count_results(rollouts, failures)
            self._new_opponents = self.pool.add_snapshot(turn + 1, weights_of(plan, plan.seed + turn + 1))
        self.turn += turns

    def taken_over_by(self, backend: Backend) -> "PooledPlay":
        """The same on another backend, as after a resume."""
        other = PooledPlay(backend, self.plan, self.pool.config)
        other.pool.load(self.pool.as_dict(), self.pool.weights, self.pool.totals)
        weighted = [o for o in other.pool.opponents if o.weight_index >= 0]
        other._new_opponents = {o.weight_index: other.pool.weights[o.number] for o in weighted}
        backend.restore(self.backend.snapshot(), turn=self.turn)
        other.turn = self.turn
        return other


def kept(backend: Backend) -> dict[tuple[int, int], bytes]:
    """All bytes of the rollouts that a ring keeps, by shard and turn."""
    ring = backend.rings[0]
    return {
        (shard, turn): b"".join(
            column.tobytes()
            for name, column in ring.slot(shard, turn)._asdict().items()
            if name not in TRANSIENT
        )
        for shard in range(ring.shape.num_shards)
        for turn in ring.complete_turns(shard)
    }


_oracle: dict[str, tuple[list[list[Content]], dict[tuple[int, int], bytes], list[Failure]]] = {}


def pooled_oracle(
    plan: Plan, turns: int, config: OpponentsConfig = CONFIG
) -> tuple[list[list[Content]], dict[tuple[int, int], bytes], list[Failure]]:
    """What the serial backend gives: rollouts, what is kept of them at the end, and who failed."""
    key = f"{plan} {turns} {config}"
    if key not in _oracle:
        with started(plan) as serial:
            played = PooledPlay(serial, plan, config)
            _oracle[key] = (played.play(turns), kept(serial), played.failures)
    return _oracle[key]
