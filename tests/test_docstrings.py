"""Every public method has a docstring, or overrides a method of a base class that has one."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest

import senju

MODULES = sorted(info.name for info in pkgutil.walk_packages(senju.__path__, "senju."))


def public_methods(cls: type) -> Iterator[str]:
    """The public methods and properties that a class defines itself, without fields that hold a function."""
    for name, member in vars(cls).items():
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        is_method = inspect.isfunction(function) or isinstance(member, property)
        if is_method and not name.startswith("_") and name not in inspect.get_annotations(cls):
            yield name


def is_documented(cls: type, name: str) -> bool:
    return any(getattr(vars(base).get(name), "__doc__", None) for base in cls.__mro__)


@pytest.mark.parametrize("module_name", [name for name in MODULES if not name.endswith("__main__")])
def test_public_methods_are_documented(module_name: str) -> None:
    module = importlib.import_module(module_name)
    classes = [
        cls
        for name, cls in vars(module).items()
        if inspect.isclass(cls) and cls.__module__ == module_name and not name.startswith("_")
    ]
    missing = [
        f"{cls.__qualname__}.{name}"
        for cls in classes
        for name in public_methods(cls)
        if not is_documented(cls, name)
    ]
    assert not missing
