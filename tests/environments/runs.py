"""Short runs of the meadow, and the state of its agents afterwards, as bytes."""

from typing import Any

from senju.environments.environment import ParallelEnvironment
from senju.environments.lessons import serialise_agent
from senju.environments.scheduler import ExperimentResult
from tests.environments.meadow import Meadow, make_config


def knowledge(env: ParallelEnvironment) -> list[bytes]:
    """Every byte of each agent's networks, optimizer, memory and numbers."""
    return [bytes(serialise_agent(env.environment, number).as_array()) for number in range(len(env.agents))]


def run(factory: Any = Meadow, **parallel: Any) -> tuple[ParallelEnvironment, ExperimentResult]:
    env = ParallelEnvironment(factory, make_config(**parallel))
    return env, env.run_experiment_parallel()


def learned(factory: Any = Meadow, **parallel: Any) -> list[bytes]:
    return knowledge(run(factory, **parallel)[0])
