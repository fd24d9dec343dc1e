"""Leftover processes, threads, memory and files are found and named."""

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from senju.trials.leftovers import process_resources, temporary_folder
from senju.workers.shared_memory import map_shared, open_anonymous


@pytest.mark.slow
def test_nothing_new_is_nothing_left(tmp_path: Path) -> None:
    assert process_resources(tmp_path).beyond(process_resources(tmp_path)) == {}


@pytest.mark.slow
def test_process_is_seen(tmp_path: Path) -> None:
    before = process_resources(tmp_path)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        found = process_resources(tmp_path).beyond(before)
        assert [text for text in found["processes"] if f"process {process.pid} " in text]
        process.communicate(b"\n")
    assert process_resources(tmp_path).beyond(before) == {}


@pytest.mark.slow
def test_descriptor_thread_and_temporary_file_are_seen(tmp_path: Path) -> None:
    before = process_resources(tmp_path)
    path = tmp_path / "folder" / "file"
    path.parent.mkdir()
    must_end = threading.Event()
    thread = threading.Thread(target=must_end.wait, name="lingering")
    thread.start()
    with path.open("w"):
        found = process_resources(tmp_path).beyond(before)
    must_end.set()
    thread.join()
    assert found["temporary_files"] == ["folder", "folder/file"]
    assert len(found["descriptors"]) == 1
    assert found["threads"][0].startswith("lingering")


@pytest.mark.slow
def test_shared_memory_is_seen_for_as_long_as_it_is_mapped(tmp_path: Path) -> None:
    before = process_resources(tmp_path)
    descriptor = open_anonymous(4096)
    block = map_shared(descriptor, 4096)
    os.close(descriptor)
    if sys.platform == "linux":
        assert "shared_memory" in process_resources(tmp_path).beyond(before)
    block.close()
    assert process_resources(tmp_path).beyond(before) == {}


def test_temporary_files_go_to_the_trials_own_folder_and_then_as_before() -> None:
    before, variable = tempfile.gettempdir(), os.environ.get("TMPDIR")
    with temporary_folder() as folder:
        assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(folder)
        command = [sys.executable, "-c", "import tempfile; tempfile.mkdtemp()"]
        subprocess.run(command, check=True)
        assert len(list(folder.iterdir())) == 1
    assert not folder.exists()
    assert (tempfile.gettempdir(), os.environ.get("TMPDIR")) == (before, variable)
