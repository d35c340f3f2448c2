"""Turns of agents: one span for each request of an agent, with any number of deliveries.

A request of the agent's caller begins a turn, and every delivery on its thread belongs to it until the agent has
answered. Committed records and the context of running handlers derive the same span id from the first delivery.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.core.messages import Delivery
    from agentserver.core.records.audit import AuditRecord
    from agentserver.telemetry.spans import SpanEvent

TURNS: Final = 10_000
"""Turns of running agents that are tracked at a time."""


class Turn:
    """Work of an agent on one request so far.

    Args:
        id: of its span.
        parent: of the span around it.
        caller: the thread that sent the request.
        record: of its first known delivery.
        waited: seconds until that was handled; None if unknown.
        message: the request, if spans hold messages.
    """

    __slots__ = (
        "attempts",
        "began",
        "caller",
        "ended",
        "error",
        "events",
        "first",
        "id",
        "message",
        "messages",
        "money",
        "parent",
        "payload",
        "sender",
        "to",
        "tokens",
        "waited",
    )

    def __init__(
        self,
        id_: bytes,
        parent: bytes,
        caller: str,
        record: AuditRecord,
        waited: float | None,
        message: bytes,
    ) -> None:
        self.id, self.parent, self.caller = id_, parent, caller
        self.first, self.to, self.sender, self.payload = (
            record.delivery,
            record.to,
            record.sender,
            record.root,
        )
        self.began = record.at if record.began is None else record.began
        self.ended, self.waited, self.message = record.at, waited, message
        self.messages: list[bytes] = []
        self.events: list[SpanEvent] = []
        self.attempts = self.tokens = self.money = 0
        self.error = ""


class KnownTurn(NamedTuple):
    """Turn as running handlers see it: the id of its span, and the thread of its caller."""

    id: bytes
    caller: str


class RunningTurns:
    """Turns of the running agents, by request and thread.

    Args:
        kept: returns a turn that an earlier server began; None if unknown.
    """

    def __init__(self, kept: Callable[[str, str], KnownTurn | None]) -> None:
        self._kept = kept
        self._begun: dict[tuple[str, str], KnownTurn] = {}

    def span(self, delivery: Delivery, own: bytes) -> bytes:
        """Return the id of the span of a delivery to an agent; ``own`` is the one of a first delivery."""
        key = delivery.request, delivery.thread
        begun = self._begun.get(key) or self._kept(*key)
        if begun is None or begun.caller == delivery.origin:
            begun = KnownTurn(own, delivery.origin)
        self._begun[key] = begun
        if len(self._begun) > TURNS:
            del self._begun[next(iter(self._begun))]
        return begun.id
