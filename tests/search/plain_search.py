"""PUCT as in a textbook: objects and recursion, one position at a time, values of the side to move.

It knows nothing of senju.search. What it shares with it is the definition: Silver's formula, the
value of unvisited moves, and what ended games prove.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import torch

from senju.games.game import Game, States
from senju.kernels import unpack_legal
from senju.models.model import Model


@dataclass
class Position:
    """A position and what is known of it, for the seat that is to move in it."""

    states: States
    priors: dict[int, float]
    total: float = 0.0
    visits: int = 0
    lower: float = -1.0
    upper: float = 1.0
    children: dict[int, "Position"] = field(default_factory=dict)

    @property
    def is_solved(self) -> bool:
        return self.lower == self.upper

    @property
    def mean(self) -> float:
        return self.clamp(self.total / self.visits)

    def clamp(self, value: float) -> float:
        return min(max(value, self.lower), self.upper)


class PlainSearch:
    """Seats must alternate here."""

    def __init__(self, game: Game, model: Model, exploration: float, base: float, first_play: float) -> None:
        self.game, self.model = game, model
        self.exploration, self.base, self.first_play = exploration, base, first_play

    def run(self, states: States, nodes: int) -> Position:
        root, value = self.evaluate(states)
        root.total, root.visits = value, 1
        while root.visits < nodes and not root.is_solved:
            self.visit(root)
        return root

    def evaluate(self, states: States) -> tuple[Position, float]:
        seen = self.game.new_observations(1)
        self.game.observe(states, seen)
        with torch.no_grad():
            logits, values = self.model(torch.from_numpy(seen.observation[:, 0]).float())
        actions = np.flatnonzero(unpack_legal(seen.legal[0, 0], self.game.num_actions)).tolist()
        scores = [float(logits[0, action]) for action in actions]
        largest = max(scores, default=0.0)
        normaliser = largest + math.log(sum(math.exp(score - largest) for score in scores)) if scores else 0.0
        shares = [float(np.float32(math.exp(score - normaliser))) for score in scores]
        limit = 1.0 - 2.0**-10
        value = min(max(float(values[0]), -limit), limit)
        return Position(states, dict(zip(actions, shares, strict=True))), value

    def visit(self, position: Position) -> tuple[float, list[float]]:
        """Walk down and add one position; return its worth to the mover here, and what totals must change by.

        They must where a position is solved by the visit: its earlier visits then count what it is worth.
        """
        action = self.choose(position)
        if action in position.children:
            worth, changes = self.visit(position.children[action])
        else:
            child, worth = self.open(position, action)
            position.children[action] = child
            child.total, child.visits, changes = worth, 1, []
        changes = [-change for change in changes]
        for change in changes:
            position.total += change
        self.prove(position)
        if position.is_solved:
            changes.append(position.visits * position.lower - position.total)
            position.total += changes[-1]
        value = position.clamp(-worth)
        position.total += value
        position.visits += 1
        return value, changes

    def choose(self, position: Position) -> int:
        visits = position.visits
        weight = (math.log((1.0 + visits + self.base) / self.base) + self.exploration) * math.sqrt(visits)
        unvisited = position.mean - self.first_play * math.sqrt(
            sum(position.priors[action] for action in position.children)
        )
        best, best_score = -1, -math.inf
        for action, prior in sorted(position.priors.items()):
            child = position.children.get(action)
            if child is None:
                score = unvisited + weight * prior
            elif -child.lower <= position.lower:
                continue  # cannot be better than the mover's guaranteed value
            else:
                score = -child.mean + weight * prior / (1.0 + child.visits)
            if score > best_score:
                best, best_score = action, score
        return best

    def open(self, position: Position, action: int) -> tuple[Position, float]:
        states, outcomes = position.states.copy(), self.game.new_outcomes(1)
        seen = self.game.new_observations(1)
        self.game.observe(states, seen)
        mover = int(seen.seats[0, 0])
        self.game.step(states, np.array([[action]], np.int32), outcomes)
        if outcomes.terminated[0]:
            worth = -float(outcomes.rewards[0, mover])
            return Position(states, {}, lower=worth, upper=worth), worth
        child, worth = self.evaluate(states)
        if outcomes.truncated[0]:
            child.lower = child.upper = worth
        return child, worth

    def prove(self, position: Position) -> None:
        """A mover's guaranteed value is the best of its moves' guaranteed values."""
        unopened = [(-1.0, 1.0)] if len(position.children) < len(position.priors) else []
        bounds = [(-child.upper, -child.lower) for child in position.children.values()] + unopened
        position.lower, position.upper = max(b[0] for b in bounds), max(b[1] for b in bounds)
