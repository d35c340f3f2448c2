"""Renders records as lines, an indented tree, JSON lines, or one self-contained page. Pure.

Shows the details of refusals, so the output is for operators and never for a listener.

The page has no script, font or request. Everything in it is a text node or an attribute that the serialiser escapes;
nothing from a message is parsed as markup.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from lxml import etree
from pydantic_core import from_json, to_json

from agentserver.characters.printing import escape_unseen, truncate_counting
from agentserver.completion import RecordedCompletion
from agentserver.core.encoding.codecs import COMPLETIONS, DETAILS
from agentserver.core.messages import TODO
from agentserver.core.records.audit import Event
from agentserver.core.records.details import HandoffAttempt
from agentserver.core.records.wording import WORDING
from agentserver.trace.completions import describe, summarize
from agentserver.trace.terminal import Style, format_paint, split_own_lines
from agentserver.wire import envelope
from agentserver.wire.envelope import canonical

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.records.wording import DetailWording
    from agentserver.trace.terminal import Line, Segment


def convert_jsonable(value: Any) -> Any:
    """Convert a payload to JSON values.

    Times are ISO 8601, a Decimal is text, bytes are URL-safe base64 (RFC 4648), and an Enum is its value. A float
    that JSON cannot write is text, and so is any other type that JSON does not have, as in a generated dataclass.
    """
    return from_json(to_json(value, bytes_mode="base64", inf_nan_mode="strings", fallback=str))


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One field of a payload: its depth, name, text (None for a heading) and ``held`` value."""

    depth: int
    name: str
    text: str | None
    held: Any = dataclasses.field(default=None, compare=False)


def iter_entries(value: Any, depth: int = 0) -> Iterator[Entry]:
    """Yield the fields of a payload in order, without absent ones and empty lists."""
    for each in dataclasses.fields(value):
        held = getattr(value, each.name)
        many = isinstance(held, list | tuple)
        for index, item in enumerate(held if many else (held,)):
            if item is None:
                continue
            name = f"{each.name}[{index}]" if many else each.name
            if dataclasses.is_dataclass(item):
                yield Entry(depth, name, None)
                yield from iter_entries(item, depth + 1)
            else:
                yield Entry(depth, name, _text(item), item)


def _text(value: Any) -> str:
    plain = convert_jsonable(value)
    return str(plain).lower() if isinstance(plain, bool) else str(plain)


_NO_LINES: Mapping[str, int] = MappingProxyType({})

_STYLES = {
    Event.REFUSED: Style.BAD,
    Event.FAILED: Style.BAD,
    Event.ENDED: Style.WARN,
    Event.CANCELLED: Style.WARN,
    Event.REPAIRED: Style.WARN,
    Event.RETRIED: Style.WARN,
    Event.DROPPED: Style.WARN,
    Event.ASKED: Style.WARN,
    Event.DELAYED: Style.DIM,
    Event.RELEASED: Style.DIM,
    Event.APPROVED: Style.GOOD,
    Event.WITHDRAWN: Style.BAD,
    Event.FLAGGED: Style.WARN,
    Event.DISCARDED: Style.WARN,
}
_CAUSES = frozenset({Event.HANDLED, Event.FAILED, Event.RETRIED})
_TIMED = _CAUSES | {Event.SENT, Event.ANSWERED}

_QUIET = frozenset(
    {
        Event.RECEIVED,
        Event.HANDLED,
        Event.CLOSED,
        Event.ENDED,
        Event.ASKED,
        Event.RELEASED,
        Event.APPROVED,
        Event.WITHDRAWN,
    }
)


def is_quiet(record: AuditRecord) -> bool:
    """Check whether a live view omits a record, because another one shows it or it is no news."""
    detail = record.detail
    return record.event in _QUIET or (isinstance(detail, HandoffAttempt) and detail.reason is not None)


@dataclass(frozen=True, slots=True)
class TracedHop:
    """A record with context from the records before it.

    Args:
        depth: number of enclosing calls; 0 for messages to and from the principal.
        elapsed: seconds since the outside message that led to it; for records of earlier servers, since the record
            before.
        took: for results of an invocation, seconds that its handler ran. None for others, and if no handler was called.
    """

    record: AuditRecord
    depth: int
    elapsed: float
    took: float | None = None


REQUESTS: Final = 1_000
"""Requests of one conversation whose beginnings a reader keeps."""


class TraceReader:
    """Stateful reader of the records of one conversation, in order. Its memory is bounded by the open requests."""

    def __init__(self) -> None:
        self._depths: dict[str, int] = {}
        self._cause: AuditRecord | None = None
        self._began: dict[str, float] = {}
        self._request = ""

    def take(self, record: AuditRecord) -> TracedHop:
        """Add the next record and return it with context."""
        self._request = record.request or self._request
        if record.event is Event.RECEIVED or self._request not in self._began:
            if not self._request or self._request not in self._began:
                self._began[self._request] = record.at
                if len(self._began) > REQUESTS:
                    del self._began[next(iter(self._began))]
            self._cause = None
            self._depths.setdefault(record.thread, 0)
        if record.event in _CAUSES:
            self._cause = record
        depth = self._compute_depth(record)
        if record.event is Event.CLOSED:
            self._depths.pop(record.thread, None)
        return TracedHop(
            record, depth, record.at - self._began[self._request], self._compute_seconds_taken(record)
        )

    def _compute_depth(self, record: AuditRecord) -> int:
        """Compute the depth: a call is one deeper than its caller, and its answer is as deep as the call."""
        cause = self._find_cause(record)
        origin = 0 if cause is None else self._depths.get(cause.thread, 0)
        if record.event is Event.SENT and record.thread not in self._depths:
            self._depths[record.thread] = origin + 1
        own = self._depths.get(record.thread, 0)
        return max((origin if record.event is Event.SENT else 0, own, 1)) - 1

    def _find_cause(self, record: AuditRecord) -> AuditRecord | None:
        """Find the end of the invocation that caused a record, unless it belongs to another outside message."""
        cause = self._cause
        return cause if cause is not None and cause.request == record.request else None

    def _compute_seconds_taken(self, record: AuditRecord) -> float | None:
        cause = self._find_cause(record)
        return None if cause is None or record.event not in _TIMED else cause.took


def read_trace(records: Iterable[AuditRecord]) -> Iterator[TracedHop]:
    """Yield the records of one conversation with context."""
    reading = TraceReader()
    return (reading.take(record) for record in records)


def format_line(hop: TracedHop, wording: DetailWording = WORDING) -> Line:
    """Format a record on one line: time, sender and receiver, event, and reason as far as it fits."""
    record = hop.record
    style = _STYLES.get(record.event, Style.PLAIN)
    parts: list[Segment] = [(Style.DIM, f"{hop.elapsed:+9.3f}s  "), (Style.PLAIN, _indent(hop.depth))]
    if record.event is not Event.SENT:
        parts.append((style, f"{record.event} "))
    parts += _iter_route(record)
    if record.root:
        parts += [(Style.PLAIN, "  "), (Style.PAYLOAD, record.root)]
    if hop.took is not None:
        parts.append((Style.DIM, f"  {hop.took * 1000:.0f} ms"))
    reason = ": ".join(filter(None, (record.code, wording.first(record.detail))))
    if reason:
        parts += [(Style.PLAIN, "  "), (_choose_reason_style(record), _cut(reason))]
    return tuple(parts)


def format_detail_lines(
    hop: TracedHop, command: str = "", wording: DetailWording = WORDING
) -> tuple[Line, ...]:
    """Format the further lines of a record's detail; a short form if ``command`` names the command for the rest."""
    detail = hop.record.detail
    lines = wording.describe_lines(detail, command)[1:]
    return tuple([((Style.DIM, _format_margin(hop)), (Style.PLAIN, _cut(each))) for each in lines])


def _format_margin(hop: TracedHop) -> str:
    return " " * 12 + "  " * (min(hop.depth, DEEPEST) + 1) + "| "


DEEPEST: Final = 20
"""Depth up to which a line is indented. A deeper one shows its depth, so that a cycle of calls stays readable."""


def _indent(depth: int) -> str:
    return "  " * min(depth, DEEPEST) + (f"({depth}) " if depth > DEEPEST else "")


def _choose_reason_style(record: AuditRecord) -> Style:
    if isinstance(record.detail, HandoffAttempt):
        return Style.GOOD if record.detail.reason is None else Style.BAD
    return _STYLES.get(record.event, Style.PLAIN)


def _iter_route(record: AuditRecord) -> Iterator[Segment]:
    if record.sender:
        yield Style.NAME, record.sender
        yield Style.DIM, " -> "
    # The target of a refused message is text from its sender, or empty.
    yield Style.NAME, _cut(record.to or "?", 128)


def _cut(text: str, maximum: int = 500) -> str:
    return truncate_counting(text, maximum)


def format_tree(
    records: Sequence[AuditRecord],
    completions: Sequence[RecordedCompletion] = (),
    *,
    payloads: bool = False,
    wording: DetailWording = WORDING,
    lines_of: Mapping[str, int] = _NO_LINES,
) -> tuple[Line, ...]:
    """Format the conversation as indented trees of calls, one for each outside message, under a heading if it is known.

    Each record has one line, or as many as its detail. A record that the next one implies is omitted: an outside
    message before its delivery, a finished invocation before its messages. With ``payloads``, the content of each
    message follows it, and that of each completion its line. ``lines_of`` has lines of source by delivery.
    """
    lines: list[Line] = []
    request = ""
    places = CompletionPlaces()
    for hop in interleave(order_by_request(list_visible_hops(records)), completions):
        if isinstance(hop, RecordedCompletion):
            lines += places.format_lines(hop, payloads=payloads)
            continue
        places.note(hop)
        if hop.record.request not in {"", request}:
            request = hop.record.request
            lines.append(format_request_heading(hop.record))
        lines += format_todo_line(hop)
        lines.append((*format_line(hop, wording), *_format_source_line(hop, lines_of)))
        lines += format_detail_lines(hop, wording=wording)
        lines += split_message_lines(hop) if payloads and hop.record.message else ()
    return tuple(lines)


def _format_source_line(hop: TracedHop, lines_of: Mapping[str, int]) -> Line:
    """Format the line of source at which a flow sent a message; empty for another record."""
    place = lines_of.get(hop.record.delivery, 0) if hop.record.event is Event.SENT else 0
    return ((Style.DIM, f"  line {place}"),) if place else ()


COMPLETED: Final = "completed"
"""The event of a completion in a JSON trace."""


def interleave(
    hops: Iterable[TracedHop], completions: Sequence[RecordedCompletion]
) -> Iterator[TracedHop | RecordedCompletion]:
    """Yield hops in their order, each completion before the first later hop of its request."""
    remaining = sorted(completions, key=_compute_end)
    request = ""
    for hop in hops:
        if hop.record.request not in {"", request}:
            yield from _take(remaining, request, None)
            request = hop.record.request
        yield from _take(remaining, request, hop.record.at)
        yield hop
    yield from remaining


def _compute_end(one: RecordedCompletion) -> float:
    return one.at + one.took


def _take(remaining: list[RecordedCompletion], request: str, at: float | None) -> list[RecordedCompletion]:
    """Take the completions of a request that ended up to a time; None for all."""
    found = [one for one in remaining if one.request == request and (at is None or _compute_end(one) <= at)]
    remaining[:] = [one for one in remaining if one not in found]
    return found


class CompletionPlaces:
    """Depths and times at which completions are shown, from the hops before them."""

    def __init__(self) -> None:
        self._depths: dict[str, int] = {}
        self._began: dict[str, float] = {}

    def note(self, hop: TracedHop) -> None:
        """Note the place of a hop."""
        self._depths.setdefault(hop.record.delivery, hop.depth)
        self._began.setdefault(hop.record.request, hop.record.at - hop.elapsed)

    def find(self, one: RecordedCompletion) -> tuple[int, float]:
        """Return the depth of a completion, and seconds from the beginning of its request to its end."""
        ended = one.at + one.took
        return self._depths.get(one.delivery, 0) + 1, ended - self._began.get(one.request, ended)

    def format_lines(self, one: RecordedCompletion, *, payloads: bool) -> Iterator[Line]:
        """Format a completion: its line, and with ``payloads`` its content."""
        depth, elapsed = self.find(one)
        bad = Style.BAD if one.fault else Style.PLAIN
        yield (
            (Style.DIM, f"{elapsed:+9.3f}s  "),
            (Style.PLAIN, "  " * depth),
            (Style.NAME, one.listener),
            (Style.DIM, " asked "),
            (bad, _cut(summarize(one))),
        )
        margin = " " * 12 + "  " * (depth + 1) + "| "
        for heading, text in describe(one) if payloads else ():
            first, *rest = [*split_own_lines(_cut(text))] or [""]
            yield ((Style.DIM, margin), (Style.NAME, f"{heading}: "), (Style.PLAIN, first))
            yield from (((Style.DIM, margin), (Style.PLAIN, each)) for each in rest)


def order_by_request(hops: Sequence[TracedHop]) -> list[TracedHop]:
    """Order hops by the outside message that led to them; others stay behind the hop before them."""
    found: dict[str, list[TracedHop]] = {}
    request = ""
    for hop in hops:
        request = hop.record.request or request
        found.setdefault(request, []).append(hop)
    return [hop for group in found.values() for hop in group]


def format_request_heading(record: AuditRecord) -> Line:
    """Format the heading above the tree of an outside message, given its first record."""
    came = datetime.fromtimestamp(record.at, UTC).strftime("%H:%M:%S")
    return ((Style.DIM, "request "), (Style.NAME, record.request[:8]), (Style.DIM, f" at {came} UTC"))


_ASKED = {"TodoRegistered": "TodoUntil", "TodoClosed": "TodoComplete"}


def format_todo_line(hop: TracedHop) -> tuple[Line, ...]:
    """Format a message to ``system.todo`` from its answer, because the service answers at once."""
    record = hop.record
    root = _ASKED.get(record.root) if record.event is Event.SENT and record.sender == TODO else None
    if root is None:
        return ()
    sent = record._replace(sender=record.to, to=TODO, root=root, detail=None)
    return (format_line(TracedHop(sent, hop.depth, hop.elapsed, hop.took)),)


def list_visible_hops(records: Sequence[AuditRecord]) -> list[TracedHop]:
    """List the hops that the tree shows: all except those that the next one implies."""
    found: list[TracedHop] = []
    following: Event | None = None
    for hop in reversed(list(read_trace(records))):
        event = hop.record.event
        if event not in {Event.RECEIVED, Event.HANDLED} or following not in _TOLD:
            found.append(hop)
        following = following if event in _BETWEEN else event
    return found[::-1]


_BETWEEN = frozenset({Event.CLOSED, Event.DROPPED})
_TOLD = frozenset({Event.SENT, Event.ANSWERED, Event.REFUSED, Event.FAILED})


def split_message_lines(hop: TracedHop) -> tuple[Line, ...]:
    """Split the text of a message at line breaks."""
    text = _cut(format_payload(hop.record.message))
    return tuple([((Style.DIM, _format_margin(hop)), (Style.PLAIN, part)) for part in split_own_lines(text)])


def format_payload(message: bytes) -> str:
    """Format the payload of a message; all of the message if it is not an envelope."""
    read = envelope.read_envelope(message)
    plain = message if isinstance(read, envelope.Malformed) else canonical(read.payload)
    return plain.decode("utf-8", "surrogateescape")


def format_tree_text(
    records: Sequence[AuditRecord],
    completions: Sequence[RecordedCompletion] = (),
    *,
    payloads: bool = False,
    lines_of: Mapping[str, int] = _NO_LINES,
) -> str:
    """Format the tree as escaped text without colours."""
    lines = format_tree(records, completions, payloads=payloads, lines_of=lines_of)
    return "\n".join(format_paint(each, colour=False) for each in lines)


def iter_json_lines(
    records: Iterable[AuditRecord],
    completions: Sequence[RecordedCompletion] = (),
    wording: DetailWording = WORDING,
    lines_of: Mapping[str, int] = _NO_LINES,
) -> Iterator[str]:
    """Yield one JSON object per record, as docs/records.md specifies: its fields, the detail as text, and its depth.

    A message of a flow has the line of source that sent it. Completions have the event ``completed`` and their own
    fields.
    """
    places = CompletionPlaces()
    for hop in interleave(read_trace(records), completions):
        if isinstance(hop, RecordedCompletion):
            depth, _ = places.find(hop)
            yield json.dumps({"event": COMPLETED, **COMPLETIONS.plain(hop), "depth": depth})
            continue
        places.note(hop)
        fields = hop.record._asdict()
        fields["began"] = hop.record.began
        fields["message"] = hop.record.message.decode("utf-8", "backslashreplace")
        fields["detail"] = DETAILS.plain(hop.record.detail)
        if hop.record.event is Event.SENT and hop.record.delivery in lines_of:
            fields["line"] = lines_of[hop.record.delivery]
        yield json.dumps({**fields, "text": wording.join_lines(hop.record.detail), "depth": hop.depth})


STYLE = (
    "body{font:14px/1.5 monospace;margin:2em;background:#fff;color:#222}"
    "div{white-space:pre-wrap;overflow-wrap:anywhere}details{margin-left:12em}"
    ".refused,.failed,.withdrawn{color:#b00}.approved{color:#070}"
    ".dropped,.discarded,.retried,.repaired,.ended,.asked,.flagged{color:#850}"
)
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def render_page(
    title: str,
    records: Sequence[AuditRecord],
    completions: Sequence[RecordedCompletion] = (),
    wording: DetailWording = WORDING,
    lines_of: Mapping[str, int] = _NO_LINES,
) -> str:
    """Render the records of one conversation as an HTML page with collapsible messages.

    ``lines_of`` has lines of source by delivery.
    """
    root = etree.Element("html", lang="en")
    head = etree.SubElement(root, "head")
    etree.SubElement(head, "meta", charset="utf-8")
    # A second line of defence: a browser may load and run nothing here.
    etree.SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": POLICY})
    etree.SubElement(head, "title").text = escape_unseen(title)
    etree.SubElement(head, "style").text = STYLE
    body = etree.SubElement(root, "body")
    etree.SubElement(body, "h1").text = escape_unseen(title)
    for hop in interleave(read_trace(records), completions):
        if isinstance(hop, RecordedCompletion):
            _add_completion(body, hop)
            continue
        row = etree.SubElement(body, "div", {"class": str(Event(hop.record.event))})
        row.text = "\n".join(
            "".join(escape_unseen(text) for _, text in each)
            for each in (
                (*format_line(hop, wording), *_format_source_line(hop, lines_of)),
                *format_detail_lines(hop, wording=wording),
            )
        )
        if hop.record.message:
            unfold = etree.SubElement(body, "details")
            etree.SubElement(unfold, "summary").text = "message"
            text = hop.record.message.decode("utf-8", "surrogateescape")
            etree.SubElement(unfold, "div").text = "\n".join(map(escape_unseen, text.split("\n")))
    return etree.tostring(root, method="html", encoding="unicode", doctype="<!DOCTYPE html>")


def _add_completion(body: etree._Element, one: RecordedCompletion) -> None:
    row = etree.SubElement(body, "div", {"class": "failed" if one.fault else "completion"})
    row.text = escape_unseen(f"{one.listener} asked {summarize(one)}")
    unfold = etree.SubElement(body, "details")
    etree.SubElement(unfold, "summary").text = "prompt and answer"
    for heading, text in describe(one):
        escaped = "\n".join(map(escape_unseen, text.split("\n")))
        etree.SubElement(unfold, "div").text = f"{heading}: {escaped}"
