"""Equal bytes for any number of workers, on every backend: the serial one is the oracle."""

import pytest

from senju.backends.backend import Backend, Plan
from senju.collect.resignation import Resignation
from tests.backends.common import PLAN, changed, oracle, play, publish_turn, started, wait_for_workers

TURNS = 5
TOYS = "tests.collect.toy_games"
PLANS = {
    "connect four": changed(PLAN, num_shards=5),
    "connect four, games cut short": changed(PLAN, num_shards=4, max_game_length=7),
    "tic-tac-toe with a resnet": changed(
        PLAN,
        game={"name": "tic_tac_toe"},
        model={"name": "resnet", "channels": 8, "blocks": 1},
        num_shards=5,
    ),
    "a race": changed(PLAN, game={"name": f"{TOYS}:Race"}, num_shards=7, games_per_shard=2),
    "a meeting, games cut short": changed(
        PLAN, game={"name": f"{TOYS}:Meeting"}, num_shards=5, games_per_shard=3, max_game_length=3
    ),
    "connect four, games given up": changed(PLAN, num_shards=4, resignation=Resignation(0.05, 0.3)),
    "one row in each shard": changed(PLAN, num_shards=8, games_per_shard=1, rollout_steps=3),
}


def require_equal_bytes(backend: Backend, plan: Plan) -> None:
    """Turns with other weights in each, compared to the serial backend's."""
    for turn, (found, expected) in enumerate(
        zip(play(backend, plan, TURNS), oracle(plan, TURNS), strict=True)
    ):
        assert [content[:2] for content in found] == [content[:2] for content in expected], turn
        assert found == expected, f"turn {turn}"
    publish_turn(backend, plan, 0)


def test_the_oracle_plays_something_else_in_every_turn_and_shard() -> None:
    for plan in PLANS.values():
        turns = oracle(plan, TURNS)
        data = [data for turn in turns for _, _, data, _ in turn]
        assert len(set(data)) == TURNS * plan.num_shards
        assert [version for turn in turns for _, version, _, _ in turn] == [
            turn for turn in range(TURNS) for _ in range(plan.num_shards)
        ]


def test_cutting_games_short_matters() -> None:
    plan = PLANS["connect four, games cut short"]
    assert oracle(plan, 1) != oracle(changed(plan, max_game_length=0), 1)


def test_resignation_matters_and_so_do_the_exempt_games() -> None:
    plan = PLANS["connect four, games given up"]
    others = (
        plan,
        changed(plan, resignation=Resignation(0.0)),
        changed(plan, resignation=Resignation(0.05, 0.0)),
    )
    assert len({str(oracle(other, 1)) for other in others}) == len(others)


@pytest.mark.parametrize("num_workers", [1, 2, 3])
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_threads_play_what_serial_plays(plan: Plan, num_workers: int) -> None:
    with started(plan, "threads", num_workers=num_workers) as backend:
        require_equal_bytes(backend, plan)
        assert backend.report().events == []


MOST_WORKERS = {
    "connect four": 4,
    "connect four, games given up": 2,
    "tic-tac-toe with a resnet": 4,
    "a race": 2,
    "a meeting, games cut short": 2,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MOST_WORKERS)
def test_processes_play_what_serial_plays(name: str) -> None:
    """With many workers first, then with fewer and fewer of them: starting takes the longest here."""
    plan, most = PLANS[name], MOST_WORKERS[name]
    with started(plan, "processes", num_workers=most) as backend:
        first = backend.snapshot()
        for num_workers in range(most, 0, -1):
            backend.team.resize(num_workers)
            wait_for_workers(backend, num_workers)
            require_equal_bytes(backend, plan)
            backend.restore(first)
        assert backend.report().events == []
