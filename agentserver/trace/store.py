"""Recent records of recent conversations.

Owns a bounded memory of what happened. Refuses to be a promise, which is the engine's to give, and to render
anything, which trace/text.py does.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from agentserver.core.records.audit import AuditRecord

CONVERSATIONS = 64
"""Conversations whose records are remembered: those in which something happened last."""

RECORDS = 4096
"""Records remembered of each."""


class TraceBook:
    """An observer of the pump that remembers; listeners of its own see each record as it happens."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, deque[AuditRecord]] = OrderedDict()
        self._watching: list[Callable[[AuditRecord], None]] = []

    def observe(self, records: Iterable[AuditRecord]) -> None:
        """Take in the records of one committed step."""
        for record in records:
            known = self._records.get(record.conversation)
            if known is None:
                known = self._records[record.conversation] = deque(maxlen=RECORDS)
            else:
                self._records.move_to_end(record.conversation)
            known.append(record)
            for watch in tuple(self._watching):
                watch(record)
        while len(self._records) > CONVERSATIONS:
            self._records.popitem(last=False)

    def watch(self, callback: Callable[[AuditRecord], None]) -> Callable[[], None]:
        """Call back, without blocking or raising, with each record from now on; the result stops it."""
        self._watching.append(callback)
        return lambda: self._watching.remove(callback)

    def of(self, conversation: str) -> tuple[AuditRecord, ...]:
        """The remembered records of a conversation, in order."""
        return tuple(self._records.get(conversation, ()))

    def conversations(self) -> tuple[str, ...]:
        """The conversations remembered, those where something happened last at the end."""
        return tuple(self._records)
