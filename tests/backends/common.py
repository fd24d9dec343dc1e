"""What the tests of the backends share: plans, started backends, all bytes of rollouts, and waiting."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

from senju.backends import BACKENDS
from senju.backends.backend import Backend
from senju.backends.plan import Plan, PolicyPlan
from senju.collect.slots import Rollout
from senju.games import make_game
from senju.models import MODELS, build_model
from senju.models.weights import WeightBlock, Weights
from senju.workers.role import WorkerStatus

OF_POLICY = set(PolicyPlan.model_fields) - {"seed"}


def new_plan(game: dict[str, Any], model: dict[str, Any], seed: int, *sizes: int, **settings: Any) -> Plan:
    """A plan with one policy; its settings may stand among the plan's. Sizes: shards, rows, steps."""
    settings |= zip(("num_shards", "games_per_shard", "rollout_steps"), sizes, strict=False)
    of_policy = {name: settings.pop(name) for name in OF_POLICY & set(settings)}
    policy = PolicyPlan(model=model, seed=seed, **of_policy)
    return Plan(game=game, policies=(policy,), seed=seed, **settings)


def changed(plan: Plan, **changes: Any) -> Plan:
    """The plan with other settings, of its own or of its policies."""
    of_policy = {name: changes.pop(name) for name in OF_POLICY & set(changes)}
    if "seed" in changes:
        of_policy["seed"] = changes["seed"]
    policies = tuple(policy.model_copy(update=of_policy) for policy in plan.policies)
    return plan.model_copy(update={"policies": policies, **changes})


def model_of(plan: Plan) -> dict[str, Any]:
    """The settings of the only policy's network."""
    (policy,) = plan.policies
    return policy.model


PLAN = new_plan({"name": "connect_four"}, {"name": "mlp", "hidden": [16]}, 8, 3, 4, 10)
SAME_LOGITS = {"name": "tests.collect.toy_models:ReadsObservation"}
GAMES = ["connect_four", "tic_tac_toe", "tests.collect.toy_games:Race", "tests.collect.toy_games:Meeting"]

Content = tuple[int, int, bytes, bytes]  # shard, version, data, clock


def new_backend(name: str = "serial", **settings: Any) -> Backend:
    described = {"name": name, **settings}
    return BACKENDS.get(name)(BACKENDS.configure(described))


@contextmanager
def started(plan: Plan, name: str = "serial", **settings: Any) -> Iterator[Backend]:
    backend = new_backend(name, **settings)
    backend.start(plan)
    try:
        yield backend
    finally:
        backend.close()


def contents(rollouts: list[Rollout]) -> list[Content]:
    """All bytes of the rollouts, copied: they stay valid only until the next call."""
    return [
        (r.shard, r.version, b"".join(a.tobytes() for slot in r.slots for a in slot), r.clock.tobytes())
        for r in rollouts
    ]


def weights_of(plan: Plan, seed: int) -> Weights:
    """The weights that the plan's network would begin with, given that seed."""
    game = make_game(**plan.game)
    model = build_model(
        MODELS.get(model_of(plan)["name"]),
        game.observation_shape,
        game.num_actions,
        MODELS.configure(model_of(plan)),
        seed,
    )
    return WeightBlock(model).read()


def publish_turn(backend: Backend, plan: Plan, turn: int) -> None:
    """The weights that act in a turn, in all these tests: those of the plan first, then always others."""
    backend.publish(weights_of(plan, plan.seed + turn), version=turn)


def play(backend: Backend, plan: Plan, turns: int, first: int = 0) -> list[list[Content]]:
    """Collect turns, from the first up to `turns`, with other weights in each."""
    found = []
    for turn in range(first, turns):
        publish_turn(backend, plan, turn)
        found.append(contents(backend.collect()))
    return found


_oracle: dict[str, list[list[Content]]] = {}


def oracle(plan: Plan, turns: int) -> list[list[Content]]:
    """What `play` gives on the serial backend."""
    key = f"{plan} {turns}"
    if key not in _oracle:
        with started(plan) as serial:
            _oracle[key] = play(serial, plan, turns)
    return _oracle[key]


class Restartable:
    """A started backend that tests share, since starting workers takes seconds."""

    def __init__(self, plan: Plan, name: str, **settings: Any) -> None:
        self.plan, self.backend = plan, new_backend(name, **settings)
        self.backend.start(plan)
        self._first = self.backend.snapshot()

    def from_the_start(self) -> Backend:
        """The backend as if it had just started, but for what its workers have seen."""
        self.backend.team.resume()
        self.backend.restore(self._first)
        publish_turn(self.backend, self.plan, 0)
        self.backend.report()
        return self.backend


def wait_until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for a condition, up to a deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not so within {seconds} seconds")
        time.sleep(0.002)


def workers_of(backend: Backend) -> tuple[WorkerStatus, ...]:
    return backend.status().workers


def wait_for_workers(backend: Backend, number: int) -> None:
    """Wait until exactly so many workers are there, and none is starting or leaving."""

    def are_there() -> bool:
        states = [worker.state for worker in workers_of(backend)]
        return len(states) == number and not {"starting", "leaving"} & set(states)

    wait_until(are_there)


def pid_of(backend: Backend, index: int) -> int:
    """The process of a worker, which is waited for."""
    found: list[int] = []

    def has_one() -> bool:
        found[:] = [w.pid for w in workers_of(backend) if w.index == index and w.pid is not None]
        return bool(found)

    wait_until(has_one)
    return found[0]


def gather_events(backend: Backend, kind: str) -> list[str]:
    """The messages of the events of one kind since the last look."""
    return [event.message for event in backend.report().events if event.kind == kind]


def children_of_this_process() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
