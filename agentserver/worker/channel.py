"""One end of the socket between a server and a worker, as frames, for as long as the event loop runs.

Owns when the socket is read and what is held of it: one look at the socket gives one frame in the usual case, without a
wait in between. Refuses to hold more than a frame and a piece of the next, whatever the other end sends, and to know
what a frame means.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias

from agentserver.worker.frames import PIECE, Frame, FrameError, FrameReader, pack

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

__all__ = ["FrameSocket", "Heard"]

Heard: TypeAlias = "Frame | FrameError | None"
"""A frame, what came in its place, or None once the other end is gone. Nothing follows the last two."""


class FrameSocket:
    """One end.

    Args:
        end: the socket.
        longest: bytes of a frame; the other end is not listened to any more after a longer one.
        hear: is called with each frame while the channel listens; it begins without.
    """

    def __init__(self, end: socket.socket, longest: int, hear: Callable[[Heard], None]) -> None:
        end.setblocking(False)
        self._end = end
        self._hear = hear
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(longest)
        self._piece = bytearray(PIECE)
        self._view = memoryview(self._piece)
        self._turns = asyncio.Lock()
        self._listens = self._watched = self._over = False

    def listen(self) -> None:
        """Hear frames from now on, those that have come already first."""
        self._listens = True
        self._take()
        if self._listens and self._over:
            self._finish(None)
        elif self._listens and not self._watched:
            self._watched = True
            self._loop.add_reader(self._end, self._arrived)

    def rest(self) -> None:
        """Hear nothing until ``listen``. The socket is looked at once more at most."""
        self._listens = False

    def _arrived(self) -> None:
        if not self._listens:  # what comes unasked stays with the system, but for this piece
            self._unwatch()
        try:
            count = self._end.recv_into(self._piece)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            count = 0
        if count:
            self._reader.feed(self._view[:count])
            self._take()
        else:
            self._finish(None)

    def _take(self) -> None:
        while self._listens:
            try:
                frame = self._reader.next()
            except FrameError as error:
                self._finish(error)
                return
            if frame is None:
                return
            self._hear(frame)

    def _finish(self, last: FrameError | None) -> None:
        self._over = True
        if self._watched:
            self._unwatch()
        if self._listens:
            self._listens = False
            self._hear(last)

    def _unwatch(self) -> None:
        self._watched = False
        self._loop.remove_reader(self._end)

    @property
    def spent(self) -> bool:
        """True once the other end is known to be gone, not to be believed, or to have spoken unasked."""
        return self._over or self._reader.holds

    async def write(self, frame: Frame) -> None:
        """Send a frame. Raises OSError when there is nobody to take it."""
        data = pack(frame)
        async with self._turns:
            try:
                sent = self._end.send(data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            if sent < len(data):
                await self._loop.sock_sendall(self._end, data[sent:])

    def close(self) -> None:
        """Let go of the socket."""
        if self._watched:
            self._unwatch()
        self._end.close()
