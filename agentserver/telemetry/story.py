"""From committed records to spans: one for each request, for each delivery that is over, and for each turn of an agent.

Owns the tree: the trace is the request, a delivery's parent is the one that was handled in the step that sent it, or
the turn of the agent that sent it. Ids are those of messages, so that nothing is stored and a server that takes up a
request tells it under the same ids. Refuses to know how spans are written and sent. Memory is bounded; no clock, no
I/O.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.core.records.audit import Event
from agentserver.core.records.details import Charge
from agentserver.core.records.wording import WORDING
from agentserver.telemetry.names import Attribute, Operation
from agentserver.telemetry.spans import About, Span, SpanEvent
from agentserver.telemetry.told import CONTENT, content, rule
from agentserver.telemetry.turns import Begun, Turn
from agentserver.trace.redact import redact_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentserver.core.records.audit import AuditRecord
    from agentserver.telemetry.spans import Pair
    from agentserver.trace.redact import Redaction
    from agentserver.trace.traceparent import Traceparent


REQUESTS: Final = 10_000
"""Requests at work that are known at a time; of the oldest beyond them no span of the request itself is told."""

EVENTS: Final = 100
"""Events of one span."""

SYSTEM_ERROR: Final = "SystemError"

_CONVERSATION, _SENDER = Attribute.CONVERSATION.value, Attribute.SENDER.value
_PAYLOAD, _WAITED = Attribute.PAYLOAD.value, Attribute.WAITED.value
"""Texts, and no members of an enumeration, whose hash is a call of Python."""


_new = tuple.__new__
"""Makes a tuple without the call of Python that its class would make; tests/test_tuples.py counts the fields."""


def trace_id(request: str) -> bytes:
    """The 16 bytes of a request's id. One that is no id of ours has others of its own."""
    try:
        found = bytes.fromhex(request.replace("-", ""))
    except ValueError:
        found = b""
    return found if len(found) == 16 and any(found) else _digest(request, 16)  # noqa: PLR2004 - as the docstring says


def span_id(delivery: str) -> bytes:
    """The first 8 bytes of a delivery's id, or of a request's for the span of the request itself."""
    found = trace_id(delivery)[:8]
    return found if any(found) else _digest(delivery, 8)


def _digest(text: str, size: int) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()


def sampled(trace: bytes, share: float) -> bool:
    """True for this share of all traces; always the same for the same trace."""
    return share >= 1 or int.from_bytes(trace[8:]) < share * 2**64


class _Waiting:
    """A delivery that is not over."""

    __slots__ = ("attempts", "events", "message", "money", "origin", "parent", "sent", "tokens")

    def __init__(self, parent: bytes, sent: float | None, origin: str, message: bytes = b"") -> None:
        self.parent, self.sent, self.origin, self.message = parent, sent, origin, message
        self.events: list[SpanEvent] = []
        self.attempts = self.tokens = self.money = 0


class _Request:
    """A request that is not at rest. ``began`` is None for one whose beginning is not known."""

    __slots__ = ("began", "error", "events", "id", "link", "live", "pair", "sender", "trace", "turns")

    def __init__(self, request: str, conversation: str) -> None:
        self.trace, self.id = trace_id(request), span_id(request)
        self.live: dict[str, _Waiting] = {}
        self.turns: dict[str, Turn] = {}
        self.events: list[SpanEvent] = []
        self.began: float | None = None
        self.link: Traceparent | None = None
        self.error = self.sender = ""
        self.pair: Pair = (_CONVERSATION, conversation)


class Story:
    """The known facts of the requests at work.

    Args:
        organism: its name.
        agents: by the name of each listener, whether it is an agent.
        share: of the requests that are told, from 0 to 1.
        content: what is taken out of messages before spans hold them; None holds none of them.
    """

    def __init__(
        self,
        organism: str,
        agents: Mapping[str, bool],
        share: float = 1.0,
        content: Redaction | None = None,
    ) -> None:
        self._share, self._content = share, content
        operation: tuple[Pair, ...] = ((Attribute.OPERATION, Operation.WORKFLOW),)
        self._workflow = About(
            f"{Operation.WORKFLOW} {organism}", (*operation, (Attribute.WORKFLOW, organism))
        )
        self.know(agents)
        self._requests: dict[str, _Request] = {}
        self.forgotten = 0

    def know(self, agents: Mapping[str, bool]) -> None:
        """Tell of these listeners from now on; ``agents`` is as of the constructor. May be called from any thread."""
        self.agents = agents
        self._kinds = {name: _kind(name, agent=agent) for name, agent in agents.items()}

    @property
    def holds(self) -> bool:
        """True where spans hold messages."""
        return self._content is not None

    @property
    def open(self) -> frozenset[bytes]:
        """The traces of the requests that are not at rest."""
        return frozenset(request.trace for request in self._requests.values())

    def take(self, records: Sequence[AuditRecord], link: Traceparent | None = None) -> list[Span]:
        """The spans that are over with one committed step.

        Args:
            records: of the step, in order.
            link: whence its request came, where that is known.
        """
        if self._content is not None:
            records = redact_records(records, self._content)
        elif len(records) == 2 and records[0].event is Event.HANDLED and records[1].event is Event.SENT:  # noqa: PLR2004 - what nearly every step is
            done, sent = records
            request = self._requests.get(done.request)
            if request is not None and sent.request == done.request and not self.agents.get(done.to):
                own = span_id(done.delivery)
                request.live[sent.delivery] = _Waiting(own, sent.at, done.thread)
                return [self.delivered(done, request, own, _NOTHING)]
        return _Step(self, self._requests, records, link).spans() if records else []

    def begun(self, request: str, thread: str) -> Begun | None:
        """Find the turn of an agent on a thread. May be called from any thread of the process."""
        known = self._requests.get(request)
        turn = None if known is None else known.turns.get(thread)
        return None if turn is None else Begun(turn.id, turn.caller)

    def at(self, record: AuditRecord, *, acting: bool) -> _Request | None:
        """The request that a record is of; None for none, and for one that is not told."""
        request = self._requests.get(record.request)
        if request is None and record.request:
            if not sampled(trace_id(record.request), self._share):
                return None
            request = self._requests[record.request] = _Request(record.request, record.conversation)
            if record.event in _OPENING and not acting:
                request.began, request.sender = record.at, record.sender
            if len(self._requests) > REQUESTS:
                del self._requests[next(iter(self._requests))]
                self.forgotten += 1
        return request

    def delivered(self, record: AuditRecord, request: _Request, own: bytes, said: _Said) -> Span:
        """The span of a delivery that is over with this record, under its id."""
        waiting = request.live.pop(record.delivery, None)
        began = record.at if record.took is None else record.at - record.took
        kind = self._kinds.get(record.to) or _kind(record.to, agent=False)
        more: list[Pair] = [
            request.pair,
            (_SENDER, record.sender),
            (_PAYLOAD, record.root),
        ]
        if record.event is Event.DROPPED:
            more.append((Attribute.RESULTED, Event.DROPPED.value))
        if waiting is None:
            waiting = _Waiting(request.id, None, "")
        if waiting.sent is not None:
            more.append((_WAITED, round(began - waiting.sent, 6)))
        if waiting.attempts:
            more.append((Attribute.ATTEMPTS, waiting.attempts + 1))
        if waiting.tokens or waiting.money:
            more += (Attribute.TOKENS, waiting.tokens), (Attribute.COST, waiting.money / 1e6)
        if self._content is not None:
            more += content(self.agents.get(record.to, False), waiting.message, said.messages)
        events = [*waiting.events, *said.events][:EVENTS] if waiting.events or said.events else ()
        error = record.code if record.event is Event.FAILED else ""
        ids = request.trace, own, waiting.parent
        return _new(Span, (*ids, kind, began, record.at, more, events, error, None, False))

    def turn(self, record: AuditRecord, request: _Request) -> tuple[Turn, Turn | None]:
        """Find the turn that a delivery to an agent belongs to, or begin one; and give the one that it ends."""
        waiting = request.live.get(record.delivery)
        known = request.turns.get(record.thread)
        if known is not None and (waiting is None or waiting.origin != known.caller):
            return known, None
        if known is not None and known.first == record.delivery:
            return known, None
        if waiting is None:
            waiting = _Waiting(request.id, None, "")
        began = record.at if record.began is None else record.began
        waited = None if waiting.sent is None else began - waiting.sent
        own = span_id(record.delivery)
        turn = Turn(own, waiting.parent, waiting.origin, record, waited, waiting.message)
        request.turns[record.thread] = turn
        return turn, known

    def worked(self, record: AuditRecord, request: _Request, turn: Turn, said: _Said) -> None:
        """Add a delivery that is over to the turn of its agent."""
        waiting = request.live.pop(record.delivery, None)
        if waiting is not None:
            turn.attempts += waiting.attempts
            turn.tokens += waiting.tokens
            turn.money += waiting.money
            turn.events += waiting.events
        turn.events += said.events
        turn.messages += said.messages
        turn.ended = record.at
        if record.event is Event.FAILED:
            turn.error = record.code

    def turned(self, turn: Turn, request: _Request) -> Span:
        """The span of a turn that is over."""
        more: list[Pair] = [request.pair, (_SENDER, turn.sender), (_PAYLOAD, turn.payload)]
        if turn.waited is not None:
            more.append((_WAITED, round(turn.waited, 6)))
        if turn.attempts:
            more.append((Attribute.ATTEMPTS, turn.attempts + 1))
        if turn.tokens or turn.money:
            more += (Attribute.TOKENS, turn.tokens), (Attribute.COST, turn.money / 1e6)
        if self._content is not None:
            more += content(True, turn.message, turn.messages[-1:])
        kind = self._kinds.get(turn.to) or _kind(turn.to, agent=True)
        ids = request.trace, turn.id, turn.parent
        return Span(*ids, kind, turn.began, turn.ended, more, turn.events[:EVENTS], turn.error)

    def rested(self, request: _Request, at: float) -> Span | None:
        """The span of a request that is at rest; None where its beginning is not known."""
        if request.began is None:
            return None
        more = (request.pair, (_SENDER, request.sender))
        return Span(
            request.trace,
            request.id,
            b"",
            self._workflow,
            request.began,
            at,
            more,
            request.events[:EVENTS],
            request.error,
            request.link,
        )


class _Said(NamedTuple):
    """The words of a step about its delivery."""

    events: Sequence[SpanEvent]
    messages: Sequence[bytes]


_NOTHING: Final = _Said((), ())


class _Step:
    """The records of one step, one after the other."""

    def __init__(
        self,
        story: Story,
        requests: dict[str, _Request],
        records: Sequence[AuditRecord],
        link: Traceparent | None,
    ) -> None:
        self._story, self._requests, self._records, self._link = story, requests, records, link
        acting = _acting(records)
        self._by = b""
        self._acting, self._origin = "", ""
        self._over: dict[str, tuple[AuditRecord, _Request]] = {}
        self._ended: list[Span] = []
        self._turn: Turn | None = None
        if acting is not None:
            self._acting, self._origin, self._by = acting.delivery, acting.thread, span_id(acting.delivery)
            self._begin(acting)
        self._touched: dict[str, _Request] = {}
        self._answered, self._from = False, ""
        self._events: list[SpanEvent] = []
        self._messages: list[bytes] = []
        self._said = _Said(self._events, self._messages)

    def _begin(self, acting: AuditRecord) -> None:
        """Have the turn of an agent stand for the delivery that the step is about."""
        request = self._story.at(acting, acting=True) if self._story.agents.get(acting.to) else None
        if request is None or acting.event is Event.WITHDRAWN:
            return
        self._turn, before = self._story.turn(acting, request)
        self._by = self._turn.id
        if before is not None:
            self._ended.append(self._story.turned(before, request))

    def spans(self) -> list[Span]:
        """The spans that are over."""
        for record in self._records:
            request = self._story.at(record, acting=bool(self._acting))
            if request is None:
                continue
            self._touched[record.request] = request
            self._take(record, request)
        found = self._ended
        for delivery, (record, request) in self._over.items():
            said = self._said if delivery == self._acting else _NOTHING
            if self._turn is not None and delivery == self._acting:
                self._story.worked(record, request, self._turn, said)
                if self._answered or record.event is Event.FAILED:
                    request.turns.pop(record.thread, None)
                    found.append(self._story.turned(self._turn, request))
            elif record.event is Event.DROPPED and record.thread in request.turns:
                request.live.pop(delivery, None)
            else:
                found.append(self._story.delivered(record, request, span_id(delivery), said))
        for name, request in self._touched.items():
            if not request.live:
                found += [self._story.turned(turn, request) for turn in request.turns.values()]
                span = self._story.rested(request, self._records[0].at)
                found += () if span is None else (span,)
                self._requests.pop(name, None)
        return found

    def _take(self, record: AuditRecord, request: _Request) -> None:
        event = record.event
        if event is Event.SENT:
            kept = record.message if self._story.holds else b""
            if not self._acting:
                self._origin = self._from or record.thread
            request.live[record.delivery] = _Waiting(self._by or request.id, record.at, self._origin, kept)
            self._answered |= self._turn is not None and record.thread == self._turn.caller
            self._messages.append(record.message)
        elif event is Event.HANDLED or event is Event.FAILED or event is Event.DROPPED:
            self._over[record.delivery] = record, request
        else:
            self._rarer(record, request)

    def _rarer(self, record: AuditRecord, request: _Request) -> None:
        """Take in what does not happen at every hop."""
        waiting = request.live.get(record.delivery)
        match record.event:
            case Event.RECEIVED | Event.REDRIVEN:
                request.link, self._from = self._link, record.thread
            case Event.SETTLED if waiting is not None and isinstance(record.detail, Charge):
                waiting.tokens += record.detail.tokens
                waiting.money += record.detail.money
            case Event.RETRIED if waiting is not None:
                waiting.attempts += 1
                self._note(waiting.events, record)
            case Event.ASKED | Event.APPROVED | Event.WITHDRAWN if waiting is not None:
                self._note(waiting.events, record)
            case Event.CANCELLED:
                self._note(request.events, record)
            case Event.ANSWERED | Event.ENDED:
                self._answered = True
                self._left(record, request)
            case Event.REFUSED | Event.FLAGGED | Event.ATTEMPTED | Event.REPAIRED:
                self._note(self._events if self._acting else request.events, record)

    def _left(self, record: AuditRecord, request: _Request) -> None:
        self._messages.append(record.message)
        self._note(request.events, record)
        if record.root == SYSTEM_ERROR and not request.error:
            codes = [one.code for one in self._records if one.code]
            request.error = codes[0] if codes else SYSTEM_ERROR

    def _note(self, events: list[SpanEvent], record: AuditRecord) -> None:
        """Add an event, with code and rule; in words only where spans hold content."""
        if len(events) >= EVENTS:
            return
        told: list[Pair] = []
        if record.code:
            told.append((Attribute.CODE, record.code))
        if record.detail is not None:
            told.append((Attribute.RULE, rule(record.detail)))
            if self._story.holds:
                told.append((Attribute.DETAIL, WORDING.whole(record.detail)[:CONTENT]))
        events.append(SpanEvent(str(record.event), record.at, tuple(told)))


_OPENING: Final = frozenset({Event.RECEIVED, Event.REDRIVEN, Event.REFUSED, Event.FLAGGED, Event.ATTEMPTED})
"""Events with which a request begins, where no delivery was handled in the step."""


def _acting(records: Iterable[AuditRecord]) -> AuditRecord | None:
    """The record of the delivery that a step is about; None for a message from outside."""
    withdrawn = None
    for record in records:
        event = record.event
        if event is Event.HANDLED or event is Event.FAILED or event is Event.RETRIED:
            return record
        if event is Event.WITHDRAWN:
            withdrawn = record
    return withdrawn


def _kind(name: str, *, agent: bool) -> About:
    operation, named = (Operation.AGENT, Attribute.AGENT) if agent else (Operation.TOOL, Attribute.TOOL)
    return About(f"{operation} {name}", ((Attribute.OPERATION, operation), (named, name)))
