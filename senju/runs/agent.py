"""An agent: a trained network with its game; it gives moves, values and weights."""

from collections.abc import Mapping
from numbers import Real
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from senju.collect.actor import Actor
from senju.collect.exploration import BY_POLICY, Acting
from senju.config import Settings, shown
from senju.errors import ConfigError, ModelError, NoLegalActionError
from senju.games.game import Game, States
from senju.kernels import unpack_legal
from senju.models import Model
from senju.opponents.players import AgentPlayer, NewActor

AnyDtype = TypeVar("AnyDtype", np.float64, np.float32)
_HUGE = 1e300  # instead of infinity: the difference of two infinities is NaN


class Agent:
    """A trained network with its game: gives probabilities, values and moves."""

    def __init__(
        self,
        game: Game,
        model: Model,
        name: str,
        acting: Acting = BY_POLICY,
        settings: Settings | None = None,
    ) -> None:
        self.game, self.model, self.name = game, model.requires_grad_(False), name
        self.acting, self.settings = acting, settings or {}

    def evaluate(self, states: States) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        """Probabilities of every action and values, for the seats that act.

        [row, action] and [row] in games in turns. If seats act at once, an axis for the seats follows the
        rows, with zeros for seats that do not act. An agent that learned action values gives the best
        action the probability 1.
        """
        logits, values, legal = self._evaluate(states)
        if self.acting.by == "action_values":
            scores = self._action_values(logits, values, legal)
            probs = (np.arange(scores.shape[-1]) == scores.argmax(axis=-1)[..., None]).astype(np.float64)
            values = scores.max(axis=-1).astype(np.float32)
        else:
            scores = np.where(legal, logits, -np.inf)
            probs = np.exp(scores - scores.max(axis=-1, initial=-_HUGE, keepdims=True))
            probs /= np.maximum(probs.sum(axis=-1, keepdims=True), 1.0)
        probs, values = np.where(legal, probs, 0.0), np.where(legal.any(axis=-1), values, np.float32(0.0))
        return self._without_acting_axis(probs), self._without_acting_axis(values)

    def action_values(self, states: States) -> NDArray[np.float64]:
        """The value of each action, minus infinity if it is illegal; only of agents that learned them."""
        if self.acting.by != "action_values":
            raise ConfigError(f"{self.name} learned a policy and values of positions, not of actions")
        return self._without_acting_axis(self._action_values(*self._evaluate(states)))

    def _evaluate(self, states: States) -> tuple[NDArray[np.float64], NDArray[np.float32], NDArray[np.bool_]]:
        """Logits, values and legality, each [row, acting, …]."""
        game = self.game
        if not isinstance(states, np.ndarray) or states.dtype != game.state_dtype:
            raise ConfigError(f"states={shown(states)}: expected an array of {game.name}'s states")
        num_rows = len(states)
        observations = game.new_observations(num_rows)
        game.observe(states, observations)
        legal = unpack_legal(observations.legal, game.num_actions)
        for row, acting in np.argwhere(~legal.any(axis=-1) & (observations.seats >= 0)).tolist():
            seat = observations.seats[row, acting]
            raise NoLegalActionError(f"{game.name}: row {row}: the game is over, seat {seat} has no action")
        logits, values = Actor(game, self.model, num_rows).evaluate(observations.observation)
        return logits.reshape(legal.shape).astype(np.float64), values.reshape(legal.shape[:2]), legal

    def _action_values(
        self, logits: NDArray[np.float64], values: NDArray[np.float32], legal: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        if self.acting.is_dueling:
            count = np.maximum(legal.sum(axis=-1), 1)
            mean = np.where(legal, logits, 0.0).sum(axis=-1) / count
            logits = logits + (values - mean)[..., None]
        return np.where(legal, logits, -np.inf)

    def _without_acting_axis(self, array: NDArray[AnyDtype]) -> NDArray[AnyDtype]:
        return array[:, 0] if self.game.num_acting == 1 else array

    def get_weights(self) -> dict[str, NDArray[Any]]:
        """Copies of the network's weights, by name, as plain arrays."""
        return {name: tensor.numpy().copy() for name, tensor in self.model.state_dict().items()}

    def set_weights(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Copy weights that `get_weights` returned, of this agent or of one with an equal network."""
        if not isinstance(weights, Mapping):
            raise ModelError(f"weights={shown(weights)}: expected arrays by name, as get_weights gives them")
        own = self.model.state_dict()
        for difference in shape_differences(own, weights):
            raise ModelError(
                f"weights of another architecture: {difference}; take those of an agent with an equal network"
            )
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(torch.tensor(np.asarray(weights[name])))

    def player(self, temperature: float = 0.0, new_actor: NewActor = Actor) -> AgentPlayer:
        """The agent as a player in matches."""
        if not isinstance(temperature, Real) or not 0 <= temperature <= 1e6:
            raise ConfigError(f"temperature={shown(temperature)}: expected a number from 0 to 1e6")
        if temperature and self.acting.by == "action_values":
            why = f"{self.name} learned action values, and no policy to draw from"
            raise ConfigError(f"temperature={temperature:g}: {why}")
        return AgentPlayer(self.game, self.model, self.name, temperature, self.acting, new_actor=new_actor)

    def policy(self) -> Model:
        """The network, for a tree search, which needs a policy and values of positions."""
        if self.acting.by == "action_values":
            raise ConfigError(
                f"{self.name} learned action values, and a search needs a policy; play without search"
            )
        return self.model


def shape_differences(own: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Describe each of the given weights that differs in shape from the network's, with the expected shape.

    >>> shape_differences({"bias": np.zeros(3)}, {"bias": np.zeros(2)})
    ['bias is of shape (2,), expected of shape (3,)']
    """

    def shape_text(weights: Mapping[str, Any], name: str) -> str:
        return f"of shape {tuple(np.shape(weights[name]))}" if name in weights else "missing"

    texts = {name: (shape_text(given, name), shape_text(own, name)) for name in {**own, **given}}
    return [
        f"{name} is {have}, expected {needed}" for name, (have, needed) in texts.items() if have != needed
    ]
