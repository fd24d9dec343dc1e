"""Settings: one frozen pydantic model per part, filled by YAML, command line or Python alike."""

import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from senju.errors import ConfigError

Settings = dict[str, Any]


class Part(BaseModel):
    """The settings of one part of a run: fixed once made, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


PartT = TypeVar("PartT", bound=Part)


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint that names the known word nearest to `word`, or all of them.

    >>> nearest("conect_four", ["connect_four", "tic_tac_toe"])
    "did you mean 'connect_four'?"
    """
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known are {', '.join(names)}" if names else "there are none"


def validated(part: type[PartT], settings: Mapping[str, Any], where: str = "") -> PartT:
    """A part filled with `settings`, or a ConfigError that says what is wrong with each of them."""
    try:
        return part.model_validate(dict(settings))
    except ValidationError as error:
        problems = [_explain(part, problem, where) for problem in error.errors()]
        raise ConfigError("; ".join(problems)) from None


def _explain(part: type[Part], problem: Any, where: str) -> str:
    location = [str(key) for key in problem["loc"]]
    key = ".".join([where, *location] if where else location)
    if problem["type"] == "extra_forbidden":
        known = _fields_at(part, location[:-1])
        return f"unknown setting {key!r}; {nearest(location[-1], known)}"
    if problem["type"] == "missing":
        return f"{key} is needed, and was not given"
    inner = problem.get("ctx", {}).get("error")
    if isinstance(inner, ConfigError):  # raised by one of our own validators: says it all
        return str(inner)
    message = problem["msg"].removeprefix("Value error, ")
    return f"{key}={problem['input']!r}: {message[0].lower()}{message[1:]}"


def _fields_at(part: type[Part], location: list[str]) -> Iterable[str]:
    inner: Any = part
    for key in location:
        if isinstance(inner, type) and issubclass(inner, Part):
            inner = inner.model_fields[key].annotation if key in inner.model_fields else None
        else:  # a dictionary of parts: any key leads to one
            inner = get_args(inner)[-1] if get_origin(inner) is dict else None
    return inner.model_fields if isinstance(inner, type) and issubclass(inner, Part) else []


class _Loader(yaml.SafeLoader):
    """YAML that reads 1e6 and 3e-4 as numbers; YAML 1.1 takes them for text."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def read_yaml(path: Path) -> Settings:
    """The settings in a YAML file."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid YAML: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected settings as `key: value`, found {type(content).__name__}")
    return content


def parse_assignment(text: str) -> Settings:
    """`part.key=value` as nested settings; the value is read as YAML.

    >>> parse_assignment("algorithm.epochs=2")
    {'algorithm': {'epochs': 2}}
    """
    path, equals, value = text.partition("=")
    keys = [key.strip() for key in path.split(".")]
    if not equals or not all(keys):
        raise ConfigError(f"cannot read the setting {text!r}; write part.key=value")
    settings: Any = _parse_value(value, text)
    for key in reversed(keys):
        settings = {key: settings}
    return dict(settings)


def _parse_value(value: str, whole: str) -> Any:
    try:
        return yaml.load(value, _Loader)
    except yaml.YAMLError:
        raise ConfigError(f"cannot read the value in {whole!r}") from None


def merged(*layers: Mapping[str, Any]) -> Settings:
    """Nested settings laid over each other; later layers win.

    A word stands for the part it names: `model: resnet` is `model: {name: resnet}`. A layer that
    names another part than the one below replaces it whole, since the old part's settings mean
    nothing to the new one. A number as a key is the text that it is written as: seat 1 is `seats.1`.

    >>> merged({"model": "mlp"}, {"model": {"hidden": [64]}})
    {'model': {'name': 'mlp', 'hidden': [64]}}
    """
    result: Settings = {}
    for layer in layers:
        for key, value in layer.items():
            name = str(key)  # YAML and Python may number seats, a path on the command line cannot
            result[name] = _laid_over(result.get(name), value)
    return result


def _laid_over(below: Any, value: Any) -> Any:
    if isinstance(below, str) and isinstance(value, Mapping):
        below = {"name": below}
    if isinstance(value, str) and isinstance(below, dict):
        value = {"name": value}
    if not isinstance(value, Mapping):
        return value
    if not isinstance(below, dict):
        return merged(value)
    is_renamed = "name" in value and "name" in below and value["name"] != below["name"]
    return merged(value) if is_renamed else merged(below, value)
