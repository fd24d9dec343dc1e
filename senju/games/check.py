"""The Game contract as code: `check_game(game)` plays a game at random and checks every promise.

>>> from senju.games import make_game
>>> check_game(make_game("tic_tac_toe")).num_games_finished > 0
True
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from senju.arguments import is_whole, require_seed
from senju.config import shown
from senju.errors import ConfigError, GameContractError, IllegalActionError
from senju.games.game import Game, Observations, Outcomes, States
from senju.games.guards import GuardBytes, guarded, is_intact
from senju.games.rows import ACTION, Rows, choose_at_random
from senju.kernels import unpack_legal
from senju.usercode import must_propagate

FILLINGS = (0x00, 0xFF)  # an output that differs after these two fillings was not written in full
DECLARED = ("name", "num_seats", "num_actions", "observation_shape", "state_dtype")
_MAX_SIZE = 2**20  # of rows, and of steps

Trace = list[tuple[NDArray[Any], ...]]  # [step]: observations, outcomes and states


@dataclass(frozen=True)
class GameReport:
    """The result of `check_game`."""

    name: str
    num_steps: int
    num_games_finished: int
    longest_game: int
    checks: tuple[str, ...]


def check_game(game: Game, *, num_rows: int = 8, num_steps: int = 400, seed: int = 0) -> GameReport:
    """Play `num_rows` games at random and raise GameContractError at the first broken promise."""
    if not isinstance(game, Game):
        raise ConfigError(f"game={shown(game)}: expected a Game, such as make_game returns")
    require_seed(seed)
    if not is_whole(num_steps, 1, _MAX_SIZE):
        raise ConfigError(f"num_steps={shown(num_steps)}: expected a whole number from 1 to {_MAX_SIZE}")
    if not is_whole(num_rows, 2, _MAX_SIZE):
        raise ConfigError(
            f"num_rows={shown(num_rows)}: expected 2 to {_MAX_SIZE}; "
            "at least 2 are needed to check that rows are independent"
        )
    checker = _Checker(game, num_rows, num_steps, seed)
    for check in _CHECKS.values():
        check(checker)
    finished, longest = checker.games_finished, checker.longest_game
    return GameReport(game.name, num_steps * num_rows, finished, longest, tuple(_CHECKS))


class _Checker:
    """Plays a game, and raises GameContractError with the game's name."""

    def __init__(self, game: Game, num_rows: int, num_steps: int, seed: int) -> None:
        self.game, self.num_rows, self.num_steps, self.seed = game, num_rows, num_steps, seed
        self.games_finished = self.longest_game = 0

    def fail(self, message: str) -> NoReturn:
        raise GameContractError(f"{getattr(self.game, 'name', type(self.game).__name__)}: {message}")

    def expect(self, holds: object, message: str) -> None:
        if not holds:
            self.fail(message)

    def rows(self, num_rows: int | None = None, first_row: int = 0) -> Rows:
        ids = np.arange(first_row, first_row + (num_rows or self.num_rows), dtype=np.uint32)
        return Rows(self.game, ids, self.seed)

    def random_actions(self, rows: Rows, observations: Observations) -> NDArray[np.int32]:
        actions = np.zeros((len(rows), self.game.num_acting), np.int32)
        choose_at_random(observations.legal, rows.clock, rows.seed, ACTION, actions)
        return actions

    def play(self, rows: Rows, num_steps: int | None = None) -> Trace:
        trace: Trace = []
        observations, outcomes = self.game.new_observations(len(rows)), self.game.new_outcomes(len(rows))
        for _ in range(min(self.num_steps, 200) if num_steps is None else num_steps):
            rows.observe(observations)
            rows.step(self.random_actions(rows, observations), outcomes)
            trace.append(tuple(array.copy() for array in (*observations, *outcomes, rows.states)))
            rows.advance(outcomes)
        return trace

    def expect_equal(self, one: Trace, other: Trace, message: str) -> None:
        names = (*Observations._fields, *Outcomes._fields, "states")
        for step, (these, those) in enumerate(zip(one, other, strict=True)):
            for name, this, that in zip(names, these, those, strict=True):
                self.expect(this.tobytes() == that.tobytes(), f"{message}: {name} at step {step}")

    def expect_refusal(
        self, states: States, actions: NDArray[np.int32], row: int, action: int, why: str
    ) -> None:
        before = states.tobytes()
        try:
            self.game.step(states, actions, self.game.new_outcomes(len(states)))
        except IllegalActionError as error:
            message = str(error)
        except BaseException as error:
            if must_propagate(error):
                raise
            raise GameContractError(
                f"{self.game.name}: row {row}: action {action} {why}; "
                f"expected an IllegalActionError, got {type(error).__name__}: {error}"
            ) from error
        else:
            self.fail(f"row {row}: action {action} {why} but was carried out")
        words = (self.game.name, f"row {row}", str(action))
        missing = [word for word in words if word not in message]
        self.expect(not missing, f"the error for an illegal action does not name {missing}: {message!r}")
        self.expect(states.tobytes() == before, "a refused step changed the states")


def _declarations(checker: _Checker) -> None:
    game, expect = checker.game, checker.expect
    for attribute in DECLARED:
        expect(hasattr(game, attribute), f"{attribute} is not declared")
    seats, shape = game.num_seats, game.observation_shape
    expect(isinstance(game.name, str) and game.name, "name must not be empty")
    expect(1 <= seats <= 128, f"num_seats={seats}: expected 1 to 128")
    expect(game.num_acting in (1, seats), f"num_acting={game.num_acting}: expected 1 or num_seats={seats}")
    expect(game.num_actions >= 2, f"num_actions={game.num_actions}: expected at least 2")
    is_shape = isinstance(shape, tuple) and shape and all(isinstance(n, int) and n > 0 for n in shape)
    expect(is_shape, f"observation_shape={shape!r}: expected a tuple of positive numbers")
    dtype, state = np.dtype(game.observation_dtype), np.dtype(game.state_dtype)
    is_small = dtype in (np.uint8, np.int8, np.bool_)
    expect(is_small, f"observation_dtype={dtype}: expected uint8, int8 or bool")
    expect(state.names and not state.hasobject, f"state_dtype={state}: expected a record of numbers")
    padding = _padding(state)
    expect(
        not padding,
        f"state_dtype has {padding} bytes of padding, which copies leave undefined; "
        "build it without align=True or name the padding as a field",
    )
    is_right = seats == 2 or not game.is_zero_sum
    expect(is_right, f"is_zero_sum with num_seats={seats}: expected 2 seats")


def _padding(dtype: np.dtype[Any]) -> int:
    """Bytes of a record, or of records within it, that belong to no field."""
    if dtype.subdtype is not None:
        element, shape = dtype.subdtype
        return _padding(element) * int(np.prod(shape))
    if dtype.names is None:
        return 0
    fields = [dtype[name] for name in dtype.names]
    return dtype.itemsize - sum(part.itemsize - _padding(part) for part in fields)


def _new_arrays(checker: _Checker) -> None:
    game, rows = checker.game, checker.num_rows
    names = ("states", *Observations._fields, *Outcomes._fields)
    made: list[NDArray[Any]] = [game.new_states(rows), *game.new_observations(rows), *game.new_outcomes(rows)]
    # from the class Game, in case the game overrides these methods
    right: tuple[NDArray[Any], ...] = (
        Game.new_states(game, rows),
        *Game.new_observations(game, rows),
        *Game.new_outcomes(game, rows),
    )
    for name, array, expected in zip(names, made, right, strict=True):
        checker.expect(
            array.shape == expected.shape and array.dtype == expected.dtype,
            f"new arrays for {name} are {array.dtype}{list(array.shape)}, "
            f"expected {expected.dtype}{list(expected.shape)}",
        )


def _reset(checker: _Checker) -> None:
    chosen, started = np.arange(0, checker.num_rows, 2), []
    for filling in FILLINGS:
        states, guard = guarded(checker.game.new_states(checker.num_rows))
        states.view(np.uint8).fill(filling)
        before, rows = states.copy(), chosen.copy()
        keys = np.arange(1, 1 + len(chosen), dtype=np.uint64)
        checker.game.reset(states, rows, keys)
        for row in range(1, checker.num_rows, 2):
            same = before[row].tobytes() == states[row].tobytes()
            checker.expect(same, f"reset of rows {chosen.tolist()} changed row {row}")
        checker.expect(is_intact(guard), "reset wrote outside the states array")
        given = np.array_equal(rows, chosen) and np.array_equal(keys, 1 + np.arange(len(chosen)))
        checker.expect(given, "reset changed its arguments rows or keys")
        started.append(states[chosen].tobytes())
    checker.expect(
        started[0] == started[1],
        "reset leaves data of the game before; a new game must depend on its key alone",
    )


def _random_play(checker: _Checker) -> None:
    game, rows = checker.game, checker.rows()
    plain = [rows.states, *game.new_observations(len(rows)), *game.new_outcomes(len(rows))]
    arrays, guards = zip(*map(guarded, plain), strict=True)
    rows.states, observations, outcomes = arrays[0], Observations(*arrays[1:4]), Outcomes(*arrays[4:])
    lengths = np.zeros(len(rows), np.int64)
    for _ in range(checker.num_steps):
        _observe_in_full(checker, rows, observations, guards)
        _check_observations(checker, observations)
        _step_in_full(checker, rows, checker.random_actions(rows, observations), outcomes, guards)
        _check_outcomes(checker, outcomes)
        if (outcomes.terminated | outcomes.truncated).any():
            _observe_in_full(checker, rows, observations, guards)
            _check_last_positions(checker, observations, outcomes)
        lengths += 1
        ended = rows.advance(outcomes)
        longest = checker.longest_game = max([checker.longest_game, *lengths[ended].tolist()])
        is_bounded = game.longest_game is None or longest <= game.longest_game
        checker.expect(is_bounded, f"a game took {longest} steps; longest_game={game.longest_game}")
        checker.games_finished += len(ended)
        lengths[ended] = 0
    checker.expect(
        checker.games_finished > 0,
        f"no game ended within {checker.num_steps} steps of random play; pass a larger num_steps",
    )


def _observe_in_full(
    checker: _Checker, rows: Rows, observations: Observations, guards: tuple[GuardBytes, ...]
) -> None:
    """Observe into arrays with two different fillings, as slots are reused with their old content."""
    before, seen = rows.states.tobytes(), []
    for filling in FILLINGS:
        for array in observations:
            array.view(np.uint8).fill(filling)
        rows.observe(observations)
        seen.append([array.tobytes() for array in observations])
    for name, one, other in zip(Observations._fields, *seen, strict=True):
        checker.expect(one == other, f"observe does not write all of {name}")
    checker.expect(rows.states.tobytes() == before, "observe changed the states")
    checker.expect(all(map(is_intact, guards)), "observe wrote outside its arrays")


def _step_in_full(
    checker: _Checker,
    rows: Rows,
    actions: NDArray[np.int32],
    outcomes: Outcomes,
    guards: tuple[GuardBytes, ...],
) -> None:
    """Step with legal actions, into arrays filled with values that a step never writes."""
    outcomes.rewards.fill(np.nan)
    outcomes.terminated.view(np.uint8).fill(2)
    outcomes.truncated.view(np.uint8).fill(2)
    given = actions.copy()
    try:
        rows.step(given, outcomes)
    except IllegalActionError as error:
        checker.fail(f"an action that the legal mask allows was refused: {error}")
    checker.expect(np.array_equal(given, actions), "step changed its argument actions")
    checker.expect(all(map(is_intact, guards)), "step wrote outside its arrays")


def _check_observations(checker: _Checker, observations: Observations) -> None:
    game, seats = checker.game, observations.seats
    checker.expect(((seats >= -1) & (seats < game.num_seats)).all(), f"seats out of range: {seats.tolist()}")
    bits = np.unpackbits(observations.legal.view(np.uint8), axis=-1, bitorder="little")
    checker.expect(not bits[..., game.num_actions :].any(), "legal words have bits beyond num_actions")
    acts, may_act = seats >= 0, bits.any(axis=-1)
    for row, index in np.argwhere(acts & ~may_act).tolist():
        checker.fail(f"row {row}, seat {seats[row, index]}: no legal action while the game runs")
    for row, index in np.argwhere(~acts & may_act).tolist():
        checker.fail(f"row {row}, index {index}: legal actions where no seat acts")
    for row in np.flatnonzero(~acts.any(axis=1)).tolist():
        checker.fail(f"row {row}: no seat acts while the game runs")
    if game.num_acting > 1:
        in_order = np.where(acts, seats, np.arange(game.num_seats)) == np.arange(game.num_seats)
        checker.expect(in_order.all(), "where all seats act at once, seats[row, i] must be i or -1")


def _check_outcomes(checker: _Checker, outcomes: Outcomes) -> None:
    for row in np.flatnonzero(~np.isfinite(outcomes.rewards).all(axis=1)).tolist():
        checker.fail(f"row {row}: not every seat's reward was written: {outcomes.rewards[row].tolist()}")
    for name in ("terminated", "truncated"):
        written = getattr(outcomes, name).view(np.uint8) <= 1
        checker.expect(written.all(), f"{name} was not written in every row")
    both = outcomes.terminated & outcomes.truncated
    checker.expect(not both.any(), "a row is both terminated and truncated; set terminated alone")
    if checker.game.is_zero_sum:
        sums = outcomes.rewards.sum(axis=1)
        checker.expect(np.abs(sums).max() < 1e-6, f"rewards of a zero-sum game add up to {sums.tolist()}")


def _check_last_positions(checker: _Checker, observations: Observations, outcomes: Outcomes) -> None:
    """A truncated position still has an acting seat, so that a model can estimate its value."""
    acts = (observations.seats >= 0).any(axis=1)
    for row in np.flatnonzero(outcomes.truncated & ~acts).tolist():
        checker.fail(f"row {row}: truncated, but `observe` gives no acting seat in the last position")
    may_act = observations.legal.any(axis=(1, 2))
    for row in np.flatnonzero(outcomes.terminated & may_act).tolist():
        checker.fail(f"row {row}: legal actions after the end")


def _illegal_actions(checker: _Checker) -> None:
    game, rows = checker.game, checker.rows()
    observations, outcomes = game.new_observations(len(rows)), game.new_outcomes(len(rows))
    outside = [-1, game.num_actions, 2**31 - 1, -(2**31)]
    for _ in range(min(checker.num_steps, 60)):
        rows.observe(observations)
        legal = unpack_legal(observations.legal, game.num_actions)
        for row, index in np.argwhere(observations.seats >= 0).tolist():
            if 0 < row < len(rows) - 1:
                continue
            inside = np.flatnonzero(~legal[row, index]).tolist()
            for action in {*outside, *inside[:1], *inside[-1:]}:
                actions = checker.random_actions(rows, observations)
                actions[row, index] = action
                checker.expect_refusal(rows.states, actions, row, action, "is not legal")
        rows.step(checker.random_actions(rows, observations), outcomes)
        rows.advance(outcomes)


def _finished_rows(checker: _Checker) -> None:
    game, rows = checker.game, checker.rows()
    observations, outcomes = game.new_observations(len(rows)), game.new_outcomes(len(rows))
    unseen = {"terminated", "truncated"}
    for _ in range(checker.num_steps):
        rows.observe(observations)
        rows.step(checker.random_actions(rows, observations), outcomes)
        for ending in sorted(unseen):
            for row in np.flatnonzero(getattr(outcomes, ending))[:1].tolist():
                unseen.remove(ending)
                for action in range(game.num_actions):
                    actions = np.full((1, game.num_acting), action, np.int32)
                    why = f"comes after its game {ending}"
                    checker.expect_refusal(rows.states[row : row + 1], actions, 0, action, why)
        if not unseen:
            break
        rows.advance(outcomes)


def _same_keys(checker: _Checker) -> None:
    one, other = checker.play(checker.rows()), checker.play(checker.rows())
    checker.expect_equal(one, other, "two games with the same keys differ")


def _independent_rows(checker: _Checker) -> None:
    together = checker.play(checker.rows())
    for first, count in ((0, 1), (checker.num_rows - 1, 1), (1, checker.num_rows - 1)):
        alone = checker.play(checker.rows(count, first))
        part = [tuple(array[first : first + count] for array in step) for step in together]
        rows = f"rows {first} to {first + count - 1}"
        checker.expect_equal(part, alone, f"{rows} differ when played in a smaller batch")


def _copied_states(checker: _Checker) -> None:
    rows, again = checker.rows(), checker.rows()
    checker.play(rows, min(checker.num_steps, 200) // 3)
    states, clock = rows.states.copy(), rows.clock.copy()
    first = checker.play(rows)
    again.states[:], again.clock[:] = states, clock
    checker.expect_equal(first, checker.play(again), "a copy of the states replays differently")


def _display(checker: _Checker) -> None:
    game, state = checker.game, checker.rows(1).states[0]
    checker.expect(game.board_text(state).strip(), "board_text gives an empty text")
    checker.expect(game.board_svg(state).lstrip().startswith("<svg"), "board_svg gives no <svg>")
    names = [game.action_name(action) for action in range(game.num_actions)]
    checker.expect(len(set(names)) == len(names), "two actions have the same name")
    for action in {0, game.num_actions - 1}:
        read = game.parse_action(names[action])
        checker.expect(read == action, f"parse_action({names[action]!r}) gives {read}, expected {action}")


_CHECKS: dict[str, Callable[[_Checker], None]] = {
    "declarations": _declarations,
    "shapes and dtypes": _new_arrays,
    "reset touches only its rows, and a new game depends on its key alone": _reset,
    "masks, seats, rewards, auto-reset; nothing is written outside the arrays": _random_play,
    "illegal actions are refused and change nothing": _illegal_actions,
    "finished rows are refused": _finished_rows,
    "same keys, same game": _same_keys,
    "rows and batch sizes are independent": _independent_rows,
    "a copied state replays to equal bytes": _copied_states,
    "action names and boards": _display,
}
