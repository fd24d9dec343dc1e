"""The loop with opponents: decisions that are learned from, credited games, and continuing after restore."""

import logging
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from senju.algorithms.returns import generalised_advantages
from senju.collect.seating import CURRENT
from senju.collect.slots import Rollout
from senju.config import Settings
from senju.errors import ModelError, OpponentError
from senju.games import make_game
from senju.runs.run import Run
from senju.runs.run_config import resolve_config
from senju.training.loop import Loop
from tests.conftest import SMALL
from tests.opponents import own_players

HERE = own_players.HERE
POOL = {"snapshot_interval": 1, "size": 3, "self_share": 0.25, "fixed": ["random"]}
DQN = {"name": "dqn", "learning_starts": 200, "batch_size": 64, "replay_size": 2000}


def new_loop(opponents: Settings | None = None, backend: Settings | None = None, **changes: Any) -> Loop:
    small = SMALL if "algorithm" not in changes else {n: p for n, p in SMALL.items() if n != "algorithm"}
    layer = {"collect": {"seating": "opponents"}, "opponents": POOL | (opponents or {})}
    config = resolve_config("tic_tac_toe", small, {"total_steps": 100_000}, layer, changes)
    return Loop(config, make_game(**config.game), backend)


def begin(loop: Loop) -> Loop:
    loop.start()
    loop.publish_all()
    return loop


def update(loop: Loop) -> dict[str, float]:
    metrics = loop.learn(loop.collect())
    loop.publish()
    return metrics


def many_updates(loop: Loop, count: int) -> list[dict[str, float]]:
    return [update(loop) for _ in range(count)]


def whole_past(loop: Loop, count: int) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Who sat where, and where games ended, over many rollouts: [time, row, …]."""
    seated, ended = [], []
    for _ in range(count):
        (rollout,) = loop.collect()
        slot = rollout.data
        seated.append(slot.seated.copy())
        ended.append(slot.terminated | slot.truncated)
        loop.learn([rollout])
        loop.publish()
    return np.concatenate(seated), np.concatenate(ended)


def as_bytes(rollouts: list[Rollout]) -> bytes:
    return b"".join(column.tobytes() for rollout in rollouts for column in rollout.data)


def test_snapshots_are_taken_played_and_counted() -> None:
    loop = begin(new_loop())
    assert loop.pool is not None
    metrics = many_updates(loop, 8)
    assert [record["pool_size"] for record in metrics] == [0, 1, 2, 3, 3, 3, 3, 3]
    played = {second for _, second in loop.pool.results}
    assert played >= {1, 2, 3, 4}
    here = {member.number for member in loop.pool.opponents} | {loop.pool.next_number}
    assert {first for first, _ in loop.pool.results} <= here  # what left is forgotten: results stay few
    assert sum(record["opponent_games"] for record in metrics) > 100


def test_every_game_against_others_is_a_result() -> None:
    loop = begin(new_loop({"size": 8}))
    assert loop.pool is not None
    metrics = many_updates(loop, 6)
    games = sum(score.games for score in loop.pool.results.values())
    assert games == sum(record["opponent_games"] for record in metrics) > 100


def test_scores_against_others_are_shares() -> None:
    metrics = many_updates(begin(new_loop()), 4)
    for record in metrics:
        assert 0.0 <= record.get("opponent_score", 0.5) <= 1.0


def test_a_snapshot_plays_with_the_weights_it_was_taken_with() -> None:
    loop = begin(new_loop({"fixed": [], "self_share": 0.0}))
    update(loop)
    assert loop.pool is not None
    taken = loop.pool.weights[1].copy()
    assert (taken == loop.learner.weights()).all()
    many_updates(loop, 3)
    assert (loop.pool.weights[1] == taken).all()
    assert (taken != loop.learner.weights()).any()


@pytest.mark.parametrize("fixed", [["random"], ["minimax:2", f"{HERE}:any_of"]])
def test_the_first_ratio_is_1_with_opponents_seated(fixed: list[str]) -> None:
    """What is learned from are the learner's own decisions, with its own probabilities of them."""
    loop = begin(new_loop({"fixed": fixed, "self_share": 0.0}))
    for record in many_updates(loop, 4):
        assert record["largest_ratio_error"] < 1e-5
        assert record["first_minibatch_kl"] < 1e-6


def test_only_the_learners_decisions_are_learned_from() -> None:
    loop = begin(new_loop())
    many_updates(loop, 3)
    (rollout,) = loop.collect()
    slot = rollout.data
    deciders = np.take_along_axis(slot.seated, np.maximum(slot.seats, 0).astype(np.int64), axis=2)
    assert (deciders[slot.seats >= 0] == CURRENT).all()
    assert 0.4 < (slot.seats >= 0).mean() < 0.9  # all in a quarter of the games, half in the others
    assert (slot.log_probs[slot.seats < 0] == 0.0).all()


def test_opponents_never_change_in_mid_game_and_colours_are_balanced() -> None:
    seated, ended = whole_past(begin(new_loop({"self_share": 0.0})), 12)
    goes_on = ~ended[:-1]
    assert (seated[1:][goes_on] == seated[:-1][goes_on]).all()
    assert (seated[1:][~goes_on] != seated[:-1][~goes_on]).any()
    finished = seated[ended]
    against = finished[(finished != CURRENT).any(axis=1)]
    first = (against[:, 0] == CURRENT).mean()
    assert len(against) > 300
    assert 0.45 < first < 0.55


def test_a_loss_on_the_opponents_last_move_is_credited() -> None:
    loop = begin(new_loop({"snapshot_interval": 0, "self_share": 0.0, "fixed": ["minimax:2"]}))
    (rollout,) = loop.collect()
    slot = rollout.data
    returns = generalised_advantages(slot, gamma=1.0, gae_lambda=1.0).returns
    num_lost = 0
    for time, row in np.argwhere(slot.terminated).tolist():
        own = int((slot.seated[time, row] == CURRENT).argmax())
        mine = np.flatnonzero(slot.seats[: time + 1, row, 0] == own)
        if len(mine) and not slot.terminated[mine[-1] : time, row].any():
            assert returns[mine[-1], row, 0] == pytest.approx(slot.rewards[time, row, own])
            num_lost += int(slot.rewards[time, row, own] < 0 and mine[-1] < time)
    assert num_lost > 5


@pytest.mark.parametrize("algorithm", [SMALL["algorithm"], DQN], ids=["ppo", "dqn"])
def test_equal_bytes_for_any_backend_and_number_of_workers(algorithm: Settings) -> None:
    collect = {"num_games": 32, "games_per_shard": 8}
    opponents = {"fixed": ["random", f"{HERE}:any_of"], "choose": "harder"}
    ends = []
    for backend in ({"name": "serial"}, *({"name": "threads", "num_workers": n} for n in (1, 3))):
        loop = begin(new_loop(opponents, backend, collect=collect, algorithm=algorithm))
        try:
            many_updates(loop, 5)
            assert loop.pool is not None
            ends.append((loop.learner.weights().tobytes(), loop.pool.as_dict(), as_bytes(loop.collect())))
        finally:
            loop.close()
    assert ends[0] == ends[1] == ends[2]


def test_the_loop_goes_on_where_it_was() -> None:
    loop = begin(new_loop({"choose": "harder"}))
    many_updates(loop, 5)
    again = new_loop({"choose": "harder"})
    again.learner.load_state(loop.learner.state())
    assert loop.pool is not None
    assert again.pool is not None
    again.pool.load(loop.pool.as_dict(), loop.pool.weights, loop.pool.totals.copy())
    again.start()
    again.backend.restore(loop.backend.snapshot(), turn=5)
    again.publish_all()
    assert many_updates(again, 4) == many_updates(loop, 4)
    assert again.pool.as_dict() == loop.pool.as_dict()
    assert (again.learner.weights() == loop.learner.weights()).all()


def test_whole_games_leave_no_opponent_in_play_between_updates() -> None:
    loop = begin(new_loop(collect={"whole_games": True, "rollout_steps": 12}))
    assert loop.pool is not None
    metrics = many_updates(loop, 10)
    assert sum(record["opponent_games"] for record in metrics) > 150
    assert len(loop.pool.opponents) <= 1 + 3 + 1  # the fixed one, a full pool, and who has just left it


def test_workers_that_play_ahead_find_every_opponent() -> None:
    threads = {"name": "threads", "num_workers": 2}
    collect = {"num_games": 32, "games_per_shard": 8, "mode": "async", "max_lag": 2}
    loop = begin(new_loop({"size": 2, "fixed": []}, threads, collect=collect))
    try:
        metrics = many_updates(loop, 15)
    finally:
        loop.close()
    assert loop.pool is not None
    assert loop.pool.next_number > 8  # now and then all places are in use: of who left, while games go on
    assert sum(record["opponent_games"] for record in metrics) > 100


def test_dqn_learns_against_the_pool() -> None:
    loop = begin(new_loop(algorithm=DQN))
    metrics = many_updates(loop, 6)
    assert metrics[-1]["gradient_steps"] > 0
    assert metrics[-1]["pool_size"] == 3
    assert all(np.isfinite(list(record.values())).all() for record in metrics)
    slot = loop.backend.rings[0].slot(0, 5)
    assert 0.4 < (slot.seats >= 0).mean() < 0.9


def test_a_snapshot_of_another_architecture_is_refused() -> None:
    loop = begin(new_loop())
    other = new_loop(model={"name": "mlp", "hidden": [24]})
    with pytest.raises(ModelError, match=r"\d+ bytes .*\d+ bytes.* architecture"):
        loop.backend.publish(loop.learner.weights(), 0, opponents={0: other.learner.weights()})


def test_a_run_of_another_architecture_is_an_opponent_like_any_other(tic_tac_toe_run: Run) -> None:
    loop = new_loop({"fixed": [str(tic_tac_toe_run.path)]}, model={"name": "mlp", "hidden": [24, 8]})
    metrics = many_updates(begin(loop), 4)
    assert loop.pool is not None
    assert loop.pool.opponents[0].score.games > 0
    assert metrics[-1]["largest_ratio_error"] < 1e-5


def test_a_failing_opponent_stops_the_loop_with_its_name_row_and_step() -> None:
    loop = begin(new_loop({"fixed": [f"{HERE}:stumbler"]}))
    expected = rf"{HERE}:stumbler.* ZeroDivisionError.*tic_tac_toe, row \d+, game \d+, step \d+"
    with pytest.raises(OpponentError, match=expected):
        many_updates(loop, 4)


def test_the_loop_goes_on_without_a_failing_opponent(caplog: pytest.LogCaptureFixture) -> None:
    fixed = [f"{HERE}:stumbler", f"{HERE}:cheat", "random"]
    loop = begin(new_loop({"fixed": fixed, "on_failure": "drop", "snapshot_interval": 0}))
    assert loop.pool is not None
    with caplog.at_level(logging.WARNING):
        metrics = many_updates(loop, 8)
    assert caplog.text.count("goes on without") == 2
    assert [member.name for member in loop.pool.fixed] == ["random"]
    assert all(np.isfinite(list(record.values())).all() for record in metrics)
    assert metrics[-1]["largest_ratio_error"] < 1e-5
    (rollout,) = loop.collect()
    assert set(np.unique(rollout.data.seated).tolist()) == {CURRENT, 3}
