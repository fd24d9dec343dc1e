"""Orders travel with the weights: version, weights, exploration and opponents always fit together."""

import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from senju.backends.backend import Plan
from senju.collect.exploration import Acting
from senju.collect.orders import Orders
from senju.collect.slots import Rollout
from senju.games.tic_tac_toe import TicTacToe
from senju.models.weights import Weights
from senju.opponents.opponent_players import OpponentSettings
from tests.backends.common import PLAN, SAME_LOGITS, changed, started
from tests.collect.seated_play import preferring

NUM_SLOTS = 4
WHOLE_GAMES = changed(
    PLAN,
    model=SAME_LOGITS,
    game={"name": "tic_tac_toe"},
    num_shards=8,
    games_per_shard=2,
    rollout_steps=9,
    whole_games=True,  # so that all games of a rollout are drawn in it
    opponents=OpponentSettings(epsilon=0.0),
    num_snapshots=NUM_SLOTS,
    acting=Acting("action_values"),
)


def block(version: int) -> Weights:
    """Weights that give every action the version's number as its value."""
    return preferring(TicTacToe(), [float(version)] * 9)


def orders(version: int) -> Orders:
    """Explore always or never; and one opponent, whose number and index follow from the version."""
    return Orders(
        epsilons=(float(version % 2),),
        ids=(version + 1,),
        weight_indices=(version % NUM_SLOTS,),
        probabilities=(1.0,),
    )


def require_one_version(rollout: Rollout) -> None:
    """All that is recorded comes from the version that is recorded as the one that acted."""
    slot, version = rollout.data, rollout.version
    acts = slot.seats >= 0
    assert acts.any()
    assert (slot.values[acts] == version).all(), "the weights"
    assert (slot.explored[acts] == bool(version % 2)).all(), "how much to explore"
    numbers = np.unique(slot.seated[slot.seated > 0]).tolist()
    assert numbers == [version + 1], "who is drawn"
    first = slot.actions[0, slot.seated[0, :, 0] == version + 1]
    assert len(first)
    assert (first == version % NUM_SLOTS).all(), "whose weights lie there"


@pytest.fixture
def plan() -> Plan:
    return WHOLE_GAMES


@pytest.fixture
def _hurried() -> Iterator[None]:
    """Threads of Python give way to each other all the time, and so in the middle of everything."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def opponents() -> dict[int, Weights]:
    """Each prefers the action of its index."""
    likes = np.eye(NUM_SLOTS, 9).tolist()
    return {index: preferring(TicTacToe(), likes[index]) for index in range(NUM_SLOTS)}


@pytest.mark.slow
@pytest.mark.usefixtures("_hurried")
@pytest.mark.parametrize("max_lag", [0, 2])
def test_rollouts_are_of_one_publication_however_fast_they_come(plan: Plan, max_lag: int) -> None:
    is_over, published = threading.Event(), 0
    with started(changed(plan, max_lag=max_lag), "threads", num_workers=2) as backend:
        backend.publish(block(0), 0, orders(0), opponents())

        def publish() -> None:
            nonlocal published
            while not is_over.is_set():
                published += 1
                backend.publish(block(published), published, orders(published))

        publisher = threading.Thread(target=publish)
        publisher.start()
        try:
            versions = []
            for _ in range(30):
                rollouts = backend.collect()
                for rollout in rollouts:
                    require_one_version(rollout)
                versions += [rollout.version for rollout in rollouts]
        finally:
            is_over.set()
            publisher.join()
    assert published > 100
    assert len(set(versions)) > 25
    by_shard = [versions[shard :: plan.num_shards] for shard in range(plan.num_shards)]
    assert all(sorted(line) == line for line in by_shard), "never an older one"


def test_serial_backend_plays_by_the_newest_orders(plan: Plan) -> None:
    with started(plan) as backend:
        backend.publish(block(0), 0, orders(0), opponents())
        for version in (0, 1, 5, 2):
            backend.publish(block(version), version, orders(version))
            for rollout in backend.collect():
                assert rollout.version == version
                require_one_version(rollout)
