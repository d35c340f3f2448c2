"""One span for each request of an agent, for any number of deliveries.

Owns which deliveries belong together: a request of the agent's caller begins a turn, and all that reaches the agent on
the same thread until it has answered belongs to it. Two parties need that: spans made of committed records, and the
context in which a handler runs. Both come to the same id, that of the first delivery. Refuses to know how spans are
sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.core.messages import Delivery
    from agentserver.core.records.audit import AuditRecord
    from agentserver.telemetry.spans import SpanEvent

TURNS: Final = 10_000
"""Turns of running agents that are known at a time."""


class Turn:
    """The work of an agent on one request, so far.

    Args:
        id: of its span.
        parent: of the span around it.
        caller: the thread from which the request came.
        record: of the first delivery that is known of it.
        waited: seconds until that was handled; None where that is not known.
        message: the request, where spans hold messages.
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


class Begun(NamedTuple):
    """A turn as the running handlers know it: the id of its span, and the thread of its caller."""

    id: bytes
    caller: str


class RunningTurns:
    """The turns of the agents that run, by request and thread.

    Args:
        kept: gives a turn that an earlier server began; None for an unknown one.
    """

    def __init__(self, kept: Callable[[str, str], Begun | None]) -> None:
        self._kept = kept
        self._begun: dict[tuple[str, str], Begun] = {}

    def span(self, delivery: Delivery, own: bytes) -> bytes:
        """Find the id of the span that a delivery to an agent belongs to; ``own`` is that of a first one."""
        key = delivery.request, delivery.thread
        begun = self._begun.get(key) or self._kept(*key)
        if begun is None or begun.caller == delivery.origin:
            begun = Begun(own, delivery.origin)
        self._begun[key] = begun
        if len(self._begun) > TURNS:
            del self._begun[next(iter(self._begun))]
        return begun.id
