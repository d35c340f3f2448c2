"""The parsed payloads of deliveries that no handler has yet been given, so that they are not read again.

Owns how long each is kept, and which are too large for it. Refuses to know what becomes of a delivery: after a restart,
or where none is kept, its message is read afresh.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lxml import etree

    from agentserver.core.messages import Delivery
    from agentserver.core.records.outcome import Outcome

LIMIT: Final = 1 << 14
"""Bytes of a message beyond which its parsed form is not kept: trees weigh more than their text."""


class ParsedPayloads(dict[str, "etree._Element"]):  # noqa: SLF001 - elements have no public name
    """Payload elements by delivery: kept by ``keep``, taken by ``pop`` when their delivery is handled."""

    def keep(self, outcome: Outcome) -> None:
        """Take the elements of what a committed step has added, and let those go of what it has dropped."""
        parsed = outcome.parsed
        for delivery in outcome.added:
            if len(delivery.message) <= LIMIT and delivery.id in parsed:
                self[delivery.id] = parsed[delivery.id]
        if outcome.dropped:
            self.forget(outcome.dropped)

    def forget(self, deliveries: Iterable[Delivery]) -> None:
        """Let go the elements of deliveries that no handler will be given."""
        for delivery in deliveries:
            self.pop(delivery.id, None)
