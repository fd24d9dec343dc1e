"""The training loop: collect, learn, publish, with the learners and the opponents that belong to it.

It does not use the run folder: the trainer steps the loop and saves it; trials step it themselves.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from senju.algorithms.learner_group import LearnerGroup
from senju.algorithms.learner_runner import LearnerRunner, SequentialLearners
from senju.algorithms.stacked_learners import StackedLearners
from senju.backends import BACKENDS
from senju.backends.plan import Plan
from senju.collect.orders import Orders
from senju.collect.rollout import policy_view
from senju.collect.slots import Rollout
from senju.config import Settings
from senju.evaluation.opponents import FixedOpponent, load_fixed
from senju.games.game import Game
from senju.machine import available_cores
from senju.models.weights import Weights
from senju.opponents.pool import OpponentPool
from senju.runs.run_config import RunConfig
from senju.runs.seats import demands_of, new_learner
from senju.runs.stages import Setting
from senju.training.learner_processes import LearnerProcesses


class Loop:
    """Learners, a backend and, if opponents play, their pool.

    loop.start()
    loop.publish_all()
    while training:
        rollouts = loop.collect()
        metrics = loop.learn(rollouts)
        loop.publish()
    """

    def __init__(
        self,
        config: RunConfig,
        game: Game,
        backend: Settings | None = None,
        fixed: Sequence[FixedOpponent] | None = None,
        plan: Plan | None = None,
    ) -> None:
        self.config, self.game = config, game
        runner, turns_ahead = _new_learner_runner(config, game), config.parallel.epochs_ahead
        self.learner = LearnerGroup(config.learner_settings, runner, config.attention, turns_ahead)
        self._new_opponents: dict[int, Weights] = {}  # to be published next
        self._backend_settings = backend or config.backend
        new_backend = BACKENDS.get(self._backend_settings["name"])
        self.backend = new_backend(BACKENDS.configure(self._backend_settings))
        self.plan = plan or config.plan
        self.pool: OpponentPool | None = None
        self.fixed: Sequence[FixedOpponent] = ()
        if config.has_opponents:
            self._seat_opponents(fixed)

    def _seat_opponents(self, fixed: Sequence[FixedOpponent] | None) -> None:
        config = self.config.opponents
        self.fixed = load_fixed(self.game, config.fixed) if fixed is None else fixed
        assert self.plan.opponents is not None
        specs = tuple(opponent.spec for opponent in self.fixed)
        settings = dataclasses.replace(self.plan.opponents, fixed=specs)
        self.plan = self.plan.model_copy(update={"opponents": settings})
        shape = (self.plan.num_shards, self.plan.games_per_shard, self.game.num_seats)
        self.pool = OpponentPool(config, specs, shape)

    def start(self) -> None:
        """Start the backend, and let the learners read what it collects."""
        self.backend.start(self.plan)
        if isinstance(self.learner.runner, LearnerProcesses):
            assert self.backend.shared_memory is not None
            self.learner.runner.share(self.plan, self.backend.shared_memory)
        self.learner.attach(self.backend.rings, policy_view(self.game, len(self.plan.policies)))

    def publish_all(self) -> None:
        """Give the backend every opponent's weights, then the learner's own."""
        if self.pool is not None:
            weighted = [o for o in self.pool.opponents if o.weight_index >= 0]
            self._new_opponents |= {o.weight_index: self.weights_of(o.number) for o in weighted}
        self.publish()

    def weights_of(self, number: int) -> Weights:
        """The weights of a fixed opponent or a snapshot, by its number."""
        assert self.pool is not None
        if number <= len(self.fixed):
            weights = self.fixed[number - 1].weights
            assert weights is not None
            return weights
        return self.pool.weights[number]

    def collect(self) -> list[Rollout]:
        """One rollout of every shard."""
        return self.backend.collect()

    def learn(self, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Learn from rollouts, count their games for the pool, and take a snapshot if one is due."""
        metrics = self.learner.update(rollouts)
        if self.pool is None:
            return metrics
        failures = [failure for rollout in rollouts for failure in rollout.failures]
        metrics |= self.pool.count_results(rollouts, failures)
        if self.pool.is_due(self.learner.version):
            self._new_opponents |= self.pool.add_snapshot(self.learner.version, self.learner.weights())
        return metrics

    def publish(self) -> None:
        """Publish the learner's weights and the current orders for the next rollouts."""
        version, epsilons = self.learner.version, self.learner.epsilons
        orders = Orders(version, epsilons) if self.pool is None else self.pool.orders(version, epsilons)
        self.backend.publish(self.learner.weights(), version, orders, self._new_opponents)
        self._new_opponents = {}

    def count_moves(self, rollouts: Sequence[Rollout]) -> int:
        """Moves in a batch of rollouts; rows whose game is over make none."""
        ended = [rollout.data.terminated | rollout.data.truncated for rollout in rollouts]
        if not self.plan.whole_games:
            return sum(each.size for each in ended)
        lengths = (np.where(each.any(axis=0), each.argmax(axis=0) + 1, len(each)) for each in ended)
        return sum(int(each.sum()) for each in lengths)

    def count_steps(self, rollouts: Sequence[Rollout]) -> int:
        """Decisions in a batch: its moves, times the seats that act at once."""
        return self.count_moves(rollouts) * self.game.num_acting

    def setting(self, num_workers: int) -> Setting:
        """The resources of the loop, for advice on its speed."""
        return Setting(
            backend=self._backend_settings["name"],
            num_workers=num_workers,
            cores=available_cores(),
            num_shards=self.plan.num_shards,
            device=self.config.device,
            mode=self.config.collect.mode,
            splits_rollouts=self.plan.num_parts > 1,
            is_on_device=self.plan.evaluation is not None,
            is_replaying=any(demands_of(each.algorithm).is_replaying for each in self.learner.settings),
        )

    def finish(self) -> None:
        """Wait for trainings in the background, and publish what they learned."""
        if self.learner.finish():
            self.publish()

    def close(self) -> None:
        """Stop the learners and the backend."""
        self.learner.close()
        self.backend.close()


def _new_learner_runner(config: RunConfig, game: Game) -> LearnerRunner:
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
