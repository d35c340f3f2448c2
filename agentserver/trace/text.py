"""Records as people and programs read them: one line, an indented tree, JSON lines.

Owns the reading of records. Pure. Refuses to know where they are kept and what they are shown on. The detail
of a refusal is shown: what is made here is for operators, never for a listener.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agentserver.characters.printing import truncate_counting
from agentserver.core.encoding.codecs import DETAILS
from agentserver.core.messages import TODO
from agentserver.core.records.audit import Event
from agentserver.core.records.details import HandoffAttempt
from agentserver.core.records.wording import WORDING
from agentserver.trace.terminal import Style, own_lines, paint
from agentserver.wire import envelope
from agentserver.wire.canonical import canonical

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.records.wording import DetailWording
    from agentserver.trace.terminal import Line, Segment

_STYLES = {
    Event.REFUSED: Style.BAD,
    Event.FAILED: Style.BAD,
    Event.ENDED: Style.WARN,
    Event.CANCELLED: Style.WARN,
    Event.REPAIRED: Style.WARN,
    Event.RETRIED: Style.WARN,
    Event.DROPPED: Style.WARN,
    Event.ASKED: Style.WARN,
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
        Event.APPROVED,
        Event.WITHDRAWN,
    }
)


def is_quiet(record: AuditRecord) -> bool:
    """True when a live view leaves a record out, because something else tells it too or because it is no news."""
    detail = record.detail
    return record.event in _QUIET or (isinstance(detail, HandoffAttempt) and detail.reason is not None)


@dataclass(frozen=True, slots=True)
class TracedHop:
    """A record with what only the records before it tell.

    Args:
        depth: how many calls it lies inside; 0 is what the principal said and heard.
        elapsed: seconds since the outside message that led to it came; in what earlier servers kept, since the one
            before it.
        took: for what follows from an invocation, seconds that its handler took; in what earlier servers kept, those
            since the message it was for was sent. Else None.
    """

    record: AuditRecord
    depth: int
    elapsed: float
    took: float | None = None


class TraceReader:
    """Follows the records of one conversation, in order."""

    def __init__(self) -> None:
        self._depths: dict[str, int] = {}
        self._sent: dict[str, float] = {}
        self._cause: AuditRecord | None = None
        self._began: dict[str, float] = {}
        self._request = ""

    def take(self, record: AuditRecord) -> TracedHop:
        """The next record with its place."""
        self._request = record.request or self._request
        if record.event is Event.RECEIVED or self._request not in self._began:
            self._began[self._request], self._cause = record.at, None
            self._depths.setdefault(record.thread, 0)
        if record.event in _CAUSES:
            self._cause = record
        depth = self._depth(record)
        if record.event is Event.SENT:
            self._sent[record.delivery] = record.at
        return TracedHop(record, depth, record.at - self._began[self._request], self._elapsed(record))

    def _depth(self, record: AuditRecord) -> int:
        """A call lies one deeper than its caller; its answer lies where the call lies."""
        cause = self._cause_of(record)
        origin = 0 if cause is None else self._depths.get(cause.thread, 0)
        if record.event is Event.SENT and record.thread not in self._depths:
            self._depths[record.thread] = origin + 1
        own = self._depths.get(record.thread, 0)
        return max((origin if record.event is Event.SENT else 0, own, 1)) - 1

    def _cause_of(self, record: AuditRecord) -> AuditRecord | None:
        """The end of the invocation that a record follows from, unless it was another outside message's."""
        cause = self._cause
        return cause if cause is not None and cause.request == record.request else None

    def _elapsed(self, record: AuditRecord) -> float | None:
        cause = self._cause_of(record)
        if cause is None or record.event not in _TIMED:
            return None
        if cause.took is not None:
            return cause.took
        began = self._sent.get(cause.delivery)
        return None if began is None else record.at - began


def read_trace(records: Iterable[AuditRecord]) -> Iterator[TracedHop]:
    """The records of one conversation with their places."""
    reading = TraceReader()
    return (reading.take(record) for record in records)


def line(hop: TracedHop, wording: DetailWording = WORDING) -> Line:
    """One record as one line: when, from whom to whom, what, and why not, as far as one line tells it."""
    record = hop.record
    style = _STYLES.get(record.event, Style.PLAIN)
    parts: list[Segment] = [(Style.DIM, f"{hop.elapsed:+9.3f}s  "), (Style.PLAIN, "  " * hop.depth)]
    if record.event is not Event.SENT:
        parts.append((style, f"{record.event} "))
    parts += _route(record)
    if record.root:
        parts += [(Style.PLAIN, "  "), (Style.PAYLOAD, record.root)]
    if hop.took is not None:
        parts.append((Style.DIM, f"  {hop.took * 1000:.0f} ms"))
    why = ": ".join(filter(None, (record.code, wording.first(record.detail))))
    if why:
        parts += [(Style.PLAIN, "  "), (_style_of_why(record), _cut(why))]
    return tuple(parts)


def detail_lines(hop: TracedHop, where: str = "", wording: DetailWording = WORDING) -> tuple[Line, ...]:
    """The lines of a record's detail after the first; the short form if ``where`` says what to type for the rest."""
    detail = hop.record.detail
    told = wording.lines(detail, where)[1:]
    return tuple([((Style.DIM, _margin(hop)), (Style.PLAIN, _cut(each))) for each in told])


def _margin(hop: TracedHop) -> str:
    return " " * 12 + "  " * (hop.depth + 1) + "| "


def _style_of_why(record: AuditRecord) -> Style:
    if isinstance(record.detail, HandoffAttempt):
        return Style.GOOD if record.detail.reason is None else Style.BAD
    return _STYLES.get(record.event, Style.PLAIN)


def _route(record: AuditRecord) -> Iterator[Segment]:
    if record.sender:
        yield Style.NAME, record.sender
        yield Style.DIM, " -> "
    # The target of a refused message is what its sender wrote, or nothing when it named none.
    yield Style.NAME, _cut(record.to or "?", 128)


def _cut(text: str, most: int = 500) -> str:
    return truncate_counting(text, most)


def tree(
    records: Sequence[AuditRecord], *, payloads: bool = False, wording: DetailWording = WORDING
) -> tuple[Line, ...]:
    """The conversation as indented trees of calls, one for each outside message, under a heading where it is known.

    One line for each record, or as many as its detail has, less those that the next one tells too: a message from
    outside before its delivery, a finished invocation before what it sent. With ``payloads``, what a message says
    stands below it.
    """
    lines: list[Line] = []
    request = ""
    for hop in by_request(visible_hops(records)):
        if hop.record.request not in {"", request}:
            request = hop.record.request
            lines.append(request_heading(hop.record))
        lines += todo_line(hop)
        lines.append(line(hop, wording))
        lines += detail_lines(hop, wording=wording)
        lines += message_lines(hop) if payloads and hop.record.message else ()
    return tuple(lines)


def by_request(hops: Sequence[TracedHop]) -> list[TracedHop]:
    """The hops by the outside message that led to them, in order; those of none stay behind the one before them."""
    found: dict[str, list[TracedHop]] = {}
    request = ""
    for hop in hops:
        request = hop.record.request or request
        found.setdefault(request, []).append(hop)
    return [hop for group in found.values() for hop in group]


def request_heading(record: AuditRecord) -> Line:
    """The line above what one outside message led to, whose first record this is."""
    came = datetime.fromtimestamp(record.at, UTC).strftime("%H:%M:%S")
    return ((Style.DIM, "request "), (Style.NAME, record.request[:8]), (Style.DIM, f" at {came} UTC"))


_ASKED = {"TodoRegistered": "TodoUntil", "TodoClosed": "TodoComplete"}


def todo_line(hop: TracedHop) -> tuple[Line, ...]:
    """The line of a message to ``system.todo``, which its answer stands for: the service answers at once."""
    record = hop.record
    asked = _ASKED.get(record.root) if record.event is Event.SENT and record.sender == TODO else None
    if asked is None:
        return ()
    sent = record._replace(sender=record.to, to=TODO, root=asked, detail=None)
    return (line(TracedHop(sent, hop.depth, hop.elapsed, hop.took)),)


def visible_hops(records: Sequence[AuditRecord]) -> list[TracedHop]:
    """The records of a conversation that its tree has, in order: all but those that the next one tells too."""
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


def message_lines(hop: TracedHop) -> tuple[Line, ...]:
    """The text of a message, by its line breaks."""
    text = _cut(payload(hop.record.message))
    return tuple([((Style.DIM, _margin(hop)), (Style.PLAIN, part)) for part in own_lines(text)])


def payload(message: bytes) -> str:
    """The payload of a message as text, or the whole of it where it is no envelope any more."""
    read = envelope.read_envelope(message)
    plain = message if isinstance(read, envelope.Malformed) else canonical(read.payload)
    return plain.decode("utf-8", "surrogateescape")


def tree_text(records: Sequence[AuditRecord], *, payloads: bool = False) -> str:
    """The tree as harmless text without colours."""
    return "\n".join(paint(each, colour=False) for each in tree(records, payloads=payloads))


def json_lines(records: Iterable[AuditRecord], wording: DetailWording = WORDING) -> Iterator[str]:
    """One JSON object for each record, as docs/records.md tells: its fields, the detail in words, and its depth."""
    for hop in read_trace(records):
        told = hop.record._asdict()
        told["began"] = hop.record.began
        told["message"] = hop.record.message.decode("utf-8", "backslashreplace")
        told["detail"] = DETAILS.plain(hop.record.detail)
        yield json.dumps({**told, "text": wording.whole(hop.record.detail), "depth": hop.depth})
