"""YAML from outside: whatever it holds, the reader gives plain values within bounds, or ConfigError."""

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from senju.config import merged, parse_assignment, read_yaml
from senju.errors import ConfigError
from senju.safe_yaml import MOST_BYTES, MOST_DEPTH, MOST_DIGITS, MOST_NODES, load_yaml
from tests.facts import mentions


def _laughs(levels: int, join: str) -> str:
    """Nine of the line before in each line."""
    lines = ["l0: &l0 {a: 1}"]
    for level in range(1, levels):
        names = ", ".join([f"*l{level - 1}"] * 9)
        lines.append(f"l{level}: &l{level} " + join.replace("NAMES", names))
    return "\n".join(lines)


_MANY_KEYS = "a: &a {" + ", ".join(f"k{i}: 1" for i in range(1000)) + "}\n"
_LONG_CHAIN = "l0: &l0 [1]\n" + "\n".join(f"l{i}: &l{i} [*l{i - 1}]" for i in range(1, 2 * MOST_DEPTH))

TOO_MUCH = {
    "aliases": _laughs(10, "[NAMES]"),
    "merge keys": _laughs(10, "{<<: [NAMES]}"),
    "aliases in mappings": _laughs(40, "{a: [NAMES]}"),
    "merges of many keys": _MANY_KEYS + "\n".join(f"m{i}: {{<<: *a}}" for i in range(100)),
    "chain of aliases": _LONG_CHAIN,
    "holds itself": "&a {b: *a}",
    "holds itself in a list": "a: &a [*a]",
    "merges itself": "a: &a {<<: *a}",
    "deep lists": "a: " + "[" * 10_000,
    "deep closed lists": "a: " + "[" * 1000 + "]" * 1000,
    "deep mappings": "a: " + "{a: " * 1000 + "1" + "}" * 1000,
    "deep blocks": "- " * 10_000 + "a",
    "deep keys": "? " * 10_000 + "a",
    "many values": "a: [" + "1," * (MOST_NODES + 1) + "]",
    "a long text": "a: " + "x" * (MOST_BYTES + 1),
}

NO_SETTING = {
    "digits over Python's limit": "9" * 5000,
    "digits of a base": "0x" + "f" * 5000,
    "digits in sixties": "1" + ":59" * 2000,
    "digits of a float": "1." + "3" * 5000,
    "one digit too many": "9" * (MOST_DIGITS + 1),
    "an exponent beyond floats": "1e400",
    "a negative one": "-1e400",
    "a hexadecimal number without digits": "0x_",
    "a binary one": "0b_",
    "no float": "!!float abc",
    "no integer": "!!int abc",
    "an empty integer": "!!int ''",
    "an empty float": "!!float ''",
    "no truth value": "!!bool maybe",
    "a date by its tag": "!!timestamp 2001-13-45",
    "bytes": "!!binary aGVsbG8=",
    "a set": "!!set {a, b}",
    "pairs": "!!pairs [a: 1]",
    "an ordered mapping": "!!omap [a: 1]",
    "an object": "!!python/object/apply:os.system ['true']",
    "an unknown tag": "!mine 3",
    "a list as an integer": "!!int [1]",
    "a mapping as a list": "!!seq {a: 1}",
    "NUL": '"a\\0b"',
    "half a surrogate pair": '"a\\ud800b"',
    "a character beyond Unicode": '"\\U7fffffff"',
    "one far beyond it": '"\\Uffffffff"',
    "an unhashable key": "{[1]: 2}",
    "a mapping as a key": "{{a: 1}: 2}",
    "a truth value as a key": "{on: 2}",
    "null as a key": "{null: 2}",
    "a float as a key": "{1.5: 2}",
    "a merge of a number": "{<<: 3}",
    "a key that is set twice": "{a: 1, a: 2}",
    "an undefined alias": "*nothing",
    "two documents": "1\n--- \n2",
}


@pytest.mark.parametrize("name", [*TOO_MUCH, *NO_SETTING])
def test_file_with_too_much_or_no_setting_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(TOO_MUCH[name] if name in TOO_MUCH else f"a: {NO_SETTING[name]}")
    with pytest.raises(ConfigError, match=r"run\.yaml") as caught:
        merged(read_yaml(file))
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("name", [*TOO_MUCH, *NO_SETTING])
def test_assignment_of_too_much_or_no_setting_is_refused(name: str) -> None:
    value = TOO_MUCH[name] if name in TOO_MUCH else NO_SETTING[name]
    with pytest.raises(ConfigError, match=mentions("value", "a.b")) as caught:
        merged(parse_assignment(f"a.b={value}"))
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "text",
    [".".join("a" * 10_000) + "=1", "\udcff=1", "a\0b=1", "a=\udcff"],
    ids=["deep", "surrogate", "NUL", "surrogate value"],
)
def test_assignment_to_an_impossible_path_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_assignment(text)


@pytest.mark.parametrize(
    "content",
    [
        "seed: 3".encode("utf-16"),
        "seed: 3".encode("utf-32"),
        "name: café".encode("latin-1"),
        b"a: \xed\xa0\x80",  # half a surrogate pair
        b"a: b\0c",
        b"%YAML 1." + b"9" * 5000 + b"\n---\na: 1",
        b"%YAML 9.9\n---\na: 1",
    ],
)
def test_file_that_is_not_utf_8_text_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "run.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=mentions("run.yaml", "YAML")):
        read_yaml(file)


def test_pipe_or_device_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # without a writer: opening it to read would wait forever
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ConfigError, match="regular file"):
            read_yaml(path)


def test_path_with_a_nul_is_refused() -> None:
    with pytest.raises(ConfigError, match="null"):
        read_yaml(Path("a\0b"))


def test_aliases_and_merges_within_bounds_mean_what_yaml_says() -> None:
    text = "a: &a {x: 1, y: 2}\nb: *a\nc: {<<: *a, y: 3}\nd: {<<: [*a, {z: 4}]}"
    x_and_y = {"x": 1, "y": 2}
    assert load_yaml(text) == {"a": x_and_y, "b": x_and_y, "c": {"x": 1, "y": 3}, "d": {**x_and_y, "z": 4}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2001-13-45", "2001-13-45"),
        ("2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00"),
        ("=", "="),
        ("9" * MOST_DIGITS, int("9" * MOST_DIGITS)),
        ("0x1F", 31),
        ("1_000", 1000),
        ("-.inf", -float("inf")),
        ("1e308", 1e308),
        ("{1: a}", {1: "a"}),
        ("[" * (MOST_DEPTH - 1) + "1" + "]" * (MOST_DEPTH - 1), None),
    ],
)
def test_values_within_bounds_are_read(text: str, value: object) -> None:
    read = load_yaml(text)
    assert read == value or value is None


def test_as_many_values_as_are_allowed_are_read_and_not_one_more() -> None:
    ones = "1, " * (MOST_NODES - 2)
    assert len(load_yaml(f"[{ones} 1]")) == MOST_NODES - 1  # and the list itself
    with pytest.raises(Exception, match=str(MOST_NODES)):
        load_yaml(f"[{ones} 1, 1]")


_PIECES = st.sampled_from(
    [
        *"a1[]{}|>'\"\\#%@`_~=!,\t\n",
        "&a ",
        "*a",
        "<<: ",
        ": ",
        "- ",
        "? ",
        "  ",
        "---\n",
        "...\n",
        "0x",
        "0b",
        "1e9",
    ]
    + [f"!!{tag} " for tag in ("int", "float", "bool", "str", "set", "binary", "timestamp", "merge", "value")]
)


@given(st.one_of(st.text(), st.lists(_PIECES, max_size=40).map("".join)))
@settings(deadline=None)
def test_any_text_is_settings_or_a_config_error(text: str) -> None:
    with suppress(ConfigError):
        merged(parse_assignment(f"a={text}"))


@given(st.one_of(st.binary(), st.lists(_PIECES, max_size=40).map(lambda pieces: "".join(pieces).encode())))
@settings(deadline=None)
def test_any_file_is_settings_or_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(content)
    with suppress(ConfigError):
        merged(read_yaml(file))
