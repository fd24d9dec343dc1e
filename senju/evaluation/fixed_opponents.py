"""Fixed opponents of a run as records for workers: players by description, agents with their weights."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import NamedTuple

from senju.evaluation.opponents import find_agent
from senju.games.game import Game
from senju.models.weights import WeightBlock, Weights
from senju.opponents.functions import described_player
from senju.opponents.table import OpponentSpec


class FixedOpponent(NamedTuple):
    """An opponent's description for workers, and its weights if it has a network."""

    spec: OpponentSpec
    weights: Weights | None = None


def load_fixed(game: Game, descriptions: Sequence[str]) -> list[FixedOpponent]:
    """Load the opponents as they are now; if their runs are trained on later, nothing changes here."""
    return [_load(game, description) for description in descriptions]


def _load(game: Game, description: str) -> FixedOpponent:
    agent = find_agent(game, description)
    if agent is None:
        described_player(game, description)  # raises an error if workers could not make it
        return FixedOpponent(OpponentSpec(description))
    spec = OpponentSpec(description, agent.settings, agent.acting)
    return FixedOpponent(spec, WeightBlock(agent.model).read())


def specs_as_dicts(fixed: Sequence[FixedOpponent]) -> list[dict[str, object]]:
    """For a plan, and for JSON."""
    return [asdict(each.spec) | {"acting": each.spec.acting._asdict()} for each in fixed]
