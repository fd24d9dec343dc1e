"""Settings of worlds in which every seat has an agent of its own: who they are, and how they are trained."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from pydantic import Field

from senju.algorithms import ALGORITHMS
from senju.algorithms.independent import SeatSettings
from senju.algorithms.learner import Demands, Learner, LearnerSetup
from senju.backends.backend import Policy
from senju.config import MOST_SECONDS, Part, Settings, merged
from senju.errors import ConfigError
from senju.games.game import Game, SeatView
from senju.machine import available_cores
from senju.models import MODELS, make_model
from senju.registry import Registry

Learners = Literal["auto", "sequential", "processes", "stacked"]


class ParallelOptions(Part):
    """How the agents of a world act and learn side by side; all of it gives the same result in sync mode."""

    enabled: bool = Field(True, description="Off: the plain sequential path, one thing after another.")
    parallel_actions: bool = Field(True, description="Play copies of the world in several workers.")
    parallel_training: bool = Field(True, description="Train agents at the same time.")
    async_learning: bool = Field(
        False, description="Go on collecting while agents are trained; the clock then has a say."
    )
    train_interval: int = Field(1, ge=1, le=10_000, description="Turns (rollouts) between trainings.")
    num_workers: int | None = Field(None, ge=0, le=4096, description="Workers that play; none: as cores.")
    use_threads: bool = Field(False, description="Workers are threads instead of processes.")
    num_learners: int | None = Field(
        None,
        ge=1,
        le=4096,
        description="Processes that train, with learners=processes; none: as many as keep all cores busy.",
    )
    epochs_ahead: int = Field(
        4, ge=1, le=10_000, description="Turns that collecting may be ahead, with async_learning."
    )
    learner_timeout: float = Field(
        120.0,
        gt=0,
        le=MOST_SECONDS,
        description="Seconds after which a training in a process counts as hung.",
    )

    @property
    def acts_in_parallel(self) -> bool:
        """Whether workers play."""
        return self.enabled and self.parallel_actions

    @property
    def backend(self) -> Settings:
        """Where games are played."""
        if not self.acts_in_parallel:
            return {"name": "serial"}
        name = "threads" if self.use_threads else "processes"
        return {"name": name, "num_workers": self.num_workers or 0}

    @property
    def mode(self) -> Literal["sync", "async"]:
        """Whether collecting waits for learning."""
        return "async" if self.enabled and self.async_learning else "sync"

    def learners(self, wanted: Learners, num_agents: int, device: str) -> Learners:
        """How agents are trained, where it is left to senju."""
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


class SeatConfig(Part):
    """What is different in one seat; model and algorithm are laid over those of the run."""

    model: str | Settings = Field({}, description="The agent's network, where it is another.")
    algorithm: str | Settings = Field({}, description="The agent's algorithm, where it is another.")
    train_every: int = Field(
        1, ge=1, le=10_000, description="It is trained at every n-th of the times that agents are trained."
    )
    order: int = Field(0, description="Agents with smaller numbers are trained first.")
    learns: bool = Field(
        True, description="Off: it acts as it began (by DQN: with epsilon_start), and never learns."
    )


def seat_parts(
    game: Game, model: Settings, algorithm: Settings, seats: Mapping[str, SeatConfig]
) -> list[tuple[Settings, Settings, SeatConfig]]:
    """Model, algorithm and schedule of every seat."""
    for name in seats:
        if not name.isdecimal() or int(name) >= game.num_seats:
            last = game.num_seats - 1
            raise ConfigError(f"seats.{name}: {game.name} has the seats 0 to {last}; name one of them")
    parts = []
    for seat in range(game.num_seats):
        config = seats.get(str(seat), SeatConfig())
        own = merged(
            {"model": model, "algorithm": algorithm}, {"model": config.model, "algorithm": config.algorithm}
        )
        network, learner = (_resolved(registry, own, seat) for registry in (MODELS, ALGORITHMS))
        parts.append((network, learner, config))
    return parts


def _resolved(registry: Registry[Any], own: Settings, seat: int) -> Settings:
    settings = own[registry.kind]
    try:
        return {"name": settings["name"], **registry.configure(settings).model_dump(mode="json")}
    except ConfigError as error:  # says what is wrong with the part, and not whose it is
        raise type(error)(f"seats.{seat}: {error}") from None


def demands_of(algorithm: Settings) -> Demands:
    """What a learner asks of collecting."""
    return ALGORITHMS.get(algorithm["name"]).demands(ALGORITHMS.configure(algorithm))


def policies_of(seats: Sequence[SeatSettings], decisions_per_turn: int, turns_ahead: int) -> list[Policy]:
    """What the workers play with and keep, for every seat."""
    policies = []
    for seat in seats:
        demands = demands_of(seat.algorithm)
        waiting = seat.train_every + turns_ahead  # turns that may not be learned from yet
        kept = max(waiting, -(-demands.kept_positions // decisions_per_turn))
        passing = 1 if demands.is_replaying else waiting
        policies.append(Policy(seat.model, demands.acting, kept, demands.is_replaying, passing))
    return policies


def new_learner(seat: SeatSettings, view: SeatView) -> Learner:
    """An agent's learner, at its start."""
    setup = LearnerSetup(seat.seed, seat.total_updates, torch.device(seat.device))
    model = make_model(seat.model, view.observation_shape, view.num_actions, seat.seed)
    algorithm = ALGORITHMS.get(seat.algorithm["name"])
    return algorithm(model, ALGORITHMS.configure(seat.algorithm), setup)
