"""The serial backend: one seed, one sequence of rollouts, whatever the shards and the pauses."""

from pathlib import Path

import numpy as np
import pytest

from senju.collect.slots import Rollout, Slot
from tests.backends.common import GAMES, PLAN, SAME_LOGITS, changed, contents, started, weights_of
from tests.backends.trap_games import order, trap_plan, was_sprung
from tests.collect.made_slots import some_rows


@pytest.mark.parametrize("game", GAMES)
def test_two_backends_with_one_seed_collect_equal_bytes(game: str) -> None:
    plan = changed(PLAN, game={"name": game})
    with started(plan) as one, started(plan) as other:
        for _ in range(4):
            assert contents(one.collect()) == contents(other.collect())


@pytest.mark.parametrize("game", GAMES)
def test_another_seed_collects_other_games(game: str) -> None:
    plan = changed(PLAN, game={"name": game}, model=SAME_LOGITS)
    with started(plan) as one, started(changed(plan, seed=9)) as other:
        actions = [np.stack([r.data.actions for r in backend.collect()]) for backend in (one, other)]
    assert (actions[0] != actions[1]).any()


@pytest.mark.parametrize("is_shared", [False, True])
def test_status_says_how_much_memory_is_shared(is_shared: bool) -> None:
    with started(changed(PLAN, is_shared=is_shared)) as backend:
        assert (backend.status().shared_bytes > 0) == is_shared


def by_row_id(rollouts: list[Rollout]) -> dict[int, tuple[bytes, ...]]:
    """Each row's own trajectory, by its id."""
    per_shard = rollouts[0].data.seats.shape[1]
    return {
        rollout.shard * per_shard + row: tuple(a.tobytes() for a in some_rows(rollout.data, [row]))
        for rollout in rollouts
        for row in range(per_shard)
    }


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("games_per_shard", [1, 3, 12])
def test_row_plays_the_same_games_in_shards_of_any_size(game: str, games_per_shard: int) -> None:
    """Given logits that do not round differently in another batch: the draws belong to the row."""
    plan = changed(PLAN, game={"name": game}, model=SAME_LOGITS)
    other = changed(plan, games_per_shard=games_per_shard, num_shards=12 // games_per_shard)
    with started(plan) as one, started(other) as another:
        for _ in range(3):
            rows = by_row_id(one.collect())
            assert len(set(rows.values())) > 1
            assert rows == by_row_id(another.collect())


@pytest.mark.parametrize("game", GAMES)
def test_rollouts_join_into_longer_ones(game: str) -> None:
    """Two rollouts of 10 steps are one of 20, but for what the cut in the middle is worth."""
    plan = changed(PLAN, game={"name": game}, model=SAME_LOGITS)
    with started(plan) as short, started(changed(plan, rollout_steps=20)) as long:
        halves = [Slot(*map(np.copy, short.collect()[1].data)) for _ in range(2)]
        whole = long.collect()[1].data
    for name, first, second, both in zip(Slot._fields, *halves, whole, strict=True):
        if name != "bootstrap":
            assert np.concatenate([first, second]).tobytes() == both.tobytes(), name


@pytest.mark.parametrize("game", GAMES)
def test_restored_snapshot_replays_to_equal_bytes(game: str) -> None:
    plan = changed(PLAN, game={"name": game})
    with started(plan) as backend, started(plan) as elsewhere:
        backend.collect()
        snapshot = backend.snapshot()
        expected = [contents(backend.collect()) for _ in range(2)]
        assert expected[0] != expected[1]
        for restored in (backend, elsewhere):
            restored.restore(snapshot)
            assert [contents(restored.collect()) for _ in range(2)] == expected


def test_policy_that_prefers_an_action_takes_it() -> None:
    plan = changed(PLAN, model=SAME_LOGITS, games_per_shard=64, num_shards=1, rollout_steps=1)
    with started(plan) as backend:
        assert len(set(backend.collect()[0].data.actions.reshape(-1).tolist())) > 1
        preference = np.where(np.arange(7) == 3, 50.0, 0.0).astype(np.float32)
        weights = weights_of(plan, seed=plan.seed)
        weights[: preference.nbytes] = preference.view(np.uint8)  # comes first in the model
        backend.publish(weights, version=1)
        assert set(backend.collect()[0].data.actions.reshape(-1).tolist()) == {3}


def test_caller_that_polls_gets_one_rollout_at_a_time() -> None:
    """No games are played between two calls, so that a call without time would never end the turn."""
    with started(PLAN) as polled, started(PLAN) as whole:
        found = [contents(polled.collect(timeout=0.0)) for _ in range(PLAN.num_shards)]
        assert [rollout for rollouts in found for rollout in rollouts] == contents(whole.collect())
        polled.team.pause()
        assert polled.collect(timeout=0.0) == []


@pytest.mark.parametrize(("kind", "error"), [("interrupt", KeyboardInterrupt), ("raise", RuntimeError)])
@pytest.mark.parametrize("whole_games", [False, True])
def test_collect_goes_on_with_equal_bytes_after_it_was_interrupted(
    kind: str, error: type[BaseException], whole_games: bool, tmp_path: Path
) -> None:
    """As with the parallel backends, the rollouts before are kept, and the interrupted one is played anew."""
    plan = changed(trap_plan(tmp_path), whole_games=whole_games)
    armed = changed(trap_plan(tmp_path, spared=0), whole_games=whole_games)
    with started(plan) as undisturbed, started(armed) as backend:
        assert contents(backend.collect()) == contents(undisturbed.collect())
        age = backend.snapshot()[1].states["age"].max()
        order(plan, kind, shard=1, at=int(age) + 1)
        with pytest.raises(error):
            backend.collect()
        assert was_sprung(plan)
        for _ in range(3):
            assert contents(backend.collect()) == contents(undisturbed.collect())


def test_snapshot_after_an_interrupted_collect_holds_what_was_not_returned(tmp_path: Path) -> None:
    """As with the parallel backends, the rollouts before the interrupted one are collected again."""
    plan, armed = trap_plan(tmp_path), trap_plan(tmp_path, spared=0)
    with started(plan) as undisturbed, started(armed) as backend, started(plan, "threads") as other:
        before = [array.tobytes() for state in backend.snapshot() for array in state]
        order(plan, "raise", shard=1, at=2)
        with pytest.raises(RuntimeError):
            backend.collect()
        found = backend.snapshot()
        assert [array.tobytes() for state in found for array in state] == before
        backend.restore(found)
        other.restore(found)
        for _ in range(2):
            expected = contents(undisturbed.collect())
            assert contents(backend.collect()) == expected
            assert contents(other.collect()) == expected
