"""Shogi as a game for training: the Game contract over the compiled rules."""

import reprlib
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from senju.config import Part
from senju.errors import ConfigError, IllegalActionError
from senju.games.game import Game, Heuristic, Observations, Outcomes, States
from senju.games.shogi.boards import Letters, board_svg, board_text
from senju.games.shogi.core.layout import state_dtype
from senju.games.shogi.core.material import action_values
from senju.games.shogi.core.planes import NUM_PLANES, PLANES_OF_PAST, observe_rows
from senju.games.shogi.core.position import count_lines
from senju.games.shogi.core.rules import NO_DECLARATION, step_rows
from senju.games.shogi.explain import describe_action, ending_text, explain
from senju.games.shogi.layout import MAX_PLIES, NUM_ACTIONS, START_SFEN
from senju.games.shogi.notation import action_of_usi, usi_of_action
from senju.games.shogi.sfen import Placement, parse_sfen

# points that Black and White need for a declaration; in the 27-point rule Black, who starts, needs one more
_POINTS_NEEDED = {"27": (28, 27), "24": (31, 31), "none": (int(NO_DECLARATION), int(NO_DECLARATION))}
Declaration = Literal["27", "24", "none"]


class ShogiConfig(Part):
    """Settings of the game `shogi`."""

    max_plies: int = Field(512, ge=1, le=MAX_PLIES, description="Plies after which a game is truncated.")
    declaration: Declaration = Field(
        "27", description="Entering-king rule: 27 points, 24 points (31 to win), or none."
    )
    history: int = Field(0, ge=0, le=7, description="Earlier positions in the observation.")

    @field_validator("declaration", mode="before")
    @classmethod
    def _as_text(cls, rule: object) -> object:
        return str(rule) if isinstance(rule, int) else rule  # YAML reads 24 as a number


class Shogi(Game):
    """Complete Shogi: drops, promotion, repetition, perpetual check, the entering king."""

    Config = ShogiConfig

    name = "shogi"
    num_seats = 2
    num_actions = NUM_ACTIONS
    is_zero_sum = True
    letters: Letters = "japanese"  # of boards in the terminal

    def __init__(self, config: Part | None = None) -> None:
        super().__init__(config)
        if not isinstance(self.config, ShogiConfig):
            kind = type(config).__name__
            raise ConfigError(f"config={reprlib.repr(config)}: expected a ShogiConfig, got {kind}")
        max_plies, history = self.config.max_plies, self.config.history
        self.observation_shape = (NUM_PLANES + PLANES_OF_PAST * history, 9, 9)
        self.state_dtype = state_dtype(max_plies, history)
        self._width = np.uint64(self.state_dtype.itemsize // 8)
        self._max_plies, self._history = np.uint64(max_plies), history
        self.longest_game = max_plies
        self._points_needed = np.array(_POINTS_NEEDED[self.config.declaration], np.uint64)
        self._start: States | None = None

    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        """Set up the start position; the game has no chance, so the keys are unused."""
        if self._start is None:
            start = self.new_states(1)
            self.place(start, parse_sfen(START_SFEN))
            self._start = start
        states[rows] = self._start

    def place(self, states: States, placement: Placement) -> None:
        """Start all rows from a given position; the caller checks it (as `Position` does)."""
        states[:] = np.zeros((), self.state_dtype)
        states["board"], states["hands"], states["side"] = placement.board, placement.hands, placement.side
        no_actions = np.zeros((len(states), 1), np.int32)
        self._step(states, no_actions, self.new_outcomes(len(states)), is_start=True)

    def observe(self, states: States, out: Observations) -> None:
        """Write the planes from the mover's view, the legal actions, and the mover."""
        self._require_observations(len(states), out)
        flat = out.observation.reshape(-1)
        observe_rows(*self._views(states), self._max_plies, self._history, flat, out.legal, out.seats)

    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        refused = self._step(states, actions, out, is_start=False)
        if refused >= 0:
            action = int(actions[refused, 0])
            meaning = self.explain_action(states[refused], action)
            raise IllegalActionError(f"shogi: row {refused}: action {action} is refused: {meaning}")

    def _step(self, states: States, actions: NDArray[np.int32], out: Outcomes, is_start: bool) -> int:
        self._require_outcomes(len(states), actions, out)
        views, rules = self._views(states), (self._max_plies, self._points_needed, self._history)
        return step_rows(*views, actions, is_start, *rules, *out)

    def _views(self, states: States) -> tuple[NDArray[np.uint64], NDArray[np.uint8], np.uint64]:
        """All states as words, as bytes, and the number of words per row."""
        self._require_states(states)
        return states.view(np.uint64), states.view(np.uint8), self._width

    def count_lines(self, states: States, depth: int) -> int:
        """The number of move sequences of length `depth` (at least 1) from the first row."""
        if depth == 1:
            return int(np.bitwise_count(states["legal"][0]).sum())
        line = self.new_states(depth)
        line[0] = states[0]
        return count_lines(*self._views(line), depth)

    def heuristic(self) -> Heuristic:
        """The material that moves win, one or two plies deep."""
        return self

    def action_values(self, states: States, depth: int) -> NDArray[np.float64]:
        """[row, action]: the material won within `depth` plies; mate counts more than all pieces."""
        if depth not in (1, 2):
            raise ConfigError(f"depth={reprlib.repr(depth)}: expected 1 or 2 plies")
        values = np.full((len(states), NUM_ACTIONS), -np.inf)
        action_values(*self._views(states), depth, values)
        return values

    def action_name(self, action: int) -> str:
        """The direction and destination in the mover's view."""
        return describe_action(action)

    def move_name(self, state: np.void, action: int) -> str:
        """The move in USI notation."""
        return usi_of_action(state["board"], int(state["side"]), action)

    def parse_move(self, state: np.void, text: str) -> int:
        """The action of a move in USI notation."""
        stripped = text.strip() if isinstance(text, str) else text
        return action_of_usi(state["board"], int(state["side"]), stripped)

    def explain_action(self, state: np.void, action: int) -> str:
        return str(explain(state, action))

    def ending_text(self, state: np.void) -> str:
        return ending_text(state)

    def describe_actions(self) -> str:
        return "moves are written as 7g7f, with promotion 8h2b+, drops P*5e"

    def board_text(self, state: np.void) -> str:
        return board_text(state, self.letters)

    def board_svg(self, state: np.void) -> str:
        return board_svg(state)
