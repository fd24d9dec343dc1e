"""Strength: matches with colours swapped in pairs, scores with intervals, moves judged exactly."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.arguments import is_whole, require_seed
from senju.config import shown
from senju.errors import ConfigError
from senju.games.game import ILLEGAL, Game, Observations, Oracle, States
from senju.games.rows import Rows, Stream, choose_at_random
from senju.opponents.players import Player, PlayerBatch
from senju.opponents.score import Score

FIRST_ROW = np.uint32(2**31)  # beyond the rows of training, so that no evaluation repeats a training game

# all running games, and their indices -> an action for every acting seat
ChooseActions = Callable[[PlayerBatch, NDArray[np.int64]], NDArray[np.int32]]


class Games:
    """Games played side by side; finished ones keep their last position. Equal `rows` begin alike."""

    def __init__(self, game: Game, rows: NDArray[np.uint32], seed: int) -> None:
        self.game, self.rows = game, Rows(game, FIRST_ROW + rows, seed)
        self.is_running = np.ones(len(rows), np.bool_)
        self.totals = np.zeros((len(rows), game.num_seats))  # rewards of each seat
        self.lengths = np.zeros(len(rows), np.int64)  # steps
        self.num_steps = 0

    def step(self, choose: ChooseActions) -> None:
        """Play one step of every running game."""
        running, game = np.flatnonzero(self.is_running), self.game
        states, clock = self.rows.states[running], self.rows.clock[running]
        clock["step"] = self.num_steps
        observations, outcomes = game.new_observations(len(running)), game.new_outcomes(len(running))
        game.observe(states, observations)
        actions = choose(PlayerBatch(states, observations, clock, self.rows.seed, 0), running)
        game.step(states, actions, outcomes)
        self.rows.states[running] = states
        self.totals[running] += outcomes.rewards
        self.lengths[running] += 1
        self.is_running[running] = ~(outcomes.terminated | outcomes.truncated)
        self.num_steps += 1


@dataclass(frozen=True)
class Judgement:
    """How many moves kept the best result that was reachable before them."""

    moves: int
    kept: int
    decisive_moves: int  # made where some legal move would have thrown the best result away
    decisive_kept: int

    @property
    def share(self) -> float:
        """Share of all judged moves that kept the best result."""
        return self.kept / self.moves if self.moves else math.nan

    @property
    def decisive_share(self) -> float:
        """Share of the decisive moves that kept the best result."""
        return self.decisive_kept / self.decisive_moves if self.decisive_moves else math.nan

    def as_dict(self) -> dict[str, Any]:
        """Counts and shares, for JSON; a share of no moves is None, since JSON has no NaN."""
        shares = {"share": self.share, "decisive_share": self.decisive_share}
        return asdict(self) | {name: None if math.isnan(share) else share for name, share in shares.items()}


@dataclass(frozen=True)
class MatchResult:
    """A match from the first player's side."""

    player: str
    opponent: str
    score: Score
    opening_plies: int
    judgement: Judgement | None = None

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "player": self.player,
            "opponent": self.opponent,
            **self.score._asdict(),
            "opening_plies": self.opening_plies,
            "judgement": None if self.judgement is None else self.judgement.as_dict(),
            "games": self.score.games,
            "score": self.score.mean,
            "interval": list(self.score.interval),
        }


def play_match(
    game: Game,
    player: Player,
    opponent: Player,
    num_games: int,
    seed: int = 0,
    opening_plies: int | None = None,
    on_games_done: Callable[[int], None] | None = None,
) -> MatchResult:
    """Play games in pairs: the same opening twice, with the seats swapped.

    `opening_plies` random plies come first; by default none where a player plays at random, and
    four where both are deterministic, since otherwise all games would be the same. If the opponent
    plays by an oracle, the oracle judges the player's moves in all positions that it can solve.
    """
    require_turns_of_two(game)
    require_seed(seed)
    for name, given in (("player", player), ("opponent", opponent)):
        if not isinstance(given, Player):
            raise ConfigError(f"{name}={shown(given)}: expected a Player, as agent.player() gives it")
    if opening_plies is not None and not is_whole(opening_plies, 0):
        raise ConfigError(f"opening_plies={shown(opening_plies)}: expected a whole number from 0")
    if not is_whole(num_games, 2, 2**31) or num_games % 2:
        raise ConfigError(
            f"games={shown(num_games)}: expected an even number, since colours are swapped in pairs"
        )
    if opening_plies is None:
        opening_plies = 4 if player.is_deterministic and opponent.is_deterministic else 0
    match = _Match(game, (player, opponent), num_games, seed, opening_plies)
    while match.games.is_running.any():
        match.games.step(match.choose)
        if on_games_done is not None:
            on_games_done(int(num_games - match.games.is_running.sum()))
    judgement = match.judge.verdict() if match.judge is not None else None
    return MatchResult(player.name, opponent.name, match.score, opening_plies, judgement)


def require_turns_of_two(game: Game) -> None:
    """Refuse a game in which no match can be played."""
    if not isinstance(game, Game):
        raise ConfigError(f"game={shown(game)}: expected a Game, as make_game gives it")
    if game.num_seats != 2 or game.num_acting != 1:
        at_once = " that act at once" if game.num_acting > 1 else ""
        own = "give each seat its own agent with collect.seating=independent, or " if at_once else ""
        raise ConfigError(
            f"matches need two seats that take turns; {game.name} has {game.num_seats} "
            f"seat{'s' * (game.num_seats > 1)}{at_once}; {own}train it with evaluation.opponents=[]"
        )


class _Match:
    """The players' seats in each game, and their choices."""

    def __init__(
        self, game: Game, players: tuple[Player, Player], num_games: int, seed: int, opening_plies: int
    ) -> None:
        self.players, self.opening_plies = players, opening_plies
        numbers = np.arange(num_games, dtype=np.uint32)
        self.games = Games(game, numbers // 2, seed)  # both games of a pair start alike
        self.games.rows.clock["row"] = FIRST_ROW + numbers  # but players have their own random numbers
        self.first_seat = numbers.astype(np.int64) % 2  # the seat of the first player
        oracle = players[1].oracle
        self.judge = MoveJudge(oracle) if oracle is not None else None

    def choose(self, batch: PlayerBatch, games: NDArray[np.int64]) -> NDArray[np.int32]:
        actions = np.zeros((len(games), 1), np.int32)
        states, observations, clock, seed, _ = batch
        if self.games.num_steps < self.opening_plies:
            clock["row"] //= 2  # both games of a pair draw the same opening
            choose_at_random(observations.legal, clock, seed, int(Stream.OPENING), actions)
            return actions
        is_first = observations.seats[:, 0] == self.first_seat[games]
        streams = (Stream.FIRST_PLAYER, Stream.SECOND_PLAYER)
        for player, stream, own in zip(self.players, streams, (is_first, ~is_first), strict=True):
            if own.any():
                seen = Observations(*(array[own] for array in observations))
                actions[own] = player.choose(PlayerBatch(states[own], seen, clock[own], seed, int(stream)))
        if self.judge is not None and is_first.any():
            self.judge.see(states[is_first], actions[is_first])
        return actions

    @property
    def score(self) -> Score:
        margin = self.games.totals[:, 0] - self.games.totals[:, 1]
        margin = np.where(self.first_seat == 0, margin, -margin)
        wins, draws, losses = margin > 0, margin == 0, margin < 0
        moved_first = self.first_seat == 0
        counted = (wins, draws, losses, wins & moved_first, losses & moved_first)
        return Score(*(int(games.sum()) for games in counted))


class MoveJudge:
    """Collects a player's moves and asks an oracle about those it can judge."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._states: list[States] = []
        self._actions: list[NDArray[np.int32]] = []

    def see(self, states: States, actions: NDArray[np.int32]) -> None:
        """Remember moves made in positions that can be judged."""
        solvable = self._oracle.can_solve(states)
        self._states.append(states[solvable])
        self._actions.append(actions[solvable, 0])

    def verdict(self) -> Judgement:
        """Judge all moves seen so far."""
        if not any(map(len, self._states)):
            return Judgement(0, 0, 0, 0)
        states, actions = np.concatenate(self._states), np.concatenate(self._actions)
        values = self._oracle.values(states)
        best = values.max(axis=1)
        kept = values[np.arange(len(states)), actions] == best
        decisive = ((values != ILLEGAL) & (values < best[:, None])).any(axis=1)
        return Judgement(
            moves=len(states),
            kept=int(kept.sum()),
            decisive_moves=int(decisive.sum()),
            decisive_kept=int((kept & decisive).sum()),
        )
