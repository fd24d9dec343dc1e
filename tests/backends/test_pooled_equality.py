"""Equal bytes with opponents, exploration and a replay in use, for any number of workers, and under kills."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from senju.backends.backend import Backend, Plan
from senju.collect.exploration import Acting
from senju.errors import ModelError
from senju.machine import math_threads
from tests.backends.common import (
    PLAN,
    changed,
    contents,
    gather_events,
    pid_of,
    started,
    wait_for_workers,
    weights_of,
)
from tests.backends.pooled import CONFIG, PooledPlay, kept, pooled, pooled_oracle
from tests.backends.trap_games import order, trap_plan, was_sprung

TURNS = 6
TOYS = "tests.collect.toy_games"
BY_VALUES = Acting("action_values", ladder=1.5)
WITHOUT_MINIMAX = CONFIG.model_copy(update={"fixed": ("random", "tests.collect.toy_opponents:any_legal")})

PLANS = {
    "a policy with a pool": pooled(changed(PLAN, num_shards=5)),
    "action values with a replay": pooled(
        changed(PLAN, num_shards=4, acting=BY_VALUES, kept_turns=3, keeps_final=True, max_game_length=9)
    ),
    "whole games": pooled(
        changed(
            PLAN,
            game={"name": "tic_tac_toe"},
            acting=BY_VALUES._replace(is_dueling=True),
            rollout_steps=7,
            whole_games=True,
            kept_turns=2,
            keeps_final=True,
        )
    ),
    "three seats": pooled(changed(PLAN, game={"name": f"{TOYS}:Trio"}), WITHOUT_MINIMAX),
    "all act at once": pooled(
        changed(PLAN, game={"name": f"{TOYS}:Meeting"}, acting=BY_VALUES), WITHOUT_MINIMAX
    ),
}
CONFIGS = {name: WITHOUT_MINIMAX if name in ("three seats", "all act at once") else CONFIG for name in PLANS}


def require_equal_bytes(backend: Backend, name: str) -> None:
    played = PooledPlay(backend, PLANS[name], CONFIGS[name])
    turns, ring, failures = pooled_oracle(PLANS[name], TURNS, CONFIGS[name])
    for turn, (found, expected) in enumerate(zip(played.play(TURNS), turns, strict=True)):
        assert found == expected, f"turn {turn}"
    assert kept(backend) == ring
    assert played.failures == failures == []


@pytest.mark.parametrize("name", PLANS)
def test_all_opponents_play_in_the_oracle(name: str) -> None:
    """Both fixed opponents and several snapshots; and a rollout of one turn is like none of another."""
    plan = PLANS[name]
    with started(plan) as serial:
        played, seated = PooledPlay(serial, plan, CONFIGS[name]), set()
        for _ in range(TURNS):
            played.play(1)
            seated |= set(np.unique(serial.rings[0].columns.seated).tolist())
    assert {0, 1, 2} < seated
    assert max(seated) > 4
    turns, ring, _ = pooled_oracle(plan, TURNS, CONFIGS[name])
    assert len({data for turn in turns for _, _, data, _ in turn}) == TURNS * plan.num_shards
    assert len(ring) == plan.num_shards * plan.policies[0].kept_turns


@pytest.mark.parametrize("num_workers", [1, 2, 3])
@pytest.mark.parametrize("name", PLANS)
def test_threads_play_what_serial_plays(name: str, num_workers: int) -> None:
    with started(PLANS[name], "threads", num_workers=num_workers) as backend:
        require_equal_bytes(backend, name)
        assert backend.report().events == []


def test_math_threads_of_the_learner_change_no_byte_of_serial_play() -> None:
    """Workers have one each; the batches here are of sizes that torch rounds differently with two."""
    plan = pooled(changed(PLAN, games_per_shard=16))
    expected, _, _ = pooled_oracle(plan, TURNS)
    with math_threads(2), started(plan) as serial:
        assert PooledPlay(serial, plan).play(TURNS) == expected
        assert torch.get_num_threads() == 2


@pytest.mark.slow
def test_processes_play_what_serial_plays() -> None:
    """With three workers, then two, then one."""
    name = "action values with a replay"
    with started(PLANS[name], "processes", num_workers=3) as backend:
        first = backend.snapshot()
        for num_workers in (3, 2, 1):
            backend.team.resize(num_workers)
            wait_for_workers(backend, num_workers)
            require_equal_bytes(backend, name)
            backend.restore(first, turn=0)
        assert backend.report().events == []


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("turn", [1, 4])
def test_resumed_play_goes_on_as_if_it_had_never_stopped(name: str, turn: int) -> None:
    """On another backend, with running games against snapshots that have left the pool since."""
    plan = PLANS[name]
    expected, _, _ = pooled_oracle(plan, TURNS, CONFIGS[name])
    with started(plan) as serial, started(plan, "threads", num_workers=2) as backend:
        before = PooledPlay(serial, plan, CONFIGS[name])
        assert before.play(turn) == expected[:turn]
        after = before.taken_over_by(backend)
        assert after.play(TURNS - turn) == expected[turn:]
        assert [rollout.turn for rollout in backend.collect()] == [TURNS] * plan.num_shards


def trapped(folder: Path) -> Plan:
    return pooled(changed(trap_plan(folder), acting=BY_VALUES, kept_turns=3, keeps_final=True))


@pytest.mark.slow
def test_killed_workers_change_no_byte(tmp_path: Path) -> None:
    """In the middle of a rollout, with a finished one not yet reported, and while idle."""
    plan = trapped(tmp_path)
    turns, ring, _ = pooled_oracle(plan, TURNS)
    with started(plan, "processes", num_workers=2) as backend:
        played, found = PooledPlay(backend, plan), []
        for turn in range(TURNS):
            if turn == 2:
                order(plan, "kill", shard=1, at=4 * turn + 2)
            if turn == 3:
                assert was_sprung(plan)
                order(plan, "kill", shard=2, at=0, where="sending")
            if turn == 4:
                os.kill(pid_of(backend, 0), signal.SIGKILL)
            found += played.play(1)
        assert found == turns
        assert kept(backend) == ring
        assert len(gather_events(backend, "worker_lost")) >= 2


@pytest.mark.parametrize("max_lag", [1, 2, 3])
@pytest.mark.parametrize("kept_turns", [1, 4])
def test_kept_turns_stay_as_they_are_while_workers_play_ahead(max_lag: int, kept_turns: int) -> None:
    """Whatever was collected last is all there, and of older turns what a replay needs."""
    plan = changed(
        PLAN, max_lag=max_lag, kept_turns=kept_turns, keeps_final=True, acting=BY_VALUES, max_game_length=5
    )
    with started(plan) as serial, started(plan, "threads", num_workers=2) as backend:
        seen: dict[tuple[int, int], bytes] = {}
        for turn in range(9):
            assert contents(backend.collect()) == contents(serial.collect())
            seen |= {key: data for key, data in kept(serial).items() if key[1] == turn}
            found = kept(backend)
            for shard in range(plan.num_shards):
                for old in range(max(0, turn - kept_turns + 1), turn + 1):
                    assert found[shard, old] == seen[shard, old]


def test_restored_backend_counts_turns_from_the_restored_turn() -> None:
    """It also forgets the rollouts that will be played again."""
    plan = changed(PLAN, kept_turns=3, max_lag=1)
    for name in ("serial", "threads"):
        with started(plan, name) as backend:
            first = backend.snapshot()
            expected = [contents(backend.collect()) for _ in range(4)]
            backend.restore(first, turn=1)
            assert all(
                turn < 1
                for shard in range(plan.num_shards)
                for turn in backend.rings[0].complete_turns(shard)
            )
            for turn in range(1, 5):
                rollouts = backend.collect()
                assert [rollout.turn for rollout in rollouts] == [turn] * plan.num_shards
                assert contents(rollouts) == expected[turn - 1]
                assert all(turn in backend.rings[0].complete_turns(shard) for shard in range(plan.num_shards))
            backend.restore(first, turn=1_000_000)
            assert contents(backend.collect()) == expected[0]


def test_opponents_weights_of_another_size_are_refused() -> None:
    plan = PLANS["a policy with a pool"]
    other = changed(plan, model={"name": "mlp", "hidden": [8]})
    for name in ("serial", "threads"):
        with (
            started(plan, name) as backend,
            pytest.raises(ModelError, match=r"\d+ bytes .*architecture"),
        ):
            backend.publish(weights_of(plan, 1), 1, opponents={0: weights_of(other, 1)})
