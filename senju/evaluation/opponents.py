"""Opponents by description: built-in players, a user's functions and classes, agents of runs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from senju.config import Settings, merged
from senju.errors import ConfigError, RunFolderError
from senju.games.game import Game
from senju.models.weights import WeightBlock, Weights
from senju.opponents.functions import described_player
from senju.opponents.opponent_players import OpponentSpec
from senju.opponents.players import Player, is_built_in
from senju.runs.agent import Agent
from senju.runs.checkpoint import update_of
from senju.runs.run import Run

POOL = "pool"  # in settings: snapshots of the learner's own past
PAST_SELVES = 6  # number of past versions of a run, by default


def make_player(game: Game, description: str, temperature: float = 0.0) -> Player:
    """The player that `description` names; ConfigError lists the known descriptions."""
    agent = find_agent(game, description)
    return described_player(game, description) if agent is None else agent.player(temperature)


def make_players(game: Game, descriptions: Sequence[str], temperature: float = 0.0) -> list[Player]:
    """The players of these descriptions; equal names become different by their folders' names before them."""
    players = [make_player(game, description, temperature) for description in descriptions]
    paths = [_folder(player.name, each) for player, each in zip(players, descriptions, strict=True)]
    for depth in range(2, 1 + max((len(path.parts) for path in paths), default=0)):
        names = [player.name for player in players]
        for player, path in zip(players, paths, strict=True):
            if names.count(player.name) > 1:
                player.name = "/".join(path.parts[-depth:])
    return players


def _folder(name: str, description: str) -> Path:
    run = run_of(description)
    return Path(description) if run is None else run.path.with_name(name)


def find_agent(game: Game, description: str) -> Agent | None:
    """The agent of `RUN` or `RUN@UPDATE`; None for any other description."""
    folder, checkpoint = _find_run(description)
    if folder is None:
        return None
    run = Run(folder)
    if type(run.game) is not type(game) or run.game.config != game.config:
        theirs = run.config.game if run.game.name == game.name else run.game.name
        raise RunFolderError(f"{run.path} is a run of {theirs}, not of {game.name} as set here")
    return run.agent_at(checkpoint)


def with_full_path(description: str) -> str:
    """The description with a run's full path, which does not depend on the current folder."""
    folder, checkpoint = _find_run(description)
    if folder is None:
        return description
    return str(folder.resolve()) if checkpoint is None else f"{folder.resolve()}@{checkpoint}"


def with_update(description: str) -> str:
    """The description with the update of a run's newest agent, so that it keeps naming this agent."""
    folder, checkpoint = _find_run(description)
    if folder is None:
        return description
    name = checkpoint if checkpoint is not None else Run(folder).checkpoints.latest().name
    number = name.removeprefix("update_")
    return f"{folder}@{int(number) if number.isdecimal() else name}"


def run_of(description: str) -> Run | None:
    """The run in `RUN` or `RUN@UPDATE`; None for any other description."""
    folder, _ = _find_run(description)
    return None if folder is None else Run(folder)


def past_selves(run: Run, at_most: int = PAST_SELVES) -> list[str]:
    """Older agents of a run as `RUN@UPDATE`, oldest first; if there are many, a few spread over time."""
    newest = update_of(run.checkpoints.latest())
    updates = {*map(update_of, run.checkpoints.all()), *run.snapshots} - {newest}
    return [f"{run.path}@{update}" for update in spread(sorted(updates), newest, at_most)]


def spread(updates: list[int], newest: int, at_most: int) -> list[int]:
    """At most `at_most` of these updates: the oldest, then about even steps towards the newest.

    >>> spread([10, 20, 30, 40, 50, 60, 70, 80], 90, 4)
    [10, 30, 50, 70]
    """
    left = sorted(updates)
    if len(left) <= at_most:
        return left
    chosen = []
    oldest = left[0]
    for step in range(at_most):
        wanted = oldest + step * (newest - oldest) / at_most
        nearest = min(left, key=lambda update: abs(update - wanted))
        left.remove(nearest)
        chosen.append(nearest)
    return sorted(chosen)


def _find_run(description: str) -> tuple[Path | None, str | None]:
    """The folder and the update in `RUN` or `RUN@UPDATE`; None for what is missing."""
    if is_built_in(description):
        return None, None
    if Path(description).is_dir():  # first, since a folder's name may have an @ in it
        return Path(description), None
    folder, at, update = description.rpartition("@")
    return (Path(folder), update) if at and Path(folder).is_dir() else (None, None)


class FixedOpponent(NamedTuple):
    """An opponent's description for workers, and its weights if it has a network."""

    spec: OpponentSpec
    weights: Weights | None = None


def load_fixed(game: Game, descriptions: Sequence[str]) -> list[FixedOpponent]:
    """Load the opponents as they are now; later training of their runs does not change them."""
    fixed = []
    for description in descriptions:
        agent = find_agent(game, description)
        if agent is None:
            described_player(game, description)  # raises an error if workers could not make it
            fixed.append(FixedOpponent(OpponentSpec(description)))
        else:
            spec = OpponentSpec(description, agent.settings, agent.acting)
            fixed.append(FixedOpponent(spec, WeightBlock(agent.model).read()))
    return fixed


def specs_as_dicts(fixed: Sequence[FixedOpponent]) -> list[dict[str, object]]:
    """The specs as plain dictionaries, for JSON."""
    return [asdict(each.spec) | {"acting": each.spec.acting._asdict()} for each in fixed]


def opponents_settings(given: Any) -> Settings:
    """The settings that a text with commas, a function or a list of both stands for.

    Without `pool`, the learner takes no snapshots and does not play against itself.

    >>> opponents_settings("pool, minimax:2")
    {'collect': {'seating': 'opponents'}, 'opponents': {'fixed': ['minimax:2']}}
    """
    listed = given if isinstance(given, Iterable) and not isinstance(given, str | type) else [given]
    names = [name.strip() for each in listed for name in _described(each).split(",")]
    expected = "expected pool, random, minimax:2 and the like, separated by commas"
    if not any(names):
        raise ConfigError(f"opponents={given!r} names no opponent; {expected}")
    if not all(names):
        raise ConfigError(f"opponents={given!r}: number {names.index('') + 1} is empty; {expected}")
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"opponents={given!r}: {name!r} is listed twice; name each only once")
    chosen: Settings = {"fixed": [name for name in names if name != POOL]}
    if POOL not in names:
        chosen |= {"snapshot_interval": 0, "self_share": 0.0}
    return {"collect": {"seating": "opponents"}, "opponents": chosen}


def with_opponents(settings: Settings) -> Settings:
    """The same settings; opponents in short form are replaced by the settings they stand for.

    An explicit `collect.seating` wins, unless the opponents would never play.
    """
    given = settings.get("opponents")
    if given is None or isinstance(given, Mapping):
        return settings
    rest = {part: value for part, value in settings.items() if part != "opponents"}
    whole = merged(opponents_settings(given), rest)
    collect = whole["collect"] if isinstance(whole["collect"], dict) else {}
    if collect.get("seating") in ("self_play", "independent") and not whole["opponents"]["fixed"]:
        raise ConfigError(
            f"opponents={given!r} is for collect.seating=opponents, and collect.seating is "
            f"{collect['seating']}; leave one of them out"
        )
    return whole


def _described(opponent: Any) -> str:
    if isinstance(opponent, str):
        return opponent
    if not callable(opponent):
        raise ConfigError(f"opponent {opponent!r} is neither a name nor a function")
    name = getattr(opponent, "__qualname__", repr(opponent))  # a partial function has none
    if not name.isidentifier():
        raise ConfigError(
            f"opponent {name} cannot be imported by other processes; define it at the top of a module"
        )
    return f"{opponent.__module__}:{name}"
