"""Which code may be loaded: senju's, code of installed packages, and code that the user agrees to.

Runs, files of failing shards and YAML files name classes and functions as `package.module:Name`, and
importing a module runs it. A file's content is checked here before anything is imported:

    require_trust(path, settings)        # TrustError, with every name that needs the user's consent
    with trusting():                     # consent: code named in files opened in this block may be loaded
        ...
    remember(settings, folder)           # the user trained with it on this machine

docs/trust.md is the guide.
"""

import contextlib
import hashlib
import json
import logging
import os
import pkgutil
import site
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any, NamedTuple

from senju.config import shown
from senju.errors import ConfigError, TrustError

logger = logging.getLogger(__name__)

STATE_VARIABLE = "SENJU_STATE"  # the folder in which senju stores the user's consent
_trusting: ContextVar[bool] = ContextVar("trusting", default=False)


class Code(NamedTuple):
    """A module, and the file that its import would run."""

    module: str
    file: str


_accepted: set[Code] = set()  # by the user, in this process
_own_folders: list[str] = []  # searched for modules after sys.path; "" is the current folder


@contextlib.contextmanager
def trusting(trust: bool = True) -> Iterator[None]:
    """With `trust`, accept all code named in files opened in this block."""
    token = _trusting.set(is_trusting(trust))
    try:
        yield
    finally:
        _trusting.reset(token)


def is_trusting(trust: bool = False) -> bool:
    """Whether the user agreed to load all named code, by this argument or an enclosing `trusting`."""
    if not isinstance(trust, bool):  # a string such as "no" is true
        raise ConfigError(f"trust={shown(trust)}: expected True or False")
    return trust or _trusting.get()


def require_trust(source: str | os.PathLike[str], content: object, trust: bool = False) -> None:
    """Raise TrustError if a file's content names code that is neither installed nor accepted."""
    found: dict[str, list[Code]] = {}
    for name in code_names(content):
        codes = [*_code_to_run(name), *_standard_code(name)]
        if untrusted := [code for code in codes if not _is_trusted(code)]:
            found[name] = untrusted
    if is_trusting(trust):
        _accepted.update(code for codes in found.values() for code in codes)
    elif found:
        names = [f"  {name}, loaded from {', '.join(code.file for code in found[name])}" for name in found]
        lines = [
            f"{os.fspath(source)} names code that is neither senju's nor an installed package's:",
            *names,
            "Loading it would run that code. If you trust it, add --trust (in Python: trust=True); "
            "see docs/trust.md",
        ]
        raise TrustError("\n".join(lines))


def _standard_code(name: str) -> list[Code]:
    """A module of the standard library, or one that is a program, which no run needs.

    `os:system` could be called as an opponent, and importing `venv.__main__` creates an environment.
    """
    module = module_in(name) or ""
    first, *others = module.split(".")
    if "__main__" in others:
        return [Code(module, "a program, which its import would start")]
    return [Code(module, "Python's standard library")] if first in sys.stdlib_module_names else []


def accept_named(name: object) -> None:
    """Accept code that the user named: files that name it may load it."""
    if isinstance(name, str) and module_in(name) is not None:
        _accepted.update(_code_to_run(name))


def accepted() -> list[Code]:
    """The code accepted in this process, for processes that it starts."""
    return sorted(_accepted)


def accept(codes: Iterable[Iterable[str]]) -> None:
    """Accept the code that the parent process had accepted."""
    _accepted.update(Code(*code) for code in codes)


def module_in(text: str) -> str | None:
    """The module of `package.module:Name`; None if the text is not such a name.

    >>> module_in("my_games.nim:Nim"), module_in("minimax:2")
    ('my_games.nim', None)
    """
    module, colon, name = text.partition(":")
    return module if colon and all(word.isidentifier() for word in [*module.split("."), name]) else None


def code_names(content: object) -> list[str]:
    """All strings in settings of the form `package.module:Name`, without duplicates."""
    names: dict[str, None] = {}
    seen: set[int] = set()  # a YAML value may occur several times, or contain itself
    left = [content]
    while left:
        value = left.pop()
        if isinstance(value, str) and module_in(value) is not None:
            names[value] = None
        elif isinstance(value, dict | list | tuple) and id(value) not in seen:
            seen.add(id(value))
            left.extend(reversed(list(value.values() if isinstance(value, dict) else value)))
    return list(names)


def _code_to_run(name: str) -> list[Code]:
    """The code that importing a name would run: the module and its packages, unless already loaded."""
    return [code for code, is_loaded in _codes_of(name) if not is_loaded]


def _codes_of(name: str) -> Iterator[tuple[Code, bool]]:
    """The module of a name and its packages, outermost first, and whether each is loaded.

    Folders without code and modules that are built into Python are left out. Nothing is imported:
    `importlib.util.find_spec` would import the packages.
    """
    folders: list[str] | None = None
    words = (module_in(name) or "").split(".")
    for count in range(1, len(words) + 1):
        module = ".".join(words[:count])
        loaded = sys.modules.get(module)
        if loaded is not None:
            file, inner = getattr(loaded, "__file__", None), getattr(loaded, "__path__", ())
        else:
            spec = _find_outermost(module) if folders is None else _find_in(folders, module)
            if spec is None:
                return  # the import itself will report it
            file, inner = spec.origin if spec.has_location else None, spec.submodule_search_locations
        if file:
            yield Code(module, os.path.realpath(file)), loaded is not None
        folders = list(inner or ())


def _find_outermost(name: str) -> ModuleSpec | None:
    for finder in sys.meta_path:
        if finder is PathFinder:
            spec = _find_in([*sys.path, *_own_folders], name)
        else:  # Python's own, or from an installed package
            find = getattr(finder, "find_spec", None)
            spec = find(name, None) if find is not None else None
        if spec is not None:
            return spec
    return None


def _find_in(folders: Iterable[object], name: str) -> ModuleSpec | None:
    """What Python would find in these folders: the first module with code, else a namespace package."""
    portions: list[str] = []
    for folder in folders:
        if not isinstance(folder, str):
            continue  # as in Python's own search
        try:
            importer = pkgutil.get_importer(folder or os.getcwd())
        except FileNotFoundError:
            continue  # the current folder was removed
        spec = importer.find_spec(name) if importer is not None else None
        if spec is None:
            continue
        if spec.loader is not None:
            return spec
        portions += spec.submodule_search_locations or ()
    if not portions:
        return None
    package = ModuleSpec(name, None, is_package=True)
    package.submodule_search_locations = portions
    return package


def _is_trusted(code: Code) -> bool:
    return _is_installed(code.file) or code in _accepted or _is_remembered(code)


def _is_installed(file: str) -> bool:
    """Whether a file is where Python, its packages or senju are installed."""
    return any(Path(file).is_relative_to(folder) for folder in _installed_folders())


@cache
def _installed_folders() -> tuple[str, ...]:
    """Where packages are installed; not PYTHONPATH or .pth folders, such as a checkout with runs in it."""
    paths = sysconfig.get_paths()
    folders = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += site.getsitepackages()
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return (*map(os.path.realpath, folders), os.path.dirname(os.path.realpath(__file__)))


def look_in_current_folder() -> None:
    """Search the current folder last for modules that the user names.

    The folder is appended to `sys.path` only when the first such module is imported: a file in it with the
    name of a package must not replace that package.
    """
    if "" not in sys.path and not _own_folders:
        _own_folders.append("")


def prepare_import(module: str) -> None:
    """Make a module importable that the user named or accepted; call it before the import."""
    package = module.partition(".")[0]
    is_elsewhere = package in sys.modules or _find_in(sys.path, package) is not None
    if _own_folders and not is_elsewhere and _find_in(_own_folders, package) is not None:
        sys.path += _own_folders
        _own_folders.clear()


def remember(content: object, folder: str | os.PathLike[str]) -> None:
    """Store that the user trusts the code in these settings: it may be loaded again, from the same files.

    Code in a run's folder is excluded, since another download may replace that folder.
    """
    run = os.path.realpath(folder)
    codes = {code for name in code_names(content) for code, _ in _codes_of(name)}
    for code in sorted(code for code in codes if code.module != "__main__"):
        is_of_a_run = Path(code.file).is_relative_to(run) or _is_in_a_run(code.file)
        if _is_installed(code.file) or is_of_a_run or _is_remembered(code):
            continue
        try:
            _write_record(code)
        except OSError as error:
            text = "cannot store that %s from %s is trusted: %s; other commands will need --trust"
            logger.warning(text, code.module, code.file, error.strerror or error)


def _is_in_a_run(file: str) -> bool:
    """Whether one of a file's folders is a run, also of several agents."""
    return any(
        ((folder / "config.yaml").is_file() and (folder / "checkpoints").is_dir())
        or (folder / "agent_1" / "config.yaml").is_file()
        for folder in Path(file).parents
    )


def _record_of(code: Code) -> Path | None:
    """The file that stores the user's consent to a module; None if the user has no home folder."""
    name = f"{hashlib.sha256(os.fsencode(f'{code.module}:{code.file}')).hexdigest()}.json"
    if given := os.environ.get(STATE_VARIABLE):
        return Path(given) / "trusted" / name
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(state) / "senju" / "trusted" / name if os.path.isabs(state) else None


def _is_remembered(code: Code) -> bool:
    path = _record_of(code)
    if path is None:
        return False
    try:
        found: Any = json.loads(path.read_bytes())
        about = path.parent.stat()
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:
        logger.warning("cannot read %s; %s is not trusted: %s", path, code.module, error)
        return False
    if about.st_uid != os.geteuid() or about.st_mode & 0o022:
        logger.warning("other users can write to %s; its records are not trusted", path.parent)
        return False
    if found != code._asdict():
        logger.warning("%s is damaged; %s is not trusted", path, code.module)
        return False
    return True


def _write_record(code: Code) -> None:
    """Write a record atomically; other processes may write the same one at the same time."""
    path = _record_of(code)
    if path is None:
        raise FileNotFoundError("the user has no home folder")
    folder = path.parent
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    descriptor, beside = tempfile.mkstemp(dir=folder, prefix=".unfinished-")  # only its owner can read it
    try:
        with open(descriptor, "wb") as file:
            file.write(json.dumps(code._asdict()).encode())
        os.replace(beside, path)
    except OSError:
        Path(beside).unlink(missing_ok=True)
        raise
