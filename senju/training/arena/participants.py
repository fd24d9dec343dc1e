"""Who takes part: named so that a log tells them apart, and noticed when they change."""

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from senju.errors import ConfigError
from senju.games.game import Game
from senju.opponents.functions import FunctionPlayer
from senju.opponents.players import AgentPlayer, Player
from senju.training.opponents import make_player, run_of, with_full_path, with_update


@dataclass(frozen=True)
class Participant:
    """A player of the arena."""

    name: str  # for people, and what seeds are made from: no folder's path is in it
    description: str  # what `make_player` takes, here and in any other process
    fingerprint: str  # of its weights or of its code; empty where it comes with senju


def find_participants(game: Game, descriptions: Sequence[str]) -> list[Participant]:
    """The participants in the order given; runs are pinned to the update they are at now."""
    if len(descriptions) < 2:
        given = f"only {descriptions[0]!r}" if descriptions else "nobody"
        raise ConfigError(f"an arena needs two participants or more; there is {given}")
    full = [with_full_path(with_update(description)) for description in descriptions]
    for place, description in enumerate(full):
        earlier = full.index(description)
        if earlier < place:
            pair = " and ".join(dict.fromkeys((descriptions[earlier], descriptions[place])))
            raise ConfigError(f"the same participant is given twice: {pair}; name each only once")
    players = [make_player(game, description) for description in full]
    names = _tell_apart([player.name for player in players], full)
    prints = map(_fingerprint, players)
    return [Participant(*fields) for fields in zip(names, full, prints, strict=True)]


def _tell_apart(names: Sequence[str], descriptions: Sequence[str]) -> list[str]:
    """Names with as many folders before them as it takes: two runs may be called alike."""
    paths = [_folder(name, description) for name, description in zip(names, descriptions, strict=True)]
    told = list(names)
    for depth in range(2, 1 + max(2, *(len(path.parts) for path in paths))):
        twice = {name for name in told if told.count(name) > 1}
        told = [
            "/".join(path.parts[-depth:]) if name in twice else name
            for name, path in zip(told, paths, strict=True)
        ]
    return told


def _folder(name: str, description: str) -> Path:
    run = run_of(description)
    return Path(description) if run is None else run.path.with_name(name)


def _fingerprint(player: Player) -> str:
    digest = hashlib.sha256()
    if isinstance(player, AgentPlayer):
        for name, tensor in sorted(player.model.state_dict().items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.contiguous().cpu().numpy().tobytes())
        return digest.hexdigest()
    code = player.function if isinstance(player, FunctionPlayer) else type(player)
    if code.__module__.partition(".")[0] == "senju":
        return ""
    file = getattr(sys.modules[code.__module__], "__file__", None)
    if file is not None and Path(file).is_file():
        digest.update(Path(file).read_bytes())
    return digest.hexdigest()
