"""Spans of committed records: one for each request, each finished delivery, and each turn of an agent.

The trace is the request; a delivery's parent is the delivery that was handled in the step that sent it, or the turn of
the agent that sent it. Ids derive from those of messages: nothing is stored, and a server that takes over a request
uses the same ids. Memory is bounded; no clock, no I/O.

A request of an agent's caller begins a turn, and every delivery on its thread belongs to it until the agent has
answered. Committed records and the context of running handlers derive the same span id from the first delivery.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.core.messages import TIMER
from agentserver.core.records.audit import Event
from agentserver.core.records.details import NAMES, Charge, Grounds, GuardNote, GuardQuestions, HandoffAttempt
from agentserver.core.records.wording import WORDING
from agentserver.findings import Findings
from agentserver.telemetry.spans import Attribute, Operation, Span, SpanEvent, SpanKind
from agentserver.trace.redact import redact_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from agentserver.contract import CodeSite
    from agentserver.core.messages import Delivery
    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.records.details import Detail
    from agentserver.telemetry.spans import Pair
    from agentserver.trace.redact import Redaction
    from agentserver.trace.traceparent import Traceparent

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
        "site",
        "to",
        "tokens",
        "wait_time",
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
        self.ended, self.wait_time, self.message = record.at, waited, message
        self.site: CodeSite | None = None
        self.messages: list[bytes] = []
        self.events: list[SpanEvent] = []
        self.attempts = self.tokens = self.money = 0
        self.error = ""


class RunningTurn(NamedTuple):
    """Turn as running handlers see it: the id of its span, and the thread of its caller."""

    id: bytes
    caller: str


class RunningTurns:
    """Turns of the running agents, by request and thread.

    Args:
        find_turn: returns a turn that an earlier server began; None if unknown.
    """

    def __init__(self, find_turn: Callable[[str, str], RunningTurn | None]) -> None:
        self._find_turn = find_turn
        self._known: dict[tuple[str, str], RunningTurn] = {}

    def span(self, delivery: Delivery, own: bytes) -> bytes:
        """Return the id of the span of a delivery to an agent; ``own`` is the one of a first delivery."""
        key = delivery.request, delivery.thread
        begun = self._known.get(key) or self._find_turn(*key)
        if begun is None or begun.caller == delivery.origin:
            begun = RunningTurn(own, delivery.origin)
        self._known[key] = begun
        if len(self._known) > TURNS:
            del self._known[next(iter(self._known))]
        return begun.id


CONTENT: Final = 8_000
"""Characters of a message, if spans hold content."""


def list_content(agent: bool, message: bytes, replies: Sequence[bytes]) -> tuple[tuple[str, str], ...]:  # noqa: FBT001 - within this module
    """Return the messages of a delivery as attributes of its kind of span."""
    request = message.decode("utf-8", "replace")[:CONTENT]
    answered = b"\n".join(replies).decode("utf-8", "replace")[:CONTENT]
    if agent:
        return (Attribute.INPUT, _message("user", request)), (
            Attribute.OUTPUT,
            _message("assistant", answered),
        )
    return (Attribute.ARGUMENTS, request), (Attribute.RESULT, answered)


def _message(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def rule(detail: Detail) -> str:
    """Return the rule that a detail names, from the closed sets of the server and its guards."""
    match detail:
        case Findings():
            return ",".join(dict.fromkeys(one.rule for one in detail.findings)) or detail.decision
        case GuardNote():
            return detail.guard
        case GuardQuestions():
            return ",".join(one.guard for one in detail.questions)
        case Grounds():
            return detail.ground.value
        case HandoffAttempt():
            return detail.reason or detail.result
        case _:
            return NAMES[type(detail)]


REQUESTS: Final = 10_000
"""Requests that are tracked at a time; the oldest ones beyond them lose their own span."""

EVENTS: Final = 100
"""Events of one span."""

SYSTEM_ERROR: Final = "SystemError"

ROUTES: Final = 4_096
"""Routes whose common parts are kept."""

_CONVERSATION, _SENDER = Attribute.CONVERSATION.value, Attribute.SENDER.value
_PAYLOAD, _WAITED = Attribute.PAYLOAD.value, Attribute.WAITED.value
"""Texts, and no members of an enumeration, whose hash is a call of Python."""


_new = tuple.__new__
"""Makes a tuple without the call of Python that its class would make; tests/test_tuples.py counts the fields."""


def trace_id(request: str) -> bytes:
    """Return the 16 bytes of a request's id. An id of another form is hashed."""
    try:
        found = bytes.fromhex(request.replace("-", ""))
    except ValueError:
        found = b""
    return found if len(found) == 16 and any(found) else _digest(request, 16)  # noqa: PLR2004 - as the docstring says


def span_id(delivery: str) -> bytes:
    """Return the first 8 bytes of a delivery's id, or of a request's for its own span."""
    try:
        whole = bytes.fromhex(delivery.replace("-", ""))
    except ValueError:
        whole = b""
    found = whole[:8]
    if len(whole) == 16 and found != _NO_SPAN:  # noqa: PLR2004 - as ``trace_id``, in one call: every delivery has one
        return found
    found = trace_id(delivery)[:8]
    return found if found != _NO_SPAN else _digest(delivery, 8)


_NO_SPAN: Final = bytes(8)


def _digest(text: str, size: int) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()


def is_sampled(trace: bytes, share: float) -> bool:
    """Return whether a trace is sampled; always the same for the same trace."""
    return share >= 1 or int.from_bytes(trace[8:]) < share * 2**64


class _SentFields(NamedTuple):
    """Fields of a delivery if only its sending is known."""

    parent: bytes
    sent_at: float
    origin: str
    message: bytes


class _SentDelivery(_SentFields):
    """Unfinished delivery whose sending alone is known, as with nearly every one."""

    __slots__ = ()
    attempts = tokens = money = 0
    events: Sequence[SpanEvent] = ()
    site: CodeSite | None = None


class _OpenDelivery:
    """Delivery that is not finished."""

    __slots__ = ("attempts", "events", "message", "money", "origin", "parent", "sent_at", "site", "tokens")

    def __init__(self, parent: bytes, sent: float | None, origin: str, message: bytes = b"") -> None:
        self.parent, self.sent_at, self.origin, self.message = parent, sent, origin, message
        self.events: list[SpanEvent] = []
        self.site: CodeSite | None = None
        self.attempts = self.tokens = self.money = 0


class _Request:
    """Request that is not settled. ``began`` is None if its start is unknown."""

    __slots__ = ("began", "error", "events", "id", "link", "live", "pair", "sender", "trace", "turns")

    def __init__(self, request: str, conversation: str) -> None:
        self.trace, self.id = trace_id(request), span_id(request)
        self.live: dict[str, _SentDelivery | _OpenDelivery] = {}
        self.turns: dict[str, Turn] = {}
        self.events: list[SpanEvent] = []
        self.began: float | None = None
        self.link: Traceparent | None = None
        self.error = self.sender = ""
        self.pair: Pair = (_CONVERSATION, conversation)

    def find_open(self, delivery: str) -> _OpenDelivery | None:
        """Return a delivery to which more can be added; None if it is not open."""
        found = self.live.get(delivery)
        if isinstance(found, _SentDelivery):
            found = self.live[delivery] = _OpenDelivery(*found)
        return found


class OpenRequests:
    """State of the requests that are not settled.

    Args:
        organism: its name.
        agents: for each listener whether it is an agent.
        share: of the requests that are sampled, from 0 to 1.
        content: redacts messages before spans hold them; without it spans hold none.
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
        self._workflow = SpanKind(
            f"{Operation.WORKFLOW} {organism}", (*operation, (Attribute.AGENT, organism))
        )
        self.know(agents)
        self._requests: dict[str, _Request] = {}
        self._sites: dict[str, list[CodeSite]] = {}
        self.forgotten = 0

    def note_site(self, delivery: str, site: CodeSite) -> None:
        """Note where the flow that handles a delivery sends a message. May be called from any thread of the process."""
        self._sites.setdefault(delivery, []).append(site)
        if len(self._sites) > REQUESTS:
            self._sites.pop(next(iter(self._sites)), None)

    def know(self, agents: Mapping[str, bool]) -> None:
        """Use these listeners from now on; ``agents`` is as in the constructor. May be called from any thread."""
        self.agents = agents
        self._kinds = {name: _make_kind(name, agent=agent) for name, agent in agents.items()}
        self._routes: dict[tuple[str, str, str], SpanKind] = {}

    @property
    def holds(self) -> bool:
        """True if spans hold messages."""
        return self._content is not None

    @property
    def open(self) -> frozenset[bytes]:
        """Traces of the requests that are not settled."""
        return frozenset(request.trace for request in self._requests.values())

    def take(self, records: Sequence[AuditRecord], link: Traceparent | None = None) -> Sequence[Span]:
        """Return the spans that end with one committed step.

        Args:
            records: of the step, in order.
            link: the span that sent its request, if it is known.
        """
        if self._content is not None:
            records = redact_records(records, self._content)
        if not self._sites and len(records) == 2:  # noqa: PLR2004 - what nearly every step is
            found = self._take_pair(records[0], records[1], link)
            if found is not None:
                return found
        return _Step(self, self._requests, records, link).list_spans() if records else []

    def _take_pair(
        self, first: AuditRecord, second: AuditRecord, link: Traceparent | None
    ) -> Sequence[Span] | None:
        """Return the spans of a step of one of the usual pairs; None for another step."""
        event, key = second.event, first.request
        if second.request != key:
            return None
        if first.event is Event.HANDLED:
            request = self._requests.get(key)
            if request is None or self.agents.get(first.to):
                return None
            if event is Event.SENT:
                return self._end_plain_delivery(first, second, request)
            if (event is Event.ANSWERED or event is Event.ENDED) and second.root != SYSTEM_ERROR:
                return self._end_last_delivery(first, second, request)
        elif first.event is Event.RECEIVED and event is Event.SENT:
            begun = self.request_of(first, acting=False)
            if begun is not None:
                message = second.message if self._content is not None else b""
                sent = begun.id, second.at, first.thread or second.thread, message
                begun.link, begun.live[second.delivery] = link, _new(_SentDelivery, sent)
            return ()
        return None

    def find_turn(self, request: str, thread: str) -> RunningTurn | None:
        """Return the turn of an agent on a thread. May be called from any thread of the process."""
        known = self._requests.get(request)
        turn = None if known is None else known.turns.get(thread)
        return None if turn is None else RunningTurn(turn.id, turn.caller)

    def take_sites(self, acting: str) -> list[CodeSite]:
        """Return the places at which the handler of a delivery sent messages, once."""
        return self._sites.pop(acting, []) if self._sites else []

    def request_of(self, record: AuditRecord, *, acting: bool) -> _Request | None:
        """Return the request of a record; None if it has none or is not sampled."""
        request = self._requests.get(record.request)
        if request is None and record.request:
            if not is_sampled(trace_id(record.request), self._share):
                return None
            request = self._requests[record.request] = _Request(record.request, record.conversation)
            if record.event in _OPENING and not acting:
                request.began, request.sender = record.at, record.sender
            if len(self._requests) > REQUESTS:
                del self._requests[next(iter(self._requests))]
                self.forgotten += 1
        return request

    def _end_plain_delivery(self, done: AuditRecord, sent: AuditRecord, request: _Request) -> Sequence[Span]:
        """Return the span of a delivery that was handled by sending one message, as nearly every one is."""
        own, live, holds = span_id(done.delivery), request.live, self._content is not None
        waiting = live.get(done.delivery)
        message = sent.message if holds else b""
        live[sent.delivery] = _new(_SentDelivery, (own, sent.at, done.thread, message))
        if type(waiting) is not _SentDelivery:
            return (self.end_delivery(done, request, own, _StepContent((), (message,))),)
        del live[done.delivery]
        at, took, route = done.at, done.took, (done.to, done.sender, done.root)
        parent, sent_at, _, received = waiting
        began = at if took is None else at - took
        kind = self._routes.get(route) or self._make_route(route)
        waited = int((began - sent_at) * 1e6 + 0.5) / 1e6  # ``round`` takes four times as long
        pairs: tuple[Pair, ...] = request.pair, (_WAITED, waited)
        if holds:
            pairs += list_content(False, received, (message,))
        return (_new(Span, (request.trace, own, parent, kind, began, at, pairs, (), "", None, False)),)

    def _end_last_delivery(
        self, done: AuditRecord, answered: AuditRecord, request: _Request
    ) -> Sequence[Span]:
        """Return the spans of a delivery that was handled by an answer, or by nothing, and of its settled request."""
        note_event(request.events, answered, holds=self._content is not None)
        content = _StepContent((), (answered.message,))
        span = self.end_delivery(done, request, span_id(done.delivery), content)
        return (span,) if request.live else (span, *self.settle(done.request, request, done.at))

    def settle(self, key: str, request: _Request, at: float) -> list[Span]:
        """Forget a settled request. Returns the spans of its turns and its own."""
        found = [self.end_turn(turn, request) for turn in request.turns.values()]
        span = self.end_request(request, at)
        found += () if span is None else (span,)
        self._requests.pop(key, None)
        return found

    def end_delivery(self, record: AuditRecord, request: _Request, own: bytes, step: _StepContent) -> Span:
        """Return the span of the delivery that ends with this record, under its id."""
        waiting = request.live.pop(record.delivery, None)
        began = record.at if record.took is None else record.at - record.took
        route = record.to, record.sender, record.root
        kind = self._routes.get(route) or self._make_route(route)
        pairs: list[Pair] = [request.pair]
        if record.event is Event.DROPPED:
            pairs.append((Attribute.RESULTED, Event.DROPPED.value))
        if waiting is None:
            waiting = _OpenDelivery(request.id, None, "")
        if waiting.sent_at is not None:
            pairs.append((_WAITED, round(began - waiting.sent_at, 6)))
        if waiting.site is not None:
            pairs += _describe_site(waiting.site)
        if waiting.attempts:
            pairs.append((Attribute.ATTEMPTS, waiting.attempts + 1))
        if waiting.tokens or waiting.money:
            pairs += (Attribute.TOKENS, waiting.tokens), (Attribute.COST, waiting.money / 1e6)
        if self._content is not None:
            pairs += list_content(self.agents.get(record.to, False), waiting.message, step.messages)
        events = [*waiting.events, *step.events][:EVENTS] if waiting.events or step.events else ()
        error = record.code if record.event is Event.FAILED else ""
        ids = request.trace, own, waiting.parent
        return _new(Span, (*ids, kind, began, record.at, pairs, events, error, None, False))

    def _make_route(self, route: tuple[str, str, str]) -> SpanKind:
        """Return the common parts of deliveries of one payload from one sender to one receiver."""
        to, sender, payload = route
        routes = self._routes  # first: ``know`` replaces both, and this one last
        kind = self._kinds.get(to) or _make_kind(to, agent=False)
        found = SpanKind(kind.name, (*kind.attributes, (_SENDER, sender), (_PAYLOAD, payload)))
        if len(routes) >= ROUTES:
            routes.clear()
        routes[route] = found
        return found

    def turn(self, record: AuditRecord, request: _Request) -> tuple[Turn, Turn | None]:
        """Return the turn that a delivery to an agent belongs to, and the turn that it ends."""
        waiting = request.live.get(record.delivery)
        known = request.turns.get(record.thread)
        if known is not None and (waiting is None or waiting.origin != known.caller):
            return known, None
        if known is not None and known.first == record.delivery:
            return known, None
        if waiting is None:
            waiting = _OpenDelivery(request.id, None, "")
        began = record.at if record.began is None else record.began
        wait = None if waiting.sent_at is None else began - waiting.sent_at
        own = span_id(record.delivery)
        turn = Turn(own, waiting.parent, waiting.origin, record, wait, waiting.message)
        turn.site = waiting.site
        request.turns[record.thread] = turn
        return turn, known

    def add_work(self, record: AuditRecord, request: _Request, turn: Turn, step: _StepContent) -> None:
        """Add a finished delivery to the turn of its agent."""
        waiting = request.live.pop(record.delivery, None)
        if waiting is not None:
            turn.attempts += waiting.attempts
            turn.tokens += waiting.tokens
            turn.money += waiting.money
            turn.events += waiting.events
        turn.events += step.events
        turn.messages += step.messages
        turn.ended = record.at
        if record.event is Event.FAILED:
            turn.error = record.code

    def end_turn(self, turn: Turn, request: _Request) -> Span:
        """Return the span of a finished turn."""
        pairs: list[Pair] = [request.pair, (_SENDER, turn.sender), (_PAYLOAD, turn.payload)]
        if turn.wait_time is not None:
            pairs.append((_WAITED, round(turn.wait_time, 6)))
        if turn.site is not None:
            pairs += _describe_site(turn.site)
        if turn.attempts:
            pairs.append((Attribute.ATTEMPTS, turn.attempts + 1))
        if turn.tokens or turn.money:
            pairs += (Attribute.TOKENS, turn.tokens), (Attribute.COST, turn.money / 1e6)
        if self._content is not None:
            pairs += list_content(True, turn.message, turn.messages[-1:])
        kind = self._kinds.get(turn.to) or _make_kind(turn.to, agent=True)
        ids = request.trace, turn.id, turn.parent
        return Span(*ids, kind, turn.began, turn.ended, pairs, turn.events[:EVENTS], turn.error)

    def end_request(self, request: _Request, at: float) -> Span | None:
        """Return the span of a settled request; None if its start is unknown."""
        if request.began is None:
            return None
        pairs = (request.pair, (_SENDER, request.sender))
        ids = request.trace, request.id, b""
        rest = pairs, request.events, request.error, request.link, False
        return _new(Span, (*ids, self._workflow, request.began, at, *rest))


class _StepContent(NamedTuple):
    """Events and messages of a step, for its delivery."""

    events: Sequence[SpanEvent]
    messages: Sequence[bytes]


_NOTHING: Final = _StepContent((), ())


class _Step:
    """Reader of the records of one step."""

    def __init__(
        self,
        story: OpenRequests,
        requests: dict[str, _Request],
        records: Sequence[AuditRecord],
        link: Traceparent | None,
    ) -> None:
        self._story, self._requests, self._records, self._link = story, requests, records, link
        acting = _find_acting(records)
        self._by = b""
        self._acting, self._origin = "", ""
        self._over: dict[str, tuple[AuditRecord, _Request]] = {}
        self._ended: list[Span] = []
        self._turn: Turn | None = None
        self._sites: list[CodeSite] = []
        if acting is not None:
            self._sites = story.take_sites(acting.delivery)
            self._acting, self._origin, self._by = acting.delivery, acting.thread, span_id(acting.delivery)
            self._begin(acting)
        self._touched: dict[str, _Request] = {}
        self._answered, self._from = False, ""
        self._events: list[SpanEvent] = []
        self._messages: list[bytes] = []
        self._said = _StepContent(self._events, self._messages)

    def _begin(self, acting: AuditRecord) -> None:
        """Use the turn of an agent in place of the delivery that the step handled."""
        request = self._story.request_of(acting, acting=True) if self._story.agents.get(acting.to) else None
        if request is None or acting.event is Event.WITHDRAWN:
            return
        self._turn, before = self._story.turn(acting, request)
        self._by = self._turn.id
        if before is not None:
            self._ended.append(self._story.end_turn(before, request))

    def list_spans(self) -> list[Span]:
        """Return the finished spans."""
        for record in self._records:
            request = self._story.request_of(record, acting=bool(self._acting))
            if request is None:
                continue
            self._touched[record.request] = request
            self._take(record, request)
        found = self._ended
        for delivery, (record, request) in self._over.items():
            content = self._said if delivery == self._acting else _NOTHING
            if self._turn is not None and delivery == self._acting:
                self._story.add_work(record, request, self._turn, content)
                if self._answered or record.event is Event.FAILED:
                    request.turns.pop(record.thread, None)
                    found.append(self._story.end_turn(self._turn, request))
            elif record.event is Event.DROPPED and record.thread in request.turns:
                request.live.pop(delivery, None)
            else:
                found.append(self._story.end_delivery(record, request, span_id(delivery), content))
        for name, request in self._touched.items():
            if not request.live:
                found += self._story.settle(name, request, self._records[0].at)
        return found

    def _take(self, record: AuditRecord, request: _Request) -> None:
        event = record.event
        if event is Event.SENT:
            message = record.message if self._story.holds else b""
            if not self._acting:
                self._origin = self._from or record.thread
            sent = _OpenDelivery(self._by or request.id, record.at, self._origin, message)
            sent.site = self._find_site(record) if self._sites else None
            request.live[record.delivery] = sent
            self._answered |= self._turn is not None and record.thread == self._turn.caller
            self._messages.append(record.message)
        elif event is Event.HANDLED or event is Event.FAILED or event is Event.DROPPED:
            self._over[record.delivery] = record, request
        else:
            self._read_rare_event(record, request)

    def _find_site(self, record: AuditRecord) -> CodeSite | None:
        """Return the place at which a flow sent a message; None if it has none."""
        to = TIMER if record.sender == TIMER else record.to
        site = next((each for each in self._sites if each.to == to), None)
        if site is not None:
            self._sites.remove(site)
        return site

    def _read_rare_event(self, record: AuditRecord, request: _Request) -> None:
        """Read an event that does not occur at every hop."""
        waiting = request.find_open(record.delivery)
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
                self._read_event(record, request)
            case Event.REFUSED | Event.FLAGGED | Event.ATTEMPTED | Event.REPAIRED:
                self._note(self._events if self._acting else request.events, record)

    def _read_event(self, record: AuditRecord, request: _Request) -> None:
        self._messages.append(record.message)
        self._note(request.events, record)
        if record.root == SYSTEM_ERROR and not request.error:
            codes = [one.code for one in self._records if one.code]
            request.error = codes[0] if codes else SYSTEM_ERROR

    def _note(self, events: list[SpanEvent], record: AuditRecord) -> None:
        note_event(events, record, holds=self._story.holds)


def note_event(events: list[SpanEvent], record: AuditRecord, *, holds: bool) -> None:
    """Add an event with code and rule; with its wording only if spans hold content."""
    if len(events) >= EVENTS:
        return
    pairs: list[Pair] = []
    if record.code:
        pairs.append((Attribute.CODE, record.code))
    if record.detail is not None:
        pairs.append((Attribute.RULE, rule(record.detail)))
        if holds:
            pairs.append((Attribute.DETAIL, WORDING.join_lines(record.detail)[:CONTENT]))
    events.append(_new(SpanEvent, (record.event.value, record.at, tuple(pairs))))


_OPENING: Final = frozenset({Event.RECEIVED, Event.REDRIVEN, Event.REFUSED, Event.FLAGGED, Event.ATTEMPTED})
"""Events that begin a request if the step handled no delivery."""


def _describe_site(site: CodeSite) -> tuple[Pair, ...]:
    return (Attribute.FILE, site.file), (Attribute.FUNCTION, site.function), (Attribute.LINE, site.line)


def _find_acting(records: Iterable[AuditRecord]) -> AuditRecord | None:
    """Return the record of the delivery that a step handled; None for a message from outside."""
    withdrawn = None
    for record in records:
        event = record.event
        if event is Event.HANDLED or event is Event.FAILED or event is Event.RETRIED:
            return record
        if event is Event.WITHDRAWN:
            withdrawn = record
    return withdrawn


def _make_kind(name: str, *, agent: bool) -> SpanKind:
    operation, named = (Operation.AGENT, Attribute.AGENT) if agent else (Operation.TOOL, Attribute.TOOL)
    return SpanKind(f"{operation} {name}", ((Attribute.OPERATION, operation), (named, name)))
