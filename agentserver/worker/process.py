"""The process behind the wall: reads what it is to run, raises the wall, imports the handler and lets it be called.

Owns the order of its start, the socket to the server and the one call that runs. Refuses to import anything of the
project before the wall stands, and to know peers, keys and journals: none of them is in this process.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, TypeAdapter

from agentserver.worker.asking import Asker
from agentserver.worker.bench import Bench, attempted, equipped
from agentserver.worker.frames import (
    PIECE,
    VERSION,
    CallFrame,
    CancelFrame,
    CompletedFrame,
    Frame,
    FrameReader,
    ReadyFrame,
    SetupFrame,
    pack,
)
from agentserver.worker.wall.raising import Wall, raise_wall

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

LONGEST_SETUP = 1 << 22
UNKNOWN = 2
"""The exit status of a worker that does not understand its server."""


class ServerEnd:
    """The socket to the server, as frames."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._reader = FrameReader(LONGEST_SETUP)
        self._turns = asyncio.Lock()

    def first(self) -> Frame:
        """The first frame, waited for without an event loop. Raises EOFError and FrameError."""
        while (frame := self._reader.next()) is None:
            data = self._end.recv(PIECE)
            if not data:
                raise EOFError("the server is gone")
            self._reader.feed(data)
        return frame

    def bound(self, longest: int) -> None:
        """Take frames of so many bytes from now on, without holding up the event loop."""
        self._reader.longest = longest
        self._end.setblocking(False)

    async def read(self) -> Frame | None:
        """The next frame; None at the end."""
        loop = asyncio.get_running_loop()
        while (frame := self._reader.next()) is None:
            data = await loop.sock_recv(self._end, PIECE)
            if not data:
                return None
            self._reader.feed(data)
        return frame

    async def write(self, frame: Frame) -> None:
        """Send a frame."""
        async with self._turns:
            await asyncio.get_running_loop().sock_sendall(self._end, pack(frame))


def main(argv: Sequence[str]) -> int:
    """Serve the calls that come in over the socket whose number is the only argument; gives the exit status."""
    server = ServerEnd(socket.socket(fileno=int(argv[0])))
    setup = server.first()
    if not isinstance(setup, SetupFrame) or setup.version != VERSION:
        return UNKNOWN
    raise_wall(_wall(setup.wall), os.getppid())
    server.bound(setup.longest)
    asyncio.run(_serve(server, setup))
    return 0


def _wall(values: dict[str, Any]) -> Wall:
    (made,) = TypeAdapter(tuple[Wall], config=ConfigDict(extra="forbid")).validate_python((values,))
    return made


async def _serve(server: ServerEnd, setup: SetupFrame) -> None:
    made: list[Bench] = []

    async def start() -> Frame:
        made.append(await equipped(setup, stack))
        return ReadyFrame()

    async with AsyncExitStack() as stack:
        await server.write(await attempted(start(), 0))
        if made:
            await _take(server, made[0])


async def _take(server: ServerEnd, bench: Bench) -> None:
    """Take calls until the server is gone. It asks for one after the other."""
    running: asyncio.Task[None] | None = None
    asker: Asker | None = None

    async def answer(call: CallFrame, asker: Asker) -> None:
        await server.write(await attempted(bench.call(call, asker), call.call))

    while (frame := await server.read()) is not None:
        if isinstance(frame, CallFrame):
            asker = Asker(frame.call, server.write, bench.codecs, bench.bounds)
            running = asyncio.create_task(answer(frame, asker))
        elif isinstance(frame, CompletedFrame) and asker is not None and frame.call == asker.call:
            asker.hear(frame)
        elif isinstance(frame, CancelFrame) and running is not None:
            running.cancel()
