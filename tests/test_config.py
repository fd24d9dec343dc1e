"""Settings: closed parts that name the nearest known key, YAML files, `--set`, and layers."""

import re
from pathlib import Path

import pytest
from pydantic import Field, ValidationError, field_validator

from senju.config import Part, merged, nearest, parse_assignment, read_yaml, validated
from senju.errors import ConfigError
from tests.facts import Facts, mentions


class Engine(Part):
    power: int = Field(100, ge=1, le=500)
    fuel: str = "wind"

    @field_validator("fuel")
    @classmethod
    def _not_coal(cls, fuel: str) -> str:
        if fuel == "coal":
            raise ConfigError("fuel='coal' is not burned here; try 'wind'")
        return fuel


class Anchor(Part):
    weight: int


class Ship(Part):
    length: float = Field(20.0, gt=0, lt=400)
    masts: tuple[int, ...] = (1, 2)
    engine: Engine = Engine()
    boats: dict[str, Engine] = Field({})


def test_defaults_and_given_settings_make_a_part() -> None:
    ship = validated(Ship, {"length": 30, "engine": {"power": 7}})
    assert (ship.length, ship.masts, ship.engine.power, ship.engine.fuel) == (30.0, (1, 2), 7, "wind")


def test_missing_setting_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^anchor\.weight\b"):
        validated(Anchor, {}, "anchor")


def test_part_is_fixed_once_made() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Ship().length = 3.0  # type: ignore[misc]


def test_wrong_default_is_noticed() -> None:
    class Sunk(Part):
        depth: int = Field(-1, ge=0)

    with pytest.raises(ConfigError, match="depth=-1"):
        validated(Sunk, {})


@pytest.mark.parametrize(
    ("settings", "facts"),
    [
        ({"lenght": 3}, ("unknown setting", "'lenght'", "'length'")),
        ({"engine": {"powr": 3}}, ("unknown setting", "'engine.powr'", "'power'")),
        ({"colour": 3}, ("unknown setting", "'colour'", "boats, engine, length, masts")),
        ({"boats": {"left": {"powr": 3}}}, ("unknown setting", "'boats.left.powr'", "'power'")),
        ({"length": 400}, ("length=400", "less than 400")),
        ({"length": 0}, ("length=0", "greater than 0")),
        ({"engine": {"power": 501}}, ("engine.power=501", "500")),
        ({"length": "long"}, ("length='long'", "number")),
        ({"engine": 5}, ("engine=5", "dictionary")),
        ({"masts": [1, "x"]}, ("masts.1='x'", "integer")),
        ({"engine": {"fuel": "coal"}}, "fuel='coal' is not burned here; try 'wind'"),  # Engine's own words
    ],
)
def test_wrong_setting_says_what_is_wrong(settings: dict[str, object], facts: Facts) -> None:
    with pytest.raises(ConfigError, match=mentions(facts)):
        validated(Ship, settings)


def test_all_wrong_settings_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        validated(Ship, {"length": -1, "mast": (1,)})
    assert "length=-1" in str(caught.value)
    assert "'masts'" in str(caught.value)


def test_place_of_a_part_is_named() -> None:
    with pytest.raises(ConfigError, match=r"'ship\.engine\.powr'.*'power'"):
        validated(Ship, {"engine": {"powr": 1}}, where="ship")


@pytest.mark.parametrize(
    ("word", "known", "named"),
    [
        ("conect_four", ["tic_tac_toe", "connect_four"], ["connect_four"]),
        ("go", ["tic_tac_toe", "connect_four"], ["connect_four", "tic_tac_toe"]),
        ("go", [], []),
        ("trace", ["gae_lambda", "trade"], ["gae_lambda"]),  # its name in version 0.6
    ],
)
def test_nearest_names_one_or_all_or_none(word: str, known: list[str], named: list[str]) -> None:
    hint = nearest(word, known)
    assert hint
    assert re.findall(r"\w+_\w+", hint) == named


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("seed=3", {"seed": 3}),
        ("algorithm.epochs=2", {"algorithm": {"epochs": 2}}),
        ("a.b.c=x", {"a": {"b": {"c": "x"}}}),
        ("total_steps=1e6", {"total_steps": 1_000_000.0}),
        ("total_steps=2.5E3", {"total_steps": 2500.0}),
        ("rate=3e-4", {"rate": 0.0003}),
        ("rate=1.5e-4", {"rate": 0.00015}),
        ("rate=0.5", {"rate": 0.5}),
        ("model.hidden=[64, 32]", {"model": {"hidden": [64, 32]}}),
        ("model={name: mlp}", {"model": {"name": "mlp"}}),
        ("flag=true", {"flag": True}),
        ("none=null", {"none": None}),
        ("empty=", {"empty": None}),
        ("text=a=b", {"text": "a=b"}),
        ("game.name=package.module:Class", {"game": {"name": "package.module:Class"}}),
        (" spaced . out = 1", {"spaced": {"out": 1}}),
    ],
)
def test_assignment_is_read_as_nested_settings(text: str, settings: dict[str, object]) -> None:
    parsed = parse_assignment(text)
    assert parsed == settings
    assert [type(value) for value in parsed.values()] == [type(value) for value in settings.values()]


@pytest.mark.parametrize("text", ["", "seed", "=3", "a..b=3", ".a=3", "a.=3", " =3"])
def test_malformed_assignment_is_refused_with_the_way_to_write_it(text: str) -> None:
    with pytest.raises(ConfigError, match=r"part\.key=value") as caught:
        parse_assignment(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["hidden=[64,", "hidden={a: ", "a='open", "a=@b", "a=b: c: d"])
def test_assignment_with_unreadable_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=mentions("value", repr(text))):
        parse_assignment(text)


def test_yaml_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("seed: 3\nmodel:\n  name: mlp  # ünïcode\n", encoding="utf-8")
    assert read_yaml(file) == {"seed": 3, "model": {"name": "mlp"}}


@pytest.mark.parametrize("content", ["", "# nothing but a comment\n", "---\n"])
def test_empty_yaml_file_sets_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.yaml").write_text(content)
    assert read_yaml(tmp_path / "run.yaml") == {}


def test_missing_yaml_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=mentions("absent.yaml", "No such file")):
        read_yaml(tmp_path / "absent.yaml")


def test_folder_in_place_of_a_yaml_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Is a directory"):
        read_yaml(tmp_path)


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        (b"seed: [1, 2\n", ("YAML", "line")),
        (b"a: b: c\n", ("YAML", "line 1")),
        (b"\xff\xfe\x00", "YAML"),
        (b"a: !!python/object/apply:os.system ['true']\n", "YAML"),
        (b"- seed\n- 3\n", ("`key: value`", "list")),
        (b"seed\n", ("`key: value`", "str")),
        (b"42\n", ("`key: value`", "int")),
    ],
)
def test_unreadable_yaml_is_refused(tmp_path: Path, content: bytes, facts: Facts) -> None:
    file = tmp_path / "run.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=mentions("run.yaml", facts)):
        read_yaml(file)


def test_later_layers_win_key_by_key() -> None:
    below = {"seed": 1, "collect": {"num_games": 8, "deep": {"a": 1, "b": 2}}}
    above = {"collect": {"deep": {"b": 3}, "rollout_steps": 5}}
    assert merged(below, above) == {
        "seed": 1,
        "collect": {"num_games": 8, "rollout_steps": 5, "deep": {"a": 1, "b": 3}},
    }


def test_part_with_another_name_replaces_the_one_below_whole() -> None:
    below = {"model": {"name": "mlp", "hidden": [64]}}
    assert merged(below, {"model": {"name": "resnet"}}) == {"model": {"name": "resnet"}}
    both = merged(below, {"model": {"name": "resnet"}}, {"model": {"blocks": 3}})
    assert both == {"model": {"name": "resnet", "blocks": 3}}


def test_part_with_the_same_name_or_none_is_laid_over() -> None:
    below = {"model": {"name": "mlp", "hidden": [64], "bias": True}}
    assert merged(below, {"model": {"name": "mlp", "hidden": [8]}})["model"]["hidden"] == [8]
    assert merged(below, {"model": {"hidden": [8]}})["model"] == {"name": "mlp", "hidden": [8], "bias": True}


def test_word_stands_for_the_part_it_names() -> None:
    assert merged({"model": {"name": "mlp", "hidden": [8]}}, {"model": "resnet"}) == {
        "model": {"name": "resnet"}
    }
    assert merged({"model": "resnet"}, {"model": {"name": "mlp"}}) == {"model": {"name": "mlp"}}
    for order in (
        [{"model": "resnet"}, {"model": {"blocks": 3}}],
        [{"model": {"blocks": 3}}, {"model": "resnet"}],
    ):
        assert merged(*order) == {"model": {"name": "resnet", "blocks": 3}}


def test_number_as_a_key_is_the_text_that_it_is_written_as() -> None:
    layers = {"seats": {1: {"order": 1}}}, parse_assignment("seats.1.learns=false")
    assert merged(*layers) == {"seats": {"1": {"order": 1, "learns": False}}}


def test_merging_changes_none_of_the_layers() -> None:
    below, above = {"model": {"name": "mlp", "deep": {"a": 1}}}, {"model": {"deep": {"a": 2}}}
    result = merged(below, above)
    result["model"]["deep"]["a"] = 9
    assert below == {"model": {"name": "mlp", "deep": {"a": 1}}}
    assert above == {"model": {"deep": {"a": 2}}}
