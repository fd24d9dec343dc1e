"""Compiled code on disk. It is used again only where everything that was compiled into it is the same.

Numba's own disk cache notices only edits of the file that the kernel is in. Here the key is a fingerprint
of all that is compiled into it (`senju.kernel_fingerprint`). A kernel that has none is compiled at each
start instead.
"""

import contextlib
import errno
import hashlib
import logging
import os
import sys
from pathlib import Path
from typing import Any

import numba
from numba.core import config as numba_config
from numba.core.caching import FunctionCache, IndexDataCacheFile

from senju import kernel_fingerprint
from senju.kernel_fingerprint import NotComparableError, fingerprint, type_text

logger = logging.getLogger(__name__)

_MOST_VERSIONS = 16  # of one kernel that are kept, counting each set of argument types


def kernel_cache_folder() -> Path:
    """Where compiled code is kept: in `cache_root`, keyed by the code that makes the keys."""
    files = Path(__file__), Path(kernel_fingerprint.__file__)
    key = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    checked = "-boundscheck" if numba_config.BOUNDSCHECK else ""
    return cache_root() / f"kernels-{key}{checked}"


def cache_root() -> Path:
    """`SENJU_CACHE` or `~/.cache/senju`; FileNotFoundError where this user has no home folder."""
    root = os.environ.get("SENJU_CACHE") or os.path.expanduser("~/.cache/senju")
    if root.startswith("~/"):
        raise FileNotFoundError(errno.ENOENT, "no home folder is known; set HOME or SENJU_CACHE", root)
    return Path(root)


def usable_cache_folder() -> str | None:
    """That folder, made if need be; None, with a warning, where it cannot be written."""
    try:
        folder = kernel_cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
    except OSError as error:
        logger.warning("compiled code cannot be kept on disk (%s); every start compiles anew", error)
        return None
    return str(folder)


class KernelCache(FunctionCache):  # type: ignore[misc]  # numba has no types
    """The compiled versions of one kernel on disk, each in files that are named by its fingerprint."""

    uses_fingerprints = True

    def __init__(self, dispatcher: Any, folder: str) -> None:
        previous = numba_config.CACHE_DIR
        numba_config.CACHE_DIR = folder  # for this kernel only: other users of Numba keep theirs
        try:
            super().__init__(dispatcher.py_func)
        finally:
            numba_config.CACHE_DIR = previous
        self._dispatcher = dispatcher

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for these argument types; None where it is not on disk."""
        self._select(sig, target_context.codegen())
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # noqa: BLE001  # damaged files can raise anything
            logger.warning("%s is compiled anew: its file in %s is damaged", self._name, self._cache_path)
            logger.debug("%r", error)
            with contextlib.suppress(OSError):
                self.flush()  # an empty index, in place of one that may not be readable
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep newly compiled code, and remove the oldest versions of the same kernel."""
        self._select(sig, data.codegen)
        try:
            super().save_overload(sig, data)
            self._remove_old()
        except OSError as error:
            logger.warning(
                "%s cannot be kept on disk (%s); the next start compiles it anew", self._name, error
            )

    def _select(self, sig: Any, codegen: Any) -> None:
        """Use the files of the version for these types; none where the kernel cannot be compared."""
        versions = (numba.__version__, sys.implementation.cache_tag, codegen.magic_tuple())
        try:
            content = (versions, [type_text(argument) for argument in sig], fingerprint(self._dispatcher))
        except NotComparableError as reason:
            logger.info("%s is compiled at each start: %s", self._name, reason)
            self.disable()
            return
        self.enable()
        self._key = hashlib.sha256(repr(content).encode()).hexdigest()[:32]
        name = f"{self._impl.filename_base}.{self._key}"
        self._cache_file = IndexDataCacheFile(self._cache_path, name, self._key)

    def _index_key(self, sig: Any, codegen: Any) -> str:
        return self._key

    def _remove_old(self) -> None:
        name = self._impl.filename_base.rpartition("-")[0]  # without the line number
        found = []
        for path in Path(self._cache_path).glob(f"{name}-*.nbi"):
            with contextlib.suppress(FileNotFoundError):  # removed by another process
                found.append((path.stat().st_mtime_ns, path))
        for _, path in sorted(found)[:-_MOST_VERSIONS]:
            for file in (path, path.with_suffix(".1.nbc")):
                file.unlink(missing_ok=True)
