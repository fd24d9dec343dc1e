"""A rig: the backend and the learner of a config without a run around them, moved by hand."""

from types import TracebackType

import torch

from senju.algorithms import ALGORITHMS
from senju.algorithms.learner import LearnerSetup
from senju.backends import BACKENDS
from senju.collect.slots import Rollout
from senju.config import Settings
from senju.games import make_game
from senju.training.run import new_model
from senju.training.run_config import RunConfig

SERIAL: Settings = {"name": "serial"}


class Rig:
    """Collects, learns and publishes what a run of this config would, on the backend it is given.

    with Rig(config, {"name": "processes", "num_workers": 2}) as rig:
        rollouts = rig.backend.collect()
        rig.learner.update(rollouts)
        rig.publish()
    """

    def __init__(self, config: RunConfig, backend: Settings) -> None:
        self.config = config
        setup = LearnerSetup(config.seed, config.total_updates, torch.device(config.device))
        model = new_model(make_game(**config.game), config)
        algorithm = ALGORITHMS.get(config.algorithm["name"])
        self.learner = algorithm(model, ALGORITHMS.configure(config.algorithm), setup)
        self.backend = BACKENDS.get(backend["name"])(BACKENDS.configure(backend))

    def __enter__(self) -> "Rig":
        try:
            self.backend.start(self.config.plan)
            self.publish()
        except BaseException:
            self.backend.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.backend.close()

    def publish(self) -> None:
        """Let the learner's weights act from the next rollout on."""
        self.backend.publish(self.learner.weights(), self.learner.version)

    def update(self) -> list[Rollout]:
        """Collect, learn and publish once."""
        rollouts = self.backend.collect()
        self.learner.update(rollouts)
        self.publish()
        return rollouts


def backend_settings(config: RunConfig, name: str, num_workers: int) -> Settings:
    """A backend with so many workers, and else as the config has it where it names the same one."""
    settings = config.backend if config.backend["name"] == name else {"name": name}
    if "num_workers" not in BACKENDS.config_class(name).model_fields:
        return settings
    return settings | {"num_workers": num_workers}


def count_steps(rollouts: list[Rollout]) -> int:
    """How many decisions there are in a batch of rollouts."""
    return sum(rollout.data.seats.size for rollout in rollouts)
