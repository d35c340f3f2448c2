"""Builder of the records of one step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentserver.characters.printing import clean_line, clean_lines
from agentserver.core.records.audit import CALLED, DETAIL, LINES, NAMED, AuditRecord, Event
from agentserver.core.records.details import GuardNote, HandoffAttempt, map_texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.core.messages import Delivery
    from agentserver.core.records.details import Detail

_new = tuple.__new__
"""Makes a wide tuple without the call of Python that its class would make; tests/test_tuples.py counts the fields."""


class RecordBuilder:
    """Builder of the records of one step.

    Args:
        conversation: whose they are.
        at: when the step is taken, in seconds since the epoch.
        redact: removes secrets from a text, before it is shortened.
        request: the one that the step is about, empty when it is about none or several.
        took: seconds that the handler took that it is about, if one was called.
    """

    def __init__(
        self,
        conversation: str,
        at: float,
        redact: Callable[[str], str] = str,
        request: str = "",
        took: float | None = None,
    ) -> None:
        self._redact = redact
        self._conversation = conversation
        self._at = at
        self.records: list[AuditRecord] = []
        self._request, self._took = request, took

    def record(
        self, event: Event, delivery: Delivery, *, code: str = "", detail: Detail | None = None
    ) -> None:
        """Record an event of a delivery. Only the event that admitted it holds the envelope."""
        self.records.append(
            _new(
                AuditRecord,
                (
                    event,
                    self._at,
                    self._conversation,
                    delivery.thread,
                    delivery.sender,
                    delivery.to,
                    delivery.root.rpartition("}")[2],  # as ``local`` does
                    delivery.hop,
                    code,
                    None if detail is None else self._legible(detail),
                    delivery.id,
                    delivery.message if event is Event.SENT else b"",
                    delivery.request,
                    self._took if event in CALLED else None,
                ),
            )
        )

    def note(self, event: Event, *, thread: str, to: str, detail: Detail | None = None, **more: Any) -> None:
        """Record any event; ``more`` are fields of AuditRecord."""
        about = {
            "to": to if event in NAMED else clean_line(to, DETAIL, self._redact),
            "detail": None if detail is None else self._legible(detail),
            "request": self._request,
            **more,
        }
        self.records.append(AuditRecord(event, self._at, self._conversation, thread, **about))

    def _legible(self, detail: Detail) -> Detail:
        """Clean the texts of a detail: a guard's note keeps its lines, others become one line."""
        if isinstance(detail, HandoffAttempt):  # lengths, hashes and names that the organism declares
            return detail
        if isinstance(detail, GuardNote):
            return detail._replace(text=clean_lines(detail.text, DETAIL, LINES, self._redact))
        kept: Detail = map_texts(detail, self._line)
        return kept

    def _line(self, text: str) -> str:
        return clean_line(text, DETAIL, self._redact)
