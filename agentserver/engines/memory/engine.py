"""Engine that keeps conversations in memory, until the process ends."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict, deque
from heapq import heappop, heappush
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeVar

from agentserver.core.encoding.history import GrantedMessage
from agentserver.core.messages import UNDECIDED, EventPlace, FinishedInvocation, Reply, weigh_event
from agentserver.core.receipts import issue_receipt
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.core.state.conversation import is_at_work
from agentserver.core.state.elapsed_time import STEADY, Calendar
from agentserver.core.suspension import end_suspended
from agentserver.engines.memory.record import MemoryReader, MemoryRecord
from agentserver.engines.single_partition import SinglePartition
from agentserver.ports import (
    ConflictError,
    ConversationFound,
    EventsExpiredError,
    RepeatedError,
    SleepingConversation,
)
from agentserver.ports.engine import PAGE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence
    from types import TracebackType

    from agentserver.completion import RecordedCompletion
    from agentserver.core.messages import Done
    from agentserver.core.receipts import Receipt
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation
    from agentserver.notes import NoteStore
    from agentserver.ports import Answers, Claim, EngineReader, Marks

    Event = Reply | Done

__all__ = ["MemoryEngine"]

WAITING: Final = 10_000
"""Unacknowledged events of one conversation; beyond it the oldest are forgotten."""

WAITING_BYTES: Final = 16_777_216
"""Bytes of their messages."""

EACH: Final = 64
"""Steps of a conversation between two checks of these bounds."""

TAKEN: Final = 128
"""Acknowledged events of a watched conversation, for watchers that reconnect."""

TAKEN_BYTES: Final = 65_536
"""Bytes of their messages."""

OVER: Final = 256
"""Ended conversations that are remembered."""

GRANTED: Final = 100_000
"""Approved messages that are remembered."""

WHOLE: Final = 4
"""Latest ended conversations that keep all unacknowledged events: a gateway may be reading them."""


_place_of = attrgetter("place")


class EventList(list["Event"]):
    """Events in the order of their places, and the bytes of their messages.

    A list takes a third of the memory of a dictionary by place.

    Args:
        events: in order.
    """

    __slots__ = ("_bytes",)

    def __init__(self, events: Iterable[Event] = ()) -> None:
        super().__init__(events)
        self._bytes = sum(map(weigh_event, self))

    def add(self, events: Iterable[Event]) -> None:
        """Append later events."""
        for event in events:
            self.append(event)
            self._bytes += weigh_event(event)

    def insert_in_order(self, event: Event) -> None:
        """Insert an event at its place."""
        insort(self, event, key=_place_of)
        self._bytes += weigh_event(event)

    def find(self, place: EventPlace) -> Event | None:
        """Find the event at a place."""
        at = bisect_left(self, place, key=_place_of)
        return self[at] if at < len(self) and self[at].place == place else None

    def take(self, place: EventPlace) -> Event | None:
        """Remove the event at a place and return it."""
        at = bisect_left(self, place, key=_place_of)
        if at == len(self) or self[at].place != place:
            return None
        event = self.pop(at)
        self._bytes -= weigh_event(event)
        return event

    def list_up_to(self, place: EventPlace) -> list[EventPlace]:
        """List the places up to one."""
        return [event.place for event in self[: bisect_right(self, place, key=_place_of)]]

    def trim(self, limit: int, size: int) -> EventPlace:
        """Forget the oldest events beyond the bounds; return the latest forgotten place, or UNDECIDED."""
        count = 0
        while len(self) - count > 1 and (len(self) - count > limit or self._bytes > size):
            self._bytes -= weigh_event(self[count])
            count += 1
        last_removed = self[count - 1].place if count else UNDECIDED
        del self[:count]
        return last_removed


class _ClosedConversation(NamedTuple):
    principal: str
    events: EventList
    names: tuple[str, ...]


class EventStore:
    """Store of events, by conversation and place.

    ``queued`` has unacknowledged events, ``acknowledged`` acknowledged ones of watched conversations; ``forgotten`` has
    the latest forgotten place of each conversation; ``places`` has the sorted places of conversations that were read,
    some of them already forgotten.
    """

    def __init__(self) -> None:
        self.queued: dict[str, EventList] = {}
        self.acknowledged: dict[str, EventList] = {}
        self.forgotten: dict[str, EventPlace] = {}
        self._over: OrderedDict[str, _ClosedConversation] = OrderedDict()
        self._complete: deque[str] = deque()
        self.places: dict[str, list[EventPlace]] = {}

    def queue(self, conversation: str, events: Sequence[Event]) -> None:
        """Append new events of a conversation to those that are unacknowledged."""
        queued = self.queued.get(conversation)
        if queued is None:
            self.queued[conversation] = EventList(events)
        else:
            queued.add(events)
        if conversation in self.places:
            self._add_places(conversation, events)

    def _add_places(self, conversation: str, events: Sequence[Event]) -> None:
        """Append the places of new events of a conversation that was read."""
        places = self.places[conversation]
        places += [event.place for event in events]
        if len(places) > EACH + 2 * sum(map(len, self._lists(conversation))):
            places[:] = map(_place_of, self._merge(conversation))

    def trim(self, conversation: str) -> None:
        """Limit the unacknowledged events of a conversation."""
        queued = self.queued.get(conversation)
        if queued is not None:
            self._forget(conversation, queued.trim(WAITING, WAITING_BYTES))

    def take(self, conversation: str, event: Event) -> None:
        """Keep an acknowledged event of a watched conversation."""
        acknowledged = self.acknowledged[conversation]
        acknowledged.insert_in_order(event)
        self._forget(conversation, acknowledged.trim(TAKEN, TAKEN_BYTES))

    def read_after(self, conversation: str, place: EventPlace, limit: int, *, gaps: bool) -> list[Event]:
        """Read the first events after a place.

        Raises EventsExpiredError if one was forgotten, unless ``gaps`` is set.
        """
        over = self._over.get(conversation)
        if over is None:
            self.acknowledged.setdefault(conversation, EventList())
        if not gaps and UNDECIDED < place < self.forgotten.get(conversation, UNDECIDED):
            raise EventsExpiredError(self.forgotten[conversation])
        sources = self._lists(conversation) if over is None else (over.events,)
        if conversation not in self.places:
            self.places[conversation] = sorted({event.place for events in sources for event in events})
        places = self.places[conversation]
        found: list[Event] = []
        size, first = 0, bisect_right(places, place)
        looked = first
        while looked < len(places) and len(found) < limit:
            each = places[looked]
            for event in (events.find(each) for events in sources):
                if event is not None:
                    size += weigh_event(event)
                    found.append(event)
            if len(found) > 1 and size > PAGE:
                found.pop()
                break
            looked += 1
        if looked - first > len(found):  # drop the gaps, so that each is skipped once
            places[first:looked] = [event.place for event in found]
        return found

    def _lists(self, conversation: str) -> tuple[EventList, EventList]:
        return (
            self.queued.get(conversation) or EventList(),
            self.acknowledged.get(conversation) or EventList(),
        )

    def _merge(self, conversation: str) -> EventList:
        return EventList(sorted(chain(*self._lists(conversation)), key=_place_of))

    def close(self, conversation: str, principal: str, names: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Remember an ended conversation. Returns the names of the one that is forgotten for it."""
        self._over[conversation] = _ClosedConversation(principal, self._merge(conversation), names)
        self.acknowledged.pop(conversation, None)
        self.places.pop(conversation, None)
        self._complete.append(conversation)
        if len(self._complete) > WHOLE:
            self._part(self._complete.popleft())
        if len(self._over) <= OVER:
            return ()
        oldest, over = self._over.popitem(last=False)
        self.forgotten.pop(oldest, None)
        self.places.pop(oldest, None)
        return over.names

    def _part(self, conversation: str) -> None:
        """Trim the events of an ended conversation."""
        remaining = self._over[conversation].events
        self._forget(conversation, remaining.trim(TAKEN, TAKEN_BYTES))
        self.places.pop(conversation, None)

    def find_conversation(self, conversation: str) -> ConversationFound | None:
        """Find the owner of an ended conversation; None if it is unknown."""
        over = self._over.get(conversation)
        return None if over is None else ConversationFound(conversation, over.principal, over=True)

    def _forget(self, conversation: str, place: EventPlace) -> None:
        if place > self.forgotten.get(conversation, UNDECIDED):
            self.forgotten[conversation] = place


T = TypeVar("T")


class MemoryEngine(SinglePartition):
    """Engine in memory. It remembers the latest closed conversations, or all of them if it records steps.

    Args:
        recorded: keeps every step and dead letter for the operators' tools until the process ends.
    """

    marks: Marks | None = None
    answers: Answers | None = None
    notes: NoteStore | None = None
    prompt = True
    durable = False

    def __init__(self, *, recorded: bool = False) -> None:
        self._record = MemoryRecord() if recorded else None
        self._conversations: dict[str, Conversation] = {}
        self._events = EventStore()
        self._claimed: dict[str, str] = {}
        self._names: dict[str, tuple[str, ...]] = {}
        self._receipts: dict[str, dict[str, Receipt]] = {}
        self._keyed: dict[tuple[str, str], list[Reply | Done]] = {}
        self._due: list[
            SleepingConversation
        ] = []  # a heap, in which former times stay until they are the first
        self._granted: deque[tuple[str, str, GrantedMessage]] = deque(maxlen=GRANTED)
        self.own(1)

    async def __aenter__(self) -> Self:
        """Return the engine; there is nothing to open."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing; there is nothing to close."""

    async def commit(self, claim: Claim, outcome: Outcome) -> None:
        """Store an outcome. Raises ConflictError on a stale version, FencedError on a lost claim."""
        after = outcome.conversation
        before = self._conversations.get(after.id)
        if (0 if before is None else before.version) != outcome.before or claim != self._own_claim:
            raise self.check_claim(claim) or ConflictError(after.id)
        step = None if self._record is None else self._record.encode(outcome)
        if type(outcome.cause) is not FinishedInvocation:  # most steps, which have no receipt
            self._keep_receipt(outcome)
            self._keep_granted(before, outcome)
        if self._record is not None and step is not None:
            self._record.keep(outcome, step)
        if outcome.replies:
            self._events.queue(after.id, outcome.replies)
        if not after.version % EACH:
            self._events.trim(after.id)
        if after.closed:
            self._close(after)
            return
        self._conversations[after.id] = after
        if (
            after.timers
            and after.sleeps_until is not None
            and (before is None or before.sleeps_until != after.sleeps_until)
        ):
            heappush(self._due, SleepingConversation(after.sleeps_until, after.id))
        if after.id in self._receipts:
            self._keep_request_events(outcome)

    def _keep_request_events(self, outcome: Outcome) -> None:
        for event in outcome.replies:
            keyed = self._keyed.get((outcome.conversation.id, event.request))
            if keyed is not None:
                keyed.append(event)

    def _close(self, after: Conversation) -> None:
        self._conversations.pop(after.id, None)
        for receipt in self._receipts.pop(after.id, {}).values():
            del self._keyed[after.id, receipt.request]
        self._end(after)
        self._events.queued.pop(after.id, None)

    def _end(self, one: Conversation) -> None:
        """Remember that a conversation has ended, and forget the oldest ended one beyond the bound."""
        for name in self._events.close(one.id, one.principal, self._names.pop(one.id, ())):
            self._claimed.pop(name, None)

    def _keep_granted(self, before: Conversation | None, outcome: Outcome) -> None:
        """Keep a message that was approved."""
        cause = outcome.cause
        if before is None or not isinstance(cause, ApprovalAnswer) or cause.answer is Answer.DENY:
            return
        for one in before.approvals():
            if one.id == cause.approval:
                at, delivery = outcome.conversation.touched, one.delivery
                granted = GrantedMessage(at, delivery.root, delivery.message)
                self._granted.append((before.principal, one.delivery.to, granted))

    def _keep_receipt(self, outcome: Outcome) -> None:
        found = issue_receipt(outcome)
        if found is None:
            return
        name, receipt = found
        receipts = self._receipts.setdefault(outcome.conversation.id, {})
        if name in receipts:
            raise RepeatedError(receipts[name])
        receipts[name] = receipt
        self._keyed[outcome.conversation.id, receipt.request] = []

    async def read(self, work: Callable[[EngineReader], T]) -> T:
        """Read at once: there is no file to wait for."""
        return work(self.reader())

    def reader(self) -> MemoryReader:
        """Make a reader of the engine's contents, for the thread of the event loop."""
        return MemoryReader(self._conversations, self._events.queued, self._record, self._granted)

    async def load(self, conversation: str) -> Conversation | None:
        """Look up a conversation as last committed."""
        return self._conversations.get(conversation)

    async def suspend(self, conversation: str, reason: str, at: float) -> tuple[Reply | Done, ...]:  # noqa: ARG002 - an engine's signature
        """End a conversation for good, and keep the error events of its requests."""
        removed = self._conversations.pop(conversation, None)
        if removed is None:
            return ()
        events = end_suspended(
            conversation, removed.principal, removed.requests, EventPlace(removed.version + 1, -1)
        )
        self._events.queue(conversation, events)
        self._end(removed)
        return events

    async def active(self) -> AsyncIterator[str]:
        """Iterate over conversations with pending work."""
        for conversation in list(self._conversations.values()):
            if is_at_work(conversation):
                yield conversation.id

    async def open_conversations(self) -> AsyncIterator[tuple[str, str]]:
        """Iterate over conversations with their principals."""
        for conversation in list(self._conversations.values()):
            yield conversation.id, conversation.principal

    async def idle(self, before: float) -> AsyncIterator[str]:
        """Iterate over conversations last touched before a time."""
        for conversation in list(self._conversations.values()):
            if conversation.touched < before and conversation.sleeps_until is None:
                yield conversation.id

    async def list_sleeping(self, limit: int) -> Sequence[SleepingConversation]:
        """List the sleeping conversations that are due first."""
        found: list[SleepingConversation] = []
        while self._due and len(found) < limit:
            first = heappop(self._due)
            current = self._conversations.get(first.id)
            if current is not None and current.sleeps_until == first.due_at and first not in found[-1:]:
                found.append(first)
        for one in found:
            heappush(self._due, one)
        return found

    async def calendar(self) -> Calendar:
        """Return an empty calendar: there was no earlier server."""
        return Calendar()

    async def keep_calendar(self, calendar: Calendar) -> None:
        """Do nothing: there will be no later server."""

    async def expire(self, now: float, calendar: Calendar = STEADY) -> int:  # noqa: ARG002 - an engine's signature
        """Delete expired completions. Returns 0: recorded conversations stay."""
        if self._record is not None:
            self._record.expire_completions(now)
        return 0

    async def conversations_of(self, principal: str) -> AsyncIterator[str]:
        """Iterate over a principal's conversations."""
        for conversation in list(self._conversations.values()):
            if conversation.principal == principal:
                yield conversation.id

    async def outbox(self, conversation: str) -> AsyncIterator[Reply | Done]:
        """Iterate over unacknowledged events, none of them redelivered."""
        for event in tuple(self._events.queued.get(conversation, ())):
            yield event

    async def find_conversation(self, conversation: str) -> ConversationFound | None:
        """Find the owner of a conversation that is open, or was recently closed or suspended."""
        stored = self._conversations.get(conversation)
        if stored is None:
            return self._events.find_conversation(conversation)
        return ConversationFound(conversation, stored.principal, over=False)

    async def discard(self, delivery: str, by: str, at: float) -> bool:
        """Discard a dead letter."""
        return self._record is not None and self._record.discard(delivery, by, at)

    async def find_named(self, name: str) -> str | None:
        """Find the conversation that has a name, while this engine knows it."""
        return self._claimed.get(name)

    async def record_completion(self, done: RecordedCompletion, until: float) -> None:
        """Store a completion if steps are recorded."""
        if self._record is not None:
            self._record.add_completion(done, until)

    async def give_name(self, name: str, conversation: str, at: float, *, move: bool = False) -> str:  # noqa: ARG002 - an engine's signature
        """Give a conversation the name, unless another has it and keeps it."""
        found = self._claimed.get(name)
        if found is not None and (found == conversation or not move):
            return found
        if found is not None:
            self._names[found] = tuple(each for each in self._names.get(found, ()) if each != name)
        self._claimed[name] = conversation
        self._names[conversation] = (*self._names.get(conversation, ()), name)
        return conversation

    async def read_events(
        self, conversation: str, after: EventPlace, limit: int, *, gaps: bool = False
    ) -> list[Reply | Done]:
        """Read the events after a place. Raises LookupError."""
        if conversation not in self._conversations and self._events.find_conversation(conversation) is None:
            raise LookupError(conversation)
        return self._events.read_after(conversation, after, limit, gaps=gaps)

    async def receipt(self, conversation: str, name: str) -> Receipt | None:
        """Look up the receipt of an idempotency key, while the conversation is open."""
        return self._receipts.get(conversation, {}).get(name)

    async def read_request_events(self, conversation: str, request: str) -> AsyncIterator[Reply | Done]:
        """Iterate over the events of a keyed request, while the conversation is open."""
        queued = self._events.queued.get(conversation) or EventList()
        for event in tuple(self._keyed.get((conversation, request), ())):
            yield event if queued.find(event.place) is not None else event._replace(redelivered=True)

    def acknowledge(self, conversation: str, place: EventPlace) -> None:
        """Remove an event from the outbox, and the outbox with its last event."""
        queued = self._events.queued.get(conversation)
        event = None if queued is None else queued.take(place)
        if event is None:
            return
        if not queued:
            del self._events.queued[conversation]
        if conversation in self._events.acknowledged:
            self._events.take(conversation, event)
        elif conversation not in self._events.forgotten or place > self._events.forgotten[conversation]:
            self._events.forgotten[conversation] = place

    def confirm(self, conversation: str, place: EventPlace) -> None:
        """Acknowledge the events up to a place."""
        queued = self._events.queued.get(conversation) or EventList()
        for each in queued.list_up_to(place):
            self.acknowledge(conversation, each)

    def abandon(self, conversation: str) -> None:
        """Acknowledge all events."""
        for event in tuple(self._events.queued.get(conversation, ())):
            self.acknowledge(conversation, event.place)
