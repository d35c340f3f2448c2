"""Process behind the wall: ``python -I -m agentserver.worker DESCRIPTOR``.

Reads its setup, raises the wall, imports the handler and serves its calls. The project is not imported before the wall
is raised. Peers, keys and journals never reach this process.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import AsyncExitStack
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, TypeAdapter

from agentserver.pump.calls import PromptTask
from agentserver.worker.bench import Bench, ServerCompleter, open_bench, run_attempt
from agentserver.worker.frames import (
    PIECE,
    VERSION,
    CallFrame,
    CancelFrame,
    CompletionFrame,
    EffectStateFrame,
    FailedFrame,
    Frame,
    FrameReader,
    FrameSocket,
    ReadyFrame,
    SetupFrame,
)
from agentserver.worker.wall.raising import Wall, raise_wall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.worker.frames import Heard

__all__ = ["main"]

LONGEST_SETUP = 1 << 22
UNKNOWN = 2
"""The exit status of a worker that does not understand its server."""


def main(argv: Sequence[str]) -> int:
    """Serve the calls that come in over the socket whose number is the only argument; gives the exit status."""
    end = socket.socket(fileno=int(argv[0]))
    setup = _read_first(end)
    if not isinstance(setup, SetupFrame) or setup.version != VERSION:
        return UNKNOWN
    raise_wall(_parse_wall(setup.wall), os.getppid())
    asyncio.run(_serve(end, setup))
    return 0


def _read_first(end: socket.socket) -> Frame:
    """Read the first frame, without an event loop. Raises EOFError and FrameError."""
    reader = FrameReader(LONGEST_SETUP)
    while (frame := reader.take_frame()) is None:
        data = end.recv(PIECE)
        if not data:
            raise EOFError("the server is gone")
        reader.feed(data)
    return frame


def _parse_wall(values: dict[str, Any]) -> Wall:
    (wall,) = TypeAdapter(tuple[Wall], config=ConfigDict(extra="forbid")).validate_python((values,))
    return wall


async def _serve(end: socket.socket, setup: SetupFrame) -> None:
    """Import the handler, report readiness, and serve calls until the server closes the socket."""
    benches: list[Bench] = []

    async def start() -> Frame:
        benches.append(await open_bench(setup, stack))
        return ReadyFrame()

    async with AsyncExitStack() as stack:
        ours = WorkerEnd(end, setup.longest)
        await ours.channel.write(await run_attempt(start(), 0))
        if benches:
            await ours.serve(benches[0])


class WorkerEnd:
    """Takes the server's calls. It asks for one after the other."""

    def __init__(self, end: socket.socket, longest: int) -> None:
        self.channel = FrameSocket(end, longest, self._hear, trusted=True)
        self._loop = asyncio.get_running_loop()
        self._over = self._loop.create_future()
        self._bench: Bench | None = None
        self._asker: ServerCompleter | None = None
        self._running: PromptTask | None = None

    async def serve(self, bench: Bench) -> None:
        """Take calls until the server is gone."""
        self._bench = bench
        self.channel.listen()
        await self._over

    def _hear(self, frame: Heard) -> None:
        if isinstance(frame, CallFrame):
            self._running = PromptTask(loop=self._loop)
            self._running.begin(self._answer(frame), copy_context(), None)
        elif isinstance(frame, CompletionFrame | EffectStateFrame):
            if self._asker is not None and frame.call == self._asker.call:
                self._asker.deliver(frame)
        elif isinstance(frame, CancelFrame):
            if self._running is not None:
                self._running.cancel()
        elif not self._over.done():
            self._over.set_result(None)

    async def _answer(self, call: CallFrame) -> None:
        assert self._bench is not None  # it listens by then
        self._asker = ServerCompleter(call.call, self.channel.write, self._bench.codecs, self._bench.bounds)
        answer = await run_attempt(self._bench.call(call, self._asker), call.call)
        try:
            await self.channel.write(answer)
        except ValueError as error:  # text that no document can hold
            detail = f"the result cannot be written down: {type(error).__name__}"
            await self.channel.write(FailedFrame(call.call, detail))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
