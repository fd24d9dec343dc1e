"""Settings of the agents, if every seat has its own: model, algorithm and schedule of each."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from pydantic import Field

from senju.algorithms import ALGORITHMS
from senju.algorithms.learner import Demands, Learner, LearnerSetup
from senju.algorithms.learner_runner import LearnerSettings
from senju.backends.plan import PolicyPlan
from senju.collect.seating import seat_seed
from senju.config import Part, Settings, merged
from senju.errors import ConfigError
from senju.games.game import Game, SeatView
from senju.models import MODELS, make_model
from senju.registry import Registry
from senju.runs.parallel_options import ParallelOptions


class SeatConfig(Part):
    """Settings of one seat's agent; its model and algorithm override those of the run."""

    model: str | Settings = Field({}, description="The agent's network, if it differs from the run's.")
    algorithm: str | Settings = Field({}, description="The agent's algorithm, if it differs from the run's.")
    train_every: int = Field(
        1, ge=1, le=10_000, description="The agent is trained every n-th time that agents are trained."
    )
    order: int = Field(0, description="Agents with smaller numbers are trained first.")
    learns: bool = Field(
        True, description="Off: it keeps its first weights (with DQN it acts with epsilon_start)."
    )


def settings_of_seats(
    shared: LearnerSettings, seats: Mapping[str, SeatConfig], game: Game, parallel: ParallelOptions
) -> tuple[LearnerSettings, ...]:
    """Each seat's learner settings: the shared ones, overridden by the seat's own."""
    for name in seats:
        if not name.isdecimal() or int(name) >= game.num_seats:
            last = game.num_seats - 1
            raise ConfigError(f"seats.{name}: {game.name} has the seats 0 to {last}; name one of them")
    found = []
    for seat in range(game.num_seats):
        config = seats.get(str(seat), SeatConfig())
        own = {"model": config.model, "algorithm": config.algorithm}
        parts = merged({"model": shared.model, "algorithm": shared.algorithm}, own)
        try:
            model = resolved_part(MODELS, parts["model"])
            algorithm = resolved_part(ALGORITHMS, parts["algorithm"])
        except ConfigError as error:  # names the part but not the seat
            raise type(error)(f"seats.{seat}: {error}") from None
        interval = parallel.train_interval * config.train_every
        settings = replace(
            shared,
            seat=seat,
            model=model,
            algorithm=algorithm,
            seed=seat_seed(shared.seed, seat),
            total_updates=max(1, shared.total_updates // interval),
            train_every=interval,
            train_order=config.order,
            learns=config.learns,
        )
        found.append(settings)
    return tuple(found)


def resolved_part(registry: Registry[Any], settings: Settings) -> Settings:
    """A part's settings, completed by the defaults of the class that they name."""
    if "name" not in settings:
        raise ConfigError(f"{registry.kind}: no name given; known are {', '.join(registry.names())}")
    return {"name": settings["name"], **registry.configure(settings).model_dump(mode="json")}


def demands_of(algorithm: Settings) -> Demands:
    """An algorithm's requirements for collecting."""
    return ALGORITHMS.get(algorithm["name"]).demands(ALGORITHMS.configure(algorithm))


def policies_of(
    settings: Sequence[LearnerSettings], decisions_per_turn: int, turns_ahead: int
) -> tuple[PolicyPlan, ...]:
    """The learners' policies: how workers play each, and how many turns of its rollouts are kept."""
    policies = []
    for each in settings:
        demands = demands_of(each.algorithm)
        waiting = each.train_every + turns_ahead  # turns that may not be learned from yet
        policies.append(
            PolicyPlan(
                model=each.model,
                seed=each.seed,
                acting=demands.acting,
                kept_turns=max(waiting, -(-demands.kept_positions // decisions_per_turn)),
                keeps_final=demands.is_replaying,
                transient_turns=1 if demands.is_replaying else waiting,
            )
        )
    return tuple(policies)


def new_learner(settings: LearnerSettings, view: Game | SeatView) -> Learner:
    """A learner with its first weights."""
    device = torch.device(settings.device)
    setup = LearnerSetup(settings.seed, settings.total_updates, device, settings.kernels)
    model = make_model(settings.model, view.observation_shape, view.num_actions, settings.seed)
    algorithm = ALGORITHMS.get(settings.algorithm["name"])
    return algorithm(model, ALGORITHMS.configure(settings.algorithm), setup)
