"""Server-sent events, read from pieces of bytes.

Owns the line format of the stream, as far as the door writes it. Pure. Refuses to know what the data say.
"""

from __future__ import annotations

from typing import Final

from agentserver.client.errors import ProtocolError

MOST: Final = 64_000_000
"""Bytes of one event."""


class SseReader:
    """Gives the data of each event that has come whole."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of the events that end in this piece. Raises ProtocolError when one is too large."""
        self._size += len(piece)
        first, *others = piece.split(b"\n")
        self._rest.append(first)
        found = []
        for each in others:
            found += self._line(b"".join(self._rest))
            self._rest = [each]
        if self._size > MOST:
            raise ProtocolError("an event is too large")
        return found

    def _line(self, line: bytes) -> list[bytes]:
        line = line.removesuffix(b"\r")
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
        if line or not self._data:
            return []
        found, self._data, self._size = b"\n".join(self._data), [], 0
        return [found]
