"""Many independent agents in one world for a while: neither memory nor descriptors grow."""

import logging
import os
from time import monotonic
from typing import NamedTuple

import psutil
import pytest

from senju.config import Settings
from senju.machine import math_threads, private_bytes, resident_bytes
from senju.memory import keep_freed_memory
from senju.runs.run_config import resolve_config
from senju.trials.rig import Rig

logger = logging.getLogger(__name__)

SECONDS = float(os.environ.get("SENJU_STRESS_SECONDS", "60"))
NUM_AGENTS = int(os.environ.get("SENJU_STRESS_AGENTS", "64"))
SETTLING = 0.3  # of the time: caches fill, and the allocator keeps what was freed
MOST_GROWTH = 16 * 2**20  # bytes, of this process and of all workers together


class Sample(NamedTuple):
    """What the run holds at one time."""

    own: int  # bytes
    workers: int  # bytes
    descriptors: int
    threads: int


def sample_of(rig: Rig) -> Sample:
    pids = [worker.pid for worker in rig.backend.status().workers if worker.pid]
    pids += [status.pid for status in rig.learner.runner.status() if status.pid]
    process = psutil.Process()
    workers = sum(private_bytes(pid) for pid in pids)
    return Sample(resident_bytes(), workers, process.num_fds(), process.num_threads())


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 240)
@pytest.mark.parametrize("learners", ["stacked"])
def test_many_agents_hold_no_more_memory_and_descriptors_after_a_while(learners: str) -> None:
    keep_freed_memory()
    settings: Settings = {
        "game": {"num_agents": NUM_AGENTS, "width": 24, "height": 24},
        "model": {"name": "mlp", "hidden": [32]},
        "algorithm": {"name": "ppo", "minibatch_size": 64, "epochs": 1},
        "collect": {"seating": "independent", "num_games": 8, "games_per_shard": 4, "rollout_steps": 16},
        "learners": learners,
        "backend": {"name": "processes", "num_workers": 2},
        "total_steps": 2**50,
        "device": "cpu",
        "threads": 1,
    }
    config = resolve_config("treasure_hunt", settings)
    samples: list[Sample] = []
    with math_threads(1), Rig(config, config.backend) as rig:
        began, updates = monotonic(), 0
        while (passed := monotonic() - began) < SECONDS:
            rig.update()
            rig.backend.report()  # a run takes these after every update
            rig.learner.take_trained()
            updates += 1
            if passed >= SETTLING * SECONDS:
                samples.append(sample_of(rig))
    assert updates > 20
    first, last = samples[0], samples[-1]
    growth = {"own": last.own - first.own, "workers": last.workers - first.workers}
    logger.info("%d agents, %d updates in %.0f s: %s -> %s", NUM_AGENTS, updates, SECONDS, first, last)
    assert max(growth.values()) < MOST_GROWTH, growth
    assert last.descriptors <= first.descriptors
    assert last.threads <= first.threads
