"""How much of an epoch's time does `ParallelEnvironment` save in a user's own world?

    python -m benchmarks.own_world

Three agents with networks of about 240,000 weights each, in a world of plain Python; an epoch is four
episodes, and so much training that playing and learning each take about half of the plain loop's time. The
plain loop is what a user writes without senju, with one math thread and with as many as torch takes.
All variants are timed in turn, round by round, with the plain loop before and after each: cores of rented
machines change their speed within seconds, so a variant is compared with the two loops next to it. The
script also measures the load of other programs and uses the rounds with the lowest load. About ten minutes.
"""

import resource
import statistics
import time
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import psutil
import torch
from torch import nn

from benchmarks import bench_report as report
from examples.own_world import MOVES, STATE_SIZE, Meadow, Model
from senju.environments.environment import ParallelEnvironment
from senju.machine import available_cores, math_threads

EPOCHS, COPIES, TURNS, WARM_UP = 20, 4, 100, 3
ROUNDS, MOST_ROUNDS = 9, 14  # rounds that are used, and rounds to choose them from at most
QUIET = 0.04  # share of the machine that other programs may use in a quiet round
VARIANTS: dict[str, dict[str, Any]] = {
    "plain loop": {},
    "plain loop, torch's threads": {},
    "disabled": {"enabled": False},
    "threads, async": {"use_threads": True, "async_learning": True},
    "processes": {},
    "processes, async": {"async_learning": True},
}
PLAIN = "plain loop"


class Timed(NamedTuple):
    """A variant in one round."""

    seconds: float  # an epoch, after warming up
    plain: float  # an epoch of the plain loops before and after it
    after: float  # an epoch of the plain loop after it
    others: float  # share of the machine that other programs had meanwhile


class Memory:
    """A replay memory made of arrays."""

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
        """Act mostly by the network."""
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


def seconds_of(variant: str, train_steps: int) -> list[float]:
    """Seconds of each epoch after warming up."""
    if variant == PLAIN:
        return plain_loop(train_steps)[0][WARM_UP:]
    if variant.startswith(PLAIN):
        with math_threads(available_cores()):
            return plain_loop(train_steps)[0][WARM_UP:]
    env = ParallelEnvironment(LargeMeadow, config_of(train_steps, **VARIANTS[variant]))
    return [epoch.seconds for epoch in env.run_experiment_parallel().epochs[WARM_UP:]]


def timed(variant: str, train_steps: int, plain: float) -> Timed:
    """Time a variant between two plain loops, by the mean of its epochs, since some variants overlap them."""
    clocks = time.perf_counter(), _busy_seconds(), _own_seconds()
    seconds = statistics.mean(seconds_of(variant, train_steps))
    passed, busy, own = (
        time.perf_counter() - clocks[0],
        _busy_seconds() - clocks[1],
        _own_seconds() - clocks[2],
    )
    others = max(0.0, busy - own) / passed / (psutil.cpu_count() or 1)
    after = statistics.mean(seconds_of(PLAIN, train_steps))
    return Timed(seconds, (plain + after) / 2, after, others)


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))


def _own_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def quiet_rounds(train_steps: int) -> list[dict[str, Timed]]:
    """Measure rounds of all variants until enough are quiet; return the quietest."""
    rounds: list[dict[str, Timed]] = []
    while len(rounds) < MOST_ROUNDS and sum(noise(done) < QUIET for done in rounds) < ROUNDS:
        rounds.append(one_round(train_steps))
        report.progress(
            f"round {len(rounds)}: other programs used up to {noise(rounds[-1]):.0%} of the machine"
        )
    return sorted(rounds, key=noise)[:ROUNDS]


def one_round(train_steps: int) -> dict[str, Timed]:
    """Every variant once."""
    found: dict[str, Timed] = {}
    plain = statistics.mean(seconds_of(PLAIN, train_steps))
    for variant in VARIANTS:
        found[variant] = timed(variant, train_steps, plain)
        plain = found[variant].after
    return found


def noise(variants: dict[str, Timed]) -> float:
    """The largest share of the machine that other programs used."""
    return max(variant.others for variant in variants.values())


def main() -> None:
    facts = report.run_facts(["numpy", "torch"])
    with math_threads(1):
        train_steps = balanced_train_steps()
        share = plain_loop(train_steps)[1]
        rounds = quiet_rounds(train_steps)
    seconds = {variant: [variants[variant].seconds for variants in rounds] for variant in VARIANTS}
    ratios = {
        variant: report.ratio_spread(seconds[variant], [variants[variant].plain for variants in rounds])
        for variant in VARIANTS
    }
    rows = [
        [
            variant,
            report.spread(times).as_text(),
            ratios[variant].as_text(),
            f"{1 - ratios[variant].median:.0%}",
            f"{COPIES * TURNS / statistics.median(times):,.0f}",
        ]
        for variant, times in seconds.items()
    ]
    noises = [round(noise(variants), 3) for variants in rounds]
    title = (
        f"3 agents, {COPIES} copies, {train_steps} training steps; learning is {share:.0%} of the plain "
        f"loop; other programs used up to {max(noises):.0%} of the machine"
    )
    report.print_table(title, ["variant", "s/epoch", "to the plain loop", "less time", "turns/s"], rows)
    results = {
        "train_steps": train_steps,
        "learning_share": share,
        "share_of_others": noises,
        "seconds": seconds,
        "ratios": {variant: ratio._asdict() for variant, ratio in ratios.items()},
    }
    report.write_results("own_world", facts | results)


if __name__ == "__main__":
    main()
