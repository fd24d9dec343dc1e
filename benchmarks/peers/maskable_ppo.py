"""How fast sb3-contrib's MaskablePPO learns Connect Four from 64 games by itself, on the CPU.

The games are NumPy arrays in one process (`connect_four_vec_env.py`); policy and value share a
trunk of 84-256-256 with ReLU, 89,608 weights in all; 128 steps a rollout, 4 epochs, minibatches
of 2048. It is a peer for speed: both seats share one policy, but Stable-Baselines3 takes the other
seat's value for the mover's own, so its playing strength has no meaning.

    .venvs/peers/bin/python benchmarks/peers/maskable_ppo.py --repeats 5 --threads 2

Standard output is one line of JSON:

    {"peer": "sb3-contrib MaskablePPO",
     "versions": {"sb3-contrib": "2.9.2", ...},
     "settings": {"repeats": 5, "updates": 8, "threads": 2, "num_games": 64, ...},
     "num_weights": 89608,
     "repeats": [{"seed": 1,
                  "moves_per_game": 19.6,                     # in the last rollout
                  "samples": 65536,
                  "seconds": 3.1,                             # wall time of the whole repeat
                  "collecting_seconds": 0.9,                  # inside collect_rollouts
                  "learning_seconds": 2.1,                    # inside train
                  "end_to_end": 21200.0,                      # samples a second of each
                  "collecting": 70000.0,
                  "learning": 30700.0,
                  "other_cores": 0.0}, ...]}                  # busy with other processes meanwhile

A repeat is `--updates` times a rollout and its learning by a fresh model (seeds `--seed` and up),
after `--warm-up` updates that are not counted. Fresh, because a quick win pays and its loser loses
nothing: soon both seats would work together for games of seven moves. To interleave with other
candidates, call it with `--repeats 1` and the next seed several times.

Torch's threads wait for each other in a busy loop: where other processes use the cores too
(`other_cores` well above 0), a repeat can take several times as long and should be thrown away.
"""

import argparse
import json
import os
import time
from importlib import metadata
from typing import Any

import torch
from connect_four_vec_env import ConnectFourVecEnv
from gymnasium import spaces
from other_load import OtherLoad
from sb3_contrib import MaskablePPO
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

NUM_GAMES, NUM_STEPS, NUM_EPOCHS, BATCH_SIZE, HIDDEN = 64, 128, 4, 2048, 256
SAMPLES_PER_UPDATE = NUM_GAMES * NUM_STEPS
NUM_WEIGHTS = 89_608


class Trunk(BaseFeaturesExtractor):
    """The layers that policy and value share; Stable-Baselines3 shares only a features extractor."""

    def __init__(self, observation_space: spaces.Box) -> None:
        super().__init__(observation_space, HIDDEN)
        inputs = observation_space.shape[0]
        self.layers = nn.Sequential(
            nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU()
        )

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """[game, 84] to [game, 256]."""
        features: torch.Tensor = self.layers(observations)
        return features


class TimedMaskablePPO(MaskablePPO):
    """MaskablePPO with a clock on its two halves."""

    collecting_seconds = 0.0
    learning_seconds = 0.0

    def collect_rollouts(self, *arguments: Any, **options: Any) -> bool:
        """As the parent does, timed."""
        start = time.perf_counter()
        has_collected = super().collect_rollouts(*arguments, **options)
        self.collecting_seconds += time.perf_counter() - start
        return has_collected

    def train(self) -> None:
        """As the parent does, timed."""
        start = time.perf_counter()
        super().train()
        self.learning_seconds += time.perf_counter() - start


def make_model(seed: int) -> TimedMaskablePPO:
    """The algorithm on fresh games, with the weights that the comparison asks for."""
    model = TimedMaskablePPO(
        "MlpPolicy",
        ConnectFourVecEnv(NUM_GAMES),
        n_steps=NUM_STEPS,
        n_epochs=NUM_EPOCHS,
        batch_size=BATCH_SIZE,
        policy_kwargs={"features_extractor_class": Trunk, "net_arch": []},
        seed=seed,
        device="cpu",
    )
    num_weights = sum(weight.numel() for weight in model.policy.parameters())
    assert num_weights == NUM_WEIGHTS, f"expected {NUM_WEIGHTS} weights, got {num_weights}"
    return model


def measure(seed: int, num_warm_up: int, num_updates: int) -> dict[str, float | None]:
    """Rollouts and updates of a fresh model, timed as a whole and in halves."""
    model = make_model(seed)
    model.learn(num_warm_up * SAMPLES_PER_UPDATE)
    model.collecting_seconds = model.learning_seconds = 0.0
    samples = num_updates * SAMPLES_PER_UPDATE
    others, start = OtherLoad(), time.perf_counter()
    model.learn(samples, reset_num_timesteps=False)  # the games go on where they stopped
    seconds = time.perf_counter() - start
    return {
        "seed": seed,
        "moves_per_game": moves_per_game(model),
        "samples": samples,
        "seconds": seconds,
        "collecting_seconds": model.collecting_seconds,
        "learning_seconds": model.learning_seconds,
        "end_to_end": samples / seconds,
        "collecting": samples / model.collecting_seconds,
        "learning": samples / model.learning_seconds,
        "other_cores": others.cores(),
    }


def moves_per_game(model: TimedMaskablePPO) -> float:
    """The mean length of a game in the last rollout: a check that these are real games."""
    return float(SAMPLES_PER_UPDATE / max(1.0, model.rollout_buffer.episode_starts.sum()))


def parse_arguments() -> argparse.Namespace:
    """The settings of the run."""
    parser = argparse.ArgumentParser(description="MaskablePPO's samples a second on Connect Four.")
    parser.add_argument("--repeats", type=int, default=5, help="fresh models to time")
    parser.add_argument("--updates", type=int, default=8, help="updates in one repeat")
    parser.add_argument("--warm-up", type=int, default=2, help="updates before each repeat")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="torch threads; all cores")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first repeat")
    return parser.parse_args()


def main() -> None:
    """Measure and print the line."""
    settings = parse_arguments()
    torch.set_num_threads(settings.threads)
    seeds = range(settings.seed, settings.seed + settings.repeats)
    repeats = [measure(seed, settings.warm_up, settings.updates) for seed in seeds]
    fixed = {
        "num_games": NUM_GAMES,
        "num_steps": NUM_STEPS,
        "num_epochs": NUM_EPOCHS,
        "batch_size": BATCH_SIZE,
    }
    packages = ["sb3-contrib", "stable-baselines3", "torch", "numpy", "gymnasium"]
    answer = {
        "peer": "sb3-contrib MaskablePPO",
        "versions": {name: metadata.version(name) for name in packages},
        "settings": vars(settings) | fixed,
        "num_weights": NUM_WEIGHTS,
        "repeats": repeats,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
