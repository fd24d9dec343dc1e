"""A small world in ordinary Python, as users write them: foragers on a meadow where berries grow.

Nothing here imports senju. The agents stack the last two states, draw from all three global
generators, and count their steps while acting.
"""

import random
from typing import Any

import numpy as np
import torch
from torch import nn

SIDE = 5
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))


class Buffer:
    """A replay memory with frames, as frameworks have them."""

    def __init__(self, capacity: int, size: int, num_frames: int = 2) -> None:
        self.capacity, self.num_frames = capacity, num_frames
        self.states = np.zeros((capacity, size), np.float32)
        self.actions = np.zeros(capacity, np.int64)
        self.rewards = np.zeros(capacity, np.float32)
        self.dones = np.zeros(capacity, np.float32)
        self.idx = self.size = 0

    def add(self, state: Any, action: int, reward: float, done: bool) -> None:
        self.states[self.idx] = state
        self.actions[self.idx] = action
        self.rewards[self.idx] = reward
        self.dones[self.idx] = done
        self.idx = (self.idx + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def add_empty(self) -> None:
        self.idx = (self.idx + self.num_frames - 1) % self.capacity

    def current_state(self) -> Any:
        return self.states[[(self.idx - back) % self.capacity for back in range(self.num_frames - 1, 0, -1)]]

    def sample(self, count: int) -> tuple[Any, ...]:
        rows = np.random.choice(max(1, self.size - 2), count)
        return (
            self.states[rows],
            self.actions[rows],
            self.rewards[rows],
            self.states[rows + 1],
            self.dones[rows],
        )

    def clear(self) -> None:
        self.states[:] = 0
        self.idx = self.size = 0

    def __len__(self) -> int:
        return self.size


class Model:
    """DQN in a few lines."""

    def __init__(self, size: int, action_space: int, hidden: int = 16, epsilon: float = 0.5) -> None:
        self.action_space, self.epsilon = action_space, epsilon
        self.local = nn.Sequential(nn.Linear(2 * size, hidden), nn.ReLU(), nn.Linear(hidden, action_space))
        self.target = nn.Sequential(nn.Linear(2 * size, hidden), nn.ReLU(), nn.Linear(hidden, action_space))
        self.models = {"local": self.local, "target": self.target}
        self.optimizer = torch.optim.Adam(self.local.parameters(), lr=1e-3)
        self.memory = Buffer(256, size)
        self.steps_acted = 0

    def take_action(self, frames: Any) -> int:
        self.steps_acted += 1
        if random.random() < self.epsilon:
            return random.randrange(self.action_space)
        with torch.no_grad():
            return int(self.local(torch.from_numpy(frames).float()[None]).argmax())

    def train_step(self) -> Any:
        states, actions, rewards, after, dones = self.memory.sample(16)
        noise = 0.01 * torch.randn(16, states.shape[1] * 2)
        inputs = torch.from_numpy(np.hstack((states, states))) + noise
        values = self.local(inputs).gather(1, torch.from_numpy(actions)[:, None])[:, 0]
        with torch.no_grad():
            later = self.target(torch.from_numpy(np.hstack((after, after)))).max(1).values
        targets = torch.from_numpy(rewards) + 0.9 * later * (1 - torch.from_numpy(dones))
        loss = ((values - targets) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach().numpy()

    def epsilon_decay(self, rate: float) -> None:
        self.epsilon *= 1 - rate

    def start_epoch_action(self, **kwargs: Any) -> None:
        self.memory.add_empty()
        if kwargs["epoch"] % 2 == 0:
            self.target.load_state_dict(self.local.state_dict())

    def end_epoch_action(self, **kwargs: Any) -> None:
        self.last_epoch = kwargs["epoch"]


class Forager:
    """Walks, and eats what it walks into."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.location = (0, 0)

    def reset(self) -> None:
        self.location = (random.randrange(SIDE), random.randrange(SIDE))

    def pov(self, world: Any) -> Any:
        own = np.zeros((SIDE, SIDE), np.float32)
        own[self.location] = 1
        return np.concatenate((world.berries.ravel(), own.ravel()))

    def get_action(self, state: Any) -> int:
        return self.model.take_action(np.vstack((self.model.memory.current_state(), state)).ravel())

    def act(self, world: Any, action: int) -> float:
        y, x = self.location[0] + MOVES[action][0], self.location[1] + MOVES[action][1]
        if not (0 <= y < SIDE and 0 <= x < SIDE):
            return -0.1
        self.location = (y, x)
        found = float(world.berries[y, x])
        world.berries[y, x] = 0
        return found

    def is_done(self, world: Any) -> bool:
        return bool(world.turn >= world.max_turns)

    def add_memory(self, state: Any, action: int, reward: float, done: bool) -> None:
        self.model.memory.add(state, action, reward, done)

    def transition(self, world: Any) -> None:
        state = self.pov(world)
        action = self.get_action(state)
        reward = self.act(world, action)
        self.add_memory(state, action, reward, self.is_done(world))


class World:
    """A square of berries."""

    def __init__(self, max_turns: int) -> None:
        self.max_turns = max_turns
        self.clear()

    def clear(self) -> None:
        self.berries = np.zeros((SIDE, SIDE), np.float32)
        self.turn = 0


class Meadow:
    """The environment."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.world = World(config["experiment"]["max_turns"])
        size = 2 * SIDE * SIDE
        self.agents = [Forager(Model(size, 4, hidden=16 + 8 * i)) for i in range(config.get("agents", 3))]

    def reset(self) -> None:
        self.world.clear()
        for agent in self.agents:
            agent.reset()

    def take_turn(self) -> None:
        self.world.turn += 1
        self.world.berries[np.random.rand(SIDE, SIDE) < 0.1] = 1
        for agent in self.agents:
            agent.transition(self.world)


def make_config(epochs: int = 3, max_turns: int = 6, **parallel: Any) -> dict[str, Any]:
    return {
        "experiment": {"epochs": epochs, "max_turns": max_turns},
        "model": {"epsilon_decay": 0.1},
        "parallel": {"copies": 3, **parallel},
    }
