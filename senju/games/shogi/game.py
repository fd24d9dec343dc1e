"""Shogi as a game for training: the Game contract over the compiled rules."""

import reprlib
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from senju.config import Part
from senju.errors import ConfigError, GameContractError, IllegalActionError
from senju.games.game import Game, Heuristic, Observations, Outcomes, States
from senju.games.shogi.boards import Letters, board_svg, board_text
from senju.games.shogi.core.layout import NUM_LEGAL_WORDS
from senju.games.shogi.core.material import action_values
from senju.games.shogi.core.perft import count_lines
from senju.games.shogi.core.planes import NUM_PLANES, PLANES_OF_PAST, observe_rows
from senju.games.shogi.core.rules import NO_DECLARATION, step_rows
from senju.games.shogi.explain import describe_action, ending_text, explain_action
from senju.games.shogi.layout import NUM_ACTIONS, START_SFEN, state_dtype
from senju.games.shogi.notation import action_of_usi, usi_of_action
from senju.games.shogi.sfen import Placement, parse_sfen

# points that Black and White need to declare; the 27-point rule asks one more of Black, who began
_POINTS_NEEDED = {"27": (28, 27), "24": (31, 31), "none": (int(NO_DECLARATION), int(NO_DECLARATION))}


class ShogiConfig(Part):
    """Settings of the game `shogi`."""

    max_plies: int = Field(512, ge=1, le=4096, description="Moves of both sides after which a game is cut.")
    declaration: Literal["27", "24", "none"] = Field(
        "27", description="Which rule lets an entered king win: 27 points, 24 (31 to win), or none."
    )
    history: int = Field(0, ge=0, le=7, description="How many earlier positions are seen too.")

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
        """Set up the usual start; there is no chance in this game, so the keys go unused."""
        if self._start is None:
            start = self.new_states(1)
            self.place(start, parse_sfen(START_SFEN))
            self._start = start
        states[rows] = self._start

    def place(self, states: States, placement: Placement) -> None:
        """Start all rows from a given position, whose kings must be right (`Position` checks it)."""
        states[:] = np.zeros((), self.state_dtype)
        states["board"], states["hands"], states["side"] = placement.board, placement.hands, placement.side
        nothing = np.zeros((len(states), 1), np.int32)
        self._step(states, nothing, self.new_outcomes(len(states)), is_start=True)

    def observe(self, states: States, out: Observations) -> None:
        """Write the planes from the mover's side, the legal actions, and the mover."""
        rows = len(states)
        self._require("observation", out.observation, (rows, 1, *self.observation_shape))
        self._require("legal", out.legal, (rows, 1, NUM_LEGAL_WORDS))
        self._require("seats", out.seats, (rows, 1))
        flat = out.observation.reshape(-1)
        observe_rows(*self._views(states), self._max_plies, self._history, flat, out.legal, out.seats)

    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        """Play the movers' moves."""
        refused = self._step(states, actions, out, is_start=False)
        if refused >= 0:
            action = int(actions[refused, 0])
            meaning = self.explain_action(states[refused], action)
            raise IllegalActionError(f"shogi: row {refused}: action {action} is refused: {meaning}")

    def _step(self, states: States, actions: NDArray[np.int32], out: Outcomes, is_start: bool) -> int:
        rows = len(states)
        self._require("actions", actions, (rows, 1))
        self._require("rewards", out.rewards, (rows, 2))
        self._require("terminated", out.terminated, (rows,))
        self._require("truncated", out.truncated, (rows,))
        return step_rows(
            *self._views(states),
            actions,
            is_start,
            self._max_plies,
            self._points_needed,
            self._history,
            out.rewards,
            out.terminated,
            out.truncated,
        )

    def _views(self, states: States) -> tuple[NDArray[np.uint64], NDArray[np.uint8], np.uint64]:
        """All states as words, as bytes, and the words of one row."""
        if states.dtype is not self.state_dtype and states.dtype != self.state_dtype:
            raise GameContractError("shogi: these states are of other settings, or of another game")
        self._require("states", states, (len(states),))
        return states.view(np.uint64), states.view(np.uint8), self._width

    def _require(self, name: str, array: NDArray[Any], shape: tuple[int, ...]) -> None:
        """Refuse arrays of another shape or with gaps: the kernels believe what they are given."""
        if array.shape != shape or not array.flags.c_contiguous:
            gaps = "" if array.flags.c_contiguous else ", with gaps"
            raise GameContractError(
                f"shogi: {name} has shape {list(array.shape)}{gaps}; expected {list(shape)} without gaps"
            )

    def count_lines(self, states: States, depth: int) -> int:
        """How many lines of `depth` moves, at least one, there are from the first row."""
        line = self.new_states(depth)
        line[0] = states[0]
        return count_lines(*self._views(line), depth)

    def heuristic(self) -> Heuristic:
        """Counting material, one or two plies deep."""
        return _Material(self)

    def action_name(self, action: int) -> str:
        """The direction and destination in the mover's view."""
        return describe_action(action)

    def move_name(self, state: np.void, action: int) -> str:
        """The move as USI writes it."""
        return usi_of_action(state["board"], int(state["side"]), action)

    def parse_move(self, state: np.void, text: str) -> int:
        """A move in USI's letters; an error tells what is wrong."""
        stripped = text.strip() if isinstance(text, str) else text
        return action_of_usi(state["board"], int(state["side"]), stripped)

    def explain_action(self, state: np.void, action: int) -> str:
        """What an action means in this position, and why it is not legal if it is not."""
        return explain_action(state, action)

    def ending_text(self, state: np.void) -> str:
        """The rule by which the game ended."""
        return ending_text(state)

    def describe_actions(self) -> str:
        """How moves are written."""
        return "moves are written as 7g7f, with promotion 8h2b+, drops P*5e"

    def board_text(self, state: np.void) -> str:
        """The board and the hands as lines of text."""
        return board_text(state, self.letters)

    def board_svg(self, state: np.void) -> str:
        """The board and the hands as a picture."""
        return board_svg(state)


class _Material:
    """The heuristic of players that count men."""

    def __init__(self, game: Shogi) -> None:
        self._game = game

    def action_values(self, states: States, depth: int) -> NDArray[np.float64]:
        """What each action wins in material within `depth` plies; a mate is worth more than all men."""
        if depth not in (1, 2):
            raise ConfigError(f"depth={reprlib.repr(depth)}: material is counted 1 or 2 plies deep")
        values = np.full((len(states), NUM_ACTIONS), -np.inf)
        action_values(*self._game._views(states), depth, values)
        return values
