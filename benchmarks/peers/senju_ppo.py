"""How fast senju's serial backend and PPO learn Connect Four from 64 games, on the CPU.

The same work as `maskable_ppo.py`: one shard of 64 games, 128 steps a rollout, an MLP 84-256-256 with
policy and value on one trunk (89,608 weights), 4 epochs, minibatches of 2048.

    .venv/bin/python benchmarks/peers/senju_ppo.py --repeats 5 --threads 2 --precision float32

Standard output is one line of JSON, with the fields of `maskable_ppo.py` and the matrix-product peaks
(operations a second at the learner's shape 2048×256×256) measured before each repeat.
"""

import argparse
import json
import time
from typing import Any

import torch
from other_load import OtherLoad

from senju.algorithms import ALGORITHMS
from senju.algorithms.learner import LearnerSetup
from senju.backends.plan import Plan, PolicyPlan
from senju.backends.serial import Serial
from senju.memory import keep_freed_memory
from senju.models import MODELS, build_model

NUM_GAMES, NUM_STEPS, NUM_EPOCHS, MINIBATCH = 64, 128, 4, 2048
SAMPLES_PER_UPDATE = NUM_GAMES * NUM_STEPS
NUM_WEIGHTS = 89_608
MODEL = {"name": "mlp", "hidden": [256, 256]}


def matrix_product_peak(precision: str, seconds: float = 0.3) -> float:
    """Operations a second of the learner's largest product, the best of many tries."""
    dtype = getattr(torch, precision)
    left, right = torch.randn(2048, 256).to(dtype), torch.randn(256, 256).to(dtype)
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        left @ right
        best = min(best, time.perf_counter() - began)
    return 2 * 2048 * 256 * 256 / best


def one_repeat(seed: int, updates: int, warm_up: int, precision: str) -> dict[str, Any]:
    """Collect and learn `updates` times with a fresh model."""
    peaks = {name: matrix_product_peak(name) for name in ("float32", precision)}
    backend = Serial()
    backend.start(
        Plan(
            game={"name": "connect_four"},
            policies=(PolicyPlan(model=MODEL, seed=seed),),
            seed=seed,
            num_shards=1,
            games_per_shard=NUM_GAMES,
            rollout_steps=NUM_STEPS,
        )
    )
    model = build_model(MODELS.get("mlp"), (2, 6, 7), 7, MODELS.configure(MODEL), seed)
    assert sum(parameter.numel() for parameter in model.parameters()) == NUM_WEIGHTS
    config = ALGORITHMS.configure(
        {"name": "ppo", "epochs": NUM_EPOCHS, "minibatch_size": MINIBATCH, "precision": precision}
    )
    learner = ALGORITHMS.get("ppo")(model, config, LearnerSetup(seed, 1000))
    collecting = learning = 0.0
    load = OtherLoad()
    for update in range(warm_up + updates):
        if update == warm_up:
            collecting = learning = 0.0
            load = OtherLoad()
            backend.report(), learner.take_timings()
        began = time.perf_counter()
        rollouts = backend.collect()
        collected = time.perf_counter()
        learner.update(rollouts)
        backend.publish(learner.weights(), learner.version)
        collecting += collected - began
        learning += time.perf_counter() - collected
    samples = updates * SAMPLES_PER_UPDATE
    return {
        "seed": seed,
        "samples": samples,
        "seconds": collecting + learning,
        "end_to_end": samples / (collecting + learning),
        "collecting": samples / collecting,
        "learning": samples / learning,
        "peaks": {"collecting": peaks["float32"], "learning": peaks[precision]},  # it acts in float32
        "stages": backend.report().timings | learner.take_timings(),
        "other_cores": load.cores(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--updates", type=int, default=8)
    parser.add_argument("--warm-up", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()  # as the trainer does
    repeats = [
        one_repeat(arguments.seed + index, arguments.updates, arguments.warm_up, arguments.precision)
        for index in range(arguments.repeats)
    ]
    print(json.dumps({"candidate": "senju", "settings": vars(arguments), "repeats": repeats}))


if __name__ == "__main__":
    main()
