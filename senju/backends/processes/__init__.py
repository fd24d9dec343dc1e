"""The processes backend: workers are processes of their own, around shared memory."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from senju.backends.arena import Arena, map_shared, open_anonymous, require_room
from senju.backends.backend import Plan
from senju.backends.member import Hand
from senju.backends.pool import Pool, with_models
from senju.backends.processes.hand import ProcessHand
from senju.backends.processes.nursery import Kept
from senju.backends.script import find_importable
from senju.backends.threads import ThreadHand
from senju.games import GAMES
from senju.games.game import Game
from senju.machine import memory_available
from senju.models import MODELS

WORKER_BYTES = 250 * 2**20  # of a spawned worker with a small model: 190 MiB; of a forked one: 35


class Processes(Pool):
    """Workers are processes of their own; they share rollouts, states and weights in anonymous memory."""

    name = "processes"
    _kept: Kept | None = None

    def _lay_out(self, plan: Plan) -> None:
        super()._lay_out(plan)
        assert self._kept is not None
        self._supervisor.when_over = self._kept.close

    def _open_arena(self, game: Game, sizes: Sequence[int]) -> tuple[Arena, int]:
        self._start_message = self._describe_start()
        self._kept = Kept()
        num_bytes = require_room(self._plan, game, sizes)
        self._descriptor = open_anonymous(num_bytes)
        self._block = map_shared(self._descriptor, num_bytes)
        return Arena(self._plan, game, sizes, self._block), num_bytes

    def _describe_start(self) -> bytes:
        """All a worker is told before its first task, as JSON."""
        plan = self._plan
        scripts: list[str | None] = []

        def importable(name: str) -> str:
            found, script = find_importable(MODELS.importable_name(name), "model")
            scripts.append(script)
            return found

        game, *of_game = find_importable(GAMES.importable_name(plan.game["name"]), "game")
        opponents, *others = _importable_opponents(plan)
        sent = dataclasses.replace(
            with_models(plan, importable), game=plan.game | {"name": game}, opponents=opponents
        )
        assert hasattr(self.config, "worker_timeout")
        return json.dumps(
            {
                "plan": dataclasses.asdict(sent),
                "script": next(filter(None, [*of_game, *scripts, *others]), None),
                "worker_timeout": self.config.worker_timeout,
            }
        ).encode()

    def _affordable(self, wanted: int) -> int:
        running = len(self._supervisor.members)  # they have their memory already
        return min(wanted, running + memory_available() // WORKER_BYTES)

    def close(self) -> None:
        """End the workers, and what they came from."""
        super().close()
        if self._kept is not None:
            self._kept.close()

    def _hire(self, index: int) -> Hand:
        return ProcessHand(index, self._descriptor, self._plan.sockets, self._start_message)

    def _hire_here(self, index: int) -> Hand:
        return ThreadHand(self._plan, self._models, self._block, index)


def _importable_opponents(plan: Plan) -> tuple[dict[str, Any], str | None]:
    """The plan's opponents as a worker can import them, and the script it must import first, if any."""
    fixed, scripts = [], []
    for spec in plan.opponents.get("fixed", ()):
        description, script = find_importable(spec["description"], "opponent")
        fixed.append({**spec, "description": description})
        scripts.append(script)
    if not fixed:
        return plan.opponents, None
    return {**plan.opponents, "fixed": fixed}, next(filter(None, scripts), None)
