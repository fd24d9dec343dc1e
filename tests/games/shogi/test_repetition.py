"""Games that go round in circles, judged by senju, by cshogi, and by the rule in plain words."""

import random
from collections import Counter
from typing import NamedTuple

import cshogi
import numpy as np
import pytest
from numpy.typing import NDArray

from senju.games.shogi.game import Shogi, ShogiConfig
from senju.games.shogi.layout import Ending
from tests.games.shogi.lockstep import REPEATED, Lockstep
from tests.games.shogi.sparse import hunted_king

VERDICTS = {
    cshogi.REPETITION_WIN: Ending.PERPETUAL_WIN,
    cshogi.REPETITION_LOSE: Ending.PERPETUAL_LOSS,
}
UNCLEAR = (cshogi.REPETITION_SUPERIOR, cshogi.REPETITION_INFERIOR)  # the same board with other hands


class Hunter(NamedTuple):
    """Who likes to give check in a game, and how much."""

    side: int | None
    zeal: float  # the probability of a check where there is one


class Record(NamedTuple):
    """One game's positions, from its first."""

    positions: list[str]  # board, side to move and hands
    checks: list[bool]  # whether the side to move was in check
    verdicts: list[int]  # cshogi's

    def add(self, board: cshogi.Board) -> None:
        self.positions.append(board.sfen().rsplit(" ", 1)[0])
        self.checks.append(board.is_check())
        self.verdicts.append(board.is_draw())

    @property
    def occurrences(self) -> list[int]:
        """The plies at which the last position stood."""
        return [ply for ply, position in enumerate(self.positions) if position == self.positions[-1]]


def judge(record: Record) -> Ending:
    """The rule: the fourth time the same position is a draw, but who gave check all along has lost."""
    occurrences = record.occurrences
    if len(occurrences) < 4:
        return Ending.RUNNING
    first, last = occurrences[0], occurrences[3]
    was_checked = all(record.checks[ply] for ply in range(last, first, -2))
    gave_check = all(record.checks[ply] for ply in range(last - 1, first, -2))
    if was_checked == gave_check:
        return Ending.REPETITION
    return Ending.PERPETUAL_WIN if was_checked else Ending.PERPETUAL_LOSS


def judge_by_cshogi(record: Record) -> Ending | None:
    """The same from cshogi, which judges each return by the moves since the last time; None if it cannot."""
    returns = [record.verdicts[ply] for ply in record.occurrences[1:]]
    if len(returns) < 3:
        return Ending.RUNNING
    if any(verdict in UNCLEAR for verdict in returns):
        return None
    assert cshogi.NOT_REPETITION not in returns
    alike = returns[0] if len(set(returns)) == 1 else cshogi.REPETITION_DRAW
    return VERDICTS.get(alike, Ending.REPETITION)


def moves_that_return(
    pair: Lockstep, records: list[Record], hunters: list[Hunter], chance: random.Random
) -> NDArray[np.int64]:
    """In each row mostly a move to a position that stood before; hunters give check when they care to."""
    chosen = []
    for row, board in enumerate(pair.boards):
        game, start = int(pair.games[row]), int(pair.starts[row])
        moves = pair.moves[start : start + int(pair.counts[row])].tolist()
        quiet = [n for n, move in enumerate(moves) if not cshogi.move_cap(move)] or list(range(len(moves)))
        checking, returning = [], []
        seen = set(records[game].positions)
        for index in quiet:
            board.push(moves[index])
            if board.is_check():
                checking.append(index)
            if board.sfen().rsplit(" ", 1)[0] in seen:
                returning.append(index)
            board.pop()
        pool = quiet
        hunter = hunters[game]
        if board.turn == hunter.side and checking and chance.random() < hunter.zeal:
            pool = checking
        back = [index for index in returning if index in pool]
        if back and chance.random() < 0.8:
            pool = back
        chosen.append(start + chance.choice(pool))
    return np.array(chosen, np.int64)


def play_in_circles(num_games: int, num_plies: int, seed: int) -> Counter[str]:
    """Play until positions repeat, and compare all three judges at every ply."""
    chance, seen = random.Random(seed), Counter[str]()
    game = Shogi(ShogiConfig(max_plies=num_plies))
    pair = Lockstep(game, [hunted_king(chance) for _ in range(num_games)])
    records = [Record([], [], []) for _ in range(num_games)]
    hunters = [Hunter(chance.choice([None, 0, 0, 1, 1]), chance.choice([0.8, 1.0])) for _ in records]
    while len(pair):
        pair.compare()
        endings = pair.states["ending"].copy()
        for row, board in enumerate(pair.boards):
            record = records[int(pair.games[row])]
            record.add(board)
            assert pair.states["repetitions"][row] == len(record.occurrences) - 1, pair.sfen(row)
            expected = judge(record)
            theirs = judge_by_cshogi(record)
            assert theirs in (expected, None), pair.sfen(row)
            if expected is Ending.RUNNING:
                assert endings[row] not in REPEATED, pair.sfen(row)
            else:
                assert Ending(endings[row]) is expected, pair.sfen(row)
                count(record, expected, seen)
        pair.keep(pair.can_go_on() & (endings == Ending.RUNNING))
        if len(pair):
            pair.play(moves_that_return(pair, records, hunters, chance))
    return seen


def count(record: Record, ending: Ending, seen: Counter[str]) -> None:
    side = record.positions[-1].split()[1]
    seen[f"{ending.name} {side}"] += 1
    kinds = {record.verdicts[ply] for ply in record.occurrences[1:]}
    if ending is Ending.REPETITION and kinds & VERDICTS.keys():
        seen["draws with checks all round some circles"] += 1
    seen["circles of several lengths"] += len(set(np.diff(record.occurrences).tolist())) > 1


def expect_at_least(seen: Counter[str], number: int) -> None:
    """Every kind of verdict was met, by both colours: else nothing was shown."""
    kinds = [f"{ending.name} {side}" for ending in VERDICTS.values() for side in "bw"]
    kinds += ["REPETITION b", "REPETITION w", "circles of several lengths"]
    for kind in kinds:
        assert seen[kind] >= number, f"{kind}: {seen[kind]} of {number}; all: {dict(seen)}"


def test_games_that_repeat_are_judged_alike() -> None:
    expect_at_least(play_in_circles(200, 50, seed=1), 1)


@pytest.mark.slow
def test_thousands_of_games_that_repeat_are_judged_alike() -> None:
    seen = play_in_circles(2000, 60, seed=2)
    expect_at_least(seen, 20)
    assert seen["draws with checks all round some circles"] >= 10, seen
