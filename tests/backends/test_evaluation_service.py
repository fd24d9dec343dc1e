"""The evaluation service serves the newest attempt at a rollout, and nothing that comes too late."""

import threading
from collections.abc import Callable, Iterator

import pytest

from senju.backends.building import new_models
from senju.backends.evaluation_service import EvaluationService
from senju.backends.exchange import Request
from senju.backends.remote_actor import RemoteProgram
from senju.collect.device_actor import DeviceEvaluation
from senju.collect.orders import Orders, unpack_orders
from senju.games import make_game
from tests.backends.common import PLAN, changed, started, weights_of

HOST_PLAN = changed(PLAN, evaluation=DeviceEvaluation())
GAME = make_game(**HOST_PLAN.game)
Connect = Callable[[int], RemoteProgram]


@pytest.fixture
def service() -> Iterator[EvaluationService]:
    """A service beside a backend that publishes weights and keeps rollouts."""
    with started(HOST_PLAN, "threads", num_workers=1) as backend:
        backend.publish(weights_of(HOST_PLAN, 1), 7, Orders(7))
        backend.rings[0].columns.seats[...] = -1  # the positions are empty: nothing is chosen
        assert backend._program is not None
        models = new_models(HOST_PLAN, GAME).policies
        served = EvaluationService(
            HOST_PLAN, GAME, models, backend._block, backend._program, lambda error, where: None
        )
        yield served
        served.close()


@pytest.fixture
def connect(service: EvaluationService) -> Iterator[Connect]:
    """Connects as a worker process would; the other ends are closed after the test."""
    programs: list[RemoteProgram] = []

    def connected(index: int) -> RemoteProgram:
        programs.append(RemoteProgram(HOST_PLAN, GAME, *service.connect(index)))
        return programs[-1]

    yield connected
    for program in programs:
        program.close()


def begin(program: RemoteProgram, shard: int, attempt: int) -> None:
    program.take_weights(shard, 0, attempt)
    program.ask(Request.BEGIN, 0, HOST_PLAN.seed, [0.0])


def act(program: RemoteProgram) -> None:
    program.ask(Request.ACT, 0, 0)


def test_weights_come_with_their_orders(connect: Connect) -> None:
    program = connect(0)
    stamp = program.take_weights(0, 0, 1)
    assert unpack_orders(program.exchange.orders, 0, 1).version == 7
    assert program.take_weights(1, 0, 2) == stamp


def test_worker_that_lost_its_rollout_to_another_is_not_served(
    service: EvaluationService, connect: Connect
) -> None:
    late, newer = connect(0), connect(1)
    begin(late, shard=0, attempt=1)
    act(late)
    begin(newer, shard=0, attempt=2)
    columns = service.block.rings[0].on_device
    assert columns is not None
    with pytest.raises(ConnectionError):
        late.end(is_complete=True)
    assert not columns.has(0, 0)
    act(newer)
    newer.end(is_complete=True)
    assert columns.has(0, 0)


def test_attempt_that_begins_after_a_newer_one_is_not_served(connect: Connect) -> None:
    newer, late = connect(0), connect(1)
    begin(newer, shard=0, attempt=2)
    with pytest.raises(ConnectionError):
        late.take_weights(0, 0, 1)
    act(newer)


def test_worker_whose_index_another_one_has_is_not_served(connect: Connect) -> None:
    late = connect(0)
    begin(late, shard=0, attempt=1)
    replacement = connect(0)
    with pytest.raises(ConnectionError):
        act(late)
    begin(replacement, shard=1, attempt=2)
    act(replacement)


def test_closing_wakes_workers_that_wait_and_ends_all_threads(
    service: EvaluationService, connect: Connect
) -> None:
    program = connect(0)
    assert service.close()
    with pytest.raises(ConnectionError):
        program.take_weights(0, 0, 1)
    assert not [each for each in threading.enumerate() if each.name.startswith("senju evaluation")]
    assert service.close()
