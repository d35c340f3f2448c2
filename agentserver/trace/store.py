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


class TraceBook:
    """Sink that remembers the latest records of the latest conversations."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, deque[AuditRecord]] = OrderedDict()

    def __call__(self, records: Records) -> None:
        """Add the records of one committed step, which all are of one conversation."""
        if not records:
            return
        conversation = records[0].conversation
        known = self._records.get(conversation)
        if known is None:
            known = self._records[conversation] = deque(maxlen=RECORDS)
            if len(self._records) > CONVERSATIONS:
                self._records.popitem(last=False)
        else:
            self._records.move_to_end(conversation)
        known.extend(records)

    def list_records(self, conversation: str) -> tuple[AuditRecord, ...]:
        """Return the remembered records of a conversation, in order."""
        return tuple(self._records.get(conversation, ()))

    def conversations(self) -> tuple[str, ...]:
        """List the remembered conversations, most recently active last."""
        return tuple(self._records)
