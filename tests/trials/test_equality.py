"""Equal where it is equal, and the first difference named where it is not."""

import random
from typing import Any

import pytest

from senju.config import Settings
from senju.errors import ConfigError, UnknownNameError
from senju.runs.run_config import RunConfig
from senju.trials.equality import Candidate, candidates, killing, verify
from senju.trials.rig import Rig
from senju.trials.scale import SMALL, scaled_config
from tests.facts import mentions

ONCE_MORE = Candidate("serial", 1)
GAMES = "tests.trials.unequal_games"


DQN_AGAINST_OTHERS: Settings = {
    "algorithm": {"name": "dqn", "prioritised": True, "n_step": 2, "batch_size": 64, "replay_size": 4000},
    "collect": {"seating": "opponents"},
    "opponents": {"snapshot_interval": 1, "fixed": ["random"]},
}


def small(game: str, **changes: Any) -> RunConfig:
    return scaled_config(game, SMALL, {"model": {"name": "mlp", "hidden": [16]}, "threads": 1}, changes)


def test_every_backend_is_tried_with_every_number_of_workers_and_serial_once() -> None:
    found = candidates(["serial", "threads"], [1, 3])
    assert [candidate.name for candidate in found] == [
        "serial, once more",
        "threads, 1 worker",
        "threads, 3 workers",
    ]
    with pytest.raises(UnknownNameError, match=mentions("'thread'", "'threads'")):
        candidates(["thread"], [1])


@pytest.mark.parametrize("game", ["tic_tac_toe", "tests.collect.toy_games:Meeting"])
def test_threads_equal_serial_on_turn_games_and_where_all_act_at_once(game: str) -> None:
    seen: list[int] = []
    verdict = verify(small(game), Candidate("threads", 2), 3, on_update=seen.append)
    assert verdict.is_equal
    assert (verdict.updates, verdict.kills, seen) == (3, 0, [1, 2, 3])
    assert verdict.num_bytes > 0
    assert verdict.digest == verify(small(game), ONCE_MORE, 3).digest


@pytest.mark.slow
def test_threads_equal_serial_with_replay_and_opponents() -> None:
    verdict = verify(small("tic_tac_toe", **DQN_AGAINST_OTHERS), Candidate("threads", 2), 4)
    assert verdict.is_equal
    assert verdict.digest != verify(small("tic_tac_toe"), ONCE_MORE, 4).digest


def test_game_that_counts_differs_from_itself_at_the_first_step() -> None:
    verdict = verify(small(f"{GAMES}:SeesCounter"), ONCE_MORE, 3)
    assert not verdict.is_equal
    assert verdict.difference is not None
    assert (verdict.updates, verdict.difference.shard) == (1, 0)
    assert verdict.difference.place == "observation[0, 0, 0, 0]"
    assert verdict.difference.byte == 0
    assert verdict.difference.expected != verdict.difference.found


def test_game_that_reads_its_process_is_equal_within_one() -> None:
    assert verify(small(f"{GAMES}:SeesProcess"), Candidate("threads", 2), 2).is_equal


@pytest.mark.slow
def test_game_that_reads_its_process_differs_in_another() -> None:
    verdict = verify(small(f"{GAMES}:SeesProcess"), Candidate("processes", 2), 2)
    assert verdict.difference is not None
    assert (verdict.updates, verdict.difference.shard) == (1, 0)
    assert verdict.difference.array == "observation"
    assert verdict.difference.index[:3] == (0, 0, 0)
    assert verdict.difference.index[3] in (3, 4)  # where the process stands


@pytest.mark.slow
def test_difference_that_comes_late_is_found_in_its_update_and_at_its_step() -> None:
    verdict = verify(small(f"{GAMES}:SeesProcessLate"), Candidate("processes", 1), 5)
    assert verdict.difference is not None
    assert verdict.updates == 3
    assert verdict.difference.array == "observation"
    assert verdict.difference.index[0] == 40 - 2 * 16


@pytest.mark.slow
def test_processes_equal_serial_though_one_is_killed_in_each_update() -> None:
    verdict = verify(small("tic_tac_toe"), Candidate("processes", 2), 3, kill=True)
    assert verdict.is_equal
    assert verdict.kills == 3


def test_threads_are_not_killed() -> None:
    with (
        Rig(small("tic_tac_toe"), {"name": "threads", "num_workers": 2}) as rig,
        killing(rig.backend, random.Random(0)) as killed,
    ):
        rig.update()
    assert killed == []


def test_result_that_depends_on_the_clock_is_refused() -> None:
    config = scaled_config("tic_tac_toe", SMALL, {"collect": {"mode": "async"}})
    with pytest.raises(ConfigError, match="sync mode only"):
        verify(config, ONCE_MORE, 1)
