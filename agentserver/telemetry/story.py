"""From committed records to spans: one for each request, and one for each delivery that is over.

Owns the tree: the trace is the request, a delivery's parent is the one that was handled in the step that sent it. Ids
are those of messages, so that nothing is stored and a server that takes up a request tells it under the same ids.
Refuses to know how spans are written and sent. Memory is bounded; no clock, no I/O.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from agentserver.core.records.audit import Event
from agentserver.core.records.details import Charge
from agentserver.core.records.wording import WORDING
from agentserver.telemetry.names import Attribute, Operation
from agentserver.telemetry.told import CONTENT, content, rule
from agentserver.trace.redact import redacted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentserver.core.records.audit import AuditRecord
    from agentserver.trace.redact import Redaction
    from agentserver.trace.traceparent import Traceparent

    Value: TypeAlias = str | int | float
    Pair: TypeAlias = tuple[str, Value]

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


class SpanEvent(NamedTuple):
    """An event of a span; ``at`` in seconds since the epoch."""

    name: str
    at: float
    attributes: tuple[Pair, ...] = ()


class About(NamedTuple):
    """The common parts of spans of one name."""

    name: str
    attributes: tuple[Pair, ...]


class Span(NamedTuple):
    """A span that is over.

    Args:
        trace: 16 bytes.
        id: 8 bytes.
        parent: 8 bytes; empty for a request's.
        about: its name, and attributes that others have too.
        began: in seconds since the epoch.
        ended: likewise.
        error: the code of its failure; empty for none.
        link: whence its request came.
        client: whether it is a call of something outside.
    """

    trace: bytes
    id: bytes
    parent: bytes
    about: About
    began: float
    ended: float
    attributes: Sequence[Pair] = ()
    events: Sequence[SpanEvent] = ()
    error: str = ""
    link: Traceparent | None = None
    client: bool = False


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

    __slots__ = ("attempts", "events", "message", "money", "parent", "sent", "tokens")

    def __init__(self, parent: bytes, sent: float | None, message: bytes = b"") -> None:
        self.parent, self.sent, self.message = parent, sent, message
        self.events: list[SpanEvent] = []
        self.attempts = self.tokens = self.money = 0


class _Request:
    """A request that is not at rest. ``began`` is None for one whose beginning is not known."""

    __slots__ = ("began", "error", "events", "id", "link", "live", "pair", "sender", "trace")

    def __init__(self, request: str, conversation: str) -> None:
        self.trace, self.id = trace_id(request), span_id(request)
        self.live: dict[str, _Waiting] = {}
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
        self._agents = agents
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
            records = redacted(records, self._content)
        elif len(records) == 2 and records[0].event is Event.HANDLED and records[1].event is Event.SENT:  # noqa: PLR2004 - what nearly every step is
            done, sent = records
            request = self._requests.get(done.request)
            if request is not None and sent.request == done.request:
                own = span_id(done.delivery)
                request.live[sent.delivery] = _Waiting(own, sent.at)
                return [self.delivered(done, request, own, _NOTHING)]
        return _Step(self, self._requests, records, link).spans() if records else []

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
            waiting = _Waiting(request.id, None)
        if waiting.sent is not None:
            more.append((_WAITED, round(began - waiting.sent, 6)))
        if waiting.attempts:
            more.append((Attribute.ATTEMPTS, waiting.attempts + 1))
        if waiting.tokens or waiting.money:
            more += (Attribute.TOKENS, waiting.tokens), (Attribute.COST, waiting.money / 1e6)
        if self._content is not None:
            more += content(self._agents.get(record.to, False), waiting.message, said.messages)
        events = [*waiting.events, *said.events][:EVENTS] if waiting.events or said.events else ()
        error = record.code if record.event is Event.FAILED else ""
        ids = request.trace, own, waiting.parent
        return _new(Span, (*ids, kind, began, record.at, more, events, error, None, False))

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
        self._acting = _acting(records)
        self._by = span_id(self._acting) if self._acting else b""
        self._over: dict[str, tuple[AuditRecord, _Request]] = {}
        self._touched: dict[str, _Request] = {}
        self._events: list[SpanEvent] = []
        self._messages: list[bytes] = []
        self._said = _Said(self._events, self._messages)

    def spans(self) -> list[Span]:
        """The spans that are over."""
        for record in self._records:
            request = self._story.at(record, acting=bool(self._acting))
            if request is None:
                continue
            self._touched[record.request] = request
            self._take(record, request)
        found = []
        for delivery, (record, request) in self._over.items():
            said = self._said if delivery == self._acting else _NOTHING
            found.append(self._story.delivered(record, request, span_id(delivery), said))
        for name, request in self._touched.items():
            if not request.live:
                span = self._story.rested(request, self._records[0].at)
                found += () if span is None else (span,)
                self._requests.pop(name, None)
        return found

    def _take(self, record: AuditRecord, request: _Request) -> None:
        event = record.event
        if event is Event.SENT:
            kept = record.message if self._story.holds else b""
            request.live[record.delivery] = _Waiting(self._by or request.id, record.at, kept)
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
                request.link = self._link
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


def _acting(records: Iterable[AuditRecord]) -> str:
    """The delivery that a step is about; empty for a message from outside."""
    withdrawn = ""
    for record in records:
        event = record.event
        if event is Event.HANDLED or event is Event.FAILED or event is Event.RETRIED:
            return record.delivery
        if event is Event.WITHDRAWN:
            withdrawn = record.delivery
    return withdrawn


def _kind(name: str, *, agent: bool) -> About:
    operation, named = (Operation.AGENT, Attribute.AGENT) if agent else (Operation.TOOL, Attribute.TOOL)
    return About(f"{operation} {name}", ((Attribute.OPERATION, operation), (named, name)))
