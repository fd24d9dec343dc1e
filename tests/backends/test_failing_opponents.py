"""Opponents that raise or move illegally: their games are cut off, and all other games continue."""

from pathlib import Path

import numpy as np
import pytest

from senju.algorithms.returns import generalised_advantages
from senju.backends.backend import Backend, Plan
from senju.collect.orders import Orders
from senju.collect.seating import CURRENT, Failure
from senju.collect.slots import Rollout
from senju.opponents.pool import OpponentsConfig
from tests.backends.common import PLAN, Content, changed, contents, gather_events, started, weights_of
from tests.backends.pooled import PooledPlay, pooled, pooled_oracle
from tests.backends.trap_games import order, trap_plan, was_sprung
from tests.collect.toy_opponents import HERE
from tests.facts import assert_mentions

CONFIG = OpponentsConfig(
    snapshot_interval=1,
    size=2,
    fixed=("random", f"{HERE}:raises_in_the_middle", f"{HERE}:cheats_in_the_middle"),
    fixed_share=0.8,
    self_share=0.0,
    in_play=4,
    on_failure="drop",
)
RAISES, CHEATS = 2, 3
RACE = changed(PLAN, game={"name": "tests.collect.toy_games:Race"}, keeps_final=True)
NEVER_DROPPED = Orders(ids=(1, 2, 3), weight_indices=(-1, -1, -1), probabilities=(0.2, 0.4, 0.4))


def play(backend: Backend, plan: Plan, turns: int) -> tuple[list[list[Content]], list[list[Failure]]]:
    """Turns in which opponents that fail are not dropped."""
    found, failures = [], []
    for turn in range(turns):
        backend.publish(weights_of(plan, plan.seed + turn), turn, NEVER_DROPPED)
        rollouts = backend.collect()
        found.append(contents(rollouts))
        failures.append(failures_of(rollouts))
    return found, failures


def failures_of(rollouts: list[Rollout]) -> list[Failure]:
    return [failure for rollout in rollouts for failure in rollout.failures]


def rollouts_of(plan: Plan) -> list[Rollout]:
    with started(plan) as serial:
        serial.publish(weights_of(plan, plan.seed), 0, NEVER_DROPPED)
        return serial.collect()


def test_games_that_cannot_go_on_are_truncated_and_what_they_are_worth_is_unknown() -> None:
    num_cut = 0
    for rollout in rollouts_of(pooled(RACE, CONFIG)):
        slot = rollout.data
        moves = slot.observation[..., 0, 1]  # made before the step
        for number, when in ((RAISES, 3), (CHEATS, 2)):
            failed = (moves == when) & (slot.seats[..., 0] < 0) & (slot.seated == number).any(axis=-1)
            num_cut += failed.sum()
            assert slot.truncated[failed].all()
            assert not slot.terminated[failed].any()
            assert not slot.rewards[failed].any()
            assert np.isnan(slot.bootstrap[failed]).all()
            assert (slot.final_at[failed] == -1).all(), "no decision is learned from where it was cut"
        by_the_rules = slot.truncated & ~np.isnan(slot.bootstrap).all(axis=-1)
        assert (moves[by_the_rules] == 4).all(), "all others go on"
    assert num_cut > 4


def test_last_decision_before_a_failure_is_not_learned_from_and_those_before_are() -> None:
    """The learner moves first and third; then the fourth move fails."""
    num_cut = 0
    for rollout in rollouts_of(pooled(RACE, CONFIG)):
        slot = rollout.data
        known = generalised_advantages(slot, 1.0, 0.95).is_known[..., 0]
        for time, row in zip(*np.nonzero(np.isnan(slot.bootstrap).all(axis=-1)), strict=True):
            if slot.observation[time, row, 0, 1] == 3 and time >= 3:
                num_cut += 1
                assert known[time - 3 : time + 1, row].tolist() == [True, False, False, False]
    assert num_cut > 0


def test_failure_names_opponent_game_row_and_what_was_wrong() -> None:
    with started(pooled(RACE, CONFIG)) as serial:
        _, [failures] = play(serial, pooled(RACE, CONFIG), 1)
    assert {failure.opponent for failure in failures} == {RAISES, CHEATS}
    for failure in failures:
        where = rf"race, row {failure.row}, game {failure.game}, step {failure.step}"
        assert where in failure.what
        if failure.opponent == RAISES:
            assert failure.name == f"{HERE}:raises_in_the_middle"
            assert_mentions(failure.what, failure.name, "ZeroDivisionError: three is too many")
        else:
            assert_mentions(failure.what, f"{HERE}:cheats_in_the_middle", "5", "no legal action", "[0, 1]")


def test_each_opponent_is_named_once_in_a_rollout_and_sits_in_no_new_game_of_it() -> None:
    plan = pooled(changed(RACE, num_shards=1, games_per_shard=12, rollout_steps=30), CONFIG)
    with started(plan) as serial:
        serial.publish(weights_of(plan, 1), 0, NEVER_DROPPED)
        [rollout] = serial.collect()
        assert sorted(failure.opponent for failure in rollout.failures) == [RAISES, CHEATS]
    seated = rollout.data.seated
    assert not np.isin(seated[15:], [RAISES, CHEATS]).any(), "their last games are over"
    assert np.isin(seated[:5], [RAISES, CHEATS]).any()


def test_rollouts_continue_when_all_opponents_have_failed() -> None:
    """The rest of the rollout's new games are played by the learner alone."""
    config = CONFIG.model_copy(update={"fixed": (f"{HERE}:cheats_in_the_middle",)})
    plan = pooled(changed(RACE, rollout_steps=30), config)
    with started(plan) as serial:
        serial.publish(weights_of(plan, 1), 0, Orders(ids=(1,), weight_indices=(-1,), probabilities=(1.0,)))
        for rollout in serial.collect():
            assert (rollout.data.seated[-1] == CURRENT).all()
            assert (rollout.data.seats[-1] >= 0).all()


@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_threads_report_the_same_failures_in_the_same_order(num_workers: int) -> None:
    plan = pooled(RACE, CONFIG)
    with started(plan) as serial, started(plan, "threads", num_workers=num_workers) as backend:
        expected = play(serial, plan, 4)
        assert play(backend, plan, 4) == expected
        assert all(expected[1])


def test_opponent_that_fails_is_dropped_and_the_rest_plays_on() -> None:
    plan = pooled(RACE, CONFIG)
    turns, _, failures = pooled_oracle(plan, 5, CONFIG)
    assert {failure.opponent for failure in failures} == {RAISES, CHEATS}
    with started(plan, "threads", num_workers=2) as backend:
        played = PooledPlay(backend, plan, CONFIG)
        assert played.play(5) == turns
        assert played.failures == failures
        assert [member.name for member in played.pool.fixed] == ["random"]


def test_failures_of_a_turn_taken_in_parts_come_with_their_rollouts() -> None:
    plan = pooled(RACE, CONFIG)
    with started(plan) as serial, started(plan, "threads", num_workers=2) as backend:
        _, [expected] = play(serial, plan, 1)
        backend.publish(weights_of(plan, plan.seed), 0, NEVER_DROPPED)
        found, collected = [], 0
        while collected < plan.num_shards:
            rollouts = backend.collect(timeout=0.001)
            collected += len(rollouts)
            rows = {r.shard * plan.games_per_shard + i for r in rollouts for i in range(plan.games_per_shard)}
            failures = failures_of(rollouts)
            assert {failure.row for failure in failures} <= rows
            found += failures
        assert sorted(found) == sorted(expected)


def test_failures_in_rollouts_that_are_forgotten_are_forgotten_too() -> None:
    """Played ahead, and then again after a restore: reported once."""
    plan = changed(pooled(RACE, CONFIG), max_lag=2)
    with started(plan, "threads", num_workers=2) as backend, started(plan) as serial:
        for each in (backend, serial):
            each.publish(weights_of(plan, plan.seed), 0, NEVER_DROPPED)
        first = backend.snapshot()
        for _ in range(3):
            backend.collect()
            backend.restore(first)
        for _ in range(2):
            found, expected = backend.collect(), serial.collect()
            assert contents(found) == contents(expected)
            assert failures_of(found) == failures_of(expected) != []


@pytest.mark.slow
def test_processes_report_the_same_failures_once_although_workers_are_killed(tmp_path: Path) -> None:
    """One of them after it has reported the failures, and before it has handed the rollout over."""
    base = changed(trap_plan(tmp_path), keeps_final=True, rollout_steps=8)
    plan = pooled(base, CONFIG)
    with started(plan) as serial:
        expected = play(serial, plan, 3)
    with started(plan, "processes", num_workers=2) as backend:
        order(plan, "kill", shard=1, at=0, where="sending")
        assert play(backend, plan, 3) == expected
        assert was_sprung(plan)
        assert len(gather_events(backend, "worker_lost")) == 1
    assert all(any(failure.row in (2, 3) for failure in failures) for failures in expected[1][:1])
