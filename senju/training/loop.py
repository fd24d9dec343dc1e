"""The loop that learns: collect, learn, publish, with the opponents and the replay that belong to it.

Nothing here knows of runs and folders: the trainer moves the loop and saves it, trials move it by hand.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch

from senju.algorithms import ALGORITHMS
from senju.algorithms.independent import Independent
from senju.algorithms.learner import Learner, LearnerSetup
from senju.backends import BACKENDS
from senju.backends.backend import Plan
from senju.collect.orders import Orders
from senju.collect.slots import Rollout
from senju.config import Settings
from senju.games.game import Game
from senju.models.weights import Weights
from senju.opponents.pool import OpponentPool
from senju.training.fixed_opponents import FixedOpponent, load_fixed, specs_as_dicts
from senju.training.run import new_model
from senju.training.run_config import RunConfig
from senju.training.ways import attach, new_independent


class Loop:
    """A learner, a backend and, where others than the learner play, the pool of opponents.

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
        self.learner = self._new_learner()
        settings = backend or config.backend
        self.backend = BACKENDS.get(settings["name"])(BACKENDS.configure(settings))
        self.plan, self.pool, self.fixed = plan or config.plan, None, ()
        if config.has_opponents:
            self._seat_opponents(fixed)

    learner: Learner
    pool: OpponentPool | None
    fixed: Sequence[FixedOpponent]

    def _new_learner(self) -> Learner:
        config = self.config
        if config.is_independent:
            return new_independent(config, self.game)
        setup = LearnerSetup(config.seed, config.total_updates, torch.device(config.device))
        algorithm = ALGORITHMS.get(config.algorithm["name"])
        return algorithm(new_model(self.game, config), ALGORITHMS.configure(config.algorithm), setup)

    @property
    def agents(self) -> Independent | None:
        """The learners of all seats, where each has its own."""
        return self.learner if isinstance(self.learner, Independent) else None

    def _seat_opponents(self, fixed: Sequence[FixedOpponent] | None) -> None:
        config = self.config.opponents
        self.fixed = load_fixed(self.game, config.fixed) if fixed is None else fixed
        table = self.plan.opponents | {"fixed": specs_as_dicts(self.fixed)}
        self.plan = dataclasses.replace(self.plan, opponents=table)
        shape = (self.plan.num_shards, self.plan.games_per_shard, self.game.num_seats)
        self.pool = OpponentPool(config, [opponent.spec for opponent in self.fixed], shape)

    def start(self) -> None:
        """Start the backend; what it collects is what the learner replays."""
        self.backend.start(self.plan)
        if self.agents is not None:
            attach(self.agents, self.backend, self.plan, self.game)
        elif self.config.demands.is_replaying:
            self.learner.attach(self.backend.ring, self.game)

    def publish_all(self) -> None:
        """Give the backend every opponent's weights, then the learner's own."""
        if self.pool is not None:
            for member in self.pool.members:
                if member.place >= 0:
                    self.backend.publish_opponent(member.place, self.weights_of(member.number))
        self.publish()

    def weights_of(self, number: int) -> Weights:
        """Those of a fixed agent, or of a snapshot."""
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
        """Learn from them; note how they ended; take a snapshot for the pool if one is due."""
        metrics = self.learner.update(rollouts)
        if self.pool is None:
            return metrics
        metrics |= self.pool.see(rollouts, self.backend.take_failures())
        if self.pool.is_due(self.learner.version):
            for place, weights in self.pool.grow(self.learner.version, self.learner.weights()):
                self.backend.publish_opponent(place, weights)
        return metrics

    def publish(self) -> None:
        """Let the learner's weights act from the next rollout on, and the orders of now hold."""
        version, epsilon = self.learner.version, self.learner.epsilon
        orders = Orders(version, epsilon) if self.pool is None else self.pool.orders(version, epsilon)
        if self.agents is not None:
            orders = orders._replace(epsilons=self.agents.epsilons)
        self.backend.publish(self.learner.weights(), version, orders)

    def count_moves(self, rollouts: Sequence[Rollout]) -> int:
        """Moves in a batch of rollouts; rows that rest after their game make none."""
        ended = [rollout.data.terminated | rollout.data.truncated for rollout in rollouts]
        if not self.plan.whole_games:
            return sum(each.size for each in ended)
        lengths = (np.where(each.any(axis=0), each.argmax(axis=0) + 1, len(each)) for each in ended)
        return sum(int(each.sum()) for each in lengths)

    def count_steps(self, rollouts: Sequence[Rollout]) -> int:
        """How many decisions those moves had room for."""
        return self.count_moves(rollouts) * self.game.num_acting

    def finish(self) -> None:
        """Wait for trainings that go on by themselves, and let what they learned act."""
        if self.agents is not None and self.agents.finish():
            self.publish()

    def close(self) -> None:
        """Stop the backend, and learners that run elsewhere."""
        if self.agents is not None:
            self.agents.close()
        self.backend.close()
