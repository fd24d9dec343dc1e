"""A kernel's fingerprint: equal only if everything that is compiled into it is the same.

Numba copies constants and other kernels into a kernel's machine code. The fingerprint therefore covers the
kernel's bytecode, the values of all constants that it uses, and all kernels that it calls, recursively,
whichever file they come from.
"""

import dis
import enum
import hashlib
import struct
import sys
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path
from types import CodeType, EllipsisType, ModuleType, NoneType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numba import types
from numba.core.caching import NullCache
from numba.core.compiler import Compiler
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic
from numba.core.imputils import builtin_registry as lowering_registry
from numba.core.typing.templates import builtin_registry

Function = Callable[..., Any]

_PACKAGE = Path(__file__).resolve().parent
# modules whose functions Numba compiles
_KNOWN_MODULES = ("builtins", "math", "cmath", "_operator", "numpy", "numba")
_ADDRESS = " at 0x"  # in the text of a type that differs between processes
# instructions of Python's bytecode
_READ_GLOBAL, _READ_FREE = ("LOAD_GLOBAL", "LOAD_NAME"), ("LOAD_DEREF", "LOAD_CLASSDEREF")
_READ_ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD")
_MISSING = object()


class NotComparableError(Exception):
    """A kernel uses an object that cannot be compared with that of another process."""


def fingerprint(dispatcher: Any) -> str:
    """A hash of everything that is compiled into a kernel; raises NotComparableError if that is unknown."""
    digest = hashlib.sha256()
    overloads = _Overloads()
    found = [dispatcher]  # in the order of discovery; grows below
    for kernel in found:
        text, called = _description(kernel, overloads)
        for other in called:
            if other not in found:
                found.append(other)
        digest.update(text.encode())
        digest.update(repr([found.index(other) for other in called]).encode())
    return digest.hexdigest()


def type_text(kind: Any) -> str:
    """An argument's type as text, with everything that compiled code depends on."""
    if isinstance(kind, types.BaseNamedTuple):
        return f"{_found_class(kind.instance_class)} {kind.fields} {[type_text(inner) for inner in kind]}"
    if isinstance(kind, types.BaseTuple):
        return f"{kind} {[type_text(inner) for inner in kind]}"
    plain = (types.Number, types.Boolean, types.Array, types.Record, types.NoneType, types.Omitted)
    text = (types.UnicodeType, types.UnicodeCharSeq, types.CharSeq, types.Literal, types.RangeType)
    if isinstance(kind, (*plain, *text)) and _ADDRESS not in str(kind):
        return str(kind)
    raise NotComparableError(f"an argument is of type {kind}")


class _Overloads:
    """Functions, operators and attributes with overloads by `numba.extending`, which cannot be compared."""

    def __init__(self) -> None:
        functions = [(value, kind.templates) for value, kind in builtin_registry.globals]
        self._functions = [value for value, templates in functions if any(map(_is_foreign, templates))]
        self._attributes = {found._attr for found in builtin_registry.attributes if _is_foreign(found)}
        lowered = [(function, implementation) for implementation, function, _ in lowering_registry.functions]
        self._functions += [function for function, implementation in lowered if _is_of_others(implementation)]
        modules = {
            "" if isinstance(value, str) else getattr(value, "__module__", None) for value in self._functions
        }
        # operators are used without their names
        self._has_operators = not modules.isdisjoint(("", "_operator", "builtins"))

    def refuse(self, value: Any) -> None:
        """Refuse a function with overloads."""
        if any(value is function for function in self._functions):
            raise NotComparableError(f"{value} has overloads")

    def refuse_code(self, names: frozenset[str]) -> None:
        """Refuse attribute names with overloads for any type; refuse all code if operators have overloads."""
        if self._has_operators:
            raise NotComparableError("operators have overloads")
        if found := self._attributes & names:
            raise NotComparableError(f"the attributes {sorted(found)} have overloads")


def _is_foreign(template: Any) -> bool:
    return _is_of_others(getattr(template, "_overload_func", None))


def _is_of_others(function: Any) -> bool:
    module = getattr(function, "__module__", None)  # None for functions that Numba generates
    return module is not None and module.partition(".")[0] not in ("numba", "senju")


class _Read(NamedTuple):
    """A name that bytecode reads from outside of a function, and the attributes that it reads of it."""

    name: str
    is_global: bool  # False: a variable of an enclosing function
    attributes: tuple[str, ...]


class _Code(NamedTuple):
    """A function's bytecode as text, and the names that it reads from outside."""

    text: str
    names: frozenset[str]
    reads: tuple[_Read, ...]

    @classmethod
    def of(cls, code: CodeType) -> "_Code":
        """Describe a code object, with all inner ones."""
        about = code.co_firstlineno, code.co_argcount, code.co_kwonlyargcount, code.co_flags
        names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
        values = _Values(None)
        plain = [values.text(constant) for constant in code.co_consts if not isinstance(constant, CodeType)]
        inner = [cls.of(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
        parts = [repr((about, names, code.co_code, code.co_exceptiontable)), *plain]
        return cls(
            "\n".join([*parts, *(other.text for other in inner)]),
            frozenset(code.co_names).union(*(other.names for other in inner)),
            (*_reads(code), *(read for other in inner for read in other.reads)),
        )


def _reads(code: CodeType) -> Iterator[_Read]:
    instructions = list(dis.get_instructions(code))
    for index, instruction in enumerate(instructions):
        if instruction.opname in ("IMPORT_NAME", "IMPORT_FROM"):
            raise NotComparableError(f"it imports {instruction.argval}")
        if instruction.opname in _READ_GLOBAL or instruction.opname in _READ_FREE:
            attributes = takewhile(lambda later: later.opname in _READ_ATTRIBUTE, instructions[index + 1 :])
            names = tuple(str(attribute.argval) for attribute in attributes)
            yield _Read(instruction.argval, instruction.opname in _READ_GLOBAL, names)


# Each kernel as it was when it was first loaded or compiled, or None if it could not be compared then.
# If a program changes a constant later, compiled code with either value may exist in this process.
_first_seen: "WeakKeyDictionary[Function, tuple[str, list[Function]] | None]" = WeakKeyDictionary()
_codes: "WeakKeyDictionary[Function, _Code]" = WeakKeyDictionary()  # a cache


def _description(dispatcher: Any, overloads: _Overloads) -> tuple[str, list[Any]]:
    """A kernel's bytecode, options and constants as text, and the kernels that it calls."""
    function: Function = dispatcher.py_func
    _require_known_cache(dispatcher, is_new=function not in _first_seen)
    values = _Values(overloads)
    try:
        code = _codes.get(function) or _codes.setdefault(function, _Code.of(function.__code__))
        overloads.refuse_code(code.names)
        source = function.__module__, function.__qualname__, function.__code__.co_filename
        options = [
            *sorted((name, repr(value)) for name, value in dispatcher.targetoptions.items()),
            *sorted((name, type_text(kind)) for name, kind in dispatcher.locals.items()),
        ]
        used = [function.__defaults__, *(_value_of(function, read) for read in code.reads)]
        text = "\n".join([repr(source), repr(options), code.text, *map(values.text, used)])
    except NotComparableError:
        _first_seen[function] = None
        raise
    seen = text, [kernel.py_func for kernel in values.kernels]
    if _first_seen.setdefault(function, seen) != seen:
        raise NotComparableError(f"what {function.__qualname__} uses has changed in this process")
    return text, values.kernels


def _value_of(function: Any, read: _Read) -> Any:
    """The current value of a name; for a module, the value of the attribute that is read."""
    if read.is_global:
        value = function.__globals__.get(read.name, function.__builtins__.get(read.name, _MISSING))
    else:  # a variable of an enclosing function, unless that is the kernel itself
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        try:
            value = cells[read.name].cell_contents if read.name in cells else _MISSING
        except ValueError:  # not set yet
            value = _MISSING
    for attribute in read.attributes:
        if not isinstance(value, ModuleType):
            break
        value = getattr(value, attribute, _MISSING)
    return value


def _require_known_cache(dispatcher: Any, is_new: bool) -> None:
    """Refuse a kernel that may have been compiled with other values than the current ones."""
    name = dispatcher.py_func.__qualname__
    if not is_new and _first_seen[dispatcher.py_func] is None:
        raise NotComparableError(f"{name} cannot be compared")
    if dispatcher._compiler.pipeline_class is not Compiler:
        raise NotComparableError(f"{name} has its own compiler pipeline")
    if getattr(dispatcher._cache, "uses_fingerprints", False):
        return
    if not isinstance(dispatcher._cache, NullCache):
        raise NotComparableError(f"{name} is in another cache; compile it with senju.kernels.compiled")
    if is_new and dispatcher.overloads:
        raise NotComparableError(f"{name} was compiled before; compile it with senju.kernels.compiled")


class _Values:
    """Values as texts that differ if they compile differently; collects the kernels among them."""

    def __init__(self, overloads: _Overloads | None) -> None:
        self._overloads = overloads
        self.kernels: list[Any] = []

    def text(self, value: Any) -> str:
        """The text of one value; raises NotComparableError if it has none."""
        kind = type(value)
        if kind in (bool, int, str, bytes, NoneType, EllipsisType, range):
            return repr(value)
        if kind in (float, complex):
            return f"{kind.__name__} {struct.pack('dd', value.real, value.imag).hex()}"
        if value is _MISSING:
            return "missing"
        if isinstance(value, Dispatcher):
            self.kernels.append(value)
            return "kernel"
        if isinstance(value, np.ndarray | np.generic):
            return _array_text(value)
        if isinstance(value, np.dtype):
            return f"dtype {value!r} {value.itemsize} {value.isalignedstruct} {value.byteorder}"
        if isinstance(value, tuple | list | set | frozenset | dict | slice | enum.Enum):
            return self._container(value)
        if isinstance(value, type):
            return self._class(value)
        return self._named(value)

    def _container(self, value: Any) -> str:
        kind = type(value)
        if isinstance(value, enum.Enum):
            return f"{self._class(kind)}.{value.name}"
        if isinstance(value, slice):
            return f"slice {self.text((value.start, value.stop, value.step))}"
        if isinstance(value, set | frozenset):
            return f"{_class_name(kind)} {sorted(map(self.text, value))}"
        if isinstance(value, dict):
            return f"{_class_name(kind)} {self.text(list(value.items()))}"
        fields = getattr(kind, "_fields", None)
        return f"{_found_class(kind)} {fields} {list(map(self.text, value))}"

    def _class(self, value: type) -> str:
        if issubclass(value, enum.Enum):
            members = {name: self.text(member.value) for name, member in value.__members__.items()}
            return f"enum {_found_class(value)} {[_class_name(kind) for kind in value.__mro__]} {members}"
        if issubclass(value, tuple) and hasattr(value, "_fields"):
            return f"named tuple {_found_class(value)} {value._fields}"
        if issubclass(value, BaseException):
            return _found_class(value)
        return self._named(value)

    def _named(self, value: Any) -> str:
        """An object that Numba compiles by its name; others cannot be compared."""
        if isinstance(value, types.Type) and _ADDRESS not in str(value):
            return f"type {value!r}"
        if isinstance(value, _Intrinsic):
            return _intrinsic_text(value)
        if self._overloads is not None:
            self._overloads.refuse(value)
        module, name = getattr(value, "__module__", None) or "numpy", getattr(value, "__qualname__", None)
        if module.partition(".")[0] in _KNOWN_MODULES and name and _found(module, name) is value:
            return f"{module}.{name}"
        raise NotComparableError(f"it uses an object of type {_class_name(type(value))}")


def _found(module: str, name: str) -> Any:
    """The object of that name in a module."""
    found: Any = sys.modules.get(module, _MISSING)
    for part in name.split("."):
        found = getattr(found, part, _MISSING)
    return found


def _found_class(kind: type) -> str:
    """A class by its name; classes of the main script or in functions differ between processes."""
    if kind.__module__ == "__main__" or _found(kind.__module__, kind.__qualname__) is not kind:
        raise NotComparableError(f"{_class_name(kind)} is not a class of an imported module")
    return _class_name(kind)


def _intrinsic_text(value: Any) -> str:
    """One of senju's own intrinsics, with a hash of its file; others may depend on anything."""
    source = Path(value._defn.__code__.co_filename).resolve()
    if not source.is_relative_to(_PACKAGE):
        raise NotComparableError(f"it uses the intrinsic {value._name}")
    return f"intrinsic {value._name} {hashlib.sha256(source.read_bytes()).hexdigest()}"


def _class_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _array_text(value: Any) -> str:
    if value.dtype.hasobject:
        raise NotComparableError("it uses an array of Python objects")
    about = f"{value.dtype!r} {value.shape} {value.strides} {value.flags.num} {value.flags.writeable}"
    return f"{type(value).__name__} {about} {hashlib.sha256(value.tobytes()).hexdigest()}"
