"""The team: worker processes that many tests share, since starting them takes seconds."""

from collections.abc import Iterator

import pytest

from senju.backends.backend import Backend, Plan
from tests.backends.common import (
    Restartable,
    wait_until,
    workers_of,
)
from tests.backends.trap_games import call_off, trap_plan


@pytest.fixture(scope="session")
def shared_team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    plan = trap_plan(tmp_path_factory.mktemp("traps"))
    team = Restartable(plan, "processes", num_workers=3, worker_timeout=0.5)
    yield team
    team.backend.close()


@pytest.fixture
def plan(shared_team: Restartable) -> Iterator[Plan]:
    yield shared_team.plan
    call_off(shared_team.plan)


@pytest.fixture
def team(shared_team: Restartable, plan: Plan) -> Backend:
    """Three worker processes at the start of a plan, that count as hung after half a second.

    One of them is there; others, that an earlier test has killed, may still be starting.
    """
    wait_until(lambda: "starting" not in {worker.state for worker in workers_of(shared_team.backend)[:1]})
    return shared_team.from_the_start()
