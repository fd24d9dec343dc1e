"""What does a process for each game cost Stable-Baselines3 where the game is cheap?

`DummyVecEnv` steps its games one after another in this process; `SubprocVecEnv` has a process for each
and sends every action and every observation through a pipe. Both play the same Connect Four (one
object per game, plain Python integers as bitboards) by random legal moves; they take turns.

    .venvs/peers/bin/python benchmarks/peers/subprocess_vec_env.py --envs 2 8 --repeats 5 --seconds 1

Standard output is one line of JSON; figures are steps (moves) a second, repeat by repeat:

    {"peer": "stable-baselines3",
     "versions": {"stable-baselines3": "2.9.2", ...},
     "settings": {"envs": [2, 8], "repeats": 5, "seconds": 1.0, "seed": 1},
     "envs": {"8": {"DummyVecEnv": [...], "SubprocVecEnv": [...], "moves_per_game": 21.3}, ...}}
"""

import argparse
import json
import time
from importlib import metadata
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv

COLUMNS, HEIGHT = 7, 6
CELLS = COLUMNS * HEIGHT
# the bit of each cell in the order of the observation: row by row from the top
_CELL_BIT = np.array([7 * c + HEIGHT - 1 - r for r in range(HEIGHT) for c in range(COLUMNS)], np.uint64)


class ConnectFourEnv(gymnasium.Env[NDArray[np.uint8], np.int64]):
    """One game; observation and reward are the mover's own."""

    observation_space = spaces.Box(0, 1, (2, HEIGHT, COLUMNS), np.uint8)  # the mover's stones, the other's
    action_space = spaces.Discrete(COLUMNS)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Clear the board."""
        self._mover = self._other = self._num_moves = 0
        return self._observe(), {}

    def step(self, action: np.int64) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Drop the mover's stone and turn the board round."""
        column = int(action)
        # adding the bottom bit carries up to the lowest empty cell of the column
        landing = ((self._mover | self._other) + (1 << 7 * column)) & (0b111111 << 7 * column)
        mover = self._mover | landing
        self._num_moves += 1
        has_won = _has_four(mover)
        self._mover, self._other = self._other, mover
        return self._observe(), float(has_won), has_won or self._num_moves == CELLS, False, {}

    def _observe(self) -> NDArray[np.uint8]:
        stones = np.array([[self._mover], [self._other]], np.uint64)
        bits = (stones >> _CELL_BIT) & np.uint64(1)
        return bits.astype(np.uint8).reshape(2, HEIGHT, COLUMNS)


def _has_four(stones: int) -> bool:
    for step in (1, 7, 6, 8):  # up, right, and both diagonals
        pairs = stones & (stones >> step)
        if pairs & (pairs >> 2 * step):
            return True
    return False


class Player:
    """Plays all games of a vectorised environment at random, and goes on where it stopped."""

    def __init__(self, envs: VecEnv, seed: int) -> None:
        self.envs = envs
        self._random = np.random.default_rng(seed)
        self._seen: Any = envs.reset()
        self.steps = self.games = 0

    def measure(self, seconds: float) -> float:
        """Steps a second; a step is one move in one game."""
        began, turns = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - began) < seconds:
            self._play()
            turns += 1
        self.steps += turns * self.envs.num_envs
        return turns * self.envs.num_envs / elapsed

    def _play(self) -> None:
        is_open = ~self._seen[:, :, 0].any(axis=1)  # [game, column], by the top row: no second question
        actions = np.where(is_open, self._random.random(is_open.shape), -1.0).argmax(axis=1)
        self._seen, _rewards, is_over, _infos = self.envs.step(actions)
        self.games += int(is_over.sum())


def compare(num_envs: int, repeats: int, seconds: float, seed: int) -> dict[str, Any]:
    """Steps a second of both, taking turns; the first round only warms up."""
    makers = [ConnectFourEnv] * num_envs
    players = [Player(DummyVecEnv(makers), seed), Player(SubprocVecEnv(makers), seed)]
    rates: dict[str, list[float]] = {type(player.envs).__name__: [] for player in players}
    for repeat in range(-1, repeats):
        for player in players:
            rate = player.measure(seconds if repeat >= 0 else min(seconds, 0.2))
            if repeat >= 0:
                rates[type(player.envs).__name__].append(rate)
    for player in players:
        player.envs.close()
    steps, games = sum(player.steps for player in players), sum(player.games for player in players)
    return {**rates, "moves_per_game": steps / max(1, games)}


def parse_arguments() -> argparse.Namespace:
    """The settings of the run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--envs", type=int, nargs="+", default=[8], help="games, and processes, side by side")
    parser.add_argument("--repeats", type=int, default=5, help="measures of each figure")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one measure")
    parser.add_argument("--seed", type=int, default=1, help="of the random moves")
    return parser.parse_args()


def main() -> None:
    """Measure and print the line."""
    settings = parse_arguments()
    figures = {
        num_envs: compare(num_envs, settings.repeats, settings.seconds, settings.seed)
        for num_envs in settings.envs
    }
    packages = ["stable-baselines3", "gymnasium", "numpy"]
    answer = {
        "peer": "stable-baselines3",
        "versions": {name: metadata.version(name) for name in packages},
        "settings": vars(settings),
        "envs": figures,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
