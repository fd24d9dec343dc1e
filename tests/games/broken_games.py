"""One broken game for each promise of the contract; it keeps all the others."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.errors import IllegalActionError
from senju.games.game import Observations, Outcomes, States
from senju.games.tic_tac_toe import TicTacToe
from senju.kernels import below, random_word
from tests.games.small_games import CardDuel, DiceRace, Harvest, PlainGame, Walk


def stray_write(array: NDArray[Any], distance: int) -> None:
    """Change the byte `distance` behind the array (before it, if negative) where that does no harm."""
    block = array.base
    if not isinstance(block, np.ndarray) or block.dtype != np.uint8:
        return
    start = array.ctypes.data - block.ctypes.data
    block[start + distance if distance < 0 else start + array.nbytes + distance - 1] = 0


class ActionsNotDeclared(PlainGame):
    name = "walk"
    num_seats = 1
    state_dtype = Walk.state_dtype


class WideObservations(TicTacToe):
    def new_observations(self, num_rows: int) -> Observations:
        observations = super().new_observations(num_rows)
        return observations._replace(observation=observations.observation.astype(np.int32))


class FlatObservations(TicTacToe):
    def new_observations(self, num_rows: int) -> Observations:
        observations = super().new_observations(num_rows)
        return observations._replace(observation=observations.observation.reshape(num_rows, 1, -1))


class DoubleRewards(TicTacToe):
    def new_outcomes(self, num_rows: int) -> Outcomes:
        outcomes = super().new_outcomes(num_rows)
        return outcomes._replace(rewards=outcomes.rewards.astype(np.float64))


class OneStateTooMany(TicTacToe):
    def new_states(self, num_rows: int) -> States:
        return super().new_states(num_rows + 1)


class ResetsEveryRow(TicTacToe):
    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        super().reset(states, np.arange(len(states)), keys)


class ResetWritesBehindTheStates(TicTacToe):
    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        super().reset(states, rows, keys)
        stray_write(states, 1)


class ResetUsesUpItsKeys(DiceRace):
    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        super().reset(states, rows, keys)
        keys += np.uint64(1)


class ResetKeepsTheStepCount(DiceRace):
    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        steps = states["step"][rows]
        super().reset(states, rows, keys)
        states["step"][rows] = steps & 0xFE


class StartsFinished(Walk):
    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        super().reset(states, rows, keys)
        states["place"][rows] = self.goal


class StartsOnlyOnce(Walk):
    """What a missing auto-reset looks like: the row that ended stays as it was."""

    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        if len(rows) == len(states):
            super().reset(states, rows, keys)


class AddsToObservations(TicTacToe):
    def observe(self, states: States, out: Observations) -> None:
        fresh = self.new_observations(len(states))
        super().observe(states, fresh)
        np.maximum(fresh.observation, out.observation, out=out.observation)
        out.legal[...], out.seats[...] = fresh.legal, fresh.seats


class AddsToLegalMasks(TicTacToe):
    def observe(self, states: States, out: Observations) -> None:
        before = out.legal.copy()
        super().observe(states, out)
        out.legal[...] |= before


class WritesOnlySeatOne(TicTacToe):
    def observe(self, states: States, out: Observations) -> None:
        before = out.seats.copy()
        super().observe(states, out)
        out.seats[...] = np.where(out.seats == 1, 1, before)


class SeatTwoOfTwo(TicTacToe):
    def observe(self, states: States, out: Observations) -> None:
        super().observe(states, out)
        out.seats[...] += 1


class TenthSquare(TicTacToe):
    def observe(self, states: States, out: Observations) -> None:
        super().observe(states, out)
        out.legal[...] |= np.uint64(1 << 9)


class NoMovesAfterThree(TicTacToe):
    def observe(self, states: States, out: Observations) -> None:
        super().observe(states, out)
        out.legal[states["num_moves"] == 3] = 0


class NoSeatActsAfterThree(NoMovesAfterThree):
    def observe(self, states: States, out: Observations) -> None:
        super().observe(states, out)
        out.seats[states["num_moves"] == 3] = -1


class MovesWhileResting(CardDuel):
    def legal(self, states: States) -> NDArray[np.bool_]:
        rests = ~states["hands"].any(axis=-1, keepdims=True) & ~states["is_over"][:, None, None]
        return states["hands"] | rests


class SwapsPlaces(CardDuel):
    def seats(self, states: States) -> NDArray[np.int8]:
        return super().seats(states)[:, ::-1]


class ObserveCountsLooks(Walk):
    state_dtype = np.dtype([*Walk.state_dtype.descr, ("looks", np.uint32)])

    def observe(self, states: States, out: Observations) -> None:
        super().observe(states, out)
        states["looks"] += 1


class ObserveWritesBehindTheMasks(TicTacToe):
    def observe(self, states: States, out: Observations) -> None:
        super().observe(states, out)
        stray_write(out.legal, 1)


class ObserveWritesBeforeTheStates(TicTacToe):
    def observe(self, states: States, out: Observations) -> None:
        super().observe(states, out)
        stray_write(states, -8)


class LegalAfterTheEnd(TicTacToe):
    def observe(self, states: States, out: Observations) -> None:
        running = states.copy()
        running["is_over"] = False
        super().observe(running, out)


class NoSeatActsAfterTruncation(Walk):
    def seats(self, states: States) -> NDArray[np.int8]:
        is_over = states["is_over"][:, None]
        return np.where(is_over, -1, super().seats(states)).astype(np.int8)


class RewardsOnlyTheMover(TicTacToe):
    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        before, movers = out.rewards.copy(), states["num_moves"] % 2
        super().step(states, actions, out)
        rows = np.arange(len(states))
        out.rewards[rows, 1 - movers] = before[rows, 1 - movers]


class WritesOnlyEnds(TicTacToe):
    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        before = out.terminated.view(np.uint8).copy()
        super().step(states, actions, out)
        out.terminated.view(np.uint8)[...] = np.where(out.terminated, 1, before)


class NeverWritesTruncated(TicTacToe):
    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        super().step(states, actions, out._replace(truncated=np.zeros(len(states), np.bool_)))


class TruncatesWhatTheRulesEnd(Walk):
    def move(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        super().move(states, actions, out)
        out.truncated[...] |= out.terminated


class WinsWithoutLosers(TicTacToe):
    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        super().step(states, actions, out)
        np.maximum(out.rewards, 0.0, out=out.rewards)


class StepChangesActions(TicTacToe):
    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        super().step(states, actions, out)
        actions[...] = -1


class StepWritesBehindTheRewards(TicTacToe):
    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        super().step(states, actions, out)
        stray_write(out.rewards, 4)


class StepWritesBeforeTheFlags(TicTacToe):
    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        super().step(states, actions, out)
        stray_write(out.truncated, -1)


class Endless(Walk):
    def move(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        states["place"] = (states["place"] + actions[:, 0]) % self.goal
        out.rewards[...], out.terminated[...], out.truncated[...] = 0.0, False, False


class RefusesTheCentre(TicTacToe):
    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        centre = actions[:, 0] == 4
        self.refuse(int(centre.argmax()) if centre.any() else -1, actions)
        super().step(states, actions, out)


class MovesToAnEmptySquareInstead(TicTacToe):
    """Accepts occupied squares, which the mask forbids."""

    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        better = actions.copy()
        for row in range(len(states)):
            board, square = states["board"][row], actions[row, 0]
            if 0 <= square < 9 and board[square] != -1 and not states["is_over"][row]:
                better[row, 0] = np.flatnonzero(board == -1)[0]
        super().step(states, better, out)


class WrapsActions(TicTacToe):
    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        super().step(states, actions % 9, out)


class TrustsSeatOne(CardDuel):
    """Refuses seat 0's illegal cards only."""

    def first_refused(self, states: States, actions: NDArray[np.int32]) -> int:
        trusted = actions.copy()
        trusted[:, 1] = self.legal(states)[:, 1].argmax(axis=-1)
        return super().first_refused(states, trusted)

    def move(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        super().move(states, actions % 3, out)


class RaisesAnotherError(TicTacToe):
    def refuse(self, row: int, actions: NDArray[np.int32]) -> None:
        if row >= 0:
            raise IndexError("list index out of range")


class NamesNoGame(TicTacToe):
    def refuse(self, row: int, actions: NDArray[np.int32]) -> None:
        if row >= 0:
            raise IllegalActionError(f"row {row}: action {actions[row, 0]} is not legal")


class NamesNoAction(TicTacToe):
    def refuse(self, row: int, actions: NDArray[np.int32]) -> None:
        if row >= 0:
            raise IllegalActionError(f"{self.name}: row {row}: not legal")


class NamesTheWrongRow(TicTacToe):
    def refuse(self, row: int, actions: NDArray[np.int32]) -> None:
        if row >= 0:
            raise IllegalActionError(f"{self.name}: row 0: action {actions[row, 0]} is not legal")


class MovesBeforeItRefuses(TicTacToe):
    """Leaves the rows before the refused one moved."""

    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        for row in range(len(states)):
            alone = slice(row, row + 1)
            try:
                super().step(states[alone], actions[alone], Outcomes(*(array[alone] for array in out)))
            except IllegalActionError:
                self.refuse(row, actions)


class PlaysOnAfterTheEnd(TicTacToe):
    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        before = states.copy()
        states["is_over"] = False
        try:
            super().step(states, actions, out)
        except IllegalActionError:
            states[...] = before
            raise


class WalksOnAfterTruncation(Walk):
    def move(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        super().move(states, actions, out)
        states["is_over"] = out.terminated


class DiceOutsideTheState(DiceRace):
    """Throws with a generator of its own: the second game differs from the first."""

    def __init__(self) -> None:
        super().__init__()
        self._generator = np.random.default_rng(0)

    def throw(self, states: States, row: int, die: int) -> int:
        return int(self._generator.integers(1, 7))


class DiceOfTheRowNumber(DiceRace):
    """Chance depends on where in the batch a row stands."""

    def throw(self, states: States, row: int, die: int) -> int:
        return 1 + (row + die + int(states["step"][row])) % 6


class EnviesTheNeighbour(Harvest):
    def move(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        super().move(states, actions, out)
        out.rewards[1:, 0] -= states["taken"][:-1]


class SharesAmongTheBatch(Harvest):
    def move(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        super().move(states, actions, out)
        out.rewards[...] /= len(states)


class CountsOutsideTheState(DiceRace):
    """Keeps the throws' counter in the object, so that a copied state is only half of it."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[int, int] = {}

    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        super().reset(states, rows, keys)
        self._counts.update(dict.fromkeys(rows.tolist(), 0))

    def throw(self, states: States, row: int, die: int) -> int:
        self._counts[row] += 1
        word = random_word(states["key"][row], self._counts[row], die, 0, 0)
        return 1 + int(below(np.uint64(word), np.uint64(6)))


class NoText(TicTacToe):
    def board_text(self, state: np.void) -> str:
        return "\n"


class NoPicture(TicTacToe):
    def board_svg(self, state: np.void) -> str:
        return "no picture"


class ColumnsOnly(TicTacToe):
    def action_name(self, action: int) -> str:
        return "abc"[action % 3]


class ReadsBackwards(TicTacToe):
    def parse_action(self, text: str) -> int:
        return 8 - super().parse_action(text)
