"""Parts by name: built in, registered, or loaded from `package.module:Class`."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from senju.config import Part
from senju.errors import ConfigError, UnknownNameError
from senju.games import GAMES, make_game
from senju.games.game import Game
from senju.games.tic_tac_toe import TicTacToe
from senju.registry import Registry

WriteModule = Callable[[str, str], None]


@pytest.fixture
def write_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WriteModule]:
    """Write a user's module where Python finds it, and forget it afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def write(name: str, source: str) -> None:
        file = tmp_path / f"{name.replace('.', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def games() -> Registry[Game]:
    built_in = {
        "tic_tac_toe": "senju.games.tic_tac_toe:TicTacToe",
        "connect_four": "senju.games.connect_four:ConnectFour",
    }
    return Registry("game", Game, built_in)  # type: ignore[type-abstract]


MY_GAME = """
from senju.games.tic_tac_toe import TicTacToe

class MyGame(TicTacToe):
    name = "my_game"

number = 5
"""


def test_built_in_class_is_found_by_name(games: Registry[Game]) -> None:
    assert games.get("tic_tac_toe") is TicTacToe
    assert "tic_tac_toe" in games
    assert "chess" not in games


def test_every_built_in_name_loads() -> None:
    from senju.algorithms import ALGORITHMS
    from senju.backends import BACKENDS
    from senju.models import MODELS

    for registry in (GAMES, MODELS, ALGORITHMS, BACKENDS):
        assert registry.names()
        for name in registry.names():
            assert issubclass(registry.config_class(name), Part)


def test_unknown_name_gets_a_hint(games: Registry[Game]) -> None:
    with pytest.raises(UnknownNameError, match=r"'conect4'.*'connect_four'"):
        games.get("conect4")
    with pytest.raises(UnknownNameError, match=r"'go'.*connect_four, tic_tac_toe"):
        games.get("go")


def test_registered_class_is_found_and_listed(games: Registry[Game]) -> None:
    mine = type("Mine", (TicTacToe,), {})
    games.register("mine", mine)
    assert games.get("mine") is mine
    assert games.names() == ["connect_four", "mine", "tic_tac_toe"]


@pytest.mark.parametrize("name", ["tic_tac_toe", "mine"])
def test_registering_a_name_twice_is_refused(games: Registry[Game], name: str) -> None:
    games.register("mine", TicTacToe)
    with pytest.raises(ConfigError, match=f"game '{name}'"):
        games.register(name, TicTacToe)


@pytest.mark.parametrize("other", [Part, "TicTacToe"])
def test_registering_another_kind_is_refused(games: Registry[Game], other: object) -> None:
    with pytest.raises(ConfigError, match=r"'mine'.*senju\.games\.game\.Game"):
        games.register("mine", other)  # type: ignore[arg-type]
    assert "mine" not in games


def test_class_is_loaded_from_a_users_module(games: Registry[Game], write_module: WriteModule) -> None:
    write_module("my_module", MY_GAME)
    assert games.get("my_module:MyGame").name == "my_game"
    assert "my_module:MyGame" not in games.names()


def test_class_is_loaded_from_a_users_package(write_module: WriteModule) -> None:
    write_module("my_package.rules.small", MY_GAME)
    assert make_game("my_package.rules.small:MyGame").name == "my_game"


@pytest.mark.parametrize("path", ["absent:MyGame", "absent.rules:MyGame", "my_module.rules:MyGame"])
def test_missing_module_is_named(games: Registry[Game], write_module: WriteModule, path: str) -> None:
    write_module("my_module", MY_GAME)
    with pytest.raises(UnknownNameError, match=f"game '{path}': no module '{path.partition(':')[0]}'"):
        games.get(path)


def test_missing_class_is_named(games: Registry[Game], write_module: WriteModule) -> None:
    write_module("my_module", MY_GAME)
    with pytest.raises(UnknownNameError, match=r"'my_module:YourGame'.*'YourGame'"):
        games.get("my_module:YourGame")


@pytest.mark.parametrize("name", ["number", "Thing"])
def test_class_of_another_kind_is_refused(
    games: Registry[Game], write_module: WriteModule, name: str
) -> None:
    write_module("my_module", "number = 5\nclass Thing:\n    pass\n")
    with pytest.raises(UnknownNameError, match=rf"'my_module:{name}'.*senju\.games\.game\.Game"):
        games.get(f"my_module:{name}")


@pytest.mark.parametrize("path", [":MyGame", "my_module:", ".my_module:MyGame", "a b:MyGame", "a:b:c", ":"])
def test_malformed_path_is_refused_with_the_way_to_write_it(games: Registry[Game], path: str) -> None:
    with pytest.raises(UnknownNameError, match=r"package\.module:Class"):
        games.get(path)


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("import absent_library", ModuleNotFoundError, "absent_library"),
        ("import my", ModuleNotFoundError, "No module named 'my'"),  # the start of the module's own name
        ("from math import absent", ImportError, "cannot import name 'absent'"),
        ("import math\nmath.absent", AttributeError, "absent"),
        ("def (", SyntaxError, "invalid syntax"),
        ("1 / 0", ZeroDivisionError, "division by zero"),
    ],
)
def test_error_inside_a_users_module_surfaces_as_itself(
    games: Registry[Game], write_module: WriteModule, source: str, error: type[Exception], message: str
) -> None:
    write_module("my_module", source)
    with pytest.raises(error, match=message) as caught:
        games.get("my_module:MyGame")
    assert not isinstance(caught.value, UnknownNameError)


def test_settings_are_checked_by_the_named_class(games: Registry[Game]) -> None:
    assert games.configure({"name": "tic_tac_toe"}) == TicTacToe.Config()
    with pytest.raises(ConfigError, match=r"'game\.size'"):
        games.configure({"name": "tic_tac_toe", "size": 4})
