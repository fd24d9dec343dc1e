"""Cycles: each group once, by its shortest."""

from senju.evaluation.tournament.result import find_cycles


def beats(*pairs: tuple[int, int], players: int = 8) -> dict[int, set[int]]:
    return {player: {second for first, second in pairs if first == player} for player in range(players)}


def test_order_has_no_cycle() -> None:
    assert find_cycles(beats(*((a, b) for a in range(8) for b in range(a + 1, 8)))) == []


def test_cycle_is_shown_once_from_its_first_member() -> None:
    assert find_cycles(beats((3, 1), (1, 2), (2, 3))) == [[1, 2, 3]]


def test_group_with_many_cycles_is_shown_by_its_shortest() -> None:
    """0 to 4 in a circle, with the short cut from 3 to 1."""
    assert find_cycles(beats((0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (3, 1))) == [[1, 2, 3]]


def test_groups_apart_are_shown_apart_also_where_one_beats_the_other() -> None:
    first, second = ((0, 1), (1, 2), (2, 0)), ((4, 5), (5, 6), (6, 4))
    assert find_cycles(beats(*first, *second, (0, 4), (1, 5))) == [[0, 1, 2], [4, 5, 6]]
