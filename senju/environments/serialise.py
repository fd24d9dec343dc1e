"""A user's objects as one block of bytes, without pickle, and back into objects of the same factory.

Networks, optimizers, memories, numbers, arrays, containers, generators and plain objects are serialised. All
else that an object refers to (functions, locks, devices, paths) stays as the factory made it.
"""

from collections.abc import Callable, Iterable
from itertools import islice, zip_longest
from typing import Any

from numpy.typing import NDArray
from torch import nn

from senju.environments.objects import KINDS, PLAIN, ObjectKind, attributes_of, is_serialisable, kind_of
from senju.errors import ModelError
from senju.models.weights import WeightBlock
from senju.workers.block import Block

ObjectRecord = list[Any]  # number of an object that can change, name of its kind, meta, contents
Reference = Any  # a plain value, [number], [kind, meta, contents] of an object that never changes, or KEEP
KEEP: list[Any] = []  # the object that the factory made stays
_OBJECT = KINDS["object"]


def serialise(root: object, leave_out: Callable[[object], bool] = lambda value: False) -> Block:
    """The state of an object and of all it refers to, except for objects that `leave_out` is true for."""
    writer = _Writer(leave_out)
    writer.write([root])
    return Block.pack(writer.records, writer.arrays)


def restore(root: Any, block: Block, filled: set[int] | None = None) -> Any:
    """Fill an object with a state and return it; if `root` is None, make a new one.

    The addresses of the networks' weights that were written are added to `filled`.
    """
    records, arrays = block.unpack()
    return _Reader(records, arrays, set() if filled is None else filled).fill([root])[0]


class _Writer:
    """Writes a record of each object, after one that refers to it."""

    def __init__(self, leave_out: Callable[[object], bool]) -> None:
        self.records: list[ObjectRecord] = []
        self.arrays: list[NDArray[Any]] = []
        self._leave_out = leave_out
        self._numbers: dict[int, int] = {}  # by id
        self._objects: list[Any] = []  # by number; keeps them alive, so that no id comes twice
        self._unwritten: list[Any] = []
        self._parts: set[int] = set()  # ids of the modules of networks that have a record

    def write(self, root: Any) -> None:
        """Write the records of an object and of all that it refers to."""
        # without `walk`, which notes the path of each object: that would take half as long again
        self._reference(root)
        while self._unwritten:
            value = self._unwritten.pop()
            kind = kind_of(type(value))
            if kind.name != "module":
                contents = self._contents(kind, kind.read(value))
                self.records.append([self._numbers[id(value)], kind.name, kind.meta(value), contents])
            elif id(value) not in self._parts:
                self._write_network(value)

    def _number(self, value: object) -> int:
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)
        return number

    def _contents(self, kind: ObjectKind, contents: Any) -> Any:
        if kind.contents == "array":
            self.arrays.append(contents)
            return len(self.arrays) - 1
        if kind.contents == "attributes":
            return self._attributes(contents)
        if kind.contents == "dict":
            return [(self._reference(key), self._reference(item)) for key, item in contents.items()]
        if kind.contents == "state":
            contents = [contents]
        return [item if type(item) in PLAIN else self._reference(item) for item in contents]

    def _attributes(self, attributes: dict[str, Any]) -> dict[str, Reference]:
        references = {name: self._reference(value) for name, value in attributes.items()}
        return {name: reference for name, reference in references.items() if reference is not KEEP}

    def _reference(self, value: Any) -> Reference:
        if type(value) in PLAIN:
            return value
        if (number := self._numbers.get(id(value))) is not None:
            return [number]
        if self._leave_out(value) or not is_serialisable(value):
            return KEEP
        kind = kind_of(type(value))
        if kind.fill is None:
            return [kind.name, kind.meta(value), self._contents(kind, kind.read(value))]
        self._unwritten.append(value)
        return [self._number(value)]

    def _write_network(self, network: nn.Module) -> None:
        modules = list(network.modules())
        self._parts |= set(map(id, modules))
        numbers = [self._number(module) for module in modules]  # before an attribute refers to one
        self.arrays.append(WeightBlock(network).read())
        weights = len(self.arrays) - 1
        parts = [self._attributes(attributes_of(module)) for module in modules]
        self.records.append([self._number(network), "module", weights, [*zip(numbers, parts, strict=True)]])


class _Reader:
    """Matches records with existing objects and makes those that are missing; then fills all of them."""

    def __init__(self, records: list[ObjectRecord], arrays: list[NDArray[Any]], filled: set[int]) -> None:
        self._records = {record[0]: record for record in records}
        self._arrays, self._filled = arrays, filled
        self._existing: dict[int, Any] = {}  # by number: the object in the same place
        self._made: dict[int, Any] = {}
        self._used: set[int] = set()  # ids of matched objects: each of them is matched once
        self._unfilled: list[tuple[ObjectKind, Any, Any]] = []

    def fill(self, root: Any) -> Any:
        """Fill the object of the first record, and all that it refers to."""
        self._existing[0] = root
        for record in self._records.values():
            self._read(*record)
        for kind, made, contents in reversed(self._unfilled):  # contents are filled before their owner
            kind.fill(made, self._values(kind, contents, made))
        return root

    def _read(self, number: int, name: str, meta: Any, contents: Any) -> None:
        if number in self._made and name != "module":  # it is part of a key, which was needed before
            return
        existing = self._existing.get(number)
        if id(existing) in self._used:
            existing = None
        if name == "module":
            self._read_network(existing, meta, contents)
            return
        kind = KINDS[name]
        data = self._arrays[contents] if kind.contents == "array" else None
        is_accepted = kind.accepts(existing, meta, data)
        self._begin(number, kind, existing if is_accepted else kind.make(meta, data), contents)

    def _begin(self, number: int, kind: ObjectKind, made: Any, contents: Any) -> None:
        self._made[number] = made
        self._used.add(id(made))
        if kind is _OBJECT and list not in map(type, contents.values()):
            kind.fill(made, contents)  # type: ignore[misc]  # it can change
            return
        self._unfilled.append((kind, made, contents))
        for reference, old in self._places(kind, contents, made):
            if type(reference) is list:
                self._match(reference, old)

    def _match(self, reference: Reference, existing: Any) -> None:
        if len(reference) == 1:
            self._existing.setdefault(reference[0], existing)
        elif reference and reference[0] == "tuple":
            for item, old in zip(reference[2], existing if isinstance(existing, tuple) else (), strict=False):
                if type(item) is list:
                    self._match(item, old)

    def _read_network(self, network: Any, weights: int, parts: list[tuple[int, Any]]) -> None:
        modules = list(network.modules()) if isinstance(network, nn.Module) else []
        if len(modules) != len(parts):
            raise ModelError(
                f"a network of {len(parts)} modules does not fit {network!r}; "
                "the factory must make the same networks each time"
            )
        target = WeightBlock(network)
        target.write(self._arrays[weights])
        self._filled |= target.addresses()
        for module, (number, attributes) in zip(modules, parts, strict=True):
            self._begin(number, _OBJECT, module, attributes)

    def _places(self, kind: ObjectKind, contents: Any, existing: Any) -> Iterable[tuple[Reference, Any]]:
        """References, each with the object that is in its place now."""
        if kind.contents == "attributes":
            return [(item, getattr(existing, name, None)) for name, item in contents.items()]
        if kind.contents == "dict":
            return [(item, dict.get(existing, self._value(key))) for key, item in contents]
        if kind.contents == "array":
            return ()
        is_ordered = kind.contents == "items" and not kind.name.endswith("set")
        return zip_longest(contents, islice(existing if is_ordered else (), len(contents)))

    def _values(self, kind: ObjectKind, contents: Any, existing: Any) -> Any:
        if kind.contents == "array":
            return self._arrays[contents]
        values = [
            self._value(reference, old) if type(reference) is list else reference
            for reference, old in self._places(kind, contents, existing)
        ]
        if kind.contents == "attributes":
            return dict(zip(contents, values, strict=True))
        if kind.contents == "dict":
            return dict(zip((self._value(key) for key, _ in contents), values, strict=True))
        return values[0] if kind.contents == "state" else values

    def _value(self, reference: Reference, existing: Any = None) -> Any:
        if type(reference) is not list:
            return reference
        if not reference:
            return existing
        if len(reference) == 1:
            if reference[0] not in self._made:
                self._read(*self._records[reference[0]])
            return self._made[reference[0]]
        name, meta, contents = reference
        kind = KINDS[name]
        olds = existing if kind.accepts(existing, meta) else ()
        return kind.make(meta, self._values(kind, contents, olds))
