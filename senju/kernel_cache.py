"""A disk cache of compiled kernels, keyed by everything that is compiled into them.

Numba's own disk cache notices only edits of the kernel's own file. Here the key is a fingerprint of all code
and constants (`senju.kernel_fingerprint`). A kernel without a fingerprint is compiled at each start.
"""

import contextlib
import errno
import glob
import hashlib
import logging
import os
import sys
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.core import config as numba_config
from numba.core.caching import IndexDataCacheFile, _Cache
from numba.core.compiler import CompileResult
from numba.core.sigutils import normalize_signature

from senju import kernel_fingerprint
from senju.kernel_fingerprint import NotComparableError, fingerprint, type_text

logger = logging.getLogger(__name__)

_CODE_OPTIONS = ("BOUNDSCHECK", "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE")  # Numba's, which change the code
_MOST_VERSIONS = 16  # kept of one kernel, counting each set of argument types


def kernel_cache_folder() -> Path:
    """The cache folder in `cache_root`, named after the code that computes the keys."""
    files = Path(__file__), Path(kernel_fingerprint.__file__)
    key = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    return cache_root() / f"kernels-{key}"


def cache_root() -> Path:
    """`SENJU_CACHE` or `~/.cache/senju`; raises FileNotFoundError if the user has no home folder."""
    root = os.environ.get("SENJU_CACHE") or os.path.expanduser("~/.cache/senju")
    if root.startswith("~/"):
        raise FileNotFoundError(errno.ENOENT, "no home folder is known; set HOME or SENJU_CACHE", root)
    return Path(root)


def usable_cache_folder() -> str | None:
    """The cache folder, created if missing; None, with a warning, if it cannot be written."""
    try:
        folder = kernel_cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
    except OSError as error:
        logger.warning("compiled code cannot be cached on disk (%s); every start compiles it again", error)
        return None
    return str(folder)


class KernelCache(_Cache):  # type: ignore[misc]  # numba has no types
    """The compiled versions of one kernel on disk, in files named by their fingerprints."""

    uses_fingerprints = True

    def __init__(self, dispatcher: Any, folder: str) -> None:
        self._dispatcher = dispatcher
        function = dispatcher.py_func
        source = Path(function.__code__.co_filename).resolve()
        place = hashlib.sha256(os.fsencode(source.parent)).hexdigest()[:16]
        self._folder = Path(folder) / f"{source.parent.name}-{place}"
        self._name = f"{source.stem}.{function.__qualname__.replace('<locals>.', '')}"

    @property
    def cache_path(self) -> str:
        return str(self._folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for these argument types; None if it is not on disk."""
        target_context.refresh()
        key = self._key(sig, target_context.codegen())
        if key is None:
            return None
        try:
            payload = self._file(key).load(key)
            return None if payload is None else CompileResult._rebuild(target_context, *payload)
        except Exception as error:  # noqa: BLE001  # damaged files can raise anything
            logger.warning("%s is compiled again: its file in %s is damaged", self._name, self._folder)
            logger.debug("%r", error)
            with contextlib.suppress(OSError):
                self._file(key).flush()  # writes an empty index over one that may be unreadable
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save newly compiled code, and remove the oldest versions of the same kernel."""
        is_lifted = any(not lifted.can_cache for lifted in data.lifted)
        key = self._key(sig, data.codegen)
        # dynamic globals: large arrays, whose address is in the code
        if key is None or is_lifted or data.library.has_dynamic_globals:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file(key).save(key, data._reduce())
            self._remove_old()
        except OSError as error:
            logger.warning(
                "%s cannot be cached on disk (%s); the next start compiles it again", self._name, error
            )

    def enable(self) -> None:
        """It is always enabled."""

    def disable(self) -> None:
        """It cannot be disabled."""

    def flush(self) -> None:
        """Do nothing: versions have different names, so none is out of date."""

    def _key(self, sig: Any, codegen: Any) -> str | None:
        """The name of the version for these types; None if the kernel has no fingerprint."""
        versions = (numba.__version__, sys.implementation.cache_tag, codegen.magic_tuple())
        options = [getattr(numba_config, name) for name in _CODE_OPTIONS]
        arguments, result = normalize_signature(sig)
        try:
            signature = [type_text(kind) for kind in (*arguments, result or types.none)]
            content = (versions, options, signature, fingerprint(self._dispatcher))
        except NotComparableError as reason:
            logger.info("%s is compiled at each start: %s", self._name, reason)
            return None
        return hashlib.sha256(repr(content).encode()).hexdigest()[:32]

    def _file(self, key: str) -> Any:
        return IndexDataCacheFile(self.cache_path, f"{self._name}-{key}", key)

    def _remove_old(self) -> None:
        found = []
        for path in self._folder.glob(f"{glob.escape(self._name)}-*.nbi"):
            with contextlib.suppress(FileNotFoundError):  # removed by another process
                found.append((path.stat().st_mtime_ns, path))
        for _, path in sorted(found)[:-_MOST_VERSIONS]:
            for file in (path, path.with_suffix(".1.nbc")):
                file.unlink(missing_ok=True)
