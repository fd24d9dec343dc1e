"""Algorithms: the contract (learner.py) and the built-in learners."""

from senju.algorithms.learner import Learner
from senju.registry import Registry

ALGORITHMS: Registry[Learner] = Registry(
    "algorithm",
    Learner,  # type: ignore[type-abstract]  # the registry only asks whether classes derive from it
    {"ppo": "senju.algorithms.ppo:PPO", "dqn": "senju.algorithms.dqn:DQN"},
)
