"""Splits a byte stream of server-sent events into events of bounded length. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_END: Final = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_LINE: Final = re.compile(rb"\r\n|\n|\r")


class EventCutter:
    """Cuts a stream of bytes into events.

    Args:
        longest: bytes of an event.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._held = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Add a chunk and yield the events that it completes. Raises ValueError when an event is too long."""
        searched = max(len(self._held) - 3, 0)
        self._held += chunk
        start = 0
        for end in _END.finditer(self._held, searched):
            self._check(end.end() - start)
            yield bytes(self._held[start : end.end()])
            start = end.end()
        del self._held[:start]
        self._check(len(self._held))

    def _check(self, length: int) -> None:
        if length > self._longest:
            raise ValueError(f"an event has more than {self._longest} bytes")


def data_of(event: bytes) -> bytes:
    """Extract the data of an event; empty if it has none."""
    lines = (line[5:].removeprefix(b" ") for line in _LINE.split(event) if line.startswith(b"data:"))
    return b"\n".join(lines)
