"""A replay larger than memory is refused before anything is allocated, with how large it may be."""

import re
from itertools import count

import psutil
import pytest

from senju.backends import shared_block
from senju.backends.backend import Plan
from senju.backends.building import new_models
from senju.backends.shared_block import LEARNER_BYTES, require_room, rollout_bytes
from senju.collect.exploration import Acting
from senju.errors import ConfigError
from senju.games import make_game
from tests.backends.common import GAMES, PLAN, changed, new_backend
from tests.facts import mentions

PER_TURN = 3 * 10 * 4  # shards, steps, games
HUGE = changed(PLAN, kept_turns=10**12 // PER_TURN, keeps_final=True, acting=Acting("action_values"))
REFUSED = re.compile(
    r"replay of (\d+) positions .*?(\d+) MiB .*?(\d+) MiB are free.* algorithm\.replay_size .*?(\d+)\b"
)


def refused(plan: Plan) -> tuple[int, int, int, int]:
    """The numbers in the error that a plan leads to: positions, needed and free MiB, and the most."""
    game = make_game(**plan.game)
    with pytest.raises(ConfigError) as raised:
        require_room(plan, game, sizes_of(plan))
    found = REFUSED.search(str(raised.value))
    assert found, raised.value
    positions, needed, free, most = map(int, found.groups())
    return positions, needed, free, most


def sizes_of(plan: Plan) -> list[int]:
    return new_models(plan).sizes


@pytest.mark.parametrize("name", ["serial", "threads", "processes"])
def test_every_backend_refuses_it_and_allocates_nothing(name: str) -> None:
    backend = new_backend(name)
    before = psutil.Process().memory_info().rss
    with pytest.raises(ConfigError) as raised:
        backend.start(HUGE)
    backend.close()
    assert REFUSED.search(str(raised.value))
    assert psutil.Process().memory_info().rss < before + 100 * 2**20


@pytest.fixture(params=[64 * 2**20, 3 * 2**30], ids=["64 MiB", "3 GiB"])
def free(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """As on a machine with so much memory, which does not change."""
    monkeypatch.setattr(shared_block, "memory_available", lambda: request.param)
    return int(request.param)


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("max_lag", [0, 2])
def test_as_large_as_it_says_passes_and_nearly_fills_memory(game: str, max_lag: int, free: int) -> None:
    plan = changed(HUGE, game={"name": game}, max_lag=max_lag)
    positions, needed, free_mebibytes, most = refused(plan)
    per_turn = PER_TURN * make_game(**plan.game).num_acting
    assert positions == plan.policies[0].kept_turns * per_turn
    assert free_mebibytes == free // 2**20
    assert most % per_turn == 0
    largest = changed(plan, kept_turns=most // per_turn)
    num_bytes = require_room(largest, make_game(**plan.game), sizes_of(plan))
    used = num_bytes + most * LEARNER_BYTES
    assert 0.94 * free < used <= 0.95 * free + 1
    assert needed > positions // most * free_mebibytes * 0.9


def test_one_turn_more_than_fits_is_refused(free: int) -> None:
    """With what the learner keeps of each position, and not only with the rollouts themselves."""
    game, sizes = make_game(**PLAN.game), sizes_of(PLAN)

    def needed(turns: int) -> int:
        rollouts = rollout_bytes(changed(HUGE, kept_turns=turns), game, sizes)
        return rollouts + turns * PER_TURN * LEARNER_BYTES

    roughly = free * 1000 // needed(1000)
    too_many = next(turns for turns in count(roughly) if needed(turns) > free)
    require_room(changed(HUGE, kept_turns=too_many - 1), game, sizes)
    positions, _, _, most = refused(changed(HUGE, kept_turns=too_many))
    assert positions == too_many * PER_TURN > most


def test_rollouts_that_leave_no_room_for_a_replay_have_their_own_message(free: int) -> None:
    plan = changed(HUGE, rollout_steps=10**9, kept_turns=2)
    with pytest.raises(ConfigError, match=mentions("num_games", "rollout_steps", "one update")):
        require_room(plan, make_game(**plan.game), sizes_of(plan))


def test_newest_rollouts_alone_are_no_replay(free: int) -> None:
    plan = changed(PLAN, rollout_steps=10**9)
    with pytest.raises(ConfigError, match=mentions("MiB of shared memory", "num_games")):
        require_room(plan, make_game(**plan.game), sizes_of(plan))
