"""The Game contract: rules that work on whole batches of arrays.

A game's state is data: one record per row, in an array, so that copying the array is a
snapshot. The loop that drives a game:

    states = game.new_states(256)
    game.reset(states, np.arange(256), keys)
    while True:
        game.observe(states, observations)   # what is seen, what is legal, whose turn it is
        game.step(states, actions, outcomes)  # rewards of every seat, terminated, truncated

`senju.check_game` holds a game to all of this.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from senju.config import Part
from senju.errors import IllegalActionError
from senju.kernels import is_allowed, legal_words

States = NDArray[np.void]  # one record of the game's state_dtype per row


class Observations(NamedTuple):
    """What `observe` writes; `acting` is the number of seats that act at once."""

    observation: NDArray[Any]  # [row, acting, *observation_shape]
    legal: NDArray[np.uint64]  # [row, acting, words], bit a % 64 of word a // 64 is action a
    seats: NDArray[np.int8]  # [row, acting], -1 where nobody acts in this place


class Outcomes(NamedTuple):
    """What `step` writes."""

    rewards: NDArray[np.float32]  # [row, seat]
    terminated: NDArray[np.bool_]  # [row], the rules ended the game
    truncated: NDArray[np.bool_]  # [row], a limit ended it; the position has a value still


@dataclass(frozen=True)
class SeatView:
    """The game as one of several seats sees it, where each has a policy of its own: a game of one seat."""

    name: str
    num_actions: int
    observation_shape: tuple[int, ...]
    observation_dtype: DTypeLike
    num_seats: int = 1
    num_acting: int = 1
    is_zero_sum: bool = False


ILLEGAL: Final = -2  # an oracle's value of an action that is not legal


class Oracle(Protocol):
    """Knows the exact result of every move, in the positions it can solve."""

    def can_judge(self, states: States) -> NDArray[np.bool_]:
        """Which rows it can solve."""

    def values(self, states: States) -> NDArray[np.int8]:
        """[row, action]: what the mover gets with perfect play, 1, 0 or -1; `ILLEGAL` where illegal."""


class Heuristic(Protocol):
    """Knows roughly what a move is worth, by looking a ply or two ahead."""

    def action_values(self, states: States, depth: int) -> NDArray[np.float64]:
        """[row, action]: the mover's gain within `depth` plies, minus infinity where illegal."""


class GameConfig(Part):
    """The settings of a game that has none of its own."""


class Game(ABC):
    """Rules as kernels over arrays, with a few words for people.

    A game draws its random numbers from `senju.kernels.random_word`, keyed by the row's key and
    its own step count (both in the state), so that they do not depend on who plays the row.
    """

    Config: ClassVar[type[Part]] = GameConfig

    name: str
    num_seats: int
    num_acting: int = 1  # 1 where seats take turns, num_seats where all act at once
    num_actions: int
    observation_shape: tuple[int, ...]
    observation_dtype: DTypeLike = np.uint8
    state_dtype: np.dtype[np.void]
    longest_game: int | None = None  # steps, where the rules bound it
    is_zero_sum: bool = False  # two seats, and what one wins the other loses

    def __init__(self, config: Part | None = None) -> None:
        self.config = config if config is not None else self.Config()

    @abstractmethod
    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        """Start a new game in each of `rows`; `keys[i]` seeds all chance in `rows[i]`."""

    @abstractmethod
    def observe(self, states: States, out: Observations) -> None:
        """Write what the acting seats see. A finished row has no legal action."""

    @abstractmethod
    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        """Apply `actions[row, acting]`; where one is illegal, raise and leave all states as they are."""

    @abstractmethod
    def action_name(self, action: int) -> str:
        """An action in the game's own words."""

    @abstractmethod
    def board_text(self, state: np.void) -> str:
        """The position as lines of text."""

    @abstractmethod
    def board_svg(self, state: np.void) -> str:
        """The position as a picture."""

    def film(self, states: States) -> bytes | None:
        """A game from one position to the next as an animated GIF, where the game can be drawn so."""
        return None

    def oracle(self) -> Oracle | None:
        """Who knows the exact results of this game's moves, if anybody does."""
        return None

    def heuristic(self) -> Heuristic | None:
        """Who guesses what moves are worth, for greedy players, if anybody does."""
        return None

    def move_name(self, state: np.void, action: int) -> str:
        """An action as people name it in this position."""
        return self.action_name(action)

    def parse_move(self, state: np.void, text: str) -> int:
        """The action a person means by `text` in this position."""
        return self.parse_action(text)

    def explain_action(self, state: np.void, action: int) -> str:
        """What an action means in this position, and whether it is legal."""
        states = self.new_states(1)
        states[0] = state
        observations = self.new_observations(1)
        self.observe(states, observations)
        if not 0 <= action < self.num_actions:
            return f"{action} is no action; they are 0 to {self.num_actions - 1}."
        is_legal = any(is_allowed(legal, action) for legal in observations.legal[0])
        verdict = "legal" if is_legal else "not legal"
        return f"{self.move_name(state, action)} is {verdict} here."

    def ending_text(self, state: np.void) -> str:
        """How the game ended in a finished position, where more is to be said than who won."""
        return ""

    def parse_action(self, text: str) -> int:
        """The action a person means by `text`: its name, in any case."""
        wanted = text.strip().lower()
        for action in range(self.num_actions):
            if self.action_name(action).lower() == wanted:
                return action
        raise IllegalActionError(f"{self.name}: {text!r} names no action; {self.describe_actions()}")

    def describe_actions(self) -> str:
        """The names of the actions, for a prompt or an error."""
        names = [self.action_name(action) for action in range(min(self.num_actions, 12))]
        more = ", …" if self.num_actions > len(names) else ""
        return f"actions are {', '.join(names)}{more}"

    def new_states(self, num_rows: int) -> States:
        """Zeroed states; `reset` them before use."""
        return np.zeros(num_rows, self.state_dtype)

    def new_games(self, num_rows: int, seed: int = 0) -> States:
        """States of games that have just begun, for looking and trying out."""
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
        """What a policy that sits in one seat alone has to know."""
        return SeatView(self.name, self.num_actions, self.observation_shape, self.observation_dtype)

    def warm_up(self) -> None:
        """Compile, or load from the cache, what playing needs; call it once before workers start."""
        states = self.new_states(1)
        observations, outcomes = self.new_observations(1), self.new_outcomes(1)
        self.reset(states, np.zeros(1, np.int64), np.zeros(1, np.uint64))
        self.observe(states, observations)
        allowed = np.unpackbits(observations.legal.view(np.uint8), axis=-1, bitorder="little")
        self.step(states, allowed.argmax(axis=-1).astype(np.int32), outcomes)

    def refuse(self, row: int, actions: NDArray[np.int32]) -> None:
        """Raise for the row that a step kernel refused; -1 means it refused none."""
        if row < 0:
            return
        tried = [int(action) for action in actions[row]]
        names = [self.action_name(a) if 0 <= a < self.num_actions else "no action" for a in tried]
        what = ", ".join(f"{action} ({name})" for action, name in zip(tried, names, strict=True))
        raise IllegalActionError(
            f"{self.name}: row {row}: action {what} is not legal here, or the game is over"
        )
