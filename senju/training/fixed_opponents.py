"""Fixed opponents of a run, ready to be sent to workers: players by description, and agents with weights."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import NamedTuple

from senju.games.game import Game
from senju.models.weights import WeightBlock, Weights
from senju.opponents.players import fixed_player
from senju.opponents.table import OpponentSpec
from senju.training.opponents import find_agent, make_player


class FixedOpponent(NamedTuple):
    """What workers are told of it, and its weights, if it has a network."""

    spec: OpponentSpec
    weights: Weights | None = None


def load_fixed(game: Game, descriptions: Sequence[str]) -> list[FixedOpponent]:
    """The opponents that are described, as they are now: a run that trains on elsewhere changes nothing."""
    return [_load(game, description) for description in descriptions]


def _load(game: Game, description: str) -> FixedOpponent:
    agent = None if fixed_player(game, description) else find_agent(game, description)
    if agent is None:
        make_player(game, description)  # or an error that says why there is no such player
        return FixedOpponent(OpponentSpec(description))
    spec = OpponentSpec(description, agent.settings, agent.acting._asdict())
    return FixedOpponent(spec, WeightBlock(agent.model).read())


def specs_as_dicts(fixed: Sequence[FixedOpponent]) -> list[dict[str, object]]:
    """For a plan, and for JSON."""
    return [asdict(opponent.spec) for opponent in fixed]
