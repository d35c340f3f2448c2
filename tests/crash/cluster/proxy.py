"""A TCP proxy between one server and the databases: it cuts, swallows and delays.

Owns one port for each database. It reads nothing but how long a piece is: a commit is much longer than what else a
server sends.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

COMMIT = 1500
"""Bytes of a piece that is a commit."""

PIECE = 1 << 16


@dataclass
class Traffic:
    """The counted traffic. ``turns`` are changes of direction from the server to the database: round trips."""

    sent: int = 0
    received: int = 0
    turns: int = 0


@dataclass
class Proxy:
    """The way from one server to all databases.

    Args:
        sockets: the Unix socket of each database.
    """

    sockets: list[Path]
    delay: float = 0.0
    ports: list[int] = field(default_factory=list)
    traffic: Traffic = field(default_factory=Traffic)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _hole: asyncio.Event = field(default_factory=asyncio.Event)
    _refusing: bool = False
    _trap: tuple[asyncio.Event, asyncio.Event, bool] | None = None
    _servers: list[asyncio.Server] = field(default_factory=list)
    _tasks: set[asyncio.Task] = field(default_factory=set)

    async def open(self) -> None:
        """Listen."""
        self._hole.set()
        for path in self.sockets:
            server = await asyncio.start_server(self._connected(path), "127.0.0.1", 0, limit=PIECE)
            self._servers.append(server)
            self.ports.append(server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """End everything."""
        self.refuse(True)
        for server in self._servers:
            server.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def url(self, database: str = "postgres") -> str:
        """The address of the database by this way."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        return f"postgresql://postgres@{hosts}/{database}?sslmode=disable"

    # Acts

    def cut(self) -> None:
        """End every connection, without a word."""
        for writer in tuple(self._open):
            writer.transport.abort()

    def refuse(self, refusing: bool) -> None:
        """Take no connection, or take them again."""
        self._refusing = refusing

    def swallow(self, swallowing: bool) -> None:
        """Let nothing through while connections stay open, or let all of it through."""
        (self._hole.clear if swallowing else self._hole.set)()

    async def catch_commit(self, within: float, *, forward: bool) -> Callable[[], None] | None:
        """Wait for the next commit and hold the traffic after it; return a function that releases it, or None if none came.

        ``forward``: the commit itself is let through, and only its answer is held.
        """
        caught, go_on = asyncio.Event(), asyncio.Event()
        self._trap = (caught, go_on, forward)
        try:
            async with asyncio.timeout(within):
                await caught.wait()
        except TimeoutError:
            self._trap = None
            return None
        return go_on.set

    # Pieces

    def _connected(
        self, path: Path
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._open.add(writer)
            task = asyncio.ensure_future(self._carry(path, reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return run

    async def _carry(self, path: Path, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = {writer}
        tasks: list[asyncio.Task] = []
        try:
            if self._refusing:
                return
            there, back = await asyncio.open_unix_connection(path, limit=PIECE)
            ends.add(back)
            self._open.add(back)
            held = asyncio.Event()  # answers of this connection pass while it is set
            held.set()
            tasks += [
                asyncio.ensure_future(self._forward(reader, back, held)),
                asyncio.ensure_future(self._return(there, writer, held)),
            ]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass  # the database is away
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._open -= ends
            for one in ends:
                one.transport.abort()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, held: asyncio.Event
    ) -> None:
        last = 0
        while data := await reader.read(PIECE):
            if self.traffic.received != last:
                self.traffic.turns += 1
            self.traffic.sent += len(data)
            if self._trap is not None and len(data) >= COMMIT:
                await self._hold(data, writer, held)
            else:
                await self._pass(data, writer)
            last = self.traffic.received

    async def _hold(self, data: bytes, writer: asyncio.StreamWriter, held: asyncio.Event) -> None:
        assert self._trap is not None
        (caught, go_on, forward), self._trap = self._trap, None
        held.clear()
        if forward:
            await self._pass(data, writer)
            await asyncio.sleep(0.01)  # the database may be done with it by now, or not
        caught.set()
        await go_on.wait()
        held.set()
        if not forward:
            await self._pass(data, writer)

    async def _return(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, held: asyncio.Event
    ) -> None:
        while data := await reader.read(PIECE):
            await held.wait()
            self.traffic.received += len(data)
            await self._pass(data, writer)

    async def _pass(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        await self._hole.wait()
        if self.delay:
            await asyncio.sleep(self.delay)
        with contextlib.suppress(OSError):
            writer.write(data)
            await writer.drain()
