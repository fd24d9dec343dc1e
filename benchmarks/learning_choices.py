"""What does each choice give to the speed of learning alone?

    .venv/bin/python benchmarks/learning_choices.py

The same batch of Connect Four rollouts (64 games, 128 steps) is learned from with an MLP 2×256, 4
epochs, minibatches of 2048, one choice added at a time. All choices take turns in one process.
"""

import argparse
import time
from collections.abc import Callable

import bench_report as report
import torch

from senju.algorithms.learner import LearnerSetup
from senju.algorithms.ppo import PPO, PPOConfig
from senju.algorithms.ppo_loss import backward_reference
from senju.backends.backend import Plan
from senju.backends.serial import Serial
from senju.collect.slots import Rollout
from senju.models import MODELS, build_model

MODEL = {"name": "mlp", "hidden": [256, 256]}
SAMPLES = 64 * 128


def make_learner(precision: str, is_fused: bool, is_compiled: bool) -> PPO:
    """PPO as shipped, or with a choice undone."""
    model = build_model(MODELS.get("mlp"), (2, 6, 7), 7, MODELS.configure(MODEL), 0)
    learner = PPO(model, PPOConfig(precision=precision), LearnerSetup(0, 1000))
    if not is_fused:
        learner._optimizer = torch.optim.Adam(model.parameters(), eps=1e-5, foreach=True)
    if not is_compiled:
        learner._backward = backward_reference
    return learner


def choices(cores: int) -> dict[str, tuple[int, PPO]]:
    """Threads and learner of each line of the table."""
    return {
        "one thread, plain": (1, make_learner("float32", is_fused=False, is_compiled=False)),
        f"+ {cores} threads": (cores, make_learner("float32", is_fused=False, is_compiled=False)),
        "+ fused optimizer": (cores, make_learner("float32", is_fused=True, is_compiled=False)),
        "+ compiled loss (float32, as shipped)": (cores, make_learner("float32", True, True)),
        "+ bfloat16": (cores, make_learner("bfloat16", True, True)),
    }


def seconds(work: Callable[[], object]) -> float:
    """The time some work takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def collect() -> list[Rollout]:
    """One batch of real rollouts."""
    backend = Serial()
    backend.start(Plan({"name": "connect_four"}, MODEL, 0, 1, 64, 128))
    return backend.collect()


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    settings = parser.parse_args()
    facts = report.run_facts(["torch", "numba", "numpy"])
    rollouts = collect()
    learners = choices(report.num_usable_cores())
    rates: dict[str, list[float]] = {name: [] for name in learners}
    for repeat in range(-2, settings.repeats):
        for name, (threads, learner) in learners.items():
            torch.set_num_threads(threads)
            rate = SAMPLES / seconds(lambda learner=learner: learner.update(rollouts))  # type: ignore[misc]  # a lambda's default
            if repeat >= 0:  # the first two rounds warm up
                rates[name].append(rate)
    first = next(iter(rates))
    rows = [
        [name, report.spread(of).as_text(), report.ratio_spread(of, rates[first]).as_text()]
        for name, of in rates.items()
    ]
    report.print_table("Learning alone, samples a second: median (min..max)", ["", "rate", "÷ first"], rows)
    report.write_results("learning_choices", facts | {"settings": vars(settings), "rates": rates})


if __name__ == "__main__":
    main()
