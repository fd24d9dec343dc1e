"""The Game contract: rules that operate on batches of arrays.

A game's state is plain data: one record per row, in an array, so that copying the array is a
snapshot. The loop that drives a game:

    states = game.new_states(256)
    game.reset(states, np.arange(256), keys)
    while True:
        game.observe(states, observations)   # observations, legal actions, acting seats
        game.step(states, actions, outcomes)  # rewards of every seat, terminated, truncated

`senju.check_game` checks that a game keeps this contract.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from senju.config import Part
from senju.errors import GameContractError, IllegalActionError
from senju.kernels import is_allowed, legal_words

States = NDArray[np.void]  # one record of the game's state_dtype per row


class Observations(NamedTuple):
    """The output of `observe`; `acting` is the number of seats that act at once."""

    observation: NDArray[Any]  # [row, acting, *observation_shape]
    legal: NDArray[np.uint64]  # [row, acting, words], bit a % 64 of word a // 64 is action a
    seats: NDArray[np.int8]  # [row, acting], -1 where no seat acts


class Outcomes(NamedTuple):
    """The output of `step`."""

    rewards: NDArray[np.float32]  # [row, seat]
    terminated: NDArray[np.bool_]  # [row], the rules ended the game
    truncated: NDArray[np.bool_]  # [row], a limit ended it; the last position still has a value


ArraysT = TypeVar("ArraysT", Observations, Outcomes)


def first_rows(arrays: ArraysT, count: int) -> ArraysT:
    """Views of the first rows."""
    views: list[NDArray[Any]] = [array[:count] for array in arrays]
    return type(arrays)(*views)


def state_bytes(states: States) -> NDArray[np.uint8]:
    """A view of states as bytes, [row, byte]."""
    return states.view(np.uint8).reshape(len(states), states.dtype.itemsize)


@dataclass(frozen=True)
class SeatView:
    """The game from one seat's view, for independent policies: a game with one seat."""

    name: str
    num_actions: int
    observation_shape: tuple[int, ...]
    observation_dtype: DTypeLike
    num_seats: int = 1
    num_acting: int = 1
    is_zero_sum: bool = False


ILLEGAL: Final = -2  # an oracle's value of an illegal action


class Oracle(Protocol):
    """Knows the exact result of every move, in the positions it can solve."""

    def can_solve(self, states: States) -> NDArray[np.bool_]:
        """Which rows it can solve."""

    def values(self, states: States) -> NDArray[np.int8]:
        """[row, action]: the mover's result with perfect play, 1, 0 or -1; `ILLEGAL` where illegal."""


class Heuristic(Protocol):
    """Estimates the value of moves by looking a ply or two ahead."""

    def action_values(self, states: States, depth: int) -> NDArray[np.float64]:
        """[row, action]: the mover's gain within `depth` plies, minus infinity where illegal."""


class GameConfig(Part):
    """The settings of a game that has none of its own."""


class Game(ABC):
    """Rules as kernels over arrays, and text for display.

    A game draws its random numbers from `senju.kernels.random_word`, keyed by the row's key and
    its own step count (both in the state), so that they do not depend on the worker that plays the row.
    """

    Config: ClassVar[type[Part]] = GameConfig

    name: str
    num_seats: int
    num_acting: int = 1  # 1 where seats take turns, num_seats where all act at once
    num_actions: int
    observation_shape: tuple[int, ...]
    observation_dtype: DTypeLike = np.uint8
    state_dtype: np.dtype[np.void]
    longest_game: int | None = None  # steps, if the rules limit them
    is_zero_sum: bool = False  # two seats whose rewards add up to 0

    def __init__(self, config: Part | None = None) -> None:
        self.config = config if config is not None else self.Config()

    @abstractmethod
    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        """Start a new game in each of `rows`; `keys[i]` seeds all random numbers in `rows[i]`."""

    @abstractmethod
    def observe(self, states: States, out: Observations) -> None:
        """Write observations and legal actions of the acting seats; a finished row has no legal action."""

    @abstractmethod
    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        """Apply `actions[row, acting]`; if one is illegal, raise and leave all states unchanged."""

    @abstractmethod
    def action_name(self, action: int) -> str:
        """An action's name."""

    @abstractmethod
    def board_text(self, state: np.void) -> str:
        """The position as lines of text."""

    @abstractmethod
    def board_svg(self, state: np.void) -> str:
        """The position as an SVG picture."""

    def film(self, states: States) -> bytes | None:
        """The positions of a game as an animated GIF; None if the game has none."""
        return None

    def oracle(self) -> Oracle | None:
        """A solver of this game, if there is one."""
        return None

    def heuristic(self) -> Heuristic | None:
        """An estimate of moves' values for greedy players, if there is one."""
        return None

    def move_name(self, state: np.void, action: int) -> str:
        """An action's name in this position, for display."""
        return self.action_name(action)

    def parse_move(self, state: np.void, text: str) -> int:
        """The action that a user's text means in this position."""
        return self.parse_action(text)

    def explain_action(self, state: np.void, action: int) -> str:
        """What an action means in this position, and whether it is legal."""
        states = self.new_states(1)
        states[0] = state
        observations = self.new_observations(1)
        self.observe(states, observations)
        if not 0 <= action < self.num_actions:
            return f"{action} is not an action; actions are 0 to {self.num_actions - 1}."
        is_legal = any(is_allowed(legal, action) for legal in observations.legal[0])
        verdict = "legal" if is_legal else "not legal"
        return f"{self.move_name(state, action)} is {verdict} here."

    def ending_text(self, state: np.void) -> str:
        """How the game ended in a finished position; empty if the winner explains it."""
        return ""

    def parse_action(self, text: str) -> int:
        """The action with this name, case-insensitive."""
        wanted = text.strip().lower()
        for action in range(self.num_actions):
            if self.action_name(action).lower() == wanted:
                return action
        raise IllegalActionError(f"{self.name}: no action is named {text!r}; {self.describe_actions()}")

    def describe_actions(self) -> str:
        """The names of the actions, for a prompt or an error."""
        names = [self.action_name(action) for action in range(min(self.num_actions, 12))]
        more = ", …" if self.num_actions > len(names) else ""
        return f"actions are {', '.join(names)}{more}"

    def new_states(self, num_rows: int) -> States:
        """Zeroed states; `reset` them before use."""
        return np.zeros(num_rows, self.state_dtype)

    def new_games(self, num_rows: int, seed: int = 0) -> States:
        """States of games that have just started, for inspection."""
        states = self.new_states(num_rows)
        keys = np.random.default_rng(seed).integers(2**64, size=num_rows, dtype=np.uint64)
        self.reset(states, np.arange(num_rows), keys)
        return states

    def new_observations(self, num_rows: int) -> Observations:
        """Arrays for `observe`."""
        return Observations(
            np.zeros((num_rows, self.num_acting, *self.observation_shape), self.observation_dtype),
            np.zeros((num_rows, self.num_acting, legal_words(self.num_actions)), np.uint64),
            np.zeros((num_rows, self.num_acting), np.int8),
        )

    def new_outcomes(self, num_rows: int) -> Outcomes:
        """Arrays for `step`."""
        return Outcomes(
            np.zeros((num_rows, self.num_seats), np.float32),
            np.zeros(num_rows, np.bool_),
            np.zeros(num_rows, np.bool_),
        )

    @property
    def seat_view(self) -> SeatView:
        """The game from one seat's view."""
        return SeatView(self.name, self.num_actions, self.observation_shape, self.observation_dtype)

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache; call it once before workers start."""
        states = self.new_states(1)
        observations, outcomes = self.new_observations(1), self.new_outcomes(1)
        self.reset(states, np.zeros(1, np.int64), np.zeros(1, np.uint64))
        self.observe(states, observations)
        allowed = np.unpackbits(observations.legal.view(np.uint8), axis=-1, bitorder="little")
        self.step(states, allowed.argmax(axis=-1).astype(np.int32), outcomes)

    def refuse(self, row: int, actions: NDArray[np.int32]) -> None:
        """Raise IllegalActionError for the row that a step kernel refused; -1 means none."""
        if row < 0:
            return
        tried = [int(action) for action in actions[row]]
        names = [self.action_name(a) if 0 <= a < self.num_actions else "not an action" for a in tried]
        what = ", ".join(f"{action} ({name})" for action, name in zip(tried, names, strict=True))
        raise IllegalActionError(
            f"{self.name}: row {row}: action {what} is not legal here, or the game is over"
        )

    def _require_array(self, name: str, array: NDArray[Any], shape: tuple[int, ...]) -> None:
        """Refuse arrays of another shape or with gaps, which kernels do not check."""
        if array.shape != shape or not array.flags.c_contiguous:
            gaps = "" if array.flags.c_contiguous else ", with gaps"
            raise GameContractError(
                f"{self.name}: {name} has shape {list(array.shape)}{gaps}; "
                f"expected {list(shape)} without gaps"
            )

    def _require_states(self, states: States) -> None:
        """Refuse states of another game or of other settings."""
        if states.dtype is not self.state_dtype and states.dtype != self.state_dtype:
            raise GameContractError(f"{self.name}: these states belong to another game or other settings")
        self._require_array("states", states, (len(states),))

    def _require_outcomes(self, num_rows: int, actions: NDArray[np.int32], out: Outcomes) -> None:
        """Refuse arrays for `step` that do not fit the game."""
        self._require_array("actions", actions, (num_rows, self.num_acting))
        self._require_array("rewards", out.rewards, (num_rows, self.num_seats))
        self._require_array("terminated", out.terminated, (num_rows,))
        self._require_array("truncated", out.truncated, (num_rows,))

    def _require_observations(self, num_rows: int, out: Observations) -> None:
        """Refuse arrays for `observe` that do not fit the game."""
        acting = (num_rows, self.num_acting)
        self._require_array("observation", out.observation, (*acting, *self.observation_shape))
        self._require_array("legal", out.legal, (*acting, legal_words(self.num_actions)))
        self._require_array("seats", out.seats, acting)
