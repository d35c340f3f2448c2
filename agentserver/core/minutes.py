"""The minutes of one step: its records in order, fit to be read.

Owns what a record keeps of a text that anybody may have written. Refuses to know what the events lead to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentserver.characters.printing import legible, paragraph
from agentserver.core.audit import ATTEMPT, DETAIL, GUARDS, LINES, Event, Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.core.messages import Delivery


class Minutes:
    """Records in the making.

    Args:
        conversation: whose they are.
        at: when the step is taken, in seconds since the epoch.
        redact: takes secrets out of a text, before anything of it is cut.
    """

    def __init__(self, conversation: str, at: float, redact: Callable[[str], str] = str) -> None:
        self._redact = redact
        self._conversation = conversation
        self._at = at
        self.records: list[Record] = []

    def record(self, event: Event, delivery: Delivery, *, code: str = "", detail: str = "") -> None:
        """Note an event of a delivery. The envelope goes with the event that admitted it."""
        self.records.append(
            Record(
                event,
                self._at,
                self._conversation,
                delivery.thread,
                delivery.sender,
                delivery.to,
                local(delivery.root),
                delivery.hop,
                code,
                self._legible(event, detail) if detail else "",
                delivery.id,
                delivery.message if event is Event.SENT else b"",
            )
        )

    def note(self, event: Event, *, thread: str, to: str, detail: str = "", **more: Any) -> None:
        """Note any event; ``more`` are fields of Record."""
        about = {
            "to": legible(to, DETAIL, self._redact),
            "detail": self._legible(event, detail) if detail else "",
            **more,
        }
        self.records.append(Record(event, self._at, self._conversation, thread, **about))

    def _legible(self, event: Event, detail: str) -> str:
        """A detail as records keep it: a guard's in its own lines, anybody else's in one, handoffs' whole."""
        if event is Event.ATTEMPTED:  # lengths, hashes and names that the organism declares, as JSON
            return legible(detail, ATTEMPT)
        if event in GUARDS:
            return paragraph(detail, DETAIL, LINES, self._redact)
        return legible(detail, DETAIL, self._redact)


def local(name: str) -> str:
    """The local part of ``{namespace}local``."""
    return name.rpartition("}")[2]
