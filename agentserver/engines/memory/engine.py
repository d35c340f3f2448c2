"""The engine that keeps everything in this process and nothing after it.

Owns the committed conversations. Refuses to promise anything across a restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, TypeVar

from agentserver.core.aside import last_words
from agentserver.core.messages import EventPlace, Finished
from agentserver.core.receipts import given
from agentserver.core.state.elapsed import STEADY, Calendar
from agentserver.engines.memory.record import MemoryReader, MemoryRecord
from agentserver.ports import ConflictError, RepeatedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from types import TracebackType

    from agentserver.core.messages import Done, Reply
    from agentserver.core.receipts import Receipt
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Answers, EngineReader, Marks

__all__ = ["MemoryEngine"]

T = TypeVar("T")


class MemoryEngine:
    """Conversations by id. A closed conversation leaves no trace, unless steps are recorded.

    Args:
        recorded: keeps every step and dead letter for the operators' tools until the process ends.
    """

    marks: Marks | None = None
    answers: Answers | None = None
    prompt = True
    durable = False

    def __init__(self, *, recorded: bool = False) -> None:
        self._record = MemoryRecord() if recorded else None
        self._kept: dict[str, Conversation] = {}
        self._outbox: dict[str, dict[EventPlace, Reply | Done]] = {}
        self._receipts: dict[str, dict[str, Receipt]] = {}
        self._keyed: dict[tuple[str, str], list[Reply | Done]] = {}

    async def __aenter__(self) -> Self:
        """Nothing to open."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to close."""

    async def commit(self, outcome: Outcome) -> None:
        """Keep the conversation as the outcome leaves it. Raises ConflictError on a stale version."""
        after = outcome.conversation
        before = self._kept.get(after.id)
        if (0 if before is None else before.version) != outcome.before:
            raise ConflictError(after.id)
        step = None if self._record is None else self._record.encoded(outcome)
        if type(outcome.cause) is not Finished:  # as of most steps; no receipt is given for one
            self._keep_receipt(outcome)
        if self._record is not None and step is not None:
            self._record.keep(outcome, step)
        if after.closed:
            self._kept.pop(after.id, None)
            self._outbox.pop(after.id, None)
            for receipt in self._receipts.pop(after.id, {}).values():
                del self._keyed[after.id, receipt.request]
            return
        self._kept[after.id] = after
        for event in outcome.replies:
            self._outbox.setdefault(after.id, {})[event.place] = event
            keyed = self._keyed.get((after.id, event.request))
            if keyed is not None:
                keyed.append(event)

    def _keep_receipt(self, outcome: Outcome) -> None:
        found = given(outcome)
        if found is None:
            return
        name, receipt = found
        kept = self._receipts.setdefault(outcome.conversation.id, {})
        if name in kept:
            raise RepeatedError(kept[name])
        kept[name] = receipt
        self._keyed[outcome.conversation.id, receipt.request] = []

    async def read(self, work: Callable[[EngineReader], T]) -> T:
        """Read at once: there is no file to wait for."""
        return work(self.reader())

    def reader(self) -> MemoryReader:
        """A view of what is kept, for the thread of the event loop."""
        return MemoryReader(self._kept, self._outbox, self._record)

    async def load(self, conversation: str) -> Conversation | None:
        """The conversation as last committed."""
        return self._kept.get(conversation)

    async def set_aside(self, conversation: str, reason: str, at: float) -> tuple[Reply | Done, ...]:  # noqa: ARG002 - an engine's signature
        """Forget a conversation but for what is told of its requests: there is nothing to put it back from."""
        gone = self._kept.pop(conversation, None)
        if gone is None:
            return ()
        events = last_words(conversation, gone.principal, gone.requests, EventPlace(gone.version + 1, -1))
        self._outbox.setdefault(conversation, {}).update({event.place: event for event in events})
        return events

    async def active(self) -> AsyncIterator[str]:
        """Conversations in which something waits."""
        for conversation in list(self._kept.values()):
            if not all(thread.quiet for thread in conversation.tree.nodes.values()):
                yield conversation.id

    async def open_conversations(self) -> AsyncIterator[tuple[str, str]]:
        """Every conversation with its principal."""
        for conversation in list(self._kept.values()):
            yield conversation.id, conversation.principal

    async def idle(self, before: float) -> AsyncIterator[str]:
        """Conversations that nothing touched since."""
        for conversation in list(self._kept.values()):
            if conversation.touched < before:
                yield conversation.id

    async def calendar(self) -> Calendar:
        """No server was here before."""
        return Calendar()

    async def keep_calendar(self, calendar: Calendar) -> None:
        """No server comes after."""

    async def expire(self, now: float, calendar: Calendar = STEADY) -> int:  # noqa: ARG002 - an engine's signature
        """Nothing closed is kept."""
        return 0

    async def conversations_of(self, principal: str) -> AsyncIterator[str]:
        """The principal's conversations."""
        for conversation in list(self._kept.values()):
            if conversation.principal == principal:
                yield conversation.id

    async def outbox(self, conversation: str) -> AsyncIterator[Reply | Done]:
        """The events that were not acknowledged. Nothing of it was passed on by a server that is gone."""
        for event in tuple(self._outbox.get(conversation, {}).values()):
            yield event

    async def receipt(self, conversation: str, name: str) -> Receipt | None:
        """The receipt of a commit under a key, while the conversation is open."""
        return self._receipts.get(conversation, {}).get(name)

    async def told(self, conversation: str, request: str) -> AsyncIterator[Reply | Done]:
        """Everything that left for a request with a key, while the conversation is open."""
        waiting = self._outbox.get(conversation, {})
        for event in tuple(self._keyed.get((conversation, request), ())):
            yield event if event.place in waiting else event._replace(redelivered=True)

    def acknowledge(self, conversation: str, place: EventPlace) -> None:
        """Forget one event, and with the last one all that was needed to keep them."""
        waiting = self._outbox.get(conversation)
        if waiting is not None:
            waiting.pop(place, None)
            if not waiting:
                del self._outbox[conversation]

    def abandon(self, conversation: str) -> None:
        """Forget what has left."""
        self._outbox.pop(conversation, None)
