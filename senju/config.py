"""Settings: one frozen pydantic model per part, filled from YAML, the command line or Python."""

import difflib
import reprlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from senju.errors import ConfigError
from senju.safe_yaml import MOST_DEPTH, load_yaml, read_bounded

Settings = dict[str, Any]
Proportion = Annotated[float, Field(ge=0, le=1)]

MOST_SECONDS = 10**6  # of a timeout; poll() takes at most 2**31 milliseconds
_MOST_PROBLEMS = 10  # in one message
_MOST_BITS = 1000  # of a number in a message


class Part(BaseModel):
    """The settings of one part of a run: immutable, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    @field_validator("*")
    @classmethod
    def _fits_64_bits(cls, value: Any) -> Any:
        """Refuse numbers that do not fit into arrays, files and messages."""
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError("Input should be a number of at most 64 bits")
        return value


PartT = TypeVar("PartT", bound=Part)


class _Shown(reprlib.Repr):
    """Values for messages: shortened if long or deeply nested."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = 200
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = 20

    def repr_int(self, x: int, level: int) -> str:  # Python refuses to print more than 4,300 digits
        return repr(x) if x.bit_length() <= _MOST_BITS else f"a number of {x.bit_length()} bits"


shown = _Shown().repr  # a value as text for a message


_RENAMED = {"discount": "gamma", "trace": "gae_lambda"}


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint with the known word most similar to `word`, or with all of them.

    >>> nearest("conect_four", ["connect_four", "tic_tac_toe"])
    "did you mean 'connect_four'?"
    """
    names = sorted(known)
    if _RENAMED.get(word) in names:
        return f"version 0.7 calls it {_RENAMED[word]!r}, and does not load settings and runs of earlier ones"
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known are {', '.join(names)}" if names else "there are none"


def validated(part: type[PartT], settings: Mapping[str, Any], where: str = "") -> PartT:
    """A part filled with `settings`; raises ConfigError with a reason for each wrong setting."""
    try:
        return part.model_validate(dict(settings))
    except ValidationError as error:
        found = error.errors()
        problems = [_explain(part, problem, where) for problem in found[:_MOST_PROBLEMS]]
        more = [f"and {len(found) - len(problems)} more"] if len(found) > len(problems) else []
        raise ConfigError("; ".join(problems + more)) from None


def _explain(part: type[Part], problem: Any, where: str) -> str:
    location = [str(key) for key in problem["loc"]]
    key = ".".join([where, *location] if where else location)
    if problem["type"] == "extra_forbidden":
        known = _fields_at(part, location[:-1])
        return f"unknown setting {key!r}; {nearest(location[-1], known)}"
    if problem["type"] == "missing":
        return f"{key} is required"
    inner = problem.get("ctx", {}).get("error")
    if isinstance(inner, ConfigError):  # raised by one of our own validators: its message is complete
        return str(inner)
    message = problem["msg"].removeprefix("Value error, ")
    return f"{key}={shown(problem['input'])}: {message[0].lower()}{message[1:]}"


def _fields_at(part: type[Part], location: list[str]) -> Iterable[str]:
    inner: Any = part
    for key in location:
        if isinstance(inner, type) and issubclass(inner, Part):
            inner = inner.model_fields[key].annotation if key in inner.model_fields else None
        else:  # a dictionary of parts, with any keys
            inner = get_args(inner)[-1] if get_origin(inner) is dict else None
    return inner.model_fields if isinstance(inner, type) and issubclass(inner, Part) else []


def read_yaml(path: Path) -> Settings:
    """The settings in a YAML file."""
    try:
        content = load_yaml(read_bounded(path))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid YAML for settings: {error}") from None
    except ValueError as error:  # a path with a NUL
        raise ConfigError(f"cannot read {str(path)!r}: {error}") from None
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
    if not equals or not all(keys) or len(keys) > MOST_DEPTH or not path.isprintable():
        raise ConfigError(f"cannot read the setting {shown(text)}; write part.key=value")
    try:
        settings: Any = load_yaml(value)
    except yaml.YAMLError as error:
        raise ConfigError(f"cannot read the value in {shown(text)}: {error}") from None
    for key in reversed(keys):
        settings = {key: settings}
    return dict(settings)


def merged(*layers: Mapping[str, Any]) -> Settings:
    """Nested settings merged in order; later layers win.

    A string stands for a part's name: `model: resnet` is `model: {name: resnet}`. A layer with another
    name replaces the whole part, since the old part's settings do not apply to the new one. Keys that are
    numbers become strings: seat 1 is `seats.1`.

    >>> merged({"model": "mlp"}, {"model": {"hidden": [64]}})
    {'model': {'name': 'mlp', 'hidden': [64]}}
    """
    return _merged(layers, 1)


def _merged(layers: Iterable[Mapping[str, Any]], depth: int) -> Settings:
    if depth > 2 * MOST_DEPTH:  # a path plus a nested value
        raise ConfigError(
            f"settings are nested more than {2 * MOST_DEPTH} levels deep, or contain themselves"
        )
    result: Settings = {}
    for layer in layers:
        for key, value in layer.items():
            # seats are numbers in YAML and Python, but text in a path on the command line
            name = str(key) if isinstance(key, str) else shown(key)
            result[name] = _merged_value(result.get(name), value, depth)
    return result


def _merged_value(old: Any, value: Any, depth: int) -> Any:
    if isinstance(old, str) and isinstance(value, Mapping):
        old = {"name": old}
    if isinstance(value, str) and isinstance(old, dict):
        value = {"name": value}
    if not isinstance(value, Mapping):
        return value
    if not isinstance(old, dict):
        return _merged([value], depth + 1)
    is_renamed = "name" in value and "name" in old and value["name"] != old["name"]
    return _merged([value] if is_renamed else [old, value], depth + 1)
