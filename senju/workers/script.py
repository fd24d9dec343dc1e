"""The user's own script, seen from a worker process.

Workers are started without it. Only a class that is defined in the script itself makes them import
it, under another name, so that code behind `if __name__ == "__main__":` does not run.
"""

import importlib.util
import sys
from pathlib import Path

from senju.errors import ConfigError, WorkerError

_MAIN = "__main__"
_imported_by_worker: list[str] = []  # what this process imports, if it is a worker


def find_importable(name: str, kind: str) -> tuple[str, str | None]:
    """A class's name as a worker can import it, and the script it must import first, if any."""
    module, colon, cls = name.partition(":")
    if not colon or module != _MAIN:
        return name, None
    main = sys.modules[_MAIN]
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name != _MAIN:  # started by `python -m package.module`
        return f"{spec.name}:{cls}", None
    path = getattr(main, "__file__", None)
    if path is None or not Path(path).is_file():
        raise ConfigError(
            f"{kind} {cls!r} is defined at the prompt, where other processes cannot find it; put it into a "
            "module, or use the backend threads or serial"
        )
    return name, str(Path(path).resolve())


def import_script(path: str) -> None:
    """Make the classes of the user's script known as `__main__:Class`, in a worker."""
    spec = importlib.util.spec_from_file_location("__mp_main__", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["__mp_main__"] = sys.modules[_MAIN] = module
    spec.loader.exec_module(module)


def forbid_training(imported: str) -> None:
    """Mark this process as a worker: a script that it imports for the user's classes must not train."""
    _imported_by_worker.append(imported)


def refuse_unguarded() -> None:
    """Refuse to train, or to start workers, in a worker: each would start others without end."""
    if _imported_by_worker:
        raise WorkerError(
            f"{_imported_by_worker[0]} starts training when it is imported, and workers must import it for "
            "the classes it defines; put what it does under `if __name__ == '__main__':`, or the classes "
            "into a module of their own"
        )
