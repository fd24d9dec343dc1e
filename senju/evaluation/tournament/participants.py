"""Participants of a tournament: unique names, and fingerprints that reveal changes."""

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from senju.errors import ConfigError
from senju.evaluation.opponents import make_players, with_full_path, with_update
from senju.games.game import Game
from senju.opponents.functions import FunctionPlayer, OwnPlayer
from senju.opponents.players import AgentPlayer, Player


@dataclass(frozen=True)
class Participant:
    """A player of a tournament."""

    name: str  # shown to people; seeds are made from it, so it contains no folder's path
    description: str  # for `make_player`, in any process
    fingerprint: str  # of its weights or of its code; empty for a built-in player


def find_participants(game: Game, descriptions: Sequence[str]) -> list[Participant]:
    """The participants in the order given; runs are pinned to the update they are at now."""
    if len(descriptions) < 2:
        given = f"only {descriptions[0]!r}" if descriptions else "none"
        raise ConfigError(f"a tournament needs two participants or more; given: {given}")
    full = [with_full_path(with_update(description)) for description in descriptions]
    for index, description in enumerate(full):
        earlier = full.index(description)
        if earlier < index:
            pair = " and ".join(dict.fromkeys((descriptions[earlier], descriptions[index])))
            raise ConfigError(f"the same participant is given twice: {pair}; name each only once")
    players = make_players(game, full)
    names = [player.name for player in players]
    prints = map(_fingerprint, players)
    return [Participant(*fields) for fields in zip(names, full, prints, strict=True)]


def _fingerprint(player: Player) -> str:
    digest = hashlib.sha256()
    if isinstance(player, AgentPlayer):
        for name, tensor in sorted(player.model.state_dict().items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.contiguous().cpu().numpy().tobytes())
        return digest.hexdigest()
    player = player.player if isinstance(player, OwnPlayer) else player
    code = player.function if isinstance(player, FunctionPlayer) else type(player)
    if code.__module__.partition(".")[0] == "senju":
        return ""
    file = getattr(sys.modules[code.__module__], "__file__", None)
    if file is not None and Path(file).is_file():
        digest.update(Path(file).read_bytes())
    return digest.hexdigest()
