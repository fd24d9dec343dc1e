"""How the agents of a world are trained, as a run's settings have it."""

from senju.algorithms.independent import Independent, OneByOne, Way
from senju.algorithms.stacked import Stacked
from senju.backends.backend import Backend, Plan
from senju.games.game import Game
from senju.training.learners import LearnerProcesses
from senju.training.run_config import RunConfig
from senju.training.seats import new_learner


def new_independent(config: RunConfig, game: Game) -> Independent:
    """The learners of all seats."""
    way, turns_ahead = _new_way(config, game), config.parallel.epochs_ahead
    return Independent(config.seat_settings, way, config.attention, turns_ahead)


def _new_way(config: RunConfig, game: Game) -> Way:
    seats = config.seat_settings
    if config.learners == "processes":
        return LearnerProcesses(
            seats,
            num_processes=config.parallel.num_learners,
            is_free_running=config.collect.mode == "async",
            learner_timeout=config.parallel.learner_timeout,
        )
    learners = [new_learner(seat, game.seat_view) for seat in seats]
    return Stacked(seats, learners) if config.learners == "stacked" else OneByOne(learners)


def attach(learner: Independent, backend: Backend, plan: Plan, game: Game) -> None:
    """Let the agents learn from what the backend collects."""
    if isinstance(learner.way, LearnerProcesses):
        assert backend.shared_memory is not None
        learner.way.share(plan, backend.shared_memory)
    learner.attach_all(backend.rings, game.seat_view)
