"""Agents to be trained side by side, for benchmarks: each with a replay full of random decisions."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from senju.algorithms import ALGORITHMS
from senju.algorithms.independent import OneByOne, SeatSettings, Task, Way
from senju.algorithms.learner import Learner, LearnerSetup
from senju.algorithms.stacked import Stacked
from senju.collect.slots import Ring, RingShape
from senju.games.game import SeatView
from senju.models import make_model

NUM_ACTIONS = 6
SHAPE = RingShape(1, num_steps=100, num_rows=16, keeps_final=True)


def new_seats(
    num_agents: int, device: str = "cpu", hidden: Sequence[int] = (256, 256), batch_size: int = 64
) -> list[SeatSettings]:
    """DQN agents that take one gradient step at a time."""
    model = {"name": "mlp", "hidden": list(hidden)}
    algorithm = {"name": "dqn", "batch_size": batch_size, "learning_starts": 1, "steps_per_batch": 1}
    return [SeatSettings(seat, model, algorithm, seat, 10_000, device) for seat in range(num_agents)]


def new_learner(seat: SeatSettings, view: SeatView) -> Learner:
    """As a run makes it."""
    model = make_model(seat.model, view.observation_shape, view.num_actions, seat.seed)
    setup = LearnerSetup(seat.seed, seat.total_updates, torch.device(seat.device))
    return ALGORITHMS.get(seat.algorithm["name"])(model, ALGORITHMS.configure(seat.algorithm), setup)


def filled_rings(num_agents: int, view: SeatView, seed: int = 0) -> list[Ring]:
    """A rollout for every agent, of random decisions in games of ten steps."""
    chance, rings = np.random.default_rng(seed), []
    for _ in range(num_agents):
        ring = Ring(view, SHAPE)
        slot = ring.slot(0, 0)
        slot.observation[:] = chance.integers(0, 2, slot.observation.shape)
        slot.actions[:] = chance.integers(0, NUM_ACTIONS, slot.actions.shape)
        slot.rewards[:] = chance.normal(size=slot.rewards.shape)
        slot.legal.fill((1 << NUM_ACTIONS) - 1)
        slot.terminated[9::10], slot.final_at[:] = True, -1
        ring.open(0, 0)
        ring.seal(0, 0)
        rings.append(ring)
    return rings


def train_step(way: str, num_agents: int, num_inputs: int = 680, device: str = "cpu") -> Callable[[], None]:
    """What trains every agent once by 64 decisions: `sequential` or `stacked`; already warm.

    680 inputs make 242,000 weights. On a GPU, call `torch.cuda.synchronize()` before reading a clock;
    metrics are read back once per call, as in a run.
    """
    view = SeatView("random", NUM_ACTIONS, (num_inputs,), np.uint8)
    seats = new_seats(num_agents, device)
    learners = [new_learner(seat, view) for seat in seats]
    ways: dict[str, Callable[[], Way]] = {
        "sequential": lambda: OneByOne(learners),
        "stacked": lambda: Stacked(seats, learners),
    }
    chosen = ways[way]()
    chosen.attach(filled_rings(num_agents, view), view)
    chosen.learn([Task(seat, (0,), ((0,),)) for seat in range(num_agents)])

    def train() -> None:
        chosen.learn([Task(seat, (), ()) for seat in range(num_agents)])  # nothing new, one more step

    train()
    return train
