"""Safe YAML: plain values only, and bounded in size.

A short text can expand to gigabytes (aliases of aliases), nest deeper than Python's recursion limit, or
contain a number with millions of digits. The bounds are checked while parsing, before a value is built.
"""

import math
import re
import stat
from collections.abc import Callable
from os import O_NONBLOCK, fstat
from os import open as open_descriptor
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

MOST_BYTES = 2**20  # of a document
MOST_NODES = 20_000  # values and keys; an alias counts as much as its target
MOST_DEPTH = 32  # of nesting
MOST_DIGITS = 100  # characters of a number

_TAG = "tag:yaml.org,2002:"
_READ_AS_TEXT = (f"{_TAG}timestamp", f"{_TAG}value")  # no setting is a date or YAML's `=`
# characters that no path has; \udc80 to \udcff are bytes of a name that is not UTF-8
_UNUSABLE = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")


class OutOfBoundsError(yaml.MarkedYAMLError):
    """A document is too large or too deep, or has a value that no setting can have."""


class _Loader(yaml.SafeLoader):
    """Reads 1e6 and 3e-4 as numbers, which are text in YAML 1.1; refuses documents out of bounds."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._num_nodes = 0
        self._extents: dict[yaml.Node, tuple[int, int]] = {}  # number of nodes and levels of complete nodes

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]  # the stubs lack its type
        mark, is_alias = event.start_mark, isinstance(event, yaml.AliasEvent)
        before = self._num_nodes
        self._depth += 1
        self._require(self._depth, mark)
        node = super().compose_node(parent, index)
        assert node is not None
        self._depth -= 1
        if is_alias and node not in self._extents:
            raise OutOfBoundsError(problem="a value contains itself", problem_mark=mark)
        if is_alias:
            num_nodes, levels = self._extents[node]
            self._num_nodes += num_nodes
            self._require(self._depth + levels, mark)
        else:
            self._num_nodes += 1
            levels = 1 + max((self._extents[inner][1] for inner in _inner(node)), default=0)
            self._extents[node] = self._num_nodes - before, levels
            self._require(self._depth, mark)
        return node

    def _require(self, depth: int, mark: Any) -> None:
        if depth > MOST_DEPTH:
            problem = f"nested more than {MOST_DEPTH} levels deep, with aliases"
        elif self._num_nodes > MOST_NODES:
            problem = f"more than {MOST_NODES} values, with those that aliases repeat"
        else:
            return
        raise OutOfBoundsError(problem=problem, problem_mark=mark)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        assert isinstance(node, yaml.MappingNode)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != f"{_TAG}merge":
                if (key.tag, key.value) in seen:
                    raise OutOfBoundsError(problem=f"{key.value!r} is set twice", problem_mark=key.start_mark)
                seen.add((key.tag, key.value))
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        mapping = super().construct_mapping(node, deep)
        for key in mapping:
            if not isinstance(key, str | int) or isinstance(key, bool):
                problem = f"the key {key!r}: expected text or a whole number; put text in quotes"
                raise OutOfBoundsError(problem=problem, problem_mark=node.start_mark)
        return mapping


def _inner(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [inner for pair in node.value for inner in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _text(loader: SafeConstructor, node: Any) -> str:
    text = str(loader.construct_scalar(node))
    if _UNUSABLE.search(text):
        problem = "text with a NUL or half a surrogate pair"
        raise OutOfBoundsError(problem=problem, problem_mark=node.start_mark)
    return text


def _plain(construct: Callable[[SafeConstructor, Any], Any]) -> Callable[[SafeConstructor, Any], Any]:
    """Construct a number or a bool; refuse invalid text such as `0x_`, `!!float abc`, `!!bool 3`."""

    def constructed(loader: SafeConstructor, node: Any) -> Any:
        text = str(loader.construct_scalar(node))
        problem = f"a number of {len(text)} characters; expected at most {MOST_DIGITS}"
        if len(text) <= MOST_DIGITS:
            problem = f"{text!r} is not of the type {node.tag.removeprefix(_TAG)}"
            try:
                value = construct(loader, node)
            except (ValueError, LookupError):
                value = None
            if isinstance(value, float) and math.isinf(value) and "inf" not in text.lower():
                problem, value = f"{text} is too large for a number", None
            if value is not None:
                return value
        raise OutOfBoundsError(problem=problem, problem_mark=node.start_mark)

    return constructed


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _READ_AS_TEXT]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    f"{_TAG}float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)
_Loader.yaml_constructors = {  # and no others: no bytes, sets, dates or objects
    f"{_TAG}null": SafeConstructor.construct_yaml_null,
    f"{_TAG}bool": _plain(SafeConstructor.construct_yaml_bool),
    f"{_TAG}int": _plain(SafeConstructor.construct_yaml_int),
    f"{_TAG}float": _plain(SafeConstructor.construct_yaml_float),
    f"{_TAG}str": _text,
    f"{_TAG}seq": SafeConstructor.construct_yaml_seq,
    f"{_TAG}map": SafeConstructor.construct_yaml_map,
    None: SafeConstructor.construct_undefined,
}


def load_yaml(text: str) -> Any:
    """The value of a YAML document; raises yaml.YAMLError if it is invalid or out of bounds."""
    if len(text) > MOST_BYTES:
        raise yaml.YAMLError(f"more than {MOST_BYTES} bytes")
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
    except (ValueError, OverflowError) as error:  # from chr() and int(), for \U7fffffff and %YAML 1.999…
        raise yaml.YAMLError(f"a number or a character out of range: {error}") from None
    return None if node is None else loader.construct_document(node)


def read_bounded(path: Path) -> str:
    """The text of a file; raises OSError for a pipe or a device, which may never end."""
    with open(path, "rb", opener=lambda name, flags: open_descriptor(name, flags | O_NONBLOCK)) as file:
        if not stat.S_ISREG(fstat(file.fileno()).st_mode):
            raise OSError(None, "expected a regular file, found a pipe or a device; save it as a file first")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise yaml.YAMLError(f"more than {MOST_BYTES} bytes")
    return content.decode()
