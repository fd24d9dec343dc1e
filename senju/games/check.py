"""The Game contract as code: `check_game(game)` plays a game and holds it to every promise.

>>> from senju.games import make_game
>>> check_game(make_game("tic_tac_toe")).num_games_finished > 0
True
"""

from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from senju.errors import GameContractError, IllegalActionError
from senju.games.game import Game, Observations, Outcomes
from senju.games.rows import ACTION, Rows, choose_at_random
from senju.kernels import unpack_legal

GUARD = 64  # bytes before and behind each array, to notice writes outside
GUARD_BYTE = 0xA5


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


def check_game(game: Game, *, num_rows: int = 8, num_steps: int = 400, seed: int = 0) -> GameReport:
    """Play `num_rows` games at random and raise GameContractError at the first broken promise."""
    checker = _Checker(game, num_rows, num_steps, seed)
    checker.declarations()
    checker.reset_touches_only_its_rows()
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
        self.expect(isinstance(game.name, str) and game.name, "name must be a word")
        self.expect(game.num_seats >= 1, f"num_seats={game.num_seats}: at least one seat is needed")
        self.expect(
            game.num_acting in (1, game.num_seats),
            f"num_acting={game.num_acting}: expected 1 or num_seats={game.num_seats}",
        )
        self.expect(game.num_actions >= 2, f"num_actions={game.num_actions}: at least two are needed")
        dtype = np.dtype(game.observation_dtype)
        self.expect(dtype.itemsize == 1, f"observation_dtype={dtype}: expected uint8, int8 or bool")
        state = np.dtype(game.state_dtype)
        self.expect(state.names and not state.hasobject, f"state_dtype={state}: expected a record of numbers")
        used = sum(state[name].itemsize for name in state.names or ())
        self.expect(
            used == state.itemsize,
            f"state_dtype has {state.itemsize - used} bytes of padding, which copies leave undefined; "
            "build it without align=True or name the padding as a field",
        )
        if game.is_zero_sum:
            self.expect(game.num_seats == 2, f"is_zero_sum with num_seats={game.num_seats}: expected 2 seats")
        self.passed.append("declarations")

    def reset_touches_only_its_rows(self) -> None:
        states, guard = _guarded((self.num_rows,), self.game.state_dtype)
        before = states.tobytes()
        chosen = np.arange(0, self.num_rows, 2)
        self.game.reset(states, chosen, np.arange(len(chosen), dtype=np.uint64))
        after, size = states.tobytes(), states.itemsize
        for row in set(range(self.num_rows)) - set(chosen.tolist()):
            span = slice(row * size, (row + 1) * size)
            self.expect(before[span] == after[span], f"reset of rows {chosen.tolist()} changed row {row}")
        self.expect(_intact(guard), "reset wrote outside the states array")
        self.passed.append("reset touches only its rows")

    def random_play_keeps_the_contract(self) -> None:
        rows = self.rows()
        rows.states, state_guard = _guarded_copy(rows.states)
        observations, outcomes, guards = self.guarded_arrays()
        lengths = np.zeros(self.num_rows, np.int64)
        for _ in range(self.num_steps):
            self.poison(observations, outcomes)
            rows.observe(observations)
            self.check_observations(observations)
            actions = self.random_actions(rows, observations)
            rows.step(actions, outcomes)
            self.check_outcomes(outcomes)
            self.check_finished_rows(rows, outcomes)
            self.expect(all(map(_intact, [*guards, state_guard])), "a kernel wrote outside its arrays")
            lengths += 1
            ended = rows.advance(outcomes)
            self.longest_game = max([self.longest_game, *lengths[ended].tolist()])
            self.games_finished += len(ended)
            lengths[ended] = 0
        self.steps_played = self.num_steps * self.num_rows
        self.expect(
            self.games_finished > 0,
            f"no game ended within {self.num_steps} steps of random play; pass a larger num_steps",
        )
        self.passed += ["shapes, masks, seats, rewards", "nothing written outside the arrays", "auto-reset"]

    def guarded_arrays(self) -> tuple[Observations, Outcomes, list[NDArray[np.uint8]]]:
        plain = [*self.game.new_observations(self.num_rows), *self.game.new_outcomes(self.num_rows)]
        pairs = [_guarded(array.shape, array.dtype) for array in plain]
        arrays = [array for array, _ in pairs]
        return Observations(*arrays[:3]), Outcomes(*arrays[3:]), [guard for _, guard in pairs]

    def poison(self, observations: Observations, outcomes: Outcomes) -> None:
        """Fill the outputs with rubbish, so that what a kernel forgets to write is seen."""
        observations.seats.fill(99)
        observations.legal.fill(np.uint64(2**64 - 1))
        outcomes.rewards.fill(np.nan)
        outcomes.terminated.view(np.uint8).fill(2)
        outcomes.truncated.view(np.uint8).fill(2)

    def check_observations(self, observations: Observations) -> None:
        game, seats = self.game, observations.seats
        self.expect(((seats >= -1) & (seats < game.num_seats)).all(), f"seats out of range: {seats.tolist()}")
        bits = np.unpackbits(observations.legal.view(np.uint8), axis=-1, bitorder="little")
        self.expect(not bits[..., game.num_actions :].any(), "legal words have bits beyond num_actions")
        acts = seats >= 0
        for row, place in np.argwhere(acts & ~bits.any(axis=-1)).tolist():
            self.fail(f"row {row}, seat {seats[row, place]}: no legal action while the game runs")
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

    def check_finished_rows(self, rows: Rows, outcomes: Outcomes) -> None:
        """A truncated position still has an acting seat, so that its value can be asked for."""
        if not outcomes.truncated.any():
            return
        observations = self.game.new_observations(self.num_rows)
        rows.observe(observations)
        acts = (observations.seats >= 0).any(axis=1)
        for row in np.flatnonzero(outcomes.truncated & ~acts).tolist():
            self.fail(f"row {row}: truncated, but `observe` names no seat to act in the last position")

    def illegal_actions_are_refused(self) -> None:
        rows = self.rows()
        observations, outcomes = (
            self.game.new_observations(self.num_rows),
            self.game.new_outcomes(self.num_rows),
        )
        outside = [-1, self.game.num_actions, 2**31 - 1, -(2**31)]
        for _ in range(min(self.num_steps, 60)):
            rows.observe(observations)
            legal = unpack_legal(observations.legal, self.game.num_actions)
            for row in (0, self.num_rows - 1):
                inside = np.flatnonzero(~legal[row, 0])[:1].tolist()
                for action in [*outside, *inside]:
                    actions = self.random_actions(rows, observations)
                    actions[row, 0] = action
                    self.expect_refusal(rows, actions, outcomes, row, action)
            rows.step(self.random_actions(rows, observations), outcomes)
            rows.advance(outcomes)
        self.passed.append("illegal actions are refused and change nothing")

    def expect_refusal(
        self, rows: Rows, actions: NDArray[np.int32], outcomes: Outcomes, row: int, action: int
    ) -> None:
        before = rows.states.tobytes()
        try:
            rows.step(actions, outcomes)
        except IllegalActionError as error:
            message = str(error)
        else:
            self.fail(f"row {row}: action {action} is not legal but was carried out")
        words = (self.game.name, f"row {row}", str(action))
        missing = [word for word in words if word not in message]
        self.expect(not missing, f"the error for an illegal action does not name {missing}: {message!r}")
        self.expect(rows.states.tobytes() == before, "a refused step changed the states")

    def finished_rows_are_refused(self) -> None:
        rows = self.rows()
        observations, outcomes = (
            self.game.new_observations(self.num_rows),
            self.game.new_outcomes(self.num_rows),
        )
        for _ in range(self.num_steps):
            rows.observe(observations)
            rows.step(self.random_actions(rows, observations), outcomes)
            for row in np.flatnonzero(outcomes.terminated).tolist():
                rows.observe(observations)
                self.expect(not observations.legal[row].any(), f"row {row}: legal actions after the end")
                first_over = int(np.flatnonzero(outcomes.terminated | outcomes.truncated)[0])
                again = self.random_actions(rows, observations)
                self.expect_refusal(rows, again, outcomes, first_over, int(again[first_over, 0]))
                self.passed.append("finished rows are refused")
                return
            rows.advance(outcomes)

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


def _guarded(shape: tuple[int, ...], dtype: Any) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """An array inside a larger block of known bytes, and that block."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    block = np.full(size + 2 * GUARD, GUARD_BYTE, np.uint8)
    return block[GUARD : GUARD + size].view(dtype).reshape(shape), block


def _guarded_copy(array: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    inner, block = _guarded(array.shape, array.dtype)
    inner[...] = array
    return inner, block


def _intact(block: NDArray[np.uint8]) -> bool:
    return bool((block[:GUARD] == GUARD_BYTE).all() and (block[-GUARD:] == GUARD_BYTE).all())
