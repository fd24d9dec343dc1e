"""Your own world in plain Python: three foragers, each with its own network, memory and optimizer.

    python -m examples.own_world

The classes do not use senju: they also run in a plain loop. `senju.ParallelEnvironment` plays
eight copies of the world in worker processes and trains the three agents in parallel. The number of berries
that each agent eats in an epoch rises from about 5 to about 12.
"""

import random
from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

import senju

SIDE, RADIUS = 9, 2
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
STATE_SIZE = (2 * RADIUS + 1) ** 2


class Model:
    """Q-learning with a small network."""

    def __init__(self) -> None:
        self.net = nn.Sequential(nn.Linear(STATE_SIZE, 64), nn.ReLU(), nn.Linear(64, len(MOVES)))
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=2e-3)
        self.memory: deque[tuple[Any, ...]] = deque(maxlen=20_000)
        self.epsilon, self.action_space = 1.0, len(MOVES)

    def take_action(self, state: np.ndarray) -> int:
        """The best action, or a random one with probability epsilon."""
        if random.random() < self.epsilon:
            return random.randrange(self.action_space)
        with torch.no_grad():
            return int(self.net(torch.from_numpy(state)).argmax())

    def train_step(self) -> float:
        """One gradient step on a batch from the memory."""
        indices = np.random.randint(len(self.memory) - 1, size=256)
        batch, after = [self.memory[i] for i in indices], [self.memory[i + 1] for i in indices]
        states = torch.from_numpy(np.stack([state for state, *_ in batch]))
        actions, rewards, dones = (torch.tensor(column) for column in list(zip(*batch, strict=True))[1:])
        with torch.no_grad():
            later = self.net(torch.from_numpy(np.stack([state for state, *_ in after]))).max(1).values
        targets = rewards.float() + 0.8 * later * (~dones)
        loss = nn.functional.smooth_l1_loss(self.net(states).gather(1, actions[:, None])[:, 0], targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def end_epoch_action(self, epoch: int) -> None:
        """Explore less."""
        self.epsilon = max(0.05, 1.0 - epoch / 40)


class Forager:
    """Walks over the meadow and eats the berries that it comes to."""

    def __init__(self) -> None:
        self.model = Model()
        self.location = (1, 1)

    def pov(self, world: np.ndarray) -> np.ndarray:
        """The cells around the agent: walls -1, berries 1."""
        y, x = self.location
        padded = np.pad(world, RADIUS, constant_values=-1)
        return padded[y : y + 2 * RADIUS + 1, x : x + 2 * RADIUS + 1].astype(np.float32).ravel()

    def get_action(self, state: np.ndarray) -> int:
        """The number of a move."""
        return self.model.take_action(state)

    def act(self, world: np.ndarray, action: int) -> float:
        """Go there, unless there is a wall."""
        y, x = self.location[0] + MOVES[action][0], self.location[1] + MOVES[action][1]
        if not (0 <= y < SIDE and 0 <= x < SIDE):
            return 0.0
        self.location, eaten = (y, x), float(world[y, x])
        world[y, x] = 0
        return eaten

    def add_memory(self, state: np.ndarray, action: int, reward: float, done: bool) -> None:
        """Remember a turn."""
        self.model.memory.append((state, action, reward, done))


class Meadow:
    """Berries grow; then the foragers act, one after another."""

    def __init__(self, config: Any) -> None:
        self.max_turns = config.experiment.max_turns
        self.agents = [Forager() for _ in range(3)]
        self.reset()

    def reset(self) -> None:
        """A new meadow."""
        self.turn, self.world = 0, (np.random.rand(SIDE, SIDE) < 0.1).astype(np.float32)
        for agent in self.agents:
            agent.location = (random.randrange(SIDE), random.randrange(SIDE))

    def take_turn(self) -> None:
        """Berries grow, then each agent acts once."""
        self.turn += 1
        self.world[np.random.rand(SIDE, SIDE) < 0.01] = 1
        for agent in self.agents:
            state = agent.pov(self.world)
            action = agent.get_action(state)
            reward = agent.act(self.world, action)
            agent.add_memory(state, action, reward, self.turn == self.max_turns)


def main(epochs: int = 60, **parallel: Any) -> np.ndarray:
    """Train; return the reward of each epoch and agent."""
    config = SimpleNamespace(
        experiment=SimpleNamespace(epochs=epochs, max_turns=50),
        parallel=SimpleNamespace(copies=8, train_steps=20, **parallel),
    )
    env = senju.ParallelEnvironment(Meadow, config)
    result = env.run_experiment_parallel(listener=lambda report: print(report.epoch, report.rewards))
    return result.rewards


if __name__ == "__main__":
    main()
