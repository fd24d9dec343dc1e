"""Participants: distinguished by name, pinned to their update, noticed when they change."""

import shutil
from pathlib import Path

import pytest

from senju.errors import CheckpointError, ConfigError, RunFolderError
from senju.evaluation.tournament.participants import find_participants
from senju.games import make_game
from senju.runs.run import Run
from tests.conftest import Train

GAME = make_game("tic_tac_toe")
ROCK = "tests.evaluation.tournament.odd_players:rock"


def test_run_is_pinned_to_its_update_by_its_full_path(
    tic_tac_toe_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tic_tac_toe_run.path.parent)
    newest, older, fixed = find_participants(GAME, ["tic_tac_toe", "tic_tac_toe@update_000000002", "random"])
    assert newest.description == f"{tic_tac_toe_run.path.resolve()}@6"
    assert older.description == f"{tic_tac_toe_run.path.resolve()}@2"
    assert [newest.name, older.name, fixed.name] == ["tic_tac_toe@6", "tic_tac_toe@2", "random"]
    assert newest.fingerprint != older.fingerprint != fixed.fingerprint == ""


@pytest.mark.parametrize(("given", "who"), [([], "none"), (["random"], "random")])
def test_fewer_than_two_are_refused(given: list[str], who: str) -> None:
    with pytest.raises(ConfigError, match=who):
        find_participants(GAME, given)


def test_same_participant_twice_is_refused_under_any_name(tic_tac_toe_run: Run) -> None:
    path = str(tic_tac_toe_run.path)
    with pytest.raises(ConfigError, match="random"):
        find_participants(GAME, ["random", "minimax:1", "random"])
    for other in (f"{path}/", f"{path}@6", f"{path}@update_000000006"):
        with pytest.raises(ConfigError, match=r"tic_tac_toe and .*tic_tac_toe"):
            find_participants(GAME, [path, other])


def test_runs_of_the_same_name_are_distinguished_by_their_folders(
    tic_tac_toe_run: Run, tmp_path: Path
) -> None:
    for parent in ("one", "two"):
        shutil.copytree(tic_tac_toe_run.path, tmp_path / parent / "tic_tac_toe")
    given = [str(tmp_path / "one/tic_tac_toe"), str(tmp_path / "two/tic_tac_toe"), "random"]
    names = [each.name for each in find_participants(GAME, given)]
    assert names == ["one/tic_tac_toe@6", "two/tic_tac_toe@6", "random"]


def test_agent_trained_anew_has_another_fingerprint(train_small: Train) -> None:
    first, second = train_small("first"), train_small("second", seed=5)
    before = find_participants(GAME, [str(first.path), "random"])[0]
    shutil.rmtree(first.path)
    second.path.rename(first.path)
    after = find_participants(GAME, [str(first.path), "random"])[0]
    assert (before.name, before.description) == (after.name, after.description)
    assert before.fingerprint != after.fingerprint


OWN_CLASS = """
from senju.opponents.players import RandomPlayer

class Mover(RandomPlayer):
    def __init__(self, game): ...
"""


@pytest.mark.parametrize(
    ("name", "code"), [("move", "def move(observation, legal, random): ..."), ("Mover", OWN_CLASS)]
)
def test_function_or_class_has_the_fingerprint_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: str
) -> None:
    given = [f"{which}_{name.lower()}_file:{name}" for which in ("one", "same", "new")]
    for each, extra in zip(given, ("", "", "# changed"), strict=True):
        (tmp_path / each.replace(f":{name}", ".py")).write_text(f"{code}\n{extra}")
    monkeypatch.syspath_prepend(tmp_path)
    one, same, new = find_participants(GAME, given)
    assert one.fingerprint == same.fingerprint != new.fingerprint


def test_player_that_cannot_play_is_refused(
    tic_tac_toe_run: Run, connect_four_run: Run, train_small: Train
) -> None:
    with pytest.raises(RunFolderError, match=r"connect_four.*tic_tac_toe"):
        find_participants(GAME, [str(tic_tac_toe_run.path), str(connect_four_run.path)])
    with pytest.raises(ConfigError, match=r"randm.*package\.module"):
        find_participants(GAME, ["random", "randm"])
    empty = train_small("empty")
    empty.checkpoints.latest().rename(empty.path / "elsewhere")
    with pytest.raises(CheckpointError, match="checkpoint"):
        find_participants(GAME, [str(empty.path), "random"])
