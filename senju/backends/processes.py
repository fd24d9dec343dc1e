"""The processes backend: workers are processes of this machine, around shared memory."""

import dataclasses

from senju.backends.parallel import ParallelBackend, with_models
from senju.backends.plan import Plan
from senju.games import GAMES
from senju.models import MODELS
from senju.opponents.table import OpponentSpec
from senju.workers.process import ProcessExecutor
from senju.workers.role import Executor
from senju.workers.script import find_importable


class Processes(ParallelBackend):
    """Workers are processes; they share rollouts, states and weights in anonymous memory."""

    name = "processes"
    shares_memory = True

    def _new_executor(self) -> Executor:
        self._plan_for_processes, script = importable_plan(self._plan)
        names = dict.fromkeys(
            [self._plan.game["name"], *(each.model["name"] for each in self._plan.policies)]
        )
        imports = f"the module of {' or of '.join(names)}"
        return ProcessExecutor(self._config.worker_timeout, script, imports)


def importable_plan(plan: Plan) -> tuple[Plan, str | None]:
    """The plan with names that another process can import, and the script it must import first, if any."""
    scripts: list[str | None] = []

    def importable(name: str, kind: str) -> str:
        found, script = find_importable(name, kind)
        scripts.append(script)
        return found

    def of_model(name: str) -> str:
        return importable(MODELS.importable_name(name), "model")

    def of_opponent(spec: OpponentSpec) -> OpponentSpec:
        return dataclasses.replace(spec, description=importable(spec.description, "opponent"))

    game = importable(GAMES.importable_name(plan.game["name"]), "game")
    opponents = plan.opponents
    if opponents is not None:
        opponents = dataclasses.replace(opponents, fixed=tuple(map(of_opponent, opponents.fixed)))
    changes = {"game": plan.game | {"name": game}, "opponents": opponents}
    return with_models(plan, of_model).model_copy(update=changes), next(filter(None, scripts), None)
