"""The learners of a run, run as its settings say."""

from senju.algorithms.learner_group import LearnerGroup
from senju.algorithms.learner_runner import LearnerRunner, SequentialLearners
from senju.algorithms.stacked_learners import StackedLearners
from senju.backends.backend import Backend
from senju.backends.plan import Plan
from senju.collect.rollout import policy_view
from senju.games.game import Game
from senju.runs.run_config import RunConfig
from senju.runs.seats import new_learner
from senju.training.learner_processes import LearnerProcesses


def new_learner_group(config: RunConfig, game: Game) -> LearnerGroup:
    """The learners of all policies."""
    runner, turns_ahead = _new_runner(config, game), config.parallel.epochs_ahead
    return LearnerGroup(config.learner_settings, runner, config.attention, turns_ahead)


def _new_runner(config: RunConfig, game: Game) -> LearnerRunner:
    settings = config.learner_settings
    if config.learners == "processes":
        return LearnerProcesses(
            settings,
            num_processes=config.parallel.num_learners or None,
            is_free_running=config.collect.mode == "async",
            learner_timeout=config.parallel.learner_timeout,
        )
    view = policy_view(game, len(settings))
    learners = [new_learner(each, view) for each in settings]
    return (
        StackedLearners(settings, learners) if config.learners == "stacked" else SequentialLearners(learners)
    )


def attach(group: LearnerGroup, backend: Backend, plan: Plan, game: Game) -> None:
    """Let the learners learn from what the backend collects."""
    if isinstance(group.runner, LearnerProcesses):
        assert backend.shared_memory is not None
        group.runner.share(plan, backend.shared_memory)
    group.attach(backend.rings, policy_view(game, len(plan.policies)))
