"""Marks of deliveries in progress, in a file next to the journal, to find the one that crashed the process.

A mark is a store into mapped memory, which the kernel preserves when the process dies; suspects, which must survive
a power loss too, are written when the server starts. An unreadable file counts as empty, and a missing one is
tolerated.

The file consists of a header and of slots of one size: the id of a delivery and a number, padded with zeros.
"""

from __future__ import annotations

import asyncio
import logging
import mmap
import os
import stat
import struct
from typing import TYPE_CHECKING, Final

from agentserver.ports import NO_PREVIOUS_RUN, PreviousRun

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HEADER: Final = struct.Struct("<8sIIB47x64s")
"""Magic with the version, suspects, marks, 1 if no call caused the end, the slot of the one that blocked the loop."""

MAGIC: Final = b"AGSVMRK1"
SLOT: Final = struct.Struct("<60sI")
OURS: Final = 16
HELD: Final = 64
NONE: Final = bytes(SLOT.size)
MOST: Final = 1 << 16
"""Most slots of each kind in a file."""

UNMARKED: Final = -1

logger = logging.getLogger("agentserver.engines")


class MarkFile:
    """Marks of one server, which holds the journal's lock.

    Args:
        journal: path of the journal; the marks are next to it.
    """

    at_once = True

    def __init__(self, journal: Path) -> None:
        self._path = journal.with_name(f"{journal.name}.marks")
        self._map: mmap.mmap | None = None
        self._previous: PreviousRun | None = None
        self._started = False
        self._suspects: dict[str, int] = {}
        self._free: list[int] = []
        self._entered: set[int] = set()
        """Places of slots in the file, free and taken ones."""

    async def previous_run(self, previous: int) -> PreviousRun:  # noqa: ARG002 - a port's signature
        """Return the marks of the last server, also after ``begin``."""
        if self._started:
            self._unmap()
        if self._previous is None:
            try:
                self._previous = read(await asyncio.to_thread(_read_content, self._path))
            except OSError:
                self._previous = NO_PREVIOUS_RUN
        return self._previous

    async def begin(self, suspects: Mapping[str, int], calls: int) -> None:
        """Rewrite the file: suspects durably, and slots for calls."""
        self._started = True
        room = min(calls, MOST)
        mapped = await asyncio.to_thread(self._made, blank(suspects, room))
        if mapped is not None:
            self._map = mapped
            self._suspects = {key: HEADER.size + SLOT.size * number for number, key in enumerate(suspects)}
            self._free = [HEADER.size + SLOT.size * (len(suspects) + number) for number in range(room)]

    def _made(self, data: bytes) -> mmap.mmap | None:
        new = self._path.with_name(f"{self._path.name}.new")
        try:
            descriptor = os.open(
                new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
            try:
                # Every block is written: a store into a hole of a file on a full disk would be fatal.
                if os.write(descriptor, data) != len(data):
                    raise OSError("the disk is full")
                os.fsync(descriptor)
                new.replace(self._path)
                return mmap.mmap(descriptor, len(data))
            finally:
                os.close(descriptor)
        except (OSError, ValueError) as error:
            logger.warning("%s: marks cannot be stored: %s", self._path, error)
            return None

    def enter(self, delivery: str, conversation: str) -> int:  # noqa: ARG002 - a port's signature
        """Mark a delivery. Returns its slot, for ``leave``."""
        if not self._free or self._map is None:
            return UNMARKED
        slot = self._free.pop()
        self._entered.add(slot)
        SLOT.pack_into(self._map, slot, delivery.encode(), 0)
        return slot

    def leave(self, slot: int) -> None:
        """Clear a mark."""
        if slot in self._entered and self._map is not None:
            self._entered.remove(slot)
            SLOT.pack_into(self._map, slot, b"", 0)
            self._free.append(slot)

    async def wait_until_marked(self, slot: int) -> None:
        """Return at once: marks take effect immediately."""

    def acquit(self, delivery: str) -> None:
        """Forget a suspect."""
        at = self._suspects.pop(delivery, None)
        if at is not None and self._map is not None:
            self._map[at : at + SLOT.size] = NONE

    def hold(self, delivery: str) -> None:
        """Record that a delivery blocked the event loop, before the process is killed."""
        if self._map is not None:
            self._map[HELD : HELD + SLOT.size] = SLOT.pack(delivery.encode(), 0)

    def end(self) -> None:
        """Record that no delivery causes the coming end. Thread-safe and idempotent."""
        if self._map is not None:
            self._map[OURS] = 1

    def close(self) -> None:
        """Close the file with its marks."""
        self._unmap()

    def _unmap(self) -> None:
        self._previous, self._started = None, False
        for view in (self._suspects, self._free, self._entered):
            view.clear()
        mapped, self._map = self._map, None
        if mapped is not None:
            mapped.close()


def _read_content(path: Path) -> bytes:
    """Read a file up to one byte beyond its limit. Raises OSError; does not block on pipes or follow links."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        limit = HEADER.size + 2 * MOST * SLOT.size + 1
        return os.read(descriptor, min(found.st_size, limit)) if stat.S_ISREG(found.st_mode) else b""
    finally:
        os.close(descriptor)


def blank(suspects: Mapping[str, int], calls: int) -> bytes:
    """Make the content of a file without marks."""
    slots = b"".join(SLOT.pack(key.encode(), ends) for key, ends in suspects.items())
    return HEADER.pack(MAGIC, len(suspects), calls, 0, NONE) + slots + NONE * calls


def read(data: bytes) -> PreviousRun:
    """Parse the content of a file; NO_PREVIOUS_RUN when it is torn, foreign or of another version. Never raises."""
    if len(data) < HEADER.size:
        return NO_PREVIOUS_RUN
    magic, suspects, calls, own, blocked = HEADER.unpack_from(data)
    if (
        magic != MAGIC
        or max(suspects, calls) > MOST
        or len(data) != HEADER.size + SLOT.size * (suspects + calls)
    ):
        return NO_PREVIOUS_RUN
    slots = [(_decode_key(key), ends) for key, ends in SLOT.iter_unpack(data[HEADER.size :])]
    ends = {key: number for key, number in slots[:suspects] if key}
    if own:
        return PreviousRun(frozenset(), "", ends)
    return PreviousRun(frozenset(key for key, _ in slots[suspects:] if key), _decode_key(blocked), ends)


def _decode_key(field: bytes) -> str:
    """Decode an id. Garbage matches no delivery."""
    return field.rstrip(b"\0").decode("ascii", "replace")
