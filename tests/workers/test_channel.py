"""The channel between processes: what is sent arrives whole."""

import errno
import os
import resource
import socket
from contextlib import closing

import numpy as np
import pytest

from senju.workers.block import Block
from senju.workers.channel import Kind, Message, SocketChannel


@pytest.mark.parametrize("values", [[1, "two"], ["long" * 20_000]], ids=["short values", "long values"])
@pytest.mark.parametrize("num_blocks", [0, 1, 249, 250, 600])
def test_message_arrives_with_all_its_blocks_however_many_they_are(num_blocks: int, values: object) -> None:
    """Linux passes about 250 descriptors with a message; a world may have more agents."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    blocks = [Block.pack(number, [np.full(3, number)]) for number in range(num_blocks)]
    with closing(SocketChannel(here, is_of_team=True)) as team, closing(SocketChannel(there)) as worker:
        team.send(Message(Kind.TASK, 7, values, blocks))
        message = worker.receive()
        assert message is not None
        assert message[:3] == (Kind.TASK, 7, values)
        worker.send(message)
        answer = team.receive()
    assert answer is not None
    assert answer[:3] == message[:3]
    for found in (message.blocks, answer.blocks):
        assert [block.unpack()[0] for block in found] == list(range(num_blocks))
        assert all((block.unpack()[1][0] == number).all() for number, block in enumerate(found))


@pytest.mark.parametrize(
    "data",
    ["[4, 1", "1", '"abc"', "[]", "[1,2,true]", "[4,0,false,null]", "[5,0,false,[1]]", "[99,0,false,null]"],
)
def test_bytes_that_are_not_a_message_are_an_error(data: str) -> None:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with closing(SocketChannel(here, is_of_team=True)) as team, closing(there):
        there.send(data.encode())
        with pytest.raises(OSError, match=os.strerror(errno.EBADMSG)):
            team.receive()


@pytest.mark.parametrize("values", [[1], ["long" * 20_000]], ids=["short values", "long values"])
def test_message_whose_blocks_cannot_be_received_for_lack_of_files_is_an_error(values: object) -> None:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with closing(SocketChannel(here, is_of_team=True)) as team, closing(SocketChannel(there)) as worker:
        worker.send(Message(Kind.DONE, 7, values, [Block.pack(number, []) for number in range(3)]))
        first_free = os.dup(0)
        os.close(first_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (first_free, hard))
        try:
            with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
                team.receive()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
