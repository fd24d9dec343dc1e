"""`ParallelEnvironment`: plays copies of a user's own world in workers, and trains its agents in parallel."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from senju.environments.config import RunSettings, read_settings
from senju.environments.contract import Agents, refuse_sharing
from senju.environments.episodes import EpisodeRole
from senju.environments.experience import ExperienceFile
from senju.environments.factory import Factory, WorldSource
from senju.environments.generators import generators_restored
from senju.environments.lessons import LessonRole
from senju.environments.runners import CallerRunner, TaskRunner, TeamRunner, WorldRole
from senju.environments.scheduler import EpochScheduler, ExperimentResult, Listener, Runners
from senju.environments.world_copy import write_acting
from senju.machine import available_cores, even_learners, math_threads
from senju.workers.conditions import SafeCondition
from senju.workers.process import ProcessExecutor
from senju.workers.role import Executor, Limits
from senju.workers.script import refuse_unguarded
from senju.workers.thread import ThreadExecutor


class ParallelEnvironment:
    """Plays copies of a user's world in workers, and trains each of its agents separately.

    `factory` makes a new world with its agents each time it is called. `config` is the user's own; senju
    reads `config.experiment` (epochs, max_turns) and `config.parallel` (see `WorldOptions`). `environment`
    is one more world: its agents learn, and it is never played.
    """

    def __init__(self, factory: Factory | str, config: Any) -> None:
        self.settings: RunSettings = read_settings(config)  # what senju reads of the configuration
        self._source = WorldSource(factory, config, self.settings)
        with generators_restored():
            self.environment = self._source.new_learning_world()
            refuse_sharing(self.environment, self._source.new_learning_world())
        self._num_epochs = 0  # so far

    @property
    def agents(self) -> Agents:
        """The agents that learn."""
        agents: Agents = self.environment.agents
        return agents

    def run_experiment_parallel(self, listener: Listener | None = None) -> ExperimentResult:
        """Run `config.experiment.epochs` epochs, and call `listener` with the report of each.

        When it returns, `agents` have learned from all epochs. When it raises, nothing is left running, and
        the state of the agents is undefined.
        """
        refuse_unguarded()
        with generators_restored(), math_threads(1), closing(ExperienceFile()) as experience:
            acting = [write_acting(agent) for agent in self.agents]
            lessons = LessonRole(self._source, experience, self.environment)
            with self._runners(EpisodeRole(self._source, experience), lessons) as runners:
                scheduler = EpochScheduler(
                    self.settings, self._num_epochs, acting, experience, runners, listener
                )
                scheduler.run()
            lessons.restore_agents()
        self._num_epochs += self.settings.experiment.epochs
        events = (*runners.players.events, *runners.learners.events, *scheduler.events)
        return ExperimentResult(tuple(scheduler.reports), events, scheduler.timeline)

    @contextmanager
    def _runners(self, episodes: EpisodeRole, lessons: LessonRole) -> Iterator[Runners]:
        """Start the workers and learners, and end them afterwards."""
        options, changed = self.settings.parallel, SafeCondition()
        num_players, num_learners = self._num_players(), self._num_learners()
        if num_learners and not options.use_threads:
            lessons.save_agents()
        is_ahead = options.async_learning and num_learners > 0  # the calling thread does one task at a time
        with (
            closing(self._new_runner(episodes, num_players, changed)) as players,
            closing(self._new_runner(lessons, num_learners, changed)) as learners,
        ):
            ahead = options.epochs_ahead if is_ahead else 0
            most = self._most_at_once() if is_ahead and num_players else None
            yield Runners(players, learners, changed, ahead, most)

    def _num_players(self) -> int:
        """Workers that play; 0: the calling thread does."""
        options = self.settings.parallel
        if not (options.enabled and options.parallel_actions):
            return 0
        return min(options.resolved_workers, options.copies)

    def _num_learners(self) -> int:
        """Workers that train; 0: the calling thread does."""
        options, num_agents = self.settings.parallel, len(self.agents)
        if not options.enabled or not (options.parallel_training or options.async_learning):
            return 0
        if not options.parallel_training:
            return 1  # while games go on, but one agent after another
        return min(options.num_learners or even_learners(num_agents, available_cores()), num_agents)

    def _most_at_once(self) -> int | None:
        """The limit of running tasks: one for each core, since more processes would compete for its caches.

        No limit if the user sets a number of workers, as for worlds that mostly wait.
        """
        options = self.settings.parallel
        is_chosen = options.num_workers or options.num_learners
        return None if options.use_threads or is_chosen else available_cores()

    def _new_runner(self, role: WorldRole, num_workers: int, changed: threading.Condition) -> TaskRunner:
        options = self.settings.parallel
        if num_workers == 0:
            return CallerRunner(role)
        executor: Executor = ThreadExecutor()
        if not options.use_threads:
            name, script = self._source.factory.importable()
            self._source.packed()  # raises if the configuration cannot be sent
            executor = ProcessExecutor(options.timeout, script, [f"the factory {name}"])
        limits = Limits(options.timeout, options.start_timeout)
        return TeamRunner(role, executor, num_workers, limits, changed)
