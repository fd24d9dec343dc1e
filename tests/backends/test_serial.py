"""The serial backend: one seed, one sequence of rollouts, whatever the shards and the pauses."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from senju.backends.backend import Plan
from senju.backends.serial import Serial
from senju.collect.slots import Rollout, Slot
from senju.errors import ModelError
from senju.games import make_game
from senju.models import MODELS, build_model
from senju.models.weights import WeightBlock, Weights

PLAN = Plan(
    game={"name": "connect_four"},
    model={"name": "mlp", "hidden": [16]},
    seed=8,
    num_shards=3,
    games_per_shard=4,
    rollout_steps=10,
)
SAME_LOGITS = {"name": "tests.collect.toy_models:ReadsObservation"}


@contextmanager
def started(plan: Plan) -> Iterator[Serial]:
    backend = Serial()
    backend.start(plan)
    try:
        yield backend
    finally:
        backend.close()


def contents(rollouts: list[Rollout]) -> list[tuple[int, int, bytes]]:
    """All bytes of the rollouts, copied: they stay valid only until the next call."""
    return [(r.shard, r.version, b"".join(array.tobytes() for array in r.data)) for r in rollouts]


def weights_of(plan: Plan, seed: int) -> Weights:
    game = make_game(**plan.game)
    config = MODELS.configure(plan.model)
    model = build_model(
        MODELS.get(plan.model["name"]), game.observation_shape, game.num_actions, config, seed
    )
    return WeightBlock(model).read()


GAMES = ["connect_four", "tic_tac_toe", "tests.collect.toy_games:Race", "tests.collect.toy_games:Meeting"]


@pytest.mark.parametrize("game", GAMES)
def test_two_backends_with_one_seed_collect_equal_bytes(game: str) -> None:
    plan = replace(PLAN, game={"name": game})
    with started(plan) as one, started(plan) as other:
        for _ in range(4):
            assert contents(one.collect()) == contents(other.collect())


@pytest.mark.parametrize("game", GAMES)
def test_another_seed_collects_other_games(game: str) -> None:
    plan = replace(PLAN, game={"name": game}, model=SAME_LOGITS)
    with started(plan) as one, started(replace(plan, seed=9)) as other:
        actions = [np.stack([r.data.actions for r in backend.collect()]) for backend in (one, other)]
    assert (actions[0] != actions[1]).any()


def test_rollouts_come_one_per_shard_in_order() -> None:
    with started(PLAN) as backend:
        for _ in range(3):
            assert [rollout.shard for rollout in backend.collect()] == [0, 1, 2]


def by_row_id(rollouts: list[Rollout]) -> dict[int, tuple[bytes, ...]]:
    """Each row's own trajectory, by its id."""
    per_shard = rollouts[0].data.seats.shape[1]
    return {
        rollout.shard * per_shard + row: tuple(array[:, row].tobytes() for array in rollout.data)
        for rollout in rollouts
        for row in range(per_shard)
    }


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("games_per_shard", [1, 3, 12])
def test_row_plays_the_same_games_in_shards_of_any_size(game: str, games_per_shard: int) -> None:
    """Given logits that do not round differently in another batch: the draws belong to the row."""
    plan = replace(PLAN, game={"name": game}, model=SAME_LOGITS)
    other = replace(plan, games_per_shard=games_per_shard, num_shards=12 // games_per_shard)
    with started(plan) as one, started(other) as another:
        for _ in range(3):
            rows = by_row_id(one.collect())
            assert len(set(rows.values())) > 1
            assert rows == by_row_id(another.collect())


@pytest.mark.parametrize("game", GAMES)
def test_rollouts_join_into_longer_ones(game: str) -> None:
    """Two rollouts of 10 steps are one of 20, but for what the cut in the middle is worth."""
    plan = replace(PLAN, game={"name": game}, model=SAME_LOGITS)
    with started(plan) as short, started(replace(plan, rollout_steps=20)) as long:
        halves = [Slot(*map(np.copy, short.collect()[1].data)) for _ in range(2)]
        whole = long.collect()[1].data
    for name, first, second, both in zip(Slot._fields, *halves, whole, strict=True):
        if name != "bootstrap":
            assert np.concatenate([first, second]).tobytes() == both.tobytes(), name


@pytest.mark.parametrize("game", GAMES)
def test_restored_snapshot_replays_to_equal_bytes(game: str) -> None:
    plan = replace(PLAN, game={"name": game})
    with started(plan) as backend, started(plan) as elsewhere:
        backend.collect()
        snapshot = backend.snapshot()
        expected = [contents(backend.collect()) for _ in range(2)]
        assert expected[0] != expected[1]
        for restored in (backend, elsewhere):
            restored.restore(snapshot)
            assert [contents(restored.collect()) for _ in range(2)] == expected


def test_published_weights_act_from_the_next_rollout_on() -> None:
    weights = weights_of(PLAN, seed=99)
    with started(PLAN) as backend, started(PLAN) as unchanged:
        assert contents(backend.collect()) == contents(unchanged.collect())
        backend.publish(weights, version=5)
        with_new, with_old = backend.collect(), unchanged.collect()
        assert [rollout.version for rollout in with_new] == [5, 5, 5]
        assert [rollout.version for rollout in with_old] == [0, 0, 0]
        first_seen = [rollouts[0].data.observation[0].tobytes() for rollouts in (with_new, with_old)]
        assert first_seen[0] == first_seen[1], "publishing moved the games"
        first_values = [rollouts[0].data.values[0].tobytes() for rollouts in (with_new, with_old)]
        assert first_values[0] != first_values[1]

    with started(PLAN) as always_new, started(PLAN) as late:
        always_new.publish(weights, version=5)
        late.publish(weights_of(PLAN, seed=98), version=4)
        late.publish(weights, version=5)  # only the newest counts
        assert contents(always_new.collect()) == contents(late.collect())


def test_publishing_copies_the_weights() -> None:
    weights = weights_of(PLAN, seed=99)
    with started(PLAN) as backend, started(PLAN) as other:
        for each in (backend, other):
            each.publish(weights.copy(), version=1)
        own = weights.copy()
        backend.publish(own, version=1)
        own.fill(0)  # the caller may use its block again
        assert contents(backend.collect()) == contents(other.collect())


def test_policy_that_prefers_an_action_takes_it() -> None:
    plan = replace(PLAN, model=SAME_LOGITS, games_per_shard=64, num_shards=1, rollout_steps=1)
    with started(plan) as backend:
        assert len(set(backend.collect()[0].data.actions.reshape(-1).tolist())) > 1
        preference = np.where(np.arange(7) == 3, 50.0, 0.0).astype(np.float32)
        weights = weights_of(plan, seed=plan.seed)
        weights[: preference.nbytes] = preference.view(np.uint8)  # comes first in the model
        backend.publish(weights, version=1)
        assert set(backend.collect()[0].data.actions.reshape(-1).tolist()) == {3}


def test_weights_of_another_model_are_refused() -> None:
    with started(PLAN) as backend:
        before = contents(backend.collect())
        with pytest.raises(ModelError, match="bytes"):
            backend.publish(weights_of(replace(PLAN, model={"name": "mlp", "hidden": [17]}), 0), version=1)
        with started(PLAN) as untouched:
            assert before == contents(untouched.collect())
            assert contents(backend.collect()) == contents(untouched.collect())


def test_starts_with_the_weights_that_the_seed_gives() -> None:
    with started(PLAN) as fresh, started(PLAN) as published:
        published.publish(weights_of(PLAN, PLAN.seed), version=0)
        assert contents(fresh.collect()) == contents(published.collect())


def test_taking_timings_empties_them() -> None:
    with started(PLAN) as backend:
        backend.collect()
        assert set(backend.take_timings()) == {"observe", "evaluate", "choose", "step", "restart"}
        assert backend.take_timings() == {}


def test_can_be_closed_twice() -> None:
    backend = Serial()
    backend.start(PLAN)
    backend.collect()
    backend.close()
    backend.close()
