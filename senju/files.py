"""File operations that never follow links out of a folder.

All paths must stay below `root`; by default, the file's own folder. The root itself may be reached by a link.
Below it, each folder is opened relative to its parent's descriptor, so that a link is refused even if it
appears in between.
"""

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

DESCRIPTORS = Path("/proc/self/fd")  # of Linux: open files as paths
UNFINISHED = ".unfinished-"
_IN_PLACE = os.O_NOFOLLOW | os.O_CLOEXEC
_WITHOUT_WAITING = os.O_NONBLOCK | os.O_NOCTTY  # opening a named pipe would block until its other end opens

Bytes = bytes | memoryview


def describe_os_error(error: OSError) -> str:
    """Why an OSError occurred, for a message."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return "the disk is full" if is_full else (error.strerror or str(error))


def encoded(text: str) -> bytes:
    """Text as UTF-8; bytes of a path that are not UTF-8 become escapes, which JSON reads back."""
    return text.encode(errors="backslashreplace")


@contextmanager
def opened_folder(folder: Path, root: Path, make: bool = False) -> Iterator[int]:
    """A descriptor of a folder at or below `root`; with `make`, missing folders are created."""
    names = folder.relative_to(root).parts
    assert ".." not in names, f"{folder} leads out of {root}"
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for depth, name in enumerate(names, 1):
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=descriptor)
            _refuse_link(name, descriptor, root.joinpath(*names[:depth]))
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | _IN_PLACE, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _refuse_link(name: str, descriptor: int, path: Path) -> bool:
    """Raise OSError if the name is a link; return whether it exists."""
    try:
        about = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return False
    if stat.S_ISLNK(about.st_mode):
        raise link_error(path)
    return True


def link_error(path: Path) -> OSError:
    """The error for a link."""
    what = f"{path.name} is a symbolic link, which is not followed; replace it with a copy of its target"
    return OSError(errno.ELOOP, what, str(path))


def find_link(folder: Path, names: Iterable[str]) -> Path | None:
    """A symbolic link among these files and folders of a folder, or inside these folders."""
    for path in (folder / name for name in names):
        if path.is_symlink():
            return path
        for inside, folders, files in os.walk(path):
            for name in (*folders, *files):
                if os.path.islink(os.path.join(inside, name)):
                    return Path(inside, name)
    return None


def open_file(path: Path, flags: int, root: Path | None = None) -> int:
    """A descriptor of a regular file; links and other kinds of files are refused without waiting.

    For writing, a file with a hard link is refused too: its other name may be anywhere.
    """
    with opened_folder(path.parent, root or path.parent) as folder:
        _refuse_link(path.name, folder, path)
        descriptor = os.open(path.name, flags | _IN_PLACE | _WITHOUT_WAITING, 0o666, dir_fd=folder)
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, f"{path.name} is not a regular file", str(path))
    if flags & (os.O_WRONLY | os.O_RDWR) and about.st_nlink > 1:
        os.close(descriptor)
        what = f"{path.name} has a hard link elsewhere; replace it with a copy"
        raise OSError(errno.EMLINK, what, str(path))
    return descriptor


def read_file(path: Path, root: Path | None = None) -> bytes:
    """All bytes of a regular file."""
    with open(open_file(path, os.O_RDONLY, root), "rb") as file:
        return file.read()


def is_there(path: Path, root: Path | None = None) -> bool:
    """Whether a file or folder exists; raises OSError if it is a link."""
    with opened_folder(path.parent, root or path.parent) as folder:
        return _refuse_link(path.name, folder, path)


def names_in(folder: Path, root: Path) -> list[str]:
    """The names in a folder; none if it does not exist."""
    try:
        with opened_folder(folder, root) as descriptor:
            return os.listdir(descriptor)
    except FileNotFoundError:
        return []


def make_folder(folder: Path, root: Path) -> None:
    """Create a folder and its missing parents."""
    with opened_folder(folder, root, make=True):
        pass


def write_durably(path: Path, data: Iterable[Bytes], root: Path | None = None) -> None:
    """Write a new file in pieces, replacing an old one, and wait until it is on the disk."""
    if is_there(path, root):
        remove_file(path, root)
    with open(open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, root), "wb") as file:
        for piece in data:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def replace_durably(path: Path, data: bytes | Iterable[Bytes], root: Path | None = None) -> None:
    """Replace a file atomically: a reader, also after a crash, sees the old content or the new."""
    beside = path.with_name(f"{UNFINISHED}{path.name}")
    try:
        is_there(path, root)  # refuses a link
        write_durably(beside, [data] if isinstance(data, bytes) else data, root)
        rename(beside, path.name, root)
    except OSError:
        with contextlib.suppress(OSError):
            remove_file(beside, root)
        raise


def rename(path: Path, name: str, root: Path | None = None) -> None:
    """Rename a file or folder within its folder."""
    with opened_folder(path.parent, root or path.parent) as folder:
        os.rename(path.name, name, src_dir_fd=folder, dst_dir_fd=folder)


def remove_file(path: Path, root: Path | None = None) -> None:
    """Remove a file; if it is a link, the link and not its target."""
    with opened_folder(path.parent, root or path.parent) as folder:
        os.unlink(path.name, dir_fd=folder)


def remove_tree(path: Path, root: Path | None = None) -> None:
    """Remove a folder with its content; links in it are removed, not their targets."""
    with opened_folder(path.parent, root or path.parent) as folder:
        _refuse_link(path.name, folder, path)
        shutil.rmtree(path.name, dir_fd=folder)


def sync_folder(folder: Path, root: Path | None = None) -> None:
    """Wait until a folder's entries are on the disk."""
    with opened_folder(folder, root or folder) as descriptor:
        os.fsync(descriptor)
