"""One walk over a user's Python objects: what each of them refers to, by which path.

Serialising, snapshots, the check for shared objects and the check of a configuration are visitors of it.
"""

from collections.abc import Callable, Iterable
from typing import Any

from senju.environments.object_kinds import PLAIN, ObjectKind, kind_of, read_slot, slots_of

Path = Any  # a name, or a pair of the parent's path and a key
References = list[Any] | dict[Any, Any]  # objects by index, or by key; keys are objects too
Visit = Callable[[Path, Any, ObjectKind], Iterable[References]]


def walk(root: object, name: str, visit: Visit) -> None:
    """Visit every object that `root` leads to once, depth first, but for plain values.

    `visit` gets the object's path, the object and its kind, and returns the objects to visit next.
    """
    seen: dict[int, object] = {}  # keeps the objects alive, so that no id comes twice
    left: list[tuple[Path, Any]] = [(name, root)]
    while left:
        path, value = left.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        for references in visit(path, value, kind_of(type(value))):
            if isinstance(references, dict):
                left += [((path, key), key) for key in references if type(key) not in PLAIN]
                items: Iterable[tuple[Any, Any]] = references.items()
            else:
                items = enumerate(references)
            left += [((path, key), item) for key, item in items if type(item) not in PLAIN]


def path_text(path: Path) -> str:
    """A path as messages name it.

    >>> path_text((("config", "sizes"), 2))
    'config.sizes[2]'
    """
    if isinstance(path, str):
        return path
    parent, key = path
    return path_text(parent) + (f".{key}" if isinstance(key, str) else f"[{key!r}]")


def references_of(value: Any, kind: ObjectKind) -> list[References]:
    """The objects that an object refers to: as a container, by its attributes, and by its slots."""
    found = [kind.read(value)] if kind.contents in ("items", "dict", "code") else []
    if kind.name == "dict" and hasattr(value, "default_factory"):
        found.append([value.default_factory])
    attributes = getattr(value, "__dict__", None)
    if type(attributes) is dict:
        found.append(attributes)
    if slots := slots_of(type(value)):
        found.append([read_slot(slot, value) for slot in slots])
    return found
