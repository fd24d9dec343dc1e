"""Where the time goes: stages in groups, what bounds a run, and what would make it faster."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

COLLECTING, WAITING, LEARNING = "collecting", "waiting for workers", "learning"
MEASURING, SAVING, STARTING = "measuring strength", "saving", "starting"
GROUPS = {
    COLLECTING: ("observe", "evaluate", "choose", "opponents", "step", "restart"),
    WAITING: ("waiting",),  # workers stood idle while others of the same collection still played
    LEARNING: (
        "advantages",
        "gather",
        "store",
        "sample",
        "targets",
        "forward",
        "backward",
        "optimise",
        "priorities",
    ),
    MEASURING: ("match",),
    SAVING: ("checkpoint", "metrics", "publish"),
    STARTING: ("start",),
}
KNOWN_STAGES = {name for names in GROUPS.values() for name in names}
MUCH_IDLE = 0.2  # of collecting; some waiting is normal, since no two rollouts take equally long
WORTHWHILE = 0.1  # of the whole time; less is not worth advice


class Setting(NamedTuple):
    """The set-up of a run, as far as advice depends on it."""

    backend: str
    num_workers: int
    cores: int
    num_shards: int
    device: str
    mode: str  # sync or async
    is_replaying: bool = False  # whether the learner itself sets how much it learns from each decision

    @property
    def useful_workers(self) -> int:
        """The fewest workers that are as fast as the cores and the shards allow.

        In sync mode the shards are played in rounds, and only a worker that saves a round helps.

        >>> Setting("processes", 2, cores=6, num_shards=8, device="cpu", mode="sync").useful_workers
        4
        """
        most = min(self.cores, self.num_shards)
        if self.mode == "async":
            return most
        rounds = math.ceil(self.num_shards / most)
        return math.ceil(self.num_shards / rounds)


def share_of_groups(stages: Mapping[str, float]) -> dict[str, float]:
    """Each group's share of the time, largest first.

    >>> share_of_groups({"evaluate": 1.0, "backward": 3.0})
    {'learning': 0.75, 'collecting': 0.25}
    """
    total = sum(stages.values()) or 1.0
    shares = {group: sum(stages.get(name, 0.0) for name in names) / total for group, names in GROUPS.items()}
    shares["other"] = sum(seconds for name, seconds in stages.items() if name not in KNOWN_STAGES) / total
    return {group: share for group, share in sorted(shares.items(), key=lambda item: -item[1]) if share > 0}


def explain(stages: Mapping[str, float], *, setting: Setting | None = None) -> str:
    """One line that names what bounds the run and, if its setting is given, what would help.

    >>> stages = {"evaluate": 1.0, "forward": 1.0, "backward": 2.0}
    >>> explain(stages)
    'learning-bound 75 % (backward 50 %); collecting 25 %'
    >>> explain(stages, setting=Setting("processes", 2, cores=8, num_shards=8, device="cuda", mode="sync"))
    'learning-bound 75 % (backward 50 %): collect.mode=async would let games go on meanwhile; collecting 25 %'
    """
    total = sum(stages.values())
    if not total:
        return "nothing timed yet"
    shares = dict(list(share_of_groups(stages).items())[:3])
    parts = {group: f"{group} {_percent(share)}" for group, share in shares.items()}
    first = next(iter(shares))
    if first == WAITING:
        parts[first] = f"waiting-bound {_percent(shares[first])}"
    else:
        slowest = _slowest(first, stages)
        detail = f"{slowest} {_percent(stages[slowest] / total)}"
        parts[first] = f"{first}-bound {_percent(shares[first])} ({detail})"
    if setting:
        advised = _advised_group(shares)
        parts[advised] += _advice(advised, stages, shares, setting)
    return "; ".join(parts.values())


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _slowest(group: str, stages: Mapping[str, float]) -> str:
    """The stage of a group that takes the longest; empty where none was timed."""
    names = GROUPS.get(group) or [name for name in stages if name not in KNOWN_STAGES]
    return max((name for name in names if name in stages), key=lambda name: stages[name], default="")


@dataclass(frozen=True)
class _Situation:
    """The facts that decide which rule applies."""

    setting: Setting
    shares: Mapping[str, float]
    slowest: str  # stage of the group the advice is for

    @property
    def collecting(self) -> float:
        return self.shares.get(COLLECTING, 0.0) + self.shares.get(WAITING, 0.0)

    @property
    def is_much_idle(self) -> bool:
        return self.shares.get(WAITING, 0.0) > MUCH_IDLE * self.collecting

    @property
    def needs_workers(self) -> bool:
        return self.setting.useful_workers > self.setting.num_workers

    @property
    def could_overlap(self) -> bool:
        """Whether collecting and learning wait for each other though each has a device of its own."""
        one, other = self.collecting, self.shares.get(LEARNING, 0.0)
        is_sync = self.setting.mode == "sync" or self.setting.backend == "serial"
        return is_sync and self.setting.device != "cpu" and min(one, other) >= WORTHWHILE

    @property
    def divides_evenly(self) -> bool:
        return self.setting.num_shards % max(self.setting.num_workers, 1) == 0


Rule = tuple[Callable[[_Situation], bool], str]  # when it applies, and what to advise

# For each group, the first rule that applies counts; braces stand for fields of the setting.
RULES: dict[str, tuple[Rule, ...]] = {
    COLLECTING: (
        # fewer workers than would help
        (
            lambda now: now.setting.backend == "serial" and now.needs_workers,
            "--workers {useful_workers} would help (one worker on {cores} cores, {num_shards} shards)",
        ),
        (
            lambda now: now.needs_workers,
            "more workers would help: --workers {useful_workers} "
            "({num_workers} of {cores} cores in use, {num_shards} shards)",
        ),
        # more workers than cores, or too few shards for the cores
        (
            lambda now: now.setting.num_workers > now.setting.cores,
            "{num_workers} workers take turns on {cores} cores: --workers {useful_workers} would do",
        ),
        (
            lambda now: min(now.setting.num_workers, now.setting.num_shards) < now.setting.cores,
            "more shards would help: a multiple of {cores} keeps all {cores} cores busy, now {num_shards} "
            "(collect.num_games / collect.games_per_shard)",
        ),
        # one worker per core, and yet they stand idle
        (
            lambda now: now.is_much_idle and not now.divides_evenly,
            "use a number of shards that is a multiple of the workers "
            "({num_shards} shards, {num_workers} workers)",
        ),
        (
            lambda now: now.is_much_idle,
            "workers were replaced, paused or slowed down: the timeline shows when",
        ),
        # every core is busy
        (
            lambda now: now.could_overlap and now.setting.backend != "serial",
            "every core is in use, but collect.mode=async would let games go on while the learner learns",
        ),
        (
            lambda now: now.slowest == "evaluate",
            "every core is in use, but a smaller network or larger shards "
            "(collect.games_per_shard) would help",
        ),
        (
            lambda now: True,
            "every core is in use and the game itself is slow: only a faster game or more cores would help",
        ),
    ),
    LEARNING: (
        # the learner has a device of its own, and one waits for the other
        (
            lambda now: now.could_overlap and now.setting.backend == "serial",
            "--workers {useful_workers} with collect.mode=async would let games go on meanwhile",
        ),
        (lambda now: now.could_overlap, "collect.mode=async would let games go on meanwhile"),
        # learning itself
        (
            lambda now: now.setting.is_replaying,
            "more workers will not help, but a smaller network or learning less from each decision "
            "(algorithm.replay_ratio or algorithm.steps_per_batch) would",
        ),
        (
            lambda now: now.needs_workers and now.collecting >= WORTHWHILE,
            "--workers {useful_workers} would shorten collecting, "
            "a smaller network or algorithm.precision=bfloat16 learning",
        ),
        (
            lambda now: now.setting.device == "cpu",
            "more workers will not help, but a smaller network, algorithm.precision=bfloat16 or a GPU might",
        ),
        (
            lambda now: True,
            "more workers will not help, but a smaller network, algorithm.precision=bfloat16 "
            "or a larger algorithm.minibatch_size might",
        ),
    ),
    # what is done at intervals, or once
    MEASURING: ((lambda now: True, "a larger evaluation.interval or fewer evaluation.games would help"),),
    SAVING: (
        (lambda now: now.slowest == "checkpoint", "a larger checkpoint.interval would help"),
        (lambda now: True, "longer rollouts (collect.rollout_steps) would do it less often"),
    ),
    STARTING: ((lambda now: True, "paid once, a longer run makes up for it"),),
}


def _advised_group(shares: Mapping[str, float]) -> str:
    """The largest group, where collecting and waiting for it count as one."""
    first = next(iter(shares))
    collecting, waiting = shares.get(COLLECTING, 0.0), shares.get(WAITING, 0.0)
    if first not in (COLLECTING, WAITING) and collecting + waiting > shares[first]:
        return COLLECTING if collecting >= waiting else WAITING
    return first


def _advice(advised: str, stages: Mapping[str, float], shares: Mapping[str, float], setting: Setting) -> str:
    """The text to add to a group's part of the line; empty where no rule applies."""
    group = COLLECTING if advised == WAITING else advised
    now = _Situation(setting, shares, _slowest(group, stages))
    facts = {**setting._asdict(), "useful_workers": setting.useful_workers}
    advice = (advice for applies, advice in RULES.get(group, ()) if applies(now))
    return next((f": {text.format(**facts)}" for text in advice), "")
