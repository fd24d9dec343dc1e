"""How much of an epoch's time does `ParallelEnvironment` save in a user's own world?

    python -m benchmarks.own_world

Three agents with networks of about 240,000 weights each, in a world of plain Python; an epoch is four
episodes, and as much training as makes playing and learning take about half of the plain loop each. The
plain loop is what a user writes without senju. All ways are timed in turn, in one run.
"""

import statistics
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks import bench_report as report
from examples.own_world import MOVES, STATE_SIZE, Meadow, Model
from senju.machine import math_threads
from senju.training.environments.environment import ParallelEnvironment

EPOCHS, COPIES, TURNS, WARM_UP = 12, 4, 100, 3
WAYS: dict[str, dict[str, Any]] = {
    "plain loop": {},
    "disabled": {"enabled": False},
    "threads, async": {"use_threads": True, "async_learning": True},
    "processes": {},
    "processes, async": {"async_learning": True},
}


class Memory:
    """Arrays, as a replay memory should be."""

    def __init__(self, capacity: int) -> None:
        self.states = np.zeros((capacity, STATE_SIZE), np.float32)
        self.actions, self.rewards = np.zeros(capacity, np.int64), np.zeros(capacity, np.float32)
        self.size = self.next = 0

    def append(self, turn: tuple[Any, ...]) -> None:
        """Remember a turn, in the place of the oldest."""
        self.states[self.next], self.actions[self.next], self.rewards[self.next], _ = turn
        self.next = (self.next + 1) % len(self.states)
        self.size = min(self.size + 1, len(self.states))


class LargeModel(Model):
    """About 240,000 weights."""

    def __init__(self) -> None:
        super().__init__()
        layers = [
            nn.Linear(STATE_SIZE, 440),
            nn.ReLU(),
            nn.Linear(440, 440),
            nn.ReLU(),
            nn.Linear(440, len(MOVES)),
        ]
        self.net = nn.Sequential(*layers)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3)
        self.memory = Memory(20_000)  # type: ignore[assignment]

    def train_step(self) -> float:
        """One step on 64 turns."""
        memory: Any = self.memory
        rows = np.random.randint(memory.size - 1, size=64)
        with torch.no_grad():
            later = self.net(torch.from_numpy(memory.states[rows + 1])).max(1).values
        values = self.net(torch.from_numpy(memory.states[rows]))
        chosen = values.gather(1, torch.from_numpy(memory.actions[rows])[:, None])[:, 0]
        loss = nn.functional.smooth_l1_loss(chosen, torch.from_numpy(memory.rewards[rows]) + 0.8 * later)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def end_epoch_action(self, epoch: int) -> None:
        """Act by the network."""
        self.epsilon = 0.1


class LargeMeadow(Meadow):
    """The example's world with larger networks."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        for agent in self.agents:
            agent.model = LargeModel()


def config_of(train_steps: int, **parallel: Any) -> Any:
    return SimpleNamespace(
        experiment=SimpleNamespace(epochs=EPOCHS, max_turns=TURNS),
        parallel={"copies": COPIES, "train_steps": train_steps, **parallel},
    )


def plain_loop(train_steps: int) -> tuple[list[float], float]:
    """Seconds of each epoch of a loop without senju, and the share of learning in them."""
    env, seconds, learning = LargeMeadow(config_of(train_steps)), [], 0.0
    for epoch in range(EPOCHS):
        began = time.perf_counter()
        for _ in range(COPIES):
            env.reset()
            for _ in range(TURNS):
                env.take_turn()
            for agent in env.agents:
                agent.model.end_epoch_action(epoch)
        played = time.perf_counter()
        for agent in env.agents:
            for _ in range(train_steps):
                agent.model.train_step()
        seconds.append(time.perf_counter() - began)
        learning += time.perf_counter() - played
    return seconds, learning / sum(seconds)


def balanced_train_steps() -> int:
    """As many training steps an epoch as make learning half of the plain loop's time."""
    share = plain_loop(10)[1]
    return max(1, round(10 * (1 - share) / share))


def epochs_of(way: str, train_steps: int) -> tuple[list[float], float]:
    """Seconds of each epoch once everybody is warm, and turns per second."""
    if way == "plain loop":
        seconds = plain_loop(train_steps)[0][WARM_UP:]
    else:
        env = ParallelEnvironment(LargeMeadow, config_of(train_steps, **WAYS[way]))
        seconds = [epoch.seconds for epoch in env.run_experiment_parallel().epochs[WARM_UP:]]
    return seconds, COPIES * TURNS / statistics.mean(seconds)


def main() -> None:
    facts = report.run_facts(["numpy", "torch"])
    with math_threads(1):
        train_steps = balanced_train_steps()
        share = plain_loop(train_steps)[1]
        measured = {way: epochs_of(way, train_steps) for way in WAYS}
    plain = statistics.mean(measured["plain loop"][0])
    rows = [
        [way, f"{statistics.mean(times):.3f}", f"{1 - statistics.mean(times) / plain:.0%}", f"{turns:,.0f}"]
        for way, (times, turns) in measured.items()
    ]
    title = (
        f"3 agents, {COPIES} copies, {train_steps} training steps; learning is {share:.0%} of the plain loop"
    )
    report.print_table(title, ["way", "s/epoch", "less time", "turns/s"], rows)
    seconds = {way: times for way, (times, _) in measured.items()}
    report.write_results(
        "own_world", facts | {"train_steps": train_steps, "learning_share": share, "seconds": seconds}
    )


if __name__ == "__main__":
    main()
