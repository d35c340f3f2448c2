"""The record of handoffs, taken from what the pump reports.

Owns the way from an event to a line of that record. Refuses to know where lines are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.detail_form import members
from agentserver.core.details import HandoffAttempt
from agentserver.handoff.audit import AuditRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentserver.core.audit import Record
    from agentserver.handoff.audit import AuditSink


class HandoffRecord:
    """An observer of the pump that passes on every attempt to hand work over.

    Args:
        sink: where the lines go. It neither blocks nor raises.
    """

    def __init__(self, sink: AuditSink) -> None:
        self._sink = sink

    def observe(self, records: Iterable[Record]) -> None:
        """Take in the records of one committed step."""
        for record in records:
            if isinstance(record.detail, HandoffAttempt):
                told = {**members(record.detail), "conversation": record.conversation}
                self._sink.append(AuditRecord(tuple(told.items())))
