"""A server at one moment, as plain values: conversations, queues, running handlers, refusals, approvals.

Owns how much of it is told, and its names. Says who and what, never what a message says. Refuses to know sockets.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from agentserver.core.records.audit import Event
from agentserver.core.records.wording import WORDING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.state.approvals import Approval
    from agentserver.core.state.conversation import Conversation
    from agentserver.ports.records import Records, RecordSource
    from agentserver.trace.store import TraceBook

LAST = 20
"""Refusals that are told: the last ones."""

_BAD = frozenset({Event.REFUSED, Event.FAILED, Event.WITHDRAWN})


class TopHost(Protocol):
    """The part of a server that an overview needs."""

    @property
    def trace(self) -> TraceBook:
        """The events of late."""
        ...

    @property
    def stream(self) -> RecordSource:
        """The stream of committed records."""
        ...

    def queues(self) -> Mapping[str, tuple[int, int]]:
        """By listener, the deliveries that wait and those that run."""
        ...

    def running(self) -> frozenset[str]:
        """The threads whose handlers run."""
        ...

    def approvals(self) -> tuple[Approval, ...]:
        """The messages that wait for a person."""
        ...

    def conversation(self, conversation: str) -> Conversation | None:
        """A conversation at work."""
        ...


class Overviews:
    """Makes overviews of a server, whose refusals it notes from its beginning on.

    Args:
        host: the server.
        name: the organism's.
        redact: takes secrets out of a text.
        now: seconds since the epoch.
    """

    def __init__(
        self, host: TopHost, name: str, redact: Callable[[str], str], now: Callable[[], float]
    ) -> None:
        self._host = host
        self._name = name
        self._redact = redact
        self._now = now
        self._refused: deque[AuditRecord] = deque(maxlen=LAST)
        self.stop = host.stream.attach(self._note)

    def _note(self, records: Records) -> None:
        self._refused.extend(record for record in records if record.event in _BAD)

    def overview(self) -> dict[str, Any]:
        """The server now."""
        running = self._host.running()
        known = map(self._host.conversation, reversed(self._host.trace.conversations()))
        at_work = [each for each in known if each is not None]
        return {
            "at": self._now(),
            "organism": self._name,
            "conversations": [_conversation(each, running) for each in at_work],
            "listeners": [
                {"name": name, "waiting": waiting, "running": running}
                for name, (waiting, running) in self._host.queues().items()
            ],
            "running": [row for each in at_work for row in self._running(each, running)],
            "refusals": [self._refusal(each) for each in reversed(self._refused)],
            "approvals": list(map(_approval, self._host.approvals())),
        }

    def _running(self, conversation: Conversation, running: frozenset[str]) -> Iterator[dict[str, Any]]:
        threads = (each for each in conversation.tree.nodes.values() if each.inbox and each.id in running)
        heads = {thread.inbox[0].id: thread.inbox[0] for thread in threads}
        sent = {
            record.delivery: record.at
            for record in self._host.trace.of(conversation.id)
            if record.event is Event.SENT and record.delivery in heads
        }
        for key, head in heads.items():
            yield {
                "listener": head.to,
                "sender": head.sender,
                "conversation": conversation.id,
                "since": sent.get(key),
                "attempt": head.attempt + 1,
            }

    def _refusal(self, record: AuditRecord) -> dict[str, Any]:
        return {
            "at": record.at,
            "event": str(record.event),
            "sender": record.sender,
            "to": record.to,
            "code": record.code,
            "why": self._redact(WORDING.first(record.detail)),
            "conversation": record.conversation,
        }


def _conversation(one: Conversation, running: frozenset[str]) -> dict[str, Any]:
    threads = one.tree.nodes.values()
    at_work = sum(thread.id in running for thread in threads)
    return {
        "id": one.id,
        "principal": one.principal,
        "messages": one.messages,
        "requests": len(one.requests),
        "running": at_work,
        "queued": sum(len(thread.inbox) for thread in threads) - at_work,
        "approvals": len(one.approvals()),
    }


def _approval(one: Approval) -> dict[str, Any]:
    return {
        "id": one.id,
        "at": one.at,
        "sender": one.delivery.sender,
        "to": one.delivery.to,
        "conversation": one.delivery.conversation,
    }
