"""A rig: the training loop of a config without a run folder, stepped by its caller."""

from senju.backends import BACKENDS
from senju.collect.slots import Rollout
from senju.config import Settings
from senju.errors import ConfigError
from senju.games import make_game
from senju.runs.run_config import RunConfig
from senju.training.loop import Loop

SERIAL: Settings = {"name": "serial"}
_MOST_WARMING = 1000  # updates until a learner begins to learn


class Rig(Loop):
    """What a run of this config would compute, on the backend it is given; `with` starts and closes it."""

    def __init__(self, config: RunConfig, backend: Settings) -> None:
        super().__init__(config, make_game(**config.game), backend)
        self.metrics: dict[str, float] = {}  # of the last update

    def __enter__(self) -> "Rig":
        try:
            self.start()
            self.publish_all()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def warm_up(self) -> int:
        """Update until everything is compiled, allocated and learning; return the steps of an update."""
        for _ in range(_MOST_WARMING):
            rollouts = self.update()
            if self.metrics.get("gradient_steps", 1.0) > 0.0:
                return self.count_steps(rollouts)
        raise ConfigError(
            f"nothing is learned in the first {_MOST_WARMING} updates; "
            "a smaller algorithm.learning_starts helps"
        )

    def update(self) -> list[Rollout]:
        """Collect, learn and publish once; the learner's metrics are kept."""
        rollouts = self.collect()
        self.metrics = self.learn(rollouts)
        self.publish()
        return rollouts


def backend_settings(config: RunConfig, name: str, num_workers: int) -> Settings:
    """A backend with this number of workers; other settings come from the config if it names the same one."""
    settings = config.backend if config.backend["name"] == name else {"name": name}
    return settings | {"num_workers": num_workers} if has_workers(name) else settings


def has_workers(backend: str) -> bool:
    """Whether a backend's number of workers can be set."""
    return "num_workers" in BACKENDS.config_class(backend).model_fields


def backend_text(backend: str, num_workers: int) -> str:
    """A backend with its number of workers.

    >>> backend_text("threads", 2), backend_text("serial", 1)
    ('threads, 2 workers', 'serial')
    """
    if backend == "serial":
        return backend
    return f"{backend}, {num_workers} worker{'s' if num_workers > 1 else ''}"
