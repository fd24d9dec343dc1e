"""How games end: by hand-made games, in both colours, with what each side gets."""

from typing import Any

import numpy as np
import pytest

from senju.errors import IllegalActionError
from senju.games.game import Outcomes
from senju.games.shogi.game import Shogi, ShogiConfig
from senju.games.shogi.layout import Ending
from senju.games.shogi.position import Position
from tests.games.shogi.flips import flip_sfen, flip_usi

COLOURS = ("Black", "White")
RUNNING = Ending.RUNNING
KINGS = "4k4/9/9/9/9/9/9/9/4K4 b - 1"
ROOKS_IN_HAND = "1+B+B6/+P+P+P+P+P+P+P+P1/K8/9/9/9/9/9/8k b {} 1"  # ten pieces, 18 points
ROOK_BELOW = "1+R1+B+B4/+P+P+P+P+P+P+P2/K8/{}/9/9/9/9/r7k b 6P 1"  # ten pieces, 28 points


class Line:
    """A game written with Black as first mover, played with the given colour as first mover."""

    def __init__(self, sfen: str, colour: str = "Black", **settings: Any) -> None:
        self.is_flipped = colour == "White"
        self.game = Shogi(ShogiConfig(**settings))
        self.position = Position(flip_sfen(sfen) if self.is_flipped else sfen, game=self.game)
        self.outcomes: Outcomes = self.game.new_outcomes(1)

    def play(self, moves: str) -> "Line":
        """Play moves by the game's own step, which refuses to go on after the end."""
        for move in moves.split():
            action = self.position.action(flip_usi(move) if self.is_flipped else move)
            self.game.step(self.position.states, np.array([[action]], np.int32), self.outcomes)
        return self

    @property
    def ending(self) -> Ending:
        return self.position.ending

    @property
    def rewards(self) -> list[float]:
        """Of who is Black as written, then of the other."""
        rewards = self.outcomes.rewards[0].tolist()
        return rewards[::-1] if self.is_flipped else rewards

    def expect(self, ending: Ending, rewards: tuple[float, float] = (0.0, 0.0)) -> None:
        assert self.ending is ending
        assert self.rewards == list(rewards)
        assert self.outcomes.truncated[0] == (ending is Ending.PLY_LIMIT)
        assert self.outcomes.terminated[0] == (ending not in (RUNNING, Ending.PLY_LIMIT))
        observations = self.game.new_observations(1)
        self.game.observe(self.position.states, observations)
        assert observations.legal.any() == (ending is RUNNING)
        assert observations.seats[0, 0] == self.position.side
        if ending is not RUNNING:
            self.refuse_all()

    def refuse_all(self) -> None:
        """After the end even moves that would be legal are refused, and nothing changes."""
        before = self.position.states.tobytes()
        for action in [*self.position.legal_actions()[:3], 0]:
            with pytest.raises(IllegalActionError, match="row 0"):
                self.game.step(self.position.states, np.array([[action]], np.int32), self.outcomes)
        assert self.position.states.tobytes() == before


both_colours = pytest.mark.parametrize("colour", COLOURS)

# the king on 1a can go nowhere once a gold stands on 2c: the knight holds 2a
CORNERED = "8k/9/6NG1/9/9/9/9/9/4K4 b G 1"
NEARLY_CORNERED = "8k/9/6N2/7G1/9/9/9/9/4K4 b {} 1"


@both_colours
def test_mate_wins_for_the_side_that_gave_it(colour: str) -> None:
    line = Line(CORNERED, colour).play("G*1b")
    line.expect(Ending.MATE, (1.0, -1.0))
    assert line.position.is_check


@both_colours
def test_side_without_a_move_loses_without_check_too(colour: str) -> None:
    line = Line(NEARLY_CORNERED.format("-"), colour).play("2d2c")
    line.expect(Ending.MATE, (1.0, -1.0))
    assert not line.position.is_check


@both_colours
def test_piece_in_hand_is_a_move(colour: str) -> None:
    Line(NEARLY_CORNERED.format("p"), colour).play("2d2c").expect(RUNNING)


@both_colours
def test_limit_of_plies_truncates_without_a_winner(colour: str) -> None:
    line = Line(KINGS, colour, max_plies=3).play("5i5h 5a5b")
    line.expect(RUNNING)
    line.play("5h5g").expect(Ending.PLY_LIMIT)


@both_colours
def test_mate_on_the_last_ply_is_a_mate(colour: str) -> None:
    Line(NEARLY_CORNERED.format("-"), colour, max_plies=1).play("5i5h").expect(Ending.PLY_LIMIT)
    Line(CORNERED, colour, max_plies=1).play("G*1b").expect(Ending.MATE, (1.0, -1.0))
    Line(NEARLY_CORNERED.format("-"), colour, max_plies=1).play("2d2c").expect(Ending.MATE, (1.0, -1.0))


def entered(hands: str, small_pieces: int = 6, *, ranks_c_and_d: str = "K8/9") -> str:
    """Black's king in the camp with both rooks and bishops (20 points) and small pieces; White has a king."""
    tokins = "+P" * small_pieces + str(9 - small_pieces) * (small_pieces < 9)
    return f"1+R+R+B+B4/{tokins}/{ranks_c_and_d}/9/9/9/9/8k b {hands} 1"


DECLARATIONS = {  # rule, colour as played, position with Black to move as written, whether it has won
    "28 points for Black": ("27", "Black", entered("2P"), True),
    "27 points for Black": ("27", "Black", entered("P"), False),
    "27 points for White": ("27", "White", entered("P"), True),
    "26 points for White": ("27", "White", entered("-"), False),
    "31 of 24 for Black": ("24", "Black", entered("5P"), True),
    "30 of 24 for Black": ("24", "Black", entered("4P"), False),
    "31 of 24 for White": ("24", "White", entered("5P"), True),
    "30 of 24 for White": ("24", "White", entered("4P"), False),
    "no rule": ("none", "Black", entered("12P"), False),
    "no rule for White": ("none", "White", entered("12P"), False),
    "other's hand does not count": ("27", "Black", entered("P5p"), False),
    "rooks in hand count five": ("27", "Black", ROOKS_IN_HAND.format("2R"), True),
    "a rook and four pawns are nine": ("27", "Black", ROOKS_IN_HAND.format("R4P"), False),
    "a rook and five pawns are ten": ("27", "Black", ROOKS_IN_HAND.format("R5P"), True),
    "other small pieces in hand count one": ("27", "Black", entered("SN"), True),
    "nine pieces": ("27", "Black", entered("3P", 5), False),
    "ten pieces": ("27", "Black", entered("2P", 6), True),
    "eleven pieces": ("27", "Black", entered("P", 7), True),
    "tenth piece outside": ("27", "Black", entered("3P", 5, ranks_c_and_d="K8/+P8"), False),
    "points outside do not count": ("27", "Black", entered("P", 6, ranks_c_and_d="K8/+P8"), False),
    "king outside": ("27", "Black", entered("2P", ranks_c_and_d="9/K8"), False),
    "king in check": ("27", "Black", ROOK_BELOW.format("9"), False),
    "king behind a piece": ("27", "Black", ROOK_BELOW.format("P8"), True),
    "unpromoted pieces": ("27", "Black", "K8/1RR1BBG2/1SSSGGL2/9/9/9/9/9/8k b 2P 1", True),
}


@pytest.mark.parametrize("name", DECLARATIONS)
def test_declaration_needs_points_pieces_and_a_safe_king_in_the_camp(name: str) -> None:
    rule, colour, sfen, has_won = DECLARATIONS[name]
    line = Line(sfen, colour, declaration=rule)
    assert line.position.can_declare == has_won
    assert line.ending is (Ending.DECLARATION if has_won else RUNNING)


@both_colours
def test_side_that_may_declare_has_won_as_soon_as_it_is_to_move(colour: str) -> None:
    line = Line(entered("2P").replace(" b ", " w "), colour, max_plies=1)
    assert line.ending is RUNNING
    line.play("1i1h").expect(Ending.DECLARATION, (1.0, -1.0))


@both_colours
def test_points_are_counted_after_each_move(colour: str) -> None:
    """The tenth piece enters; the other makes any move; then the win is there."""
    line = Line(entered("3P", 5, ranks_c_and_d="K8/+P8"), colour)
    line.play("9d8c").expect(RUNNING)
    line.play("1i1h").expect(Ending.DECLARATION, (1.0, -1.0))


@both_colours
def test_the_fourth_time_the_same_position_is_a_draw(colour: str) -> None:
    line = Line(KINGS, colour)
    for earlier in range(4):
        assert line.position.state["repetitions"] == earlier
        assert line.ending is (Ending.REPETITION if earlier == 3 else RUNNING)
        if earlier < 3:
            line.play("5i5h 5a5b 5h5i 5b5a")
    line.expect(Ending.REPETITION)


@both_colours
def test_occurrences_need_not_follow_each_other(colour: str) -> None:
    line = Line(KINGS, colour).play("5i5h 5a5b 5h5i 5b5a  5i6h 5a4b 6h7h 4b3b 7h6h 3b4b 6h5i 4b5a")
    assert line.position.state["repetitions"] == 2
    line.play("5i4h 5a6b 4h5i 6b5a").expect(Ending.REPETITION)


@both_colours
def test_draw_on_the_last_ply_is_a_draw(colour: str) -> None:
    Line(KINGS, colour, max_plies=12).play(" ".join(["5i5h 5a5b 5h5i 5b5a"] * 3)).expect(Ending.REPETITION)


# the rook drives the king from 9a to 8a and back; in between all may wait for a quiet circle
ROOK_AND_KING = "k8/9/9/9/9/9/9/1R7/4K4 b - 1"
CHECKS, QUIET = "8h9h 9a8a 9h8h 8a9a", "5i5h 9a9b 5h5i 9b9a"


@both_colours
def test_side_that_gave_check_all_along_loses(colour: str) -> None:
    line = Line(ROOK_AND_KING, colour).play(f"{CHECKS} {CHECKS} 8h9h 9a8a 9h8h")
    line.expect(RUNNING)
    line.play("8a9a").expect(Ending.PERPETUAL_LOSS, (-1.0, 1.0))


@both_colours
def test_side_that_gives_the_last_check_loses_at_once(colour: str) -> None:
    """The circle begins with a check, so that the fourth time is the checked side's turn."""
    circle = "9a8a 9h8h 8a9a 8h9h"
    line = Line(ROOK_AND_KING.replace("1R7", "8R"), colour).play(f"1h9h {circle} {circle} {circle}")
    line.expect(Ending.PERPETUAL_WIN, (-1.0, 1.0))


@both_colours
def test_moves_before_the_first_occurrence_do_not_matter(colour: str) -> None:
    start = ROOK_AND_KING.replace("k8/9", "9/k8").replace("4K4", "3K5")
    line = Line(start, colour).play(f"6i5i 9b9a {CHECKS} {CHECKS} {CHECKS}")
    line.expect(Ending.PERPETUAL_LOSS, (-1.0, 1.0))


@both_colours
@pytest.mark.parametrize("quiet", [0, 1, 2])
def test_one_move_without_check_makes_it_a_draw(quiet: int, colour: str) -> None:
    circles = [CHECKS] * 3
    circles[quiet] = QUIET
    Line(ROOK_AND_KING, colour).play(" ".join(circles)).expect(Ending.REPETITION)


@both_colours
def test_perpetual_check_on_the_last_ply_loses(colour: str) -> None:
    line = Line(ROOK_AND_KING, colour, max_plies=12).play(f"{CHECKS} {CHECKS} {CHECKS}")
    line.expect(Ending.PERPETUAL_LOSS, (-1.0, 1.0))


@both_colours
def test_same_board_with_other_hands_is_another_position(colour: str) -> None:
    """Black gives away a pawn on each round, and its king loses a move by going round three squares."""
    line = Line("4r3k/9/9/9/9/9/9/9/K8 b 4P 1", colour)
    board = line.position.state["board"].copy()
    for _ in range(4):
        line.play("P*5e 5a5e 9i9h 5e5a 9h8i 1a1b 8i9i 1b1a").expect(RUNNING)
        assert np.array_equal(line.position.state["board"], board)
        assert line.position.state["repetitions"] == 0


@both_colours
def test_same_board_with_the_other_to_move_is_another_position(colour: str) -> None:
    line = Line("8k/9/9/9/9/9/9/9/K8 b - 1", colour)
    board, key = line.position.state["board"].copy(), int(line.position.state["hash"])
    line.play("9i9h 1a1b 9h8i 1b1a 8i9i").expect(RUNNING)
    assert np.array_equal(line.position.state["board"], board)
    assert int(line.position.state["hash"]) != key
    assert line.position.state["repetitions"] == 0
