"""A learner process: what it is told at its start, and its entry, which `boot` calls."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from senju.algorithms import ALGORITHMS
from senju.algorithms.independent import SeatSettings
from senju.algorithms.optimising import load_optimizers
from senju.backends.arena import map_shared
from senju.backends.processes.hand import ChildHand
from senju.backends.processes.main import Told, prepare_for_work, run
from senju.backends.script import find_importable
from senju.collect.slots import Ring
from senju.games.game import SeatView
from senju.models import MODELS
from senju.training.learners.bench import Bench, serve
from senju.training.learners.memory import LearnerMemory, RingPlace, Room, find_ring, map_ring

ENTRY = f"{__name__}:work"
preload = load_optimizers  # which the nursery calls


def hire_process(index: int, rings: int, states: int, sockets: tuple[str, ...], told: bytes) -> ChildHand:
    """Start a learner process; it shares the memory behind the two descriptors."""
    return ChildHand(index, ENTRY, [rings, states], sockets, told)


def describe_start(
    seats: Sequence[SeatSettings],
    view: SeatView,
    rings: Sequence[Ring],
    rooms: Sequence[Room],
    places: Mapping[int, Sequence[int]],
    is_following: bool,
    learner_timeout: float,
) -> bytes:
    """All that a learner process is told before its first order, as JSON; `places` says who trains whom."""
    scripts: list[str | None] = []

    def importable(registry: Any, settings: dict[str, Any], kind: str) -> dict[str, Any]:
        name, script = find_importable(registry.importable_name(settings["name"]), kind)
        scripts.append(script)
        return settings | {"name": name}

    told_seats = [
        asdict(seat)
        | {
            "model": importable(MODELS, seat.model, "model"),
            "algorithm": importable(ALGORITHMS, seat.algorithm, "algorithm"),
        }
        for seat in seats
    ]
    return json.dumps(
        {
            "seats": told_seats,
            "view": asdict(view) | {"observation_dtype": np.dtype(view.observation_dtype).str},
            "rings": [find_ring(ring) for ring in rings],
            "rooms": list(rooms),
            "places": {str(place): list(seats) for place, seats in places.items()},
            "is_following": is_following,
            "script": next(filter(None, scripts), None),
            "worker_timeout": learner_timeout,
        }
    ).encode()


def work(index: int, connection: int, rings: int, states: int) -> bool:
    """Train agents; return whether the end was asked for."""
    return run(connection, lambda told: _get_ready(told, index, rings, states), serve)


def _get_ready(told: Told, index: int, rings: int, states: int) -> Bench:
    seats = [SeatSettings(**seat) for seat in told["seats"]]
    names = dict.fromkeys(name for seat in seats for name in (seat.model["name"], seat.algorithm["name"]))
    prepare_for_work(told["script"], f"the module of {' or of '.join(names)}")
    shape = tuple(told["view"]["observation_shape"])
    view = SeatView(**told["view"] | {"observation_shape": shape})
    block = map_shared(rings, os.fstat(rings).st_size)
    mapped = [map_ring(RingPlace(*place), view, block) for place in told["rings"]]
    rooms = [Room(*room) for room in told["rooms"]]
    memory = LearnerMemory(rooms, map_shared(states, os.fstat(states).st_size))
    bench = Bench(seats, view, mapped, memory, told["is_following"])
    bench.prepare(told["places"][str(index)])
    return bench
