"""Small games with known answers, in plain NumPy behind the Game contract."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.games.game import Game, Observations, Outcomes, States
from senju.kernels import pack_legal, unpack_legal


class ToyGame(Game):
    """What the toys share: refusing illegal actions, and unused texts."""

    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        before = self.new_observations(len(states))
        self.observe(states, before)
        legal = unpack_legal(before.legal, self.num_actions)
        for row, place in np.ndindex(actions.shape):
            action, acts = actions[row, place], before.seats[row, place] >= 0
            in_range = 0 <= action < self.num_actions
            if states["is_over"][row] or (acts and not (in_range and legal[row, place, action])):
                self.refuse(row, actions)
        self.apply(states, actions, before, out)

    def apply(self, states: States, actions: NDArray[np.int32], before: Observations, out: Outcomes) -> None:
        raise NotImplementedError

    def action_name(self, action: int) -> str:
        return str(action)

    def board_text(self, state: np.void) -> str:
        return str(state)

    def board_svg(self, state: np.void) -> str:
        return "<svg/>"


def chance(keys: NDArray[np.uint64], bound: int) -> NDArray[np.uint8]:
    return (keys % np.uint64(bound)).astype(np.uint8)


class Race(ToyGame):
    """Two seats in turn add 1 or 2 to a total; the one who reaches GOAL wins, LIMIT moves truncate.

    The total starts anywhere below START, by chance. Every position of a game looks different, and a
    first position (no moves) never looks like a last one.
    """

    START, GOAL, LIMIT = 10, 14, 5

    name = "race"
    num_seats = 2
    num_actions = 2
    observation_shape = (3,)  # total, moves, seat to move
    state_dtype = np.dtype([("total", np.uint8), ("moves", np.uint8), ("is_over", np.bool_)])
    is_zero_sum = True

    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        states["total"][rows] = chance(keys, self.START)
        states["moves"][rows] = 0
        states["is_over"][rows] = False

    def observe(self, states: States, out: Observations) -> None:
        seat = states["moves"] % 2
        out.observation[:, 0] = np.stack([states["total"], states["moves"], seat], axis=-1)
        out.legal[:, 0, 0] = np.where(states["is_over"], 0, 0b11)
        out.seats[:, 0] = seat

    def apply(self, states: States, actions: NDArray[np.int32], before: Observations, out: Outcomes) -> None:
        states["total"] += (actions[:, 0] + 1).astype(np.uint8)
        states["moves"] += 1
        out.terminated[:] = states["total"] >= self.GOAL
        out.truncated[:] = ~out.terminated & (states["moves"] == self.LIMIT)
        states["is_over"] = out.terminated | out.truncated
        rows, mover = np.arange(len(states)), before.seats[:, 0]
        self.pay(out, rows, mover, actions[:, 0])

    def pay(self, out: Outcomes, rows: NDArray[Any], mover: NDArray[Any], action: NDArray[Any]) -> None:
        out.rewards[rows, mover] = out.terminated
        out.rewards[rows, 1 - mover] = -out.terminated.astype(np.float32)


class GeneralSumRace(Race):
    """The same race, where each move pays its mover a little and the other a lot."""

    name = "general_sum_race"
    is_zero_sum = False

    def pay(self, out: Outcomes, rows: NDArray[Any], mover: NDArray[Any], action: NDArray[Any]) -> None:
        out.rewards[rows, mover] = 0.25 * action
        out.rewards[rows, 1 - mover] = 1.0


class Trio(Race):
    """The race of three seats in turn; the seat that reaches GOAL takes 2, one from each of the others."""

    name = "trio"
    num_seats = 3
    is_zero_sum = False  # which is of two seats

    def observe(self, states: States, out: Observations) -> None:
        super().observe(states, out)
        seat = states["moves"] % 3
        out.observation[:, 0, 2] = seat
        out.seats[:, 0] = seat

    def pay(self, out: Outcomes, rows: NDArray[Any], mover: NDArray[Any], action: NDArray[Any]) -> None:
        out.rewards[:] = -out.terminated[:, None].astype(np.float32)
        out.rewards[rows, mover] = 2.0 * out.terminated


class Meeting(ToyGame):
    """Two seats act at once, but seat 1 comes only to every other step; LIMIT steps truncate."""

    LIMIT = 5

    name = "meeting"
    num_seats = 2
    num_acting = 2
    num_actions = 3
    observation_shape = (3,)  # steps, seat, how often both chose alike
    state_dtype = np.dtype([("steps", np.uint8), ("alike", np.uint8), ("is_over", np.bool_)])

    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        states["steps"][rows] = chance(keys, 2)
        states["alike"][rows] = 0
        states["is_over"][rows] = False

    def observe(self, states: States, out: Observations) -> None:
        out.observation[..., 0] = states["steps"][:, None]
        out.observation[..., 1] = np.arange(2)
        out.observation[..., 2] = states["alike"][:, None]
        out.seats[:, 0] = 0
        out.seats[:, 1] = np.where(states["steps"] % 2 == 0, 1, -1)
        acts = (out.seats >= 0) & ~states["is_over"][:, None]
        out.legal[..., 0] = np.where(acts, 0b111, 0)

    def apply(self, states: States, actions: NDArray[np.int32], before: Observations, out: Outcomes) -> None:
        alike = (before.seats[:, 1] >= 0) & (actions[:, 0] == actions[:, 1])
        states["alike"] += alike
        states["steps"] += 1
        out.rewards[:, 0] = alike
        out.rewards[:, 1] = np.where(alike, 1.0, -0.5)
        out.terminated[:] = states["alike"] == 2
        out.truncated[:] = ~out.terminated & (states["steps"] >= self.LIMIT)
        states["is_over"] = out.terminated | out.truncated


class Bandit(ToyGame):
    """One seat, one move, a reward per action; the last action pays best but is illegal."""

    PAY = np.array([0.0, 0.2, 1.0, 0.4, 9.0], np.float32)
    BEST = 2

    name = "bandit"
    num_seats = 1
    num_actions = 5
    observation_shape = (1,)
    state_dtype = np.dtype([("is_over", np.bool_)])

    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        states["is_over"][rows] = False

    def observe(self, states: States, out: Observations) -> None:
        out.observation[:] = 1
        out.legal[:, 0, 0] = np.where(states["is_over"], 0, 0b01111)
        out.seats[:] = 0

    def apply(self, states: States, actions: NDArray[np.int32], before: Observations, out: Outcomes) -> None:
        out.rewards[:, 0] = self.PAY[actions[:, 0]]
        out.terminated[:] = True
        out.truncated[:] = False
        states["is_over"] = True


class Nim(ToyGame):
    """One pile, take 1, 2 or 3; who takes the last stone wins, so one leaves a multiple of four.

    What is seen names the seat too: each seat has to learn the game for itself.
    """

    LARGEST = 9

    name = "nim"
    num_seats = 2
    num_actions = 3
    observation_shape = (2, LARGEST + 1)  # one bit, at the seat to move and the pile
    state_dtype = np.dtype([("pile", np.uint8), ("mover", np.uint8), ("is_over", np.bool_)])
    is_zero_sum = True

    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        states["pile"][rows] = chance(keys, self.LARGEST) + 1
        states["mover"][rows] = 0
        states["is_over"][rows] = False

    def observe(self, states: States, out: Observations) -> None:
        out.observation[:] = 0
        out.observation[np.arange(len(states)), 0, states["mover"], states["pile"]] = 1
        allowed = states["pile"][:, None] > np.arange(self.num_actions)
        out.legal[:, 0] = pack_legal(allowed)
        out.seats[:, 0] = states["mover"]

    def apply(self, states: States, actions: NDArray[np.int32], before: Observations, out: Outcomes) -> None:
        states["pile"] -= (actions[:, 0] + 1).astype(np.uint8)
        states["mover"] = 1 - states["mover"]
        has_won = states["pile"] == 0
        rows, mover = np.arange(len(states)), before.seats[:, 0]
        out.rewards[rows, mover] = has_won
        out.rewards[rows, 1 - mover] = -has_won.astype(np.float32)
        out.terminated[:] = has_won
        out.truncated[:] = False
        states["is_over"] = has_won
