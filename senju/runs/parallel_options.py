"""Options for running several agents in parallel, in a run of senju and in a world of the user's own."""

from typing import Literal

from pydantic import Field

from senju.backends.options import Count, WorkerOptions
from senju.config import MOST_SECONDS, Settings
from senju.errors import ConfigError
from senju.machine import available_cores

LearnerKind = Literal["auto", "sequential", "processes", "stacked"]


class ParallelOptions(WorkerOptions):
    """How agents act and learn in parallel. Only `train_interval` and `async_learning` change the result."""

    enabled: bool = Field(True, description="Off: everything in one process, one step after another.")
    parallel_actions: bool = Field(True, description="Play in several workers.")
    parallel_training: bool = Field(True, description="Train agents at the same time.")
    async_learning: bool = Field(False, description="Play on while agents train; results vary by timing.")
    train_interval: int = Field(1, ge=1, le=10_000, description="Rollouts or epochs between trainings.")
    use_threads: bool = Field(False, description="Workers are threads instead of processes.")
    num_learners: Count = Field(
        0, description="Processes that train; 0 or none: as many as keep all cores busy."
    )
    epochs_ahead: int = Field(
        4, ge=1, le=10_000, description="Rollouts or epochs that playing may be ahead, with async_learning."
    )


class RunParallelOptions(ParallelOptions):
    """`parallel` of a run whose seats have agents of their own."""

    learner_timeout: float = Field(
        120.0,
        gt=0,
        le=MOST_SECONDS,
        description="Seconds after which a training in a process counts as hung.",
    )

    @property
    def backend(self) -> Settings:
        """Where games are played."""
        if not (self.enabled and self.parallel_actions):
            return {"name": "serial"}
        name = "threads" if self.use_threads else "processes"
        return {"name": name, "num_workers": self.num_workers}

    def learners(self, wanted: LearnerKind, num_agents: int, device: str) -> LearnerKind:
        """How agents are trained; `auto` is resolved."""
        trains_together = self.enabled and self.parallel_training
        if not trains_together and wanted not in ("auto", "sequential"):
            which = "enabled" if not self.enabled else "parallel_training"
            raise ConfigError(
                f"parallel.{which}=false trains one agent after another, and learners={wanted} does not; "
                "leave one of them out"
            )
        if wanted != "auto":
            return wanted
        if not trains_together or num_agents < 2:
            return "sequential"
        if device != "cpu":
            return "stacked"
        return "processes" if available_cores() > 1 else "sequential"
