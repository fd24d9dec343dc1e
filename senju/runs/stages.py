"""Where the time goes: stages in groups, what bounds a run, and what would make it faster."""

import math
from collections.abc import Mapping
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
    splits_rollouts: bool = False  # whether several workers may share the last rollouts of a turn
    is_replaying: bool = False  # whether the learner itself sets how much it learns from each decision
    is_on_device: bool = False  # whether the learner's device also evaluates while games are played

    @property
    def useful_workers(self) -> int:
        """The fewest workers that are as fast as the cores and the shards allow.

        In sync mode, whole rollouts are played in rounds, and only a worker that saves a round helps.

        >>> setting = Setting("processes", 2, cores=6, num_shards=8, device="cpu", mode="sync")
        >>> setting.useful_workers, setting._replace(splits_rollouts=True).useful_workers
        (4, 6)
        """
        most = min(self.cores, self.num_shards)
        if self.mode == "async" or self.splits_rollouts:
            return most
        rounds = math.ceil(self.num_shards / most)
        return math.ceil(self.num_shards / rounds)

    @property
    def needs_workers(self) -> bool:
        """Whether more workers would be faster."""
        return self.useful_workers > self.num_workers


def share_of_groups(stages: Mapping[str, float]) -> dict[str, float]:
    """Each group's share of the time, largest first.

    >>> share_of_groups({"evaluate": 1.0, "backward": 3.0})
    {'learning': 0.75, 'collecting': 0.25}
    """
    total = sum(stages.values()) or 1.0
    shares = {group: sum(stages.get(name, 0.0) for name in names) / total for group, names in GROUPS.items()}
    shares["other"] = sum(seconds for name, seconds in stages.items() if name not in KNOWN_STAGES) / total
    return {group: share for group, share in sorted(shares.items(), key=lambda item: -item[1]) if share > 0}


def explain(
    stages: Mapping[str, float], *, setting: Setting | None = None, gpu_busy: float | None = None
) -> str:
    """One line that names what bounds the run and, if its setting is given, what would help.

    It ends with the share of the time in which the GPU was busy, if that was measured.

    >>> stages = {"evaluate": 1.0, "forward": 1.0, "backward": 2.0}
    >>> explain(stages, gpu_busy=0.92)
    'learning-bound 75 % (backward 50 %); collecting 25 %; the GPU was busy 92 %'
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
        advice = _advice(advised, stages, shares, setting)
        parts[advised] += f": {advice}" if advice else ""
    gpu = [] if gpu_busy is None else [f"the GPU was busy {_percent(gpu_busy)}"]
    return "; ".join([*parts.values(), *gpu])


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _slowest(group: str, stages: Mapping[str, float]) -> str:
    """The stage of a group that takes the longest; empty where none was timed."""
    names = GROUPS.get(group) or [name for name in stages if name not in KNOWN_STAGES]
    return max((name for name in names if name in stages), key=lambda name: stages[name], default="")


def _advised_group(shares: Mapping[str, float]) -> str:
    """The largest group, where collecting and waiting for it count as one."""
    first = next(iter(shares))
    collecting, waiting = shares.get(COLLECTING, 0.0), shares.get(WAITING, 0.0)
    if first not in (COLLECTING, WAITING) and collecting + waiting > shares[first]:
        return COLLECTING if collecting >= waiting else WAITING
    return first


def _advice(group: str, stages: Mapping[str, float], shares: Mapping[str, float], setting: Setting) -> str:
    """What would make the stages of a group shorter; empty where nothing is known to."""
    slowest, waiting = _slowest(group, stages), shares.get(WAITING, 0.0)
    collecting = shares.get(COLLECTING, 0.0) + waiting
    # workers and learner wait for each other, though each has its own device
    is_sync = setting.mode == "sync" or setting.backend == "serial"
    is_worthwhile = min(collecting, shares.get(LEARNING, 0.0)) >= WORTHWHILE
    could_overlap = is_sync and setting.device != "cpu" and is_worthwhile
    if setting.is_on_device and group in (COLLECTING, WAITING, LEARNING):
        return _advice_on_device(group, slowest, setting)
    if group in (COLLECTING, WAITING):
        return _advice_on_collecting(setting, waiting > MUCH_IDLE * collecting, could_overlap, slowest)
    if group == LEARNING:
        return _advice_on_learning(setting, collecting >= WORTHWHILE, could_overlap)
    if group == MEASURING:
        return "a larger evaluation.interval or fewer evaluation.games would help"
    if group == SAVING and slowest == "checkpoint":
        return "a larger checkpoint.interval would help"
    if group == SAVING:
        return "longer rollouts (a larger collect.rollout_steps) would publish and write metrics less often"
    return "a run starts only once, so its share falls in a longer run" if group == STARTING else ""


def _advice_on_device(group: str, slowest: str, setting: Setting) -> str:
    """Advice for a device that evaluates and learns: the two never overlap with gain, since it does both."""
    where = "the GPU" if setting.device != "cpu" else "the device"
    if group == LEARNING:
        return f"{where} learns: a smaller network, fewer epochs or larger minibatches would help"
    if slowest == "evaluate":
        return f"{where} evaluates: a smaller network would help"
    if setting.needs_workers:
        return f"stepping the games is the limit: --workers {setting.useful_workers} would help"
    return "stepping the games is the limit: a faster game or more cores would help"


def _advice_on_collecting(setting: Setting, is_much_idle: bool, could_overlap: bool, slowest: str) -> str:
    cores, num_workers, num_shards = setting.cores, setting.num_workers, setting.num_shards
    useful = f"--workers {setting.useful_workers}"
    if setting.needs_workers and setting.backend == "serial":
        return f"{useful} would help (one worker on {cores} cores, {num_shards} shards)"
    if setting.needs_workers:
        in_use = f"{num_workers} of {cores} cores in use, {num_shards} shards"
        return f"more workers would help: {useful} ({in_use})"
    if num_workers > cores:
        return f"{num_workers} workers take turns on {cores} cores: {useful} is enough"
    if min(num_workers, num_shards) < cores:
        return (
            f"more shards would help: a multiple of {cores} keeps all {cores} cores busy, now {num_shards} "
            "(collect.num_games / collect.games_per_shard)"
        )
    # from here on, there is a worker for every core
    if is_much_idle and num_shards % max(num_workers, 1):
        counts = f"{num_shards} shards, {num_workers} workers"
        return f"use a number of shards that is a multiple of the workers ({counts})"
    if is_much_idle:
        return "workers were replaced, paused or slowed down: the timeline shows when"
    if could_overlap and setting.backend != "serial":
        return "every core is in use, but collect.mode=async would let games go on while the learner learns"
    if slowest == "evaluate":
        smaller = "a smaller network or larger shards (collect.games_per_shard)"
        return f"every core is in use, but {smaller} would help"
    return "every core is in use and the game itself is slow: only a faster game or more cores would help"


def _advice_on_learning(setting: Setting, is_collecting_long: bool, could_overlap: bool) -> str:
    useful, faster = f"--workers {setting.useful_workers}", "a smaller network, algorithm.precision=bfloat16"
    if could_overlap and setting.backend == "serial":
        return f"{useful} with collect.mode=async would let games go on meanwhile"
    if could_overlap:
        return "collect.mode=async would let games go on meanwhile"
    if setting.is_replaying:
        return (
            "more workers will not help, but a smaller network or learning less from each decision "
            "(algorithm.replay_ratio or algorithm.steps_per_batch) would"
        )
    if setting.needs_workers and is_collecting_long:
        return (
            f"{useful} would shorten collecting, a smaller network or algorithm.precision=bfloat16 learning"
        )
    if setting.device == "cpu":
        return f"more workers will not help, but {faster} or a GPU might"
    return f"more workers will not help, but {faster} or a larger algorithm.minibatch_size might"
