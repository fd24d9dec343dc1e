"""Gridworlds as games: a world declares its rules, this class plays them by the compiled kernels."""

from abc import abstractmethod
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.config import Part
from senju.errors import GameContractError, IllegalActionError
from senju.games.game import Game, Observations, Outcomes, States
from senju.games.gridworld.core.start import reset_rows
from senju.games.gridworld.core.turn import step_rows
from senju.games.gridworld.core.view import observe_rows
from senju.games.gridworld.names import Names, names_of
from senju.games.gridworld.pictures import board_svg
from senju.games.gridworld.rules import Rules
from senju.games.gridworld.tables import make_tables, state_dtype
from senju.games.gridworld.text import board_text, parse_board


class Gridworld(Game):
    """A world of cells in which all agents act at once, in the order of their seats.

    A turn: things that are not agents change, all agents observe, all act. A child gives a `name`,
    a `Config` and `rules`; see docs/gridworld.md, which writes one from nothing.
    """

    def __init__(self, config: Part | None = None) -> None:
        super().__init__(config)
        self.declared = self.rules(self.config)
        if not isinstance(self.declared, Rules):
            raise GameContractError(
                f"{self.name}: `rules` returned {self.declared!r}; expected Rules(…): is a return missing?"
            )
        self.names: Names = names_of(self.name, self.declared)
        self.tables = make_tables(self.name, self.declared, self.names)
        rules = self.declared
        self.num_seats = self.num_acting = rules.num_agents
        self.num_actions = len(rules.actions)
        self.longest_game = rules.max_turns
        self.observation_shape = self.names.view_shape
        self.state_dtype = state_dtype(self.names.grid_shape, rules.num_agents)

    @abstractmethod
    def rules(self, config: Any) -> Rules:
        """The world that these settings ask for."""

    @property
    def plane_names(self) -> tuple[str, ...]:
        """What each plane of an observation shows."""
        return self.names.planes

    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        """Lay out the map, scatter things and agents over it, and let things appear for the first time."""
        reset_rows(self._octets(states), rows, keys, self.tables)

    def observe(self, states: States, out: Observations) -> None:
        """Write what each agent sees; all of them act, and all actions are legal."""
        rows, seats = len(states), self.num_seats
        self._require("observation", out.observation, (rows, seats, *self.observation_shape))
        self._require("legal", out.legal, (rows, seats, len(self.tables.legal)))
        self._require("seats", out.seats, (rows, seats))
        planes = out.observation.reshape(rows, seats, -1)
        observe_rows(self._octets(states), self.tables, planes, out.legal, out.seats)

    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        """Let the agents act, seat 0 first; then things change."""
        rows, seats = len(states), self.num_seats
        self._require("actions", actions, (rows, seats))
        self._require("rewards", out.rewards, (rows, seats))
        self._require("terminated", out.terminated, (rows,))
        self._require("truncated", out.truncated, (rows,))
        refused = step_rows(self._octets(states), actions, self.tables, *out)
        if refused >= 0:
            self._refuse(refused, states[refused], actions[refused])

    def _refuse(self, row: int, state: np.void, actions: NDArray[np.int32]) -> None:
        """Say which agent's action is none, or that the episode is over."""
        turn, last = int(state["turn"]), self.declared.max_turns
        if turn >= last:
            tried = ", ".join(str(action) for action in actions.tolist())
            raise IllegalActionError(
                f"{self.name}: row {row}: the episode is over, turn {turn} of {last}; "
                f"actions {tried} came too late"
            )
        for seat, action in enumerate(actions.tolist()):
            if not 0 <= action < self.num_actions:
                raise IllegalActionError(
                    f"{self.name}: row {row}: agent {seat} chose action {action} in turn {turn}; "
                    f"its actions are 0 to {self.num_actions - 1} ({self.describe_actions()})"
                )

    def _octets(self, states: States) -> NDArray[np.uint8]:
        """The states as bytes, [row, byte]."""
        if states.dtype is not self.state_dtype and states.dtype != self.state_dtype:
            raise GameContractError(f"{self.name}: these states are of other settings, or of another game")
        self._require("states", states, (len(states),))
        return states.view(np.uint8).reshape(len(states), self.state_dtype.itemsize)

    def _require(self, name: str, array: NDArray[Any], shape: tuple[int, ...]) -> None:
        """Refuse arrays of another shape or with gaps: the kernels believe what they are given."""
        if array.shape != shape or not array.flags.c_contiguous:
            gaps = "" if array.flags.c_contiguous else ", with gaps"
            raise GameContractError(
                f"{self.name}: {name} has shape {list(array.shape)}{gaps}; "
                f"expected {list(shape)} without gaps"
            )

    def action_name(self, action: int) -> str:
        """The name the world gives to the action."""
        return self.declared.actions[action].name

    def board_text(self, state: np.void) -> str:
        """The map with its agents, and a line for each agent; `parse` reads it back."""
        return board_text(self.declared, self.names, state)

    def parse(self, text: str, *, key: int = 0) -> States:
        """One row set up as `board_text` draws it: the map, agents by their symbols, a line for each.

        Lines for agents may be left out: such agents face up, are not it, and stand on nothing. Hidden
        beneath agents and beams, things in several layers cannot be drawn; set `grid` for those.
        """
        states = self.new_states(1)
        states["key"] = key
        parse_board(self.name, self.declared, self.names, text, states[0])
        return states

    def board_svg(self, state: np.void) -> str:
        """The map as coloured cells, agents with their facing."""
        return board_svg(self.declared, self.names, state)

    def film(self, states: States) -> bytes:
        """An episode as an animated GIF."""
        from senju.games.gridworld.film import write_gif  # it draws worlds, and only films need Pillow

        film = BytesIO()
        write_gif(self, states, film)
        return film.getvalue()
