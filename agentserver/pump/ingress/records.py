"""The records of committed steps on their way to operators who read them as they come.

Owns how much waits for one reader, and the counting of what it was too slow for. Refuses to hold up a step for one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from agentserver.ports import Lagged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agentserver.core.records.audit import AuditRecord

    Records = tuple[AuditRecord, ...]

STEPS: Final = 1000
"""Steps that wait for one reader; those beyond are counted and left out."""

BYTES: Final = 4_194_304
"""Bytes of the messages in them."""


class RecordReader:
    """The records that wait for one reader.

    Args:
        principal: of the conversations; None for all.
    """

    __slots__ = ("_bytes", "_over", "_stirred", "_waiting", "principal")

    def __init__(self, principal: str | None) -> None:
        self.principal = principal
        self._waiting: deque[Records | Lagged] = deque()
        self._bytes = 0
        self._stirred = asyncio.Event()
        self._over = False

    @property
    def size(self) -> tuple[int, int]:
        """The load that waits: items, and bytes of messages."""
        return len(self._waiting), self._bytes

    def put(self, records: Records) -> None:
        """Add the records of a step, or count it."""
        size = _size(records)
        if len(self._waiting) >= STEPS or (self._waiting and self._bytes + size > BYTES):
            self.miss()
            return
        self._bytes += size
        self._waiting.append(records)
        self._stirred.set()

    def miss(self) -> None:
        """Count a step in place."""
        last = self._waiting[-1] if self._waiting else None
        if isinstance(last, Lagged):
            self._waiting[-1] = Lagged(last.missed + 1)
        else:
            self._waiting.append(Lagged(1))
        self._stirred.set()

    def finish(self) -> None:
        """Nothing more comes."""
        self._over = True
        self._stirred.set()

    async def next(self) -> Records | Lagged | None:
        """The next item; None at the end."""
        while not self._waiting:
            if self._over:
                return None
            self._stirred.clear()
            await self._stirred.wait()
        item = self._waiting.popleft()
        if not isinstance(item, Lagged):
            self._bytes -= _size(item)
        return item


class RecordReaders:
    """Everybody who reads records as they come."""

    def __init__(self) -> None:
        self._stopped = False
        self.open: list[RecordReader] = []

    def put(self, principal: str, records: Records) -> None:
        """Pass on the records of a committed step."""
        for reader in self.open:
            if reader.principal is None or reader.principal == principal:
                reader.put(records)

    def miss(self, principal: str) -> None:
        """A step was taken by another process: who reads missed it."""
        for reader in self.open:
            if reader.principal is None or reader.principal == principal:
                reader.miss()

    def stop(self) -> None:
        """The server stops: let everybody go."""
        self._stopped = True
        for reader in self.open:
            reader.finish()

    async def records(self, principal: str | None) -> AsyncIterator[Records | Lagged]:
        """The records of each step from now on."""
        reader = RecordReader(principal)
        if self._stopped:
            return
        self.open.append(reader)
        try:
            while (item := await reader.next()) is not None:
                yield item
        finally:
            self.open.remove(reader)


def _size(records: Records) -> int:
    return sum([len(record.message) for record in records])
