"""What a run leaves behind in this process and on this machine."""

import gc
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from senju.errors import ConfigError
from senju.machine import SHARED_MEMORY, SYSTEM


class ProcessResources(dict[str, set[str]]):
    """The resources that this process holds, by kind; each entry names one."""

    def beyond(self, before: "ProcessResources") -> dict[str, list[str]]:
        """What exists now and did not exist before."""
        return {kind: sorted(found - before[kind]) for kind, found in self.items() if found - before[kind]}


def process_resources(temporary: Path) -> ProcessResources:
    """Look at this process, at shared memory, and into a folder for temporary files."""
    gc.collect()  # a mapping lives as long as the arrays in it
    return ProcessResources(
        processes=set(_children()),
        threads={f"{thread.name} ({thread.ident})" for thread in threading.enumerate()},
        descriptors=set(_descriptors()),
        shared_memory={*_mappings(), *map(str, SHARED_MEMORY.glob("senju-*"))},
        temporary_files={str(path.relative_to(temporary)) for path in temporary.rglob("*")},
    )


def _children() -> Iterator[str]:
    try:
        children = psutil.Process().children(recursive=True)
    except (psutil.Error, OSError) as error:
        raise ConfigError(f"processes cannot be counted here: {error}; is /proc mounted?") from None
    for child in children:
        try:
            ended = ", ended and not waited for" * (child.status() == psutil.STATUS_ZOMBIE)
            yield f"process {child.pid} ({child.name()}{ended})"
        except psutil.NoSuchProcess:  # ended while we looked
            continue


def _descriptors() -> Iterator[str]:
    folder = SYSTEM / "self" / "fd" if SYSTEM.is_dir() else Path("/dev/fd")
    for number in os.listdir(folder):
        try:
            yield f"descriptor {number} ({os.readlink(folder / number)})"
        except FileNotFoundError:  # the folder's own, closed by now
            continue
        except OSError:  # not a link on this system
            yield f"descriptor {number}"


def _mappings() -> Iterator[str]:
    """Senju's anonymous shared memory, as far as this process still has it mapped."""
    try:
        lines = (SYSTEM / "self" / "maps").read_text().splitlines()
    except OSError:
        return
    yield from (f"mapping {line.split()[0]}" for line in lines if "memfd:senju" in line)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that this process and those it starts take for temporary files meanwhile."""
    before, variable = tempfile.tempdir, os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="senju-trial-") as name:
        tempfile.tempdir = os.environ["TMPDIR"] = name
        try:
            yield Path(name)
        finally:
            tempfile.tempdir = before
            if variable is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = variable
