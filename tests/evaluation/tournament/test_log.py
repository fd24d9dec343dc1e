"""The log: it continues after a cut, and belongs to one tournament only."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from senju.errors import RunFolderError
from senju.evaluation.tournament.log import LOG, Header, make_header, opened_log, read_header
from senju.evaluation.tournament.participants import Participant
from senju.evaluation.tournament.tasks import TournamentSchedule, TournamentSettings
from senju.games import make_game
from senju.opponents.score import Score
from tests.facts import mentions

PLAYERS = [Participant("a", "a", "1"), Participant("b", "b", "2")]
SETTINGS = TournamentSettings(early_stop=False)


def header_of(
    players: list[Participant] = PLAYERS, settings: TournamentSettings = SETTINGS, game: str = "tic_tac_toe"
) -> Header:
    return make_header(make_game(game), players, settings)


def write_chunks(folder: Path, chunks: range) -> None:
    schedule = TournamentSchedule(["a", "b"], SETTINGS)
    with opened_log(folder, header_of(), schedule, fresh=False) as log:
        for chunk in chunks:
            log.write(schedule.task(0, 1, chunk), Score(chunk, 0, 20 - chunk))


def reopen(folder: Path, header: Header | None = None, fresh: bool = False) -> TournamentSchedule:
    schedule = TournamentSchedule(["a", "b"], SETTINGS)
    with opened_log(folder, header or header_of(), schedule, fresh):
        return schedule


def test_what_was_played_is_known_again(tmp_path: Path) -> None:
    write_chunks(tmp_path / "new" / "folder", range(3))
    write_chunks(tmp_path / "new" / "folder", range(3, 5))
    pair = reopen(tmp_path / "new" / "folder").pairs[0, 1]
    assert (pair.num_counted, pair.score) == (5, Score(10, 0, 90))


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_last_line_that_was_cut_off_is_dropped_and_written_anew(tmp_path: Path, cut: int) -> None:
    write_chunks(tmp_path, range(3))
    whole = (tmp_path / LOG).read_bytes()
    (tmp_path / LOG).write_bytes(whole[:-cut])
    assert reopen(tmp_path).pairs[0, 1].num_counted == 2
    write_chunks(tmp_path, range(2, 3))
    assert (tmp_path / LOG).read_bytes() == whole


def test_log_cut_off_in_its_first_line_is_begun_anew(tmp_path: Path) -> None:
    write_chunks(tmp_path, range(0))
    (tmp_path / LOG).write_bytes((tmp_path / LOG).read_bytes()[:10])
    assert reopen(tmp_path).pairs[0, 1].num_counted == 0
    assert read_header(tmp_path) == header_of()


@pytest.mark.parametrize("line", [b"rubbish", b'{"first": 0}', b"[]", b'{"first":0,"second":9,"chunk":0}'])
def test_invalid_line_within_is_refused_with_its_number(tmp_path: Path, line: bytes) -> None:
    write_chunks(tmp_path, range(1))
    with (tmp_path / LOG).open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(RunFolderError, match=r"line 3.*--fresh"):
        reopen(tmp_path)


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ({"players": [*PLAYERS, Participant("c", "c", "")]}, r"a, b\b.*a, b, c\b"),
        ({"players": [PLAYERS[0], Participant("b", "b", "3")]}, "b "),
        ({"settings": TournamentSettings(seed=4, early_stop=False)}, r"seed .*0\b.*4\b"),
        (
            {"settings": TournamentSettings(games=40)},
            r"games .*200\b.*40\b.*early_stop .*False",
        ),
        ({"game": "connect_four"}, "tic_tac_toe.*connect_four"),
    ],
)
def test_another_tournament_is_refused_with_the_difference_unless_fresh(
    tmp_path: Path, other: dict[str, Any], difference: str
) -> None:
    write_chunks(tmp_path, range(3))
    with pytest.raises(RunFolderError, match=rf"{difference}.*--fresh"):
        reopen(tmp_path, header_of(**other))
    assert reopen(tmp_path, header_of(**other), fresh=True).pairs[0, 1].num_counted == 0
    assert read_header(tmp_path) == header_of(**other)


def test_another_tournament_is_named_before_a_damaged_line_in_it(tmp_path: Path) -> None:
    write_chunks(tmp_path, range(1))
    with (tmp_path / LOG).open("ab") as file:
        file.write(b"rubbish\n")
    with pytest.raises(RunFolderError, match=r"tic_tac_toe.*connect_four"):
        reopen(tmp_path, header_of(game="connect_four"))


def test_log_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / LOG).write_text(json.dumps(header_of() | {"format": 99}) + "\n")
    with pytest.raises(RunFolderError, match="version"):
        reopen(tmp_path)


def test_two_tournaments_do_not_share_a_folder(tmp_path: Path) -> None:
    with ExitStack() as first:
        first.enter_context(
            opened_log(tmp_path, header_of(), TournamentSchedule(["a", "b"], SETTINGS), fresh=False)
        )
        with pytest.raises(RunFolderError, match=str(tmp_path)):
            reopen(tmp_path, fresh=True)
    reopen(tmp_path)


def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match=mentions(f"{tmp_path}/file/arena", "Not a directory")):
        reopen(tmp_path / "file" / "arena")
