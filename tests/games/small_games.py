"""Small games in plain NumPy that keep the contract: truncating, simultaneous, general-sum, with chance."""

import numpy as np
from numpy.typing import NDArray

from senju.games.game import Game, Observations, Outcomes, States
from senju.games.tic_tac_toe import TicTacToe
from senju.kernels import below, pack_legal, random_word


class PlainGame(Game):
    """What the small games share: names for display, and refusal of what the mask does not allow."""

    observation_shape = (3,)

    def seats(self, states: States) -> NDArray[np.int8]:
        """[row, acting]"""
        raise NotImplementedError

    def legal(self, states: States) -> NDArray[np.bool_]:
        """[row, acting, action]"""
        raise NotImplementedError

    def view(self, states: States) -> NDArray[np.uint8]:
        """[row, acting, 3]"""
        raise NotImplementedError

    def move(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        raise NotImplementedError

    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        states[rows] = np.zeros(len(rows), self.state_dtype)

    def observe(self, states: States, out: Observations) -> None:
        out.observation[...] = self.view(states)
        out.legal[...] = pack_legal(self.legal(states))
        out.seats[...] = self.seats(states)

    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        self.refuse(self.first_refused(states, actions), actions)
        self.move(states, actions, out)

    def first_refused(self, states: States, actions: NDArray[np.int32]) -> int:
        inside = (actions >= 0) & (actions < self.num_actions)
        places = np.where(inside, actions, 0)[..., None]
        allowed = inside & np.take_along_axis(self.legal(states), places, axis=-1)[..., 0]
        refused = ((self.seats(states) >= 0) & ~allowed).any(axis=1) | states["is_over"]
        return int(refused.argmax()) if refused.any() else -1

    def action_name(self, action: int) -> str:
        return f"move-{action}"

    def board_text(self, state: np.void) -> str:
        return str(state)

    def board_svg(self, state: np.void) -> str:
        return "<svg/>"


class Walk(PlainGame):
    """One seat walks left or right from 0; 4 ends the game, and after 8 steps it is cut off."""

    name = "walk"
    num_seats = 1
    num_actions = 2
    state_dtype = np.dtype([("place", np.int8), ("step", np.int8), ("is_over", np.bool_)])
    goal, limit = 4, 8

    def seats(self, states: States) -> NDArray[np.int8]:
        return np.zeros((len(states), 1), np.int8)

    def legal(self, states: States) -> NDArray[np.bool_]:
        place = states["place"]
        return np.stack([(place > 0) & (place != self.goal), place != self.goal], axis=-1)[:, None]

    def view(self, states: States) -> NDArray[np.uint8]:
        place = states["place"]
        return np.stack([place, place == 0, place == self.goal], axis=-1)[:, None]

    def move(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        states["place"] += np.where(actions[:, 0] == 1, 1, -1).astype(np.int8)
        states["step"] += 1
        out.terminated[...] = states["place"] == self.goal
        out.truncated[...] = (states["step"] == self.limit) & ~out.terminated
        out.rewards[:, 0] = out.terminated
        states["is_over"] = out.terminated | out.truncated


class CardDuel(PlainGame):
    """Both seats lay a card at once, the higher one wins; seat 0 has a card less and rests at the end."""

    name = "card_duel"
    num_seats = num_acting = 2
    num_actions = 3
    state_dtype = np.dtype([("hands", np.bool_, (2, 3)), ("is_over", np.bool_)])
    is_zero_sum = True

    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        super().reset(states, rows, keys)
        states["hands"][rows] = [[False, True, True], [True, True, True]]

    def seats(self, states: States) -> NDArray[np.int8]:
        return np.where(states["hands"].any(axis=-1), [0, 1], -1).astype(np.int8)

    def legal(self, states: States) -> NDArray[np.bool_]:
        return states["hands"].copy()

    def view(self, states: States) -> NDArray[np.uint8]:
        return states["hands"].astype(np.uint8)

    def move(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        cards = np.where(self.seats(states) >= 0, actions, -1)
        for seat in range(2):
            played = np.flatnonzero(cards[:, seat] >= 0)
            states["hands"][played, seat, cards[played, seat]] = False
        out.rewards[:, 0] = np.sign(cards[:, 0] - cards[:, 1])
        out.rewards[:, 1] = -out.rewards[:, 0]
        out.terminated[...] = ~states["hands"].any(axis=(1, 2))
        out.truncated[...] = False
        states["is_over"] = out.terminated


class Harvest(PlainGame):
    """Three seats in turn take one or two of nine; what one takes, the others lose only half of."""

    name = "harvest"
    num_seats = 3
    num_actions = 2
    state_dtype = np.dtype([("taken", np.int8), ("mover", np.int8), ("is_over", np.bool_)])
    pile = 9

    def seats(self, states: States) -> NDArray[np.int8]:
        return states["mover"][:, None].copy()

    def legal(self, states: States) -> NDArray[np.bool_]:
        left = self.pile - states["taken"]
        return np.stack([left >= 1, left >= 2], axis=-1)[:, None]

    def view(self, states: States) -> NDArray[np.uint8]:
        taken = states["taken"]
        return np.stack([taken, taken > 3, taken > 6], axis=-1)[:, None]

    def move(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        amount = actions[:, 0] + 1
        states["taken"] += amount.astype(np.int8)
        out.rewards[...] = -amount[:, None] / 2
        out.rewards[np.arange(len(states)), states["mover"]] = amount
        states["mover"] = (states["mover"] + 1) % 3
        out.terminated[...] = states["taken"] == self.pile
        out.truncated[...] = False
        states["is_over"] = out.terminated


class DiceRace(PlainGame):
    """Two seats in turn throw one die or two; who reaches 30 first wins."""

    name = "dice_race"
    num_seats = 2
    num_actions = 2
    state_dtype = np.dtype(
        [("key", np.uint64), ("step", np.uint32), ("totals", np.uint8, 2), ("is_over", np.bool_)]
    )
    is_zero_sum = True

    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        super().reset(states, rows, keys)
        states["key"][rows] = keys

    def seats(self, states: States) -> NDArray[np.int8]:
        return (states["step"] % 2).astype(np.int8)[:, None]

    def legal(self, states: States) -> NDArray[np.bool_]:
        return np.repeat(~states["is_over"][:, None, None], 2, axis=-1)

    def view(self, states: States) -> NDArray[np.uint8]:
        return np.concatenate([states["totals"], states["step"][:, None] % 2], axis=-1)[:, None]

    def throw(self, states: States, row: int, die: int) -> int:
        word = random_word(states["key"][row], int(states["step"][row]), die, 0, 0)
        return 1 + int(below(np.uint64(word), np.uint64(6)))

    def move(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        for row in range(len(states)):
            mover = int(states["step"][row]) % 2
            dice = range(1 + int(actions[row, 0]))
            states["totals"][row, mover] += sum(self.throw(states, row, die) for die in dice)
            has_won = states["totals"][row, mover] >= 30
            out.rewards[row, mover], out.rewards[row, 1 - mover] = has_won, -float(has_won)
            states["is_over"][row] = out.terminated[row] = has_won
        states["step"] += 1
        out.truncated[...] = False


GOOD_GAMES = (TicTacToe, Walk, CardDuel, Harvest, DiceRace)
