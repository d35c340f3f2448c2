"""Keeps recent records in bounded memory. The engine's journal is the durable record."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentserver.core.records.audit import AuditRecord
    from agentserver.ports.records import Records

CONVERSATIONS = 64
"""Conversations remembered, least recently active dropped first."""

RECORDS = 4096
"""Records remembered for each conversation."""

BYTES = 1 << 26
"""Bytes of the messages of all records together: a message may have a megabyte."""


class TraceBook:
    """Sink that remembers the latest records of the latest conversations."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, deque[AuditRecord]] = OrderedDict()
        self._bytes = 0

    def __call__(self, records: Records) -> None:
        """Add the records of one committed step, which all are of one conversation."""
        if not records:
            return
        conversation = records[0].conversation
        known = self._records.get(conversation)
        if known is None:
            known = self._records[conversation] = deque()
        else:
            self._records.move_to_end(conversation)
        known.extend(records)
        for record in records:
            self._bytes += len(record.message)
        if len(known) > RECORDS or len(self._records) > CONVERSATIONS or self._bytes > BYTES:
            self._forget(known)

    def _forget(self, latest: deque[AuditRecord]) -> None:
        """Forget the first records of the latest conversation, and those of the least recent ones, until all fit."""
        while len(latest) > RECORDS:
            self._bytes -= len(latest.popleft().message)
        while len(self._records) > CONVERSATIONS or self._bytes > BYTES:
            conversation, first = next(iter(self._records.items()))
            self._bytes -= len(first.popleft().message)
            if not first:
                del self._records[conversation]

    def list_records(self, conversation: str) -> tuple[AuditRecord, ...]:
        """Return the remembered records of a conversation, in order."""
        return tuple(self._records.get(conversation, ()))

    def conversations(self) -> tuple[str, ...]:
        """List the remembered conversations, most recently active last."""
        return tuple(self._records)
