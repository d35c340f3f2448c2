"""One end of a socket: whole frames in order, however the bytes come, and no more in memory than was asked for."""

from __future__ import annotations

import socket

import anyio
import anyio.lowlevel
import pytest

from agentserver.worker.frames import PIECE, CancelFrame, FailedFrame, FrameError, FrameSocket, pack
from tests.machine import HANGS

pytestmark = pytest.mark.anyio
LONGEST = 1 << 20


class Ends:
    def __init__(self, longest=LONGEST):
        ours, self.theirs = socket.socketpair()
        self.heard, self.patience = [], 10**6
        self.channel = FrameSocket(ours, longest, self.hear)
        self.theirs.setblocking(False)

    def hear(self, heard):
        self.heard.append(heard)
        self.patience -= 1
        if not self.patience:
            self.channel.pause_reading()

    async def soon(self, count):
        with anyio.fail_after(HANGS):
            while len(self.heard) < count:
                await anyio.lowlevel.checkpoint()

    def close(self):
        self.channel.close()
        self.theirs.close()


@pytest.fixture
async def ends():
    made = Ends()
    yield made
    made.close()


async def test_frames_come_whole_and_in_order_however_they_are_cut(ends):
    ends.channel.listen()
    sent = [CancelFrame(number) for number in range(5)]
    data = b"".join(map(pack, sent))
    for at in range(0, len(data), 11):
        ends.theirs.send(data[at : at + 11])
        await anyio.lowlevel.checkpoint()
    await ends.soon(5)
    assert ends.heard == sent


async def test_a_paused_channel_buffers_at_most_a_frame_and_a_piece(ends):
    ends.patience = 1
    ends.channel.listen()
    flood = pack(FailedFrame(1, "x" * 1000)) * 10_000
    sent = 0
    for _ in range(200):
        try:
            sent += ends.theirs.send(flood)
        except BlockingIOError:
            await anyio.lowlevel.checkpoint()
    assert len(ends.heard) == 1
    assert len(ends.channel._reader._buffer) <= 2 * PIECE
    assert sent < len(flood), "the system holds the rest, and its sender waits"


async def test_frames_before_the_end_are_read_before_it(ends):
    ends.patience = 1
    ends.channel.listen()
    ends.theirs.send(pack(CancelFrame(1)) + pack(CancelFrame(2)))
    await ends.soon(1)
    ends.theirs.close()
    await anyio.sleep(0.01)
    ends.patience = 10
    ends.channel.listen()
    await ends.soon(3)
    assert ends.heard == [CancelFrame(1), CancelFrame(2), None]
    assert ends.channel.unusable


async def test_nothing_is_read_after_an_invalid_frame(ends):
    ends.channel.listen()
    ends.theirs.send(b"\x00\x00\x00\x02{}" + pack(CancelFrame(1)))
    await ends.soon(1)
    assert [type(each) for each in ends.heard] == [FrameError]
    assert ends.channel.unusable


async def test_a_frame_that_the_system_does_not_take_at_once_waits_for_room(ends):
    frame = FailedFrame(1, "x" * 900_000)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ends.channel.write, frame)
        tasks.start_soon(ends.channel.write, CancelFrame(2))
        await anyio.sleep(0.01)
        got = b""
        with anyio.fail_after(HANGS):
            while len(got) < len(pack(frame)) + len(pack(CancelFrame(2))):
                try:
                    got += ends.theirs.recv(PIECE)
                except BlockingIOError:
                    await anyio.lowlevel.checkpoint()
    assert got == pack(frame) + pack(CancelFrame(2))
