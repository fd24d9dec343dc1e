"""Gridworlds as games: a world declares its rules, and compiled kernels play them."""

from abc import abstractmethod
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.config import Part
from senju.errors import ConfigError, GameContractError, IllegalActionError, IllegalPositionError
from senju.games.game import Game, Observations, Outcomes, States, state_bytes
from senju.games.gridworld.core.start import reset_rows
from senju.games.gridworld.core.turn import step_rows
from senju.games.gridworld.core.view import observe_rows
from senju.games.gridworld.names import Names, names_of
from senju.games.gridworld.pictures import board_svg
from senju.games.gridworld.rules import WorldRules
from senju.games.gridworld.tables import make_tables, state_dtype
from senju.games.gridworld.text import board_text, parse_board


class Gridworld(Game):
    """A world of cells in which all agents act in each turn, in the order of their seats.

    A turn: all agents observe and act, then things spawn, as they do at the start. A subclass defines `name`,
    `Config` and `rules`; docs/gridworld.md is a tutorial.
    """

    def __init__(self, config: Part | None = None) -> None:
        super().__init__(config)
        self.declared = rules = self.rules(self.config)
        if not isinstance(self.declared, WorldRules):
            raise GameContractError(
                f"{self.name}: `rules` returned {self.declared!r}; expected WorldRules(…); "
                "check that it has a return statement"
            )
        try:
            self.names: Names = names_of(self.declared)
            self.tables = make_tables(self.declared, self.names)
        except ConfigError as error:
            raise ConfigError(f"{self.name}: {error}") from None
        self.num_seats = self.num_acting = rules.num_agents
        self.num_actions = len(rules.actions)
        self.longest_game = rules.max_turns
        self.observation_shape = self.names.view_shape
        self.state_dtype = state_dtype(self.names.map.shape, rules.num_agents)

    @abstractmethod
    def rules(self, config: Any) -> WorldRules:
        """The world for these settings."""

    @property
    def plane_names(self) -> tuple[str, ...]:
        """The name of each plane of an observation."""
        return self.names.planes

    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        """Copy the map, scatter things and place agents at random, and let things spawn once."""
        reset_rows(self._octets(states), rows, keys, self.tables)

    def observe(self, states: States, out: Observations) -> None:
        """Write each agent's view; all agents act, and all actions are legal."""
        self._require_observations(len(states), out)
        planes = out.observation.reshape(len(states), self.num_seats, -1)
        observe_rows(self._octets(states), self.tables, planes, out.legal, out.seats)

    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        """Let the agents act, seat 0 first; then tag and spawn."""
        self._require_outcomes(len(states), actions, out)
        refused = step_rows(self._octets(states), actions, self.tables, *out)
        if refused >= 0:
            self._refuse(refused, states[refused], actions[refused])

    def _refuse(self, row: int, state: np.void, actions: NDArray[np.int32]) -> None:
        """Name the agent with an invalid action, or say that the episode is over."""
        turn, last = int(state["turn"]), self.declared.max_turns
        if turn >= last:
            tried = ", ".join(str(action) for action in actions.tolist())
            raise IllegalActionError(
                f"{self.name}: row {row}: the episode ended after turn {turn} of {last}; "
                f"reset it before actions {tried}"
            )
        for seat, action in enumerate(actions.tolist()):
            if not 0 <= action < self.num_actions:
                raise IllegalActionError(
                    f"{self.name}: row {row}: agent {seat} chose action {action} in turn {turn}; "
                    f"its actions are 0 to {self.num_actions - 1} ({self.describe_actions()})"
                )

    def _octets(self, states: States) -> NDArray[np.uint8]:
        self._require_states(states)
        return state_bytes(states)

    def action_name(self, action: int) -> str:
        return self.declared.actions[action].name

    def board_text(self, state: np.void) -> str:
        """The map with its agents, and a line for each agent; `parse` reads it back."""
        return board_text(self.declared, self.names, state)

    def parse(self, text: str, *, key: int = 0) -> States:
        """One row, set up from a text in the format of `board_text`.

        Lines for agents may be left out: such agents face up, are not "it", and stand on empty cells. The
        text cannot show things under agents and beams, or several layers; set `grid` for those.
        """
        states = self.new_states(1)
        states["key"] = key
        try:
            parse_board(self.declared, self.names, text, states[0])
        except IllegalPositionError as error:
            raise IllegalPositionError(f"{self.name}: {error}") from None
        return states

    def board_svg(self, state: np.void) -> str:
        return board_svg(self.declared, self.names, state)

    def film(self, states: States) -> bytes:
        from senju.games.gridworld.film import write_gif  # only films need Pillow

        film = BytesIO()
        write_gif(self, states, film)
        return film.getvalue()
