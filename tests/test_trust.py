"""Code is found without being run, and what the user agreed to is remembered outside of any run."""

import json
import logging
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from senju import trust
from senju.errors import SenjuError, TrustError
from senju.trust import code_names, module_in, remember, require_trust, trusting

MARK = "import pathlib; pathlib.Path(__file__).with_name('it_ran').touch()\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that Python imports from first, and a place of its own for what is remembered."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv(trust.STATE_VARIABLE, str(tmp_path / "state"))
    before, accepted = set(sys.modules), set(trust._accepted)
    yield folder
    trust._accepted.intersection_update(accepted)
    for name in set(sys.modules) - before:
        del sys.modules[name]
    assert not list(folder.rglob("it_ran"))


def write(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(MARK, encoding="utf-8")
    return str(path)


def refused(name: str) -> str:
    with pytest.raises(TrustError) as error:
        require_trust("some/run", {"game": {"name": name}})
    assert isinstance(error.value, SenjuError)
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("a.b:C", "a.b"),
        ("a:b", "a"),
        ("minimax:2", None),
        ("a:b:c", None),
        ("a.b", None),
        (":a", None),
        ("a b:c", None),
        ("a..b:c", None),
    ],
)
def test_names_of_code_are_distinguished_from_other_texts(text: str, module: str | None) -> None:
    assert module_in(text) == module


def test_names_are_found_at_any_depth_and_in_settings_that_contain_themselves() -> None:
    content: dict[str, object] = {"a": ["b:c", {"d": ("e:f", 3, None)}], "g": "b:c"}
    content["again"] = content
    assert code_names(content) == ["b:c", "e:f"]


def test_a_module_a_package_and_a_folder_without_code_are_found_and_not_run(here: Path) -> None:
    module = write(here / "alone.py")
    package = [write(here / "pack" / "__init__.py"), write(here / "pack" / "inner" / "module.py")]
    nested = write(here / "runs" / "dl" / "evil.py")
    assert module in refused("alone:Game")
    assert all(file in refused("pack.inner.module:Game") for file in package)
    assert nested in refused("runs.dl.evil:Game")


def test_senju_and_installed_packages_need_no_consent(here: Path) -> None:
    names = ["senju.games.tic_tac_toe:TicTacToe", "numba.cuda.tests.support:x", "pip:x"]
    require_trust("some/run", names)
    assert "pip" not in sys.modules


@pytest.mark.parametrize(
    "name", ["os:system", "antigravity:x", "venv.__main__:main", "pip.__main__:x", "builtins:exec"]
)
def test_the_standard_library_and_programs_are_no_parts_of_a_run(here: Path, name: str) -> None:
    assert name in refused(name)
    assert "antigravity" not in sys.modules
    with trusting():
        require_trust("some/run", [name])


def test_a_module_called_like_an_installed_one_is_not_it(here: Path) -> None:
    assert write(here / "antigravity.py") in refused("antigravity:fly")


def test_a_link_to_installed_code_is_followed_and_a_link_from_it_counts_by_where_it_leads(here: Path) -> None:
    (here / "linked.py").symlink_to(write(here.parent / "elsewhere" / "code.py"))
    assert str(here.parent / "elsewhere" / "code.py") in refused("linked:Game")


def test_what_is_imported_already_needs_no_consent(here: Path) -> None:
    (here / "known.py").write_text("", encoding="utf-8")
    refused("known:Game")
    __import__("known")
    require_trust("some/run", ["known:Game"])


def test_what_is_not_there_is_left_to_the_import(here: Path) -> None:
    require_trust("some/run", ["no_such_module:Game", "senju.no_such:Game", "no.such.thing:Game"])


def test_consent_is_for_what_is_opened_meanwhile_and_holds_for_those_modules(here: Path) -> None:
    write(here / "first.py")
    write(here / "second.py")
    with trusting():
        require_trust("some/run", ["first:Game"])
    require_trust("another/run", ["first:Game"])
    refused("second:Game")


def test_a_record_is_kept_outside_and_for_its_owner_alone(here: Path) -> None:
    file = write(here / "game.py")
    remember({"game": {"name": "game:Game"}}, here / "run")
    require_trust("some/run", ["game:Game"])
    folder = here.parent / "state" / "trusted"
    (record,) = folder.iterdir()
    assert json.loads(record.read_text(encoding="utf-8")) == {"module": "game", "file": file}
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert {stat.S_IMODE(path.stat().st_mode) for path in (folder, folder.parent)} == {0o700}


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xff", b"[]", b'{"module": "game", "file": "/other.py"}']
)
def test_a_damaged_record_is_no_trust_and_a_warning(
    here: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    write(here / "game.py")
    remember(["game:Game"], here / "run")
    (record,) = (here.parent / "state" / "trusted").iterdir()
    record.write_bytes(content)
    refused("game:Game")
    assert str(record) in caplog.text
    remember(["game:Game"], here / "run")
    require_trust("some/run", ["game:Game"])


def test_records_that_others_can_write_are_no_trust(here: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(here / "game.py")
    remember(["game:Game"], here / "run")
    folder = here.parent / "state" / "trusted"
    folder.chmod(0o777)
    refused("game:Game")
    assert str(folder) in caplog.text


def test_a_place_that_cannot_be_written_to_is_a_warning(
    here: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write(here / "game.py")
    monkeypatch.setenv(trust.STATE_VARIABLE, write(here.parent / "a_file"))
    with caplog.at_level(logging.WARNING):
        remember(["game:Game"], here / "run")
    assert "game" in caplog.text
    refused("game:Game")


def test_without_a_variable_of_its_own_the_place_is_the_users_state(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(trust.STATE_VARIABLE)
    monkeypatch.setenv("XDG_STATE_HOME", str(here.parent / "xdg"))
    write(here / "game.py")
    remember(["game:Game"], here / "run")
    assert len(os.listdir(here.parent / "xdg" / "senju" / "trusted")) == 1


@pytest.mark.parametrize("around", ["config.yaml", "agent_1/config.yaml"])
def test_code_in_a_runs_folder_is_not_remembered(here: Path, around: str) -> None:
    write(here / "dl" / "code" / "game.py")
    write(here / "dl" / around)
    (here / "dl" / "checkpoints").mkdir()
    remember(["dl.code.game:Game"], here / "another_run")
    refused("dl.code.game:Game")
    write(here / "mine.py")
    remember(["mine:Game"], here)  # the run itself may look like none
    refused("mine:Game")


def test_the_current_folder_is_importable_once_a_module_in_it_is_named(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder not in ("", str(here))])
    monkeypatch.setattr(trust, "_own_folders", [])
    write(here / "game.py")
    trust.look_in_current_folder()
    trust.prepare_import("senju.games.tic_tac_toe")
    trust.prepare_import("no_such_module")
    assert "" not in sys.path
    refused("game:Game")
    trust.prepare_import("game")
    assert sys.path[-1] == ""


def test_the_current_folder_stays_out_where_the_module_lies_elsewhere(
    here: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    others = [folder for folder in sys.path if folder not in ("", str(here))]
    monkeypatch.setattr(sys, "path", [str(elsewhere), *others])
    monkeypatch.setattr(trust, "_own_folders", [])
    for folder in (here, elsewhere):
        write(folder / "game.py")
    trust.look_in_current_folder()
    trust.prepare_import("game")
    assert "" not in sys.path
