"""Where the time goes, in words: stages gathered into collecting, learning and the rest."""

from collections.abc import Mapping

GROUPS = {
    "collecting": ("observe", "evaluate", "choose", "step", "restart"),
    "learning": ("advantages", "gather", "forward", "backward", "optimise"),
    "measuring strength": ("match",),
    "saving": ("checkpoint", "metrics", "publish"),
    "starting": ("start",),
}


def share_of_groups(stages: Mapping[str, float]) -> dict[str, float]:
    """Each group's share of the time, largest first.

    >>> share_of_groups({"evaluate": 1.0, "backward": 3.0})
    {'learning': 0.75, 'collecting': 0.25}
    """
    total = sum(stages.values()) or 1.0
    shares = {group: sum(stages.get(name, 0.0) for name in names) / total for group, names in GROUPS.items()}
    known = [name for names in GROUPS.values() for name in names]
    shares["other"] = sum(seconds for name, seconds in stages.items() if name not in known) / total
    return {group: share for group, share in sorted(shares.items(), key=lambda item: -item[1]) if share > 0}


def explain(stages: Mapping[str, float]) -> str:
    """One line that names what bounds the run.

    >>> explain({"evaluate": 1.0, "forward": 1.0, "backward": 2.0})
    'learning-bound 75 % (backward 50 %); collecting 25 %'
    """
    total = sum(stages.values())
    if not total:
        return "nothing timed yet"
    shares = list(share_of_groups(stages).items())
    (group, share), rest = shares[0], shares[1:3]
    names = [name for name in GROUPS.get(group, stages) if name in stages]
    dearest = max(names, key=lambda name: stages[name])
    parts = [f"{group}-bound {share:.0%} ({dearest} {stages[dearest] / total:.0%})"]
    parts += [f"{name} {part:.0%}" for name, part in rest]
    return "; ".join(parts).replace("%", " %")
