"""Indices of weights are never reused too early, even if workers lag: a model of workers and a learner."""

import random
from collections import deque
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from senju.collect.orders import Orders
from senju.collect.slots import Rollout
from senju.opponents.pool import OpponentPool, OpponentsConfig
from tests.opponents.played import rollout

NUM_SHARDS, NUM_ROWS, NUM_STEPS = 2, 3, 2


@dataclass
class Shard:
    """A shard that some worker plays: rollouts begun with the orders of that moment, in small events."""

    index: int
    sitting: list[int] = field(default_factory=lambda: [0] * NUM_ROWS)  # the other seat of each row
    is_new: list[bool] = field(default_factory=lambda: [True] * NUM_ROWS)
    orders: Orders | None = None  # of the running rollout
    seated: list[list[list[int]]] = field(default_factory=list)
    ends: dict[tuple[int, int], float] = field(default_factory=dict)
    finished: deque[Rollout] = field(default_factory=deque)


class World:
    """Who plays in which order is chance; what is read and written is real."""

    def __init__(self, chance: random.Random, max_lag: int, size: int, ending: float) -> None:
        self.chance, self.max_lag, self.ending = chance, max_lag, ending
        config = OpponentsConfig(snapshot_interval=1, size=size)
        self.pool = OpponentPool(config, [], (NUM_SHARDS, NUM_ROWS, 2))
        self.numbers: dict[int, int] = {}  # whose weights lie there
        self.shards = [Shard(index) for index in range(NUM_SHARDS)]
        self.version = self.num_reused = 0
        self.published = self.pool.orders(0, (0.0,))

    def act(self) -> None:
        """One event: the learner learns if it can, or a shard goes on."""
        if all(shard.finished for shard in self.shards) and self.chance.random() < 0.5:
            self.learn()
        shard = self.chance.choice(self.shards)
        if shard.orders is not None:
            self.step(shard)
        elif len(shard.finished) <= self.max_lag:
            shard.orders, shard.seated, shard.ends = self.published, [], {}

    def step(self, shard: Shard) -> None:
        assert shard.orders is not None
        drawn = [
            n for n, chance in zip(shard.orders.ids, shard.orders.probabilities, strict=True) if chance > 0.0
        ]
        for row in range(NUM_ROWS):
            if shard.is_new[row]:
                shard.sitting[row] = self.chance.choice([0, *drawn])
            self.read_weights(shard.orders, shard.sitting[row])
            shard.is_new[row] = self.chance.random() < self.ending
            if shard.is_new[row]:
                shard.ends[len(shard.seated), row] = 1.0
        shard.seated.append([[0, number] for number in shard.sitting])
        if len(shard.seated) == NUM_STEPS:
            played = rollout(shard.seated, shard.ends, shard.index, shard.orders.version)
            shard.finished.append(played)
            shard.orders = None

    def read_weights(self, orders: Orders, number: int) -> None:
        """Each opponent in a game is in the orders, and its own weights are at the index that they give."""
        if number:
            assert self.numbers[orders.weight_indices[orders.ids.index(number)]] == number

    def learn(self) -> None:
        self.pool.count_results([shard.finished.popleft() for shard in self.shards])
        self.version += 1
        for index, weights in self.pool.add_snapshot(self.version, np.zeros(1, np.uint8)).items():
            number = self.pool.snapshots[-1].number
            self.num_reused += index in self.numbers
            self.numbers[index] = number
            assert weights is self.pool.weights[number]
        self.published = self.pool.orders(self.version, (0.0,))


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    max_lag=st.integers(0, 3),
    size=st.integers(1, 4),
    ending=st.sampled_from([0.02, 0.2, 0.8]),
)
def test_weights_of_an_opponent_in_a_game_stay_in_their_place(
    seed: int, max_lag: int, size: int, ending: float
) -> None:
    world = World(random.Random(seed), max_lag, size, ending)
    for _ in range(400):
        world.act()


def test_places_are_used_again_in_the_end() -> None:
    world = World(random.Random(1), max_lag=2, size=2, ending=0.3)
    for _ in range(1500):
        world.act()
    assert world.num_reused > 20
    assert len(world.numbers) == world.pool.config.num_weight_slots
