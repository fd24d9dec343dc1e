"""The Game contract as code: `check_game(game)` plays a game and holds it to every promise.

>>> from senju.games import make_game
>>> check_game(make_game("tic_tac_toe")).num_games_finished > 0
True
"""

from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from senju.arguments import is_whole, require_seed
from senju.config import shown
from senju.errors import ConfigError, GameContractError, IllegalActionError
from senju.games.game import Game, Observations, Outcomes, States
from senju.games.guards import Block, guarded, guarded_copy, is_intact
from senju.games.rows import ACTION, Rows, choose_at_random
from senju.kernels import legal_words, unpack_legal
from senju.usercode import passes_on

RUBBISH = (0x00, 0xFF)  # an output that differs after these two fillings was not written in full
DECLARED = ("name", "num_seats", "num_actions", "observation_shape", "state_dtype")


@dataclass(frozen=True)
class GameReport:
    """What `check_game` saw."""

    name: str
    num_steps: int
    num_games_finished: int
    longest_game: int
    checks: tuple[str, ...]


@dataclass
class _Trace:
    """Everything a batch of rows showed, step by step."""

    arrays: list[tuple[NDArray[Any], ...]] = field(default_factory=list)

    def add(self, *arrays: NDArray[Any]) -> None:
        self.arrays.append(tuple(array.copy() for array in arrays))


_MOST = 2**20  # rows, and steps of each


def check_game(game: Game, *, num_rows: int = 8, num_steps: int = 400, seed: int = 0) -> GameReport:
    """Play `num_rows` games at random and raise GameContractError at the first broken promise."""
    if not isinstance(game, Game):
        raise ConfigError(f"game={shown(game)}: expected a Game, as make_game gives it")
    require_seed(seed)
    if not is_whole(num_steps, 1, _MOST):
        raise ConfigError(f"num_steps={shown(num_steps)}: expected a whole number from 1 to {_MOST}")
    if not is_whole(num_rows, 2, _MOST):
        raise ConfigError(
            f"num_rows={shown(num_rows)}: expected 2 to {_MOST}; "
            "at least 2 are needed to see whether rows are independent"
        )
    checker = _Checker(game, num_rows, num_steps, seed)
    checker.declarations()
    checker.new_arrays_are_as_declared()
    checker.reset_writes_its_rows_and_nothing_else()
    checker.random_play_keeps_the_contract()
    checker.illegal_actions_are_refused()
    checker.finished_rows_are_refused()
    checker.same_keys_give_the_same_game()
    checker.rows_do_not_influence_each_other()
    checker.a_copied_state_replays_to_equal_bytes()
    checker.people_can_read_it()
    return GameReport(
        game.name, checker.steps_played, checker.games_finished, checker.longest_game, tuple(checker.passed)
    )


class _Checker:
    def __init__(self, game: Game, num_rows: int, num_steps: int, seed: int) -> None:
        self.game, self.num_rows, self.num_steps, self.seed = game, num_rows, num_steps, seed
        self.steps_played = self.games_finished = self.longest_game = 0
        self.passed: list[str] = []

    def expect_bounded(self) -> None:
        bound = self.game.longest_game
        if bound is not None and self.longest_game > bound:
            self.fail(f"a game took {self.longest_game} steps, longest_game says {bound} at most")

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

    def declarations(self) -> None:
        game = self.game
        for attribute in DECLARED:
            self.expect(hasattr(game, attribute), f"{attribute} is not declared")
        self.expect(isinstance(game.name, str) and game.name, "name must be a word")
        self.expect(1 <= game.num_seats <= 127, f"num_seats={game.num_seats}: expected 1 to 127")
        self.expect(
            game.num_acting in (1, game.num_seats),
            f"num_acting={game.num_acting}: expected 1 or num_seats={game.num_seats}",
        )
        self.expect(game.num_actions >= 2, f"num_actions={game.num_actions}: at least two are needed")
        shape = game.observation_shape
        self.expect(
            isinstance(shape, tuple) and shape and all(isinstance(n, int) and n > 0 for n in shape),
            f"observation_shape={shape!r}: expected a tuple of positive numbers",
        )
        dtype = np.dtype(game.observation_dtype)
        self.expect(
            dtype in (np.uint8, np.int8, np.bool_),
            f"observation_dtype={dtype}: expected uint8, int8 or bool",
        )
        state = np.dtype(game.state_dtype)
        self.expect(state.names and not state.hasobject, f"state_dtype={state}: expected a record of numbers")
        padding = _padding(state)
        self.expect(
            not padding,
            f"state_dtype has {padding} bytes of padding, which copies leave undefined; "
            "build it without align=True or name the padding as a field",
        )
        if game.is_zero_sum:
            self.expect(game.num_seats == 2, f"is_zero_sum with num_seats={game.num_seats}: expected 2 seats")
        self.passed.append("declarations")

    def new_arrays_are_as_declared(self) -> None:
        game, rows, places = self.game, self.num_rows, (self.num_rows, self.game.num_acting)
        made = {
            "states": game.new_states(rows),
            **game.new_observations(rows)._asdict(),
            **game.new_outcomes(rows)._asdict(),
        }
        declared: dict[str, tuple[tuple[int, ...], Any]] = {
            "states": ((rows,), game.state_dtype),
            "observation": ((*places, *game.observation_shape), game.observation_dtype),
            "legal": ((*places, legal_words(game.num_actions)), np.uint64),
            "seats": (places, np.int8),
            "rewards": ((rows, game.num_seats), np.float32),
            "terminated": ((rows,), np.bool_),
            "truncated": ((rows,), np.bool_),
        }
        for name, (shape, dtype) in declared.items():
            array = made[name]
            self.expect(
                array.shape == shape and array.dtype == np.dtype(dtype),
                f"new arrays for {name} are {array.dtype}{list(array.shape)}, "
                f"expected {np.dtype(dtype)}{list(shape)}",
            )
        self.passed.append("shapes and dtypes")

    def reset_writes_its_rows_and_nothing_else(self) -> None:
        chosen = np.arange(0, self.num_rows, 2)
        others = np.setdiff1d(np.arange(self.num_rows), chosen)
        started = []
        for rubbish in RUBBISH:
            states, guard = guarded((self.num_rows,), self.game.state_dtype)
            states.view(np.uint8).fill(rubbish)
            before, rows = states.copy(), chosen.copy()
            keys = np.arange(1, 1 + len(chosen), dtype=np.uint64)
            self.game.reset(states, rows, keys)
            for row in others.tolist():
                same = before[row].tobytes() == states[row].tobytes()
                self.expect(same, f"reset of rows {chosen.tolist()} changed row {row}")
            self.expect(is_intact(guard), "reset wrote outside the states array")
            given = np.array_equal(rows, chosen) and np.array_equal(keys, 1 + np.arange(len(chosen)))
            self.expect(given, "reset changed the rows or keys it was given")
            started.append(states[chosen].tobytes())
        self.expect(
            started[0] == started[1],
            "reset leaves something of the game before; a new game must depend on its key alone",
        )
        self.passed += ["reset touches only its rows", "a new game depends on its key alone"]

    def random_play_keeps_the_contract(self) -> None:
        rows = self.rows()
        rows.states, state_guard = guarded_copy(rows.states)
        observations, outcomes, guards = self.guarded_arrays()
        guards.append(state_guard)
        lengths = np.zeros(self.num_rows, np.int64)
        for _ in range(self.num_steps):
            self.observe_in_full(rows, observations, guards)
            self.check_observations(observations)
            self.step_in_full(rows, self.random_actions(rows, observations), outcomes, guards)
            self.check_outcomes(outcomes)
            if (outcomes.terminated | outcomes.truncated).any():
                self.observe_in_full(rows, observations, guards)
                self.check_last_positions(observations, outcomes)
            lengths += 1
            ended = rows.advance(outcomes)
            self.longest_game = max([self.longest_game, *lengths[ended].tolist()])
            self.expect_bounded()
            self.games_finished += len(ended)
            lengths[ended] = 0
        self.steps_played = self.num_steps * self.num_rows
        self.expect(
            self.games_finished > 0,
            f"no game ended within {self.num_steps} steps of random play; pass a larger num_steps",
        )
        self.passed += ["masks, seats, rewards", "nothing written outside the arrays", "auto-reset"]

    def guarded_arrays(self) -> tuple[Observations, Outcomes, list[Block]]:
        plain = [*self.game.new_observations(self.num_rows), *self.game.new_outcomes(self.num_rows)]
        pairs = [guarded(array.shape, array.dtype) for array in plain]
        arrays = [array for array, _ in pairs]
        return Observations(*arrays[:3]), Outcomes(*arrays[3:]), [guard for _, guard in pairs]

    def observe_in_full(self, rows: Rows, observations: Observations, guards: list[Block]) -> None:
        """Observe over rubbish of two kinds: slots are used again, and hold what was there before."""
        before, seen = rows.states.tobytes(), []
        for rubbish in RUBBISH:
            for array in observations:
                array.view(np.uint8).fill(rubbish)
            rows.observe(observations)
            seen.append([array.tobytes() for array in observations])
        for name, one, other in zip(Observations._fields, *seen, strict=True):
            self.expect(one == other, f"observe does not write all of {name}")
        self.expect(rows.states.tobytes() == before, "observe changed the states")
        self.expect(all(map(is_intact, guards)), "observe wrote outside its arrays")

    def step_in_full(
        self, rows: Rows, actions: NDArray[np.int32], outcomes: Outcomes, guards: list[Block]
    ) -> None:
        """Step over rubbish, with actions that the masks allow."""
        outcomes.rewards.fill(np.nan)
        outcomes.terminated.view(np.uint8).fill(2)
        outcomes.truncated.view(np.uint8).fill(2)
        given = actions.copy()
        try:
            rows.step(given, outcomes)
        except IllegalActionError as error:
            self.fail(f"an action that the legal mask allows was refused: {error}")
        self.expect(np.array_equal(given, actions), "step changed the actions it was given")
        self.expect(all(map(is_intact, guards)), "step wrote outside its arrays")

    def check_observations(self, observations: Observations) -> None:
        game, seats = self.game, observations.seats
        self.expect(((seats >= -1) & (seats < game.num_seats)).all(), f"seats out of range: {seats.tolist()}")
        bits = np.unpackbits(observations.legal.view(np.uint8), axis=-1, bitorder="little")
        self.expect(not bits[..., game.num_actions :].any(), "legal words have bits beyond num_actions")
        acts, may_act = seats >= 0, bits.any(axis=-1)
        for row, place in np.argwhere(acts & ~may_act).tolist():
            self.fail(f"row {row}, seat {seats[row, place]}: no legal action while the game runs")
        for row, place in np.argwhere(~acts & may_act).tolist():
            self.fail(f"row {row}, place {place}: legal actions where nobody acts")
        for row in np.flatnonzero(~acts.any(axis=1)).tolist():
            self.fail(f"row {row}: nobody acts while the game runs")
        if game.num_acting > 1:
            ordered = np.where(acts, seats, np.arange(game.num_seats))
            self.expect(
                (ordered == np.arange(game.num_seats)).all(),
                "where all act at once, place i must hold seat i or -1",
            )

    def check_outcomes(self, outcomes: Outcomes) -> None:
        for row in np.flatnonzero(~np.isfinite(outcomes.rewards).all(axis=1)).tolist():
            self.fail(f"row {row}: not every seat's reward was written: {outcomes.rewards[row].tolist()}")
        for name in ("terminated", "truncated"):
            written = getattr(outcomes, name).view(np.uint8) <= 1
            self.expect(written.all(), f"{name} was not written in every row")
        both = outcomes.terminated & outcomes.truncated
        self.expect(not both.any(), "a row is both terminated and truncated; the rules' end comes first")
        if self.game.is_zero_sum:
            sums = outcomes.rewards.sum(axis=1)
            self.expect(np.abs(sums).max() < 1e-6, f"rewards of a zero-sum game add up to {sums.tolist()}")

    def check_last_positions(self, observations: Observations, outcomes: Outcomes) -> None:
        """A truncated position still has an acting seat, so that its value can be asked for."""
        acts = (observations.seats >= 0).any(axis=1)
        for row in np.flatnonzero(outcomes.truncated & ~acts).tolist():
            self.fail(f"row {row}: truncated, but `observe` names no seat to act in the last position")
        may_act = observations.legal.any(axis=(1, 2))
        for row in np.flatnonzero(outcomes.terminated & may_act).tolist():
            self.fail(f"row {row}: legal actions after the end")

    def illegal_actions_are_refused(self) -> None:
        rows = self.rows()
        observations, outcomes = self.plain_arrays()
        outside = [-1, self.game.num_actions, 2**31 - 1, -(2**31)]
        for _ in range(min(self.num_steps, 60)):
            rows.observe(observations)
            legal = unpack_legal(observations.legal, self.game.num_actions)
            for row, place in np.argwhere(observations.seats >= 0).tolist():
                if 0 < row < self.num_rows - 1:
                    continue
                inside = np.flatnonzero(~legal[row, place]).tolist()
                for action in {*outside, *inside[:1], *inside[-1:]}:
                    actions = self.random_actions(rows, observations)
                    actions[row, place] = action
                    self.expect_refusal(rows.states, actions, row, action, "is not legal")
            rows.step(self.random_actions(rows, observations), outcomes)
            rows.advance(outcomes)
        self.passed.append("illegal actions are refused and change nothing")

    def plain_arrays(self) -> tuple[Observations, Outcomes]:
        return self.game.new_observations(self.num_rows), self.game.new_outcomes(self.num_rows)

    def expect_refusal(
        self, states: States, actions: NDArray[np.int32], row: int, action: int, why: str
    ) -> None:
        before = states.tobytes()
        try:
            self.game.step(states, actions, self.game.new_outcomes(len(states)))
        except IllegalActionError as error:
            message = str(error)
        except BaseException as error:
            if passes_on(error):
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

    def finished_rows_are_refused(self) -> None:
        rows = self.rows()
        observations, outcomes = self.plain_arrays()
        unseen = {"terminated", "truncated"}
        for _ in range(self.num_steps):
            rows.observe(observations)
            rows.step(self.random_actions(rows, observations), outcomes)
            for ending in sorted(unseen):
                for row in np.flatnonzero(getattr(outcomes, ending))[:1].tolist():
                    self.expect_all_refused(rows.states[row : row + 1], f"comes after its game {ending}")
                    unseen.remove(ending)
            if not unseen:
                break
            rows.advance(outcomes)
        self.passed.append("finished rows are refused")

    def expect_all_refused(self, state: States, why: str) -> None:
        actions = np.zeros((1, self.game.num_acting), np.int32)
        for action in range(self.game.num_actions):
            actions.fill(action)
            self.expect_refusal(state, actions, 0, action, why)

    def play(self, rows: Rows, num_steps: int) -> _Trace:
        trace = _Trace()
        observations, outcomes = self.game.new_observations(len(rows)), self.game.new_outcomes(len(rows))
        for _ in range(num_steps):
            rows.observe(observations)
            rows.step(self.random_actions(rows, observations), outcomes)
            trace.add(*observations, *outcomes, rows.states)
            rows.advance(outcomes)
        return trace

    def same_keys_give_the_same_game(self) -> None:
        steps = min(self.num_steps, 200)
        self.expect_equal(
            self.play(self.rows(), steps),
            self.play(self.rows(), steps),
            "two games with the same keys differ",
        )
        self.passed.append("same keys, same game")

    def rows_do_not_influence_each_other(self) -> None:
        steps = min(self.num_steps, 200)
        together = self.play(self.rows(), steps)
        for first, count in ((0, 1), (self.num_rows - 1, 1), (1, self.num_rows - 1)):
            alone = self.play(self.rows(count, first), steps)
            part = _Trace([tuple(a[first : first + count] for a in step) for step in together.arrays])
            self.expect_equal(
                part, alone, f"rows {first} to {first + count - 1} differ when played in a smaller batch"
            )
        self.passed.append("rows and batch sizes are independent")

    def a_copied_state_replays_to_equal_bytes(self) -> None:
        steps = min(self.num_steps, 200)
        rows = self.rows()
        self.play(rows, steps // 3)
        states, clock = rows.states.copy(), rows.clock.copy()
        first = self.play(rows, steps)
        again = self.rows()
        again.states[:], again.clock[:] = states, clock
        self.expect_equal(first, self.play(again, steps), "a copy of the states replays to something else")
        self.passed.append("a copied state replays to equal bytes")

    def expect_equal(self, one: _Trace, other: _Trace, message: str) -> None:
        names = (*Observations._fields, *Outcomes._fields, "states")
        for step, (these, those) in enumerate(zip(one.arrays, other.arrays, strict=True)):
            for name, this, that in zip(names, these, those, strict=True):
                self.expect(this.tobytes() == that.tobytes(), f"{message}: {name} at step {step}")

    def people_can_read_it(self) -> None:
        state = self.rows(1).states[0]
        self.expect(self.game.board_text(state).strip(), "board_text gives nothing")
        self.expect(self.game.board_svg(state).lstrip().startswith("<svg"), "board_svg gives no <svg>")
        names = [self.game.action_name(action) for action in range(self.game.num_actions)]
        self.expect(len(set(names)) == len(names), "two actions have the same name")
        for action in {0, self.game.num_actions - 1}:
            read = self.game.parse_action(names[action])
            self.expect(read == action, f"parse_action({names[action]!r}) gives {read}, expected {action}")
        self.passed.append("names and boards for people")


def _padding(dtype: np.dtype[Any]) -> int:
    """Bytes of a record, or of records within it, that belong to no field."""
    if dtype.subdtype is not None:
        element, shape = dtype.subdtype
        return _padding(element) * int(np.prod(shape))
    if dtype.names is None:
        return 0
    fields = [dtype[name] for name in dtype.names]
    return dtype.itemsize - sum(part.itemsize - _padding(part) for part in fields)
