"""How much does each choice speed up learning alone?

    .venv/bin/python benchmarks/learning_choices.py

The same batch of Connect Four rollouts (64 games, 128 steps) is learned from with an MLP 2×256, 4
epochs, minibatches of 2048, one choice added at a time. Choices take turns in one process: first those
that leave freed memory to the system, then those that keep it.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import bench_report as report
import numpy as np
import torch

from senju.algorithms.learner import LearnerSetup
from senju.algorithms.networks import SingleNetwork
from senju.algorithms.ppo import PPO, PPOConfig
from senju.algorithms.ppo_loss import Coefficients, LossFunction, Minibatch, compiled_loss, reference_loss
from senju.backends.plan import Plan, PolicyPlan
from senju.backends.serial import Serial
from senju.collect.slots import Rollout
from senju.kernels import pack_legal
from senju.machine import available_cores
from senju.memory import keep_freed_memory
from senju.models import MODELS, build_model

MODEL = {"name": "mlp", "hidden": [256, 256]}
SAMPLES = 64 * 128


def make_learner(precision: str, is_fused: bool, is_compiled: bool) -> PPO:
    """PPO as shipped, or with a choice undone."""
    model = build_model(MODELS.get("mlp"), (2, 6, 7), 7, MODELS.configure(MODEL), 0)
    learner = PPO(model, PPOConfig(precision=precision), LearnerSetup(0, 1000))
    if not is_fused:
        learner.optimizer = torch.optim.Adam(model.parameters(), eps=1e-5, foreach=True)
        learner.networks = (SingleNetwork(model, learner.optimizer),)
    if not is_compiled:
        learner.loss = reference_loss
    return learner


Choices = dict[str, tuple[int, PPO]]  # threads and learner of each line of the table


def choices_before(cores: int) -> Choices:
    """Choices that are compared while freed memory goes back to the system."""
    return {
        "one thread, plain": (1, make_learner("float32", is_fused=False, is_compiled=False)),
        f"+ {cores} threads": (cores, make_learner("float32", is_fused=False, is_compiled=False)),
        "+ fused optimizer": (cores, make_learner("float32", is_fused=True, is_compiled=False)),
        "+ compiled loss": (cores, make_learner("float32", is_fused=True, is_compiled=True)),
    }


def choices_after(cores: int) -> Choices:
    """Choices that are compared once freed memory is kept, which cannot be undone in a process."""
    return {
        "+ freed memory kept (float32, as shipped)": (cores, make_learner("float32", True, True)),
        "+ bfloat16": (cores, make_learner("bfloat16", True, True)),
    }


def measure(learners: Choices, rollouts: list[Rollout], repeats: int) -> dict[str, list[float]]:
    """Samples a second of each choice, all taking turns; the first two rounds warm up."""
    rates: dict[str, list[float]] = {name: [] for name in learners}
    for repeat in range(-2, repeats):
        for name, (threads, learner) in learners.items():
            torch.set_num_threads(threads)
            rate = SAMPLES / seconds(partial(learner.update, rollouts))
            if repeat >= 0:
                rates[name].append(rate)
    return rates


def loss_milliseconds(num_actions: int, num_legal: int, repeats: int) -> dict[str, list[float]]:
    """The loss and its gradient alone, for a minibatch of 2048."""
    generator = np.random.default_rng(0)
    legal = np.zeros((2048, num_actions), np.bool_)
    for row in legal:
        row[generator.choice(num_actions, num_legal, replace=False)] = True
    columns = [
        torch.zeros(2048),
        torch.from_numpy(pack_legal(legal).view(np.int64)),
        torch.from_numpy(legal.argmax(axis=1).astype(np.int32)),
        torch.full((2048,), -float(np.log(num_legal))),
        torch.randn(2048),
        torch.randn(2048),
    ]
    batch, coefficients = Minibatch(*columns), Coefficients(0.2, 1.0, 0.01)
    times: dict[str, list[float]] = {"PyTorch": [], "compiled": []}
    for repeat in range(-2, repeats):
        for name, loss in zip(times, (reference_loss, compiled_loss), strict=True):
            logits = torch.zeros(2048, num_actions, requires_grad=True)
            values = torch.zeros(2048, requires_grad=True)
            taken = 1e3 * seconds(partial(backward, loss, logits, values, batch, coefficients))
            if repeat >= 0:
                times[name].append(taken)
    return times


def backward(loss: LossFunction, *problem: Any) -> None:
    """Compute the loss, and send the gradient back."""
    loss(*problem).backward()


def seconds(work: Callable[[], object]) -> float:
    """The time some work takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def collect() -> list[Rollout]:
    """One batch of real rollouts."""
    backend = Serial()
    backend.start(
        Plan(
            game={"name": "connect_four"},
            policies=(PolicyPlan(model=MODEL),),
            seed=0,
            num_shards=1,
            games_per_shard=64,
            rollout_steps=128,
        )
    )
    return backend.collect()


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    settings = parser.parse_args()
    facts = report.run_facts(["torch", "numba", "numpy"])
    rollouts = collect()
    cores = available_cores()
    rates = measure(choices_before(cores), rollouts, settings.repeats)
    keep_freed_memory()
    rates |= measure(choices_after(cores), rollouts, settings.repeats)
    first = next(iter(rates))
    rows = [
        [name, report.spread(of).as_text(), report.ratio_spread(of, rates[first]).as_text()]
        for name, of in rates.items()
    ]
    report.print_table("Learning alone, samples a second: median (min..max)", ["", "rate", "÷ first"], rows)
    sizes = {"7 actions, 7 legal": (7, 7), "2,187 actions, 80 legal": (2187, 80)}
    losses = {name: loss_milliseconds(*size, settings.repeats) for name, size in sizes.items()}
    print()
    report.print_table(
        "The loss and its gradient alone, milliseconds for 2048 decisions: median (min..max)",
        ["", "PyTorch", "compiled"],
        [[name, *(report.spread(of).as_text() for of in times.values())] for name, times in losses.items()],
    )
    results = {"settings": vars(settings), "rates": rates, "loss_milliseconds": losses}
    report.write_results("learning_choices", facts | results)


if __name__ == "__main__":
    main()
