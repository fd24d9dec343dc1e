"""Lines in and out of a stream, whatever the other side does."""

import io
import os
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senju.usi.lines import CHUNK, MAX_LINE, LineWriter, read_lines


def lines_of(content: bytes) -> list[bytes | None]:
    return list(read_lines(io.BytesIO(content).read))


def test_lines_are_given_without_their_ends() -> None:
    assert lines_of(b"usi\nisready\n\nquit\n") == [b"usi", b"isready", b"", b"quit"]


def test_last_line_may_lack_its_end() -> None:
    assert lines_of(b"usi\nquit") == [b"usi", b"quit"]
    assert lines_of(b"") == []


@given(st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line)), st.integers(1, 7))
def test_lines_do_not_depend_on_how_the_bytes_arrive(lines: list[bytes], size: int) -> None:
    stream = io.BytesIO(b"".join(line + b"\n" for line in lines))
    assert list(read_lines(lambda limit: stream.read(min(size, limit)))) == lines


@pytest.mark.parametrize("extra", [1, CHUNK, 10_000_000])
def test_overlong_line_is_left_out_and_the_next_is_read(extra: int) -> None:
    content = b"usi\n" + b"x" * (MAX_LINE + extra) + b"\nquit\n"
    assert lines_of(content) == [b"usi", None, b"quit"]
    assert lines_of(content.removesuffix(b"\nquit\n")) == [b"usi", None]


def test_line_of_the_greatest_length_is_read() -> None:
    line = b"x" * MAX_LINE
    assert lines_of(line + b"\n" + line) == [line, line]


def test_line_of_64_MB_is_passed_over() -> None:
    pieces = iter([b"x" * CHUNK] * 1000 + [b"\nquit\n"])
    assert list(read_lines(lambda limit: next(pieces, b""))) == [None, b"quit"]


@pytest.fixture
def pipe() -> Iterator[tuple[io.FileIO, io.FileIO]]:
    """A pipe's ends, for reading and for writing."""
    reading, writing = os.pipe()
    with io.FileIO(reading) as source, io.FileIO(writing, "w") as sink:
        yield source, sink


Pipe = tuple[io.FileIO, io.FileIO]


def test_line_arrives_at_once_and_whole(pipe: Pipe) -> None:
    source, sink = pipe
    writer = LineWriter(sink)
    writer.send("usiok")
    assert source.read(100) == b"usiok\n"
    writer.send("two\nlines, 歩")
    assert source.read(100) == b"two lines, \\u6b69\n"


def test_lines_of_several_threads_are_not_mixed(pipe: Pipe) -> None:
    source, sink = pipe
    writer = LineWriter(sink)

    def send(letter: str) -> None:
        for _ in range(200):
            writer.send(letter * 50)

    threads = [threading.Thread(target=send, args=(letter,)) for letter in "abc"]
    for thread in threads:
        thread.start()
    lines = []
    for line in read_lines(source.read):
        lines.append(line)
        if len(lines) == 600:
            break
    for thread in threads:
        thread.join()
    assert sorted(set(lines)) == [b"a" * 50, b"b" * 50, b"c" * 50]


def test_writer_outlives_its_reader(pipe: Pipe) -> None:
    source, sink = pipe
    writer = LineWriter(sink)
    source.close()
    writer.send("usiok")
    assert writer.is_lost
    writer.send("readyok")


def test_writer_outlives_a_closed_file() -> None:
    sink = io.BytesIO()
    sink.close()
    writer = LineWriter(sink)
    writer.send("usiok")
    assert writer.is_lost


def test_empty_lines_are_sent_while_something_takes_long(pipe: Pipe) -> None:
    source, sink = pipe
    with LineWriter(sink).keep_alive(seconds=0.001):
        assert [source.read(1), source.read(1)] == [b"\n", b"\n"]


def test_nothing_is_sent_after_the_long_thing_is_done() -> None:
    sink = io.BytesIO()
    writer = LineWriter(sink)
    with writer.keep_alive(seconds=60):
        pass
    writer.send("readyok")
    assert sink.getvalue() == b"readyok\n"
