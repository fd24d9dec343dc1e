"""`ParallelEnvironment`: a user's own world in ordinary Python, with many hands at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from senju.backends.script import refuse_unguarded
from senju.machine import available_cores, even_learners, math_threads
from senju.training.environments.acting import write_acting
from senju.training.environments.conductor import Conductor, Listener
from senju.training.environments.config import RunSettings, WorldConfig, read_settings
from senju.training.environments.contract import Agents, check_world
from senju.training.environments.copies import Player
from senju.training.environments.crews import LearnerProcesses, PlayerProcesses
from senju.training.environments.factory import Factory, WorldFactory
from senju.training.environments.generators import (
    Purpose,
    generators_given_back,
    seed_of,
    set_generators,
)
from senju.training.environments.learners import Learners
from senju.training.environments.processes import Processes, Start
from senju.training.environments.result import ExperimentResult
from senju.training.environments.sharing import refuse_sharing
from senju.training.environments.stations import Here, Station
from senju.training.environments.threads import Threads


class ParallelEnvironment:
    """Plays copies of a user's world in workers, and trains each of its agents by itself.

    `factory` makes a new world with its agents each time it is called. `config` is the user's own: of it,
    `config.experiment` (epochs, max_turns) and `config.parallel` (see `ParallelOptions`) are read here. The
    agents of `environment`, one more world, are those that learn; that world is never played.
    """

    def __init__(self, factory: Factory | str, config: Any) -> None:
        self._settings = read_settings(config)
        self._factory, self._config = WorldFactory(factory), WorldConfig(config)
        with generators_given_back():
            self.environment = self._new_world()
            refuse_sharing(self.environment, self._new_world())
        self._num_epochs = 0  # that have been run

    def _new_world(self) -> Any:
        seed = self._settings.parallel.seed
        set_generators(seed, Purpose.CENTRE)
        env = self._factory.make(self._config.copy(), seed_of(seed, Purpose.CENTRE), 0)
        check_world(env)
        return env

    @property
    def agents(self) -> Agents:
        """The agents that learn."""
        agents: Agents = self.environment.agents
        return agents

    @property
    def settings(self) -> RunSettings:
        """What was read of the configuration."""
        return self._settings

    def run_experiment_parallel(self, listener: Listener | None = None) -> ExperimentResult:
        """Run `config.experiment.epochs` epochs; `listener` is told of each.

        When it returns, `agents` know all that was learned. When it raises, nothing is left running, and
        what the agents know is undefined.
        """
        refuse_unguarded()
        learners = Learners(self.environment, self._settings, not self._settings.parallel.async_learning)
        with generators_given_back(), math_threads(1), self._stations(learners) as stations:
            acting = [write_acting(agent) for agent in self.agents]
            ahead = self._epochs_ahead(stations[1])
            most = self._most_at_once(stations)
            conductor = Conductor(self._settings, self._num_epochs, acting, stations, ahead, listener, most)
            conductor.run()
            if isinstance(stations[1], LearnerProcesses):
                for number, state in enumerate(stations[1].states):
                    learners.put_state(number, state)
        self._num_epochs += self._settings.experiment.epochs
        events = (*stations[0].events, *stations[1].events, *conductor.events)
        return ExperimentResult(tuple(conductor.reports), events, conductor.timeline)

    def _epochs_ahead(self, learning: Station) -> int:
        """How far playing may run ahead; where learning is done here, it cannot."""
        options = self._settings.parallel
        return options.epochs_ahead if options.async_learning and not isinstance(learning, Here) else 0

    def _most_at_once(self, stations: tuple[Station, Station]) -> int | None:
        """One task for each core, since more would push each other out of its caches.

        Processes that play and others that learn have work at the same time only where playing runs ahead.
        Whoever says how many there are to be, for worlds that mostly wait, has them all at work.
        """
        options = self._settings.parallel
        is_chosen = options.num_workers is not None or options.num_learners is not None
        are_processes = all(isinstance(station, Processes) for station in stations)
        return available_cores() if options.async_learning and are_processes and not is_chosen else None

    @contextmanager
    def _stations(self, learners: Learners) -> Iterator[tuple[Station, Station]]:
        """Where episodes are played, and where agents learn."""
        players = self._new_players()
        try:
            learning = self._new_learners(learners)
            try:
                yield players, learning
            finally:
                learning.close()
        finally:
            players.close()

    def _new_players(self) -> Station:
        options = self._settings.parallel
        if not (options.enabled and options.parallel_actions):
            return Here(self._player().play, "worker 0")  # type: ignore[arg-type]  # gets episodes alone
        count = min(options.num_workers or available_cores(), options.copies)
        if options.use_threads:
            return Threads(lambda: self._player().play, count, "worker", options.timeout)  # type: ignore[arg-type, return-value]  # gets episodes alone
        processes = PlayerProcesses(self._start(), count)
        if processes.members:
            return processes
        here = Here(self._player().play, "worker 0")  # type: ignore[arg-type]  # gets episodes alone
        here.events += processes.events
        return here

    def _new_learners(self, learners: Learners) -> Station:
        options = self._settings.parallel
        if not options.enabled or not (options.parallel_training or options.async_learning):
            return Here(learners.learn, "learner 0")  # type: ignore[arg-type]  # gets lessons alone
        count = min(
            options.num_learners or even_learners(len(self.agents), available_cores()), len(self.agents)
        )
        if not options.parallel_training:
            count = 1  # beside playing, but one agent after another
        if options.use_threads:
            return Threads(lambda: learners.learn, count, "learner", options.timeout)  # type: ignore[arg-type, return-value]  # gets lessons alone
        states = [learners.write_state(number) for number in range(len(self.agents))]
        processes = LearnerProcesses(self._start(), count, states)
        if processes.members:
            return processes
        here = Here(learners.learn, "learner 0")  # type: ignore[arg-type]  # gets lessons alone
        here.events += processes.events
        return here

    def _player(self) -> Player:
        return Player(self._factory, self._config, self._settings)

    def _start(self) -> Start:
        return Start(self._factory, self._config, self._settings, len(self.agents))
