"""Marks beside the journal: which deliveries are being worked on, so that it is known when the process is gone.

Owns the file and its form. A mark is a store into mapped memory, which the kernel keeps when the process dies; what
must outlive a loss of power too is written when the server starts. Refuses to decide what follows from marks, and to
be in the way: a file that cannot be read says nothing, one that cannot be made is done without.

The file: a header, then slots of one size, each the id of a delivery and a number, filled up with zeros.
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
"""Magic with the version, suspects, marks, 1 if the end is no call's fault, the slot of the one that held the loop."""

MAGIC: Final = b"AGSVMRK1"
SLOT: Final = struct.Struct("<60sI")
OURS: Final = 16
HELD: Final = 64
NONE: Final = bytes(SLOT.size)
MOST: Final = 1 << 16
"""Slots of each kind that a file has at most."""

UNMARKED: Final = -1

logger = logging.getLogger("agentserver.engines")


class MarkFile:
    """The marks of one server. The holder of the journal's lock has them.

    Args:
        journal: the journal's path; the marks are beside it.
    """

    at_once = True

    def __init__(self, journal: Path) -> None:
        self._path = journal.with_name(f"{journal.name}.marks")
        self._map: mmap.mmap | None = None
        self._past: PreviousRun | None = None
        self._begun = False
        self._suspects: dict[str, int] = {}
        self._first = 0
        self._free: list[int] = []
        self._entered: set[int] = set()

    async def previous_run(self, previous: int) -> PreviousRun:  # noqa: ARG002 - a port's signature
        """The marks of the last server. After ``begin`` it is asked for another pump."""
        if self._begun:
            self._unmap()
        if self._past is None:
            try:
                self._past = read(await asyncio.to_thread(_content, self._path))
            except OSError:
                self._past = NO_PREVIOUS_RUN
        return self._past

    async def begin(self, suspects: Mapping[str, int], calls: int) -> None:
        """Make the file anew: durably what is known of suspects, and room for so many calls."""
        self._begun = True
        room = min(calls, MOST)
        mapped = await asyncio.to_thread(self._made, blank(suspects, room))
        if mapped is not None:
            self._map, self._first = mapped, HEADER.size + SLOT.size * len(suspects)
            self._suspects = {key: HEADER.size + SLOT.size * number for number, key in enumerate(suspects)}
            self._free = list(range(room))

    def _made(self, data: bytes) -> mmap.mmap | None:
        new = self._path.with_name(f"{self._path.name}.new")
        try:
            descriptor = os.open(
                new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
            try:
                # Every block is really written: a store into a hole of a file on a full disk would be fatal.
                if os.write(descriptor, data) != len(data):
                    raise OSError("the disk is full")
                os.fsync(descriptor)
                new.replace(self._path)
                return mmap.mmap(descriptor, len(data))
            finally:
                os.close(descriptor)
        except (OSError, ValueError) as error:
            logger.warning("%s: no marks are kept: %s", self._path, error)
            return None

    def _put(self, slot: int, key: bytes) -> None:
        assert self._map is not None  # there are no slots without it
        at = self._first + SLOT.size * slot
        self._map[at : at + SLOT.size] = key

    def enter(self, delivery: str, conversation: str) -> int:  # noqa: ARG002 - a port's signature
        """Mark a delivery; gives the slot to ``leave``."""
        if not self._free or self._map is None:
            return UNMARKED
        slot = self._free.pop()
        self._entered.add(slot)
        self._put(slot, SLOT.pack(delivery.encode(), 0))
        return slot

    def leave(self, slot: int) -> None:
        """Clear a mark."""
        if slot in self._entered and self._map is not None:
            self._entered.remove(slot)
            self._put(slot, NONE)
            self._free.append(slot)

    async def wait_until_marked(self, slot: int) -> None:
        """A mark is there at once."""

    def acquit(self, delivery: str) -> None:
        """Forget a suspect."""
        at = self._suspects.pop(delivery, None)
        if at is not None and self._map is not None:
            self._map[at : at + SLOT.size] = NONE

    def hold(self, delivery: str) -> None:
        """The process is about to be ended, because this one has held the event loop for too long."""
        if self._map is not None:
            self._map[HELD : HELD + SLOT.size] = SLOT.pack(delivery.encode(), 0)

    def end(self) -> None:
        """The end that comes now is the fault of none that runs. Safe to call from any thread, and again."""
        if self._map is not None:
            self._map[OURS] = 1

    def close(self) -> None:
        """Keep what is marked. Whose fault the end is was said before, or is not known."""
        self._unmap()

    def _unmap(self) -> None:
        self._past, self._first, self._begun = None, 0, False
        for kept in (self._suspects, self._free, self._entered):
            kept.clear()
        mapped, self._map = self._map, None
        if mapped is not None:
            mapped.close()


def _content(path: Path) -> bytes:
    """All that a file holds, up to one byte more than one can. Raises OSError; waits for no pipe, follows no link."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        most = HEADER.size + 2 * MOST * SLOT.size + 1
        return os.read(descriptor, min(found.st_size, most)) if stat.S_ISREG(found.st_mode) else b""
    finally:
        os.close(descriptor)


def blank(suspects: Mapping[str, int], calls: int) -> bytes:
    """A file without marks."""
    slots = b"".join(SLOT.pack(key.encode(), ends) for key, ends in suspects.items())
    return HEADER.pack(MAGIC, len(suspects), calls, 0, NONE) + slots + NONE * calls


def read(data: bytes) -> PreviousRun:
    """The content of a file; NO_PAST when it is torn, foreign or of another version. Never raises."""
    if len(data) < HEADER.size:
        return NO_PREVIOUS_RUN
    magic, suspects, calls, ours, held = HEADER.unpack_from(data)
    if (
        magic != MAGIC
        or max(suspects, calls) > MOST
        or len(data) != HEADER.size + SLOT.size * (suspects + calls)
    ):
        return NO_PREVIOUS_RUN
    slots = [(_key(key), ends) for key, ends in SLOT.iter_unpack(data[HEADER.size :])]
    ends = {key: number for key, number in slots[:suspects] if key}
    if ours:
        return PreviousRun(frozenset(), "", ends)
    return PreviousRun(frozenset(key for key, _ in slots[suspects:] if key), _key(held), ends)


def _key(field: bytes) -> str:
    """An id; what is none of one matches no delivery."""
    return field.rstrip(b"\0").decode("ascii", "replace")
