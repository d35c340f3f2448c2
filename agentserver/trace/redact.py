"""Redacts records for readers who may not see everything. Pure.

Removes message content and the quotations of it in details. Sender, receiver, time and reason remain.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import TYPE_CHECKING

from lxml import etree

from agentserver.core.records.audit import Event
from agentserver.core.records.details import GuardAsks, GuardQuestions, list_words, map_texts
from agentserver.findings import Findings
from agentserver.payload.names import local
from agentserver.wire import envelope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from agentserver.core.blueprint import Blueprint
    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.records.details import Detail
    from agentserver.findings import Delegation, EndorsementTerms, FindingFacts, RecordText

MARK = "[redacted]"

EVERY = "*"
"""The field pattern that removes the whole payload."""

GRAM = 8
"""Length of the pieces of a removed value that are recognised as quotations in a detail."""

SHORTEST = 4
"""Shortest whole value recognised as a quotation; a shorter one would occur by chance."""

_BOUNDS = envelope.Bounds(bytes=1 << 30)


@dataclass(frozen=True, slots=True)
class Redaction:
    """Rules for removing parts of records.

    Args:
        fields: patterns (``*``, ``?``, ``[...]``) of the local names of payload elements and attributes whose content
            is removed. ``*`` leaves only the length of a message and its SHA-256.
        secrets: removes secret values from a text.
        names: the receivers and payloads that may be shown for a refused message, whose sender could write anything
            there; None shows all.
    """

    fields: tuple[str, ...] = ()
    secrets: Callable[[str], str] = str
    names: frozenset[str] | None = None

    def name(self, event: Event, name: str) -> str:
        """Return the name of a receiver or payload to show for an event; empty if its sender made it up."""
        known = self.names is None or event is not Event.REFUSED or name in self.names
        return self.secrets(name) if known else ""

    def covers(self, name: str) -> bool:
        """Check whether a field's content is removed."""
        return any(fnmatchcase(name, pattern) for pattern in self.fields)


def collect_names(blueprint: Blueprint) -> frozenset[str]:
    """Collect the names of an organism's listeners and payloads."""
    payloads = (local(root) for roots in blueprint.roots.values() for root in roots)
    return frozenset((*blueprint.listeners, *payloads))


def redact_records(records: Sequence[AuditRecord], redaction: Redaction) -> tuple[AuditRecord, ...]:
    """Redact the records. Their messages may no longer be XML.

    A finding about a removed field, or about text from one, loses its text. Other details lose quotations of removed
    content, found as pieces of GRAM or more characters regardless of case. A message that cannot be parsed is removed
    completely.
    """
    removed: list[str] = []
    messages = [_render_message(record.message, redaction, removed) for record in records]
    details = [_redact_detail(record.detail, redaction) for record in records]
    texts = [text for detail in details if removed for text in list_words(detail)]
    quoted = _find_quotations(texts, removed) if removed else set()

    def clean(text: str) -> str:
        """Remove secrets first: a quotation may be part of one, and the remainder would not be recognised."""
        return _mask(redaction.secrets(text), quoted)

    return tuple(
        [
            _replace_texts(record, redaction, None if detail is None else map_texts(detail, clean), text)
            for record, detail, text in zip(records, details, messages, strict=True)
        ]
    )


def _replace_texts(
    record: AuditRecord, redaction: Redaction, detail: Detail | None, text: str
) -> AuditRecord:
    """Return the record with another detail and message; the same one if nothing changes, as in most."""
    sender = redaction.secrets(record.sender)
    to, root = redaction.name(record.event, record.to), redaction.name(record.event, record.root)
    message = redaction.secrets(text).encode("utf-8", "backslashreplace")
    unchanged = detail is None and message == record.message
    if unchanged and (sender, to, root) == (record.sender, record.to, record.root):
        return record
    return record._replace(sender=sender, to=to, root=root, detail=detail, message=message)


def _redact_detail(detail: Detail | None, redaction: Redaction) -> Detail | None:
    """Remove the text of covered fields from a detail."""
    match detail:
        case Findings():
            found = tuple([_redact_finding(one, redaction) for one in detail.findings])
            return detail._replace(
                findings=found,
                delegation=_find_delegation(detail.delegation, redaction),
                endorsement=_redact_terms(detail.endorsement, redaction),
            )
        case GuardQuestions():
            asks = [
                GuardAsks(one.guard, _redact_detail(one.reason, redaction) or one.reason)
                for one in detail.questions
            ]
            return detail._replace(questions=tuple(asks))
        case _:
            return detail


def _find_delegation(record: Delegation | None, redaction: Redaction) -> Delegation | None:
    if record is None:
        return None
    return record._replace(texts=tuple([_redact_text(one, redaction) for one in record.texts]))


def _redact_text(one: RecordText, redaction: Redaction) -> RecordText:
    covered = any(map(redaction.covers, map(_take_last, (one.field, *one.arguments))))
    return one._replace(text=MARK) if covered else one


def _redact_terms(terms: EndorsementTerms | None, redaction: Redaction) -> EndorsementTerms | None:
    """Mask the values of covered arguments and fields in the terms of an endorsement."""
    if terms is None:
        return None
    pairs = zip(terms.arguments, terms.fields, strict=True)
    covered = [any(map(redaction.covers, map(_take_last, pair))) for pair in pairs]
    rows = [
        row._replace(
            values=tuple([MARK if hide else one for one, hide in zip(row.values, covered, strict=True)])
        )
        for row in terms.rows
    ]
    fixed = [
        one._replace(value=MARK) if redaction.covers(_take_last(one.argument)) else one for one in terms.fixed
    ]
    records = tuple([_redact_text(one, redaction) for one in terms.records])
    return terms._replace(rows=tuple(rows), fixed=tuple(fixed), records=records)


def _redact_finding(one: FindingFacts, redaction: Redaction) -> FindingFacts:
    fields = [one.argument] if one.trail is None else [one.argument, one.trail.field]
    if not any(redaction.covers(_take_last(field)) for field in fields if field):
        return one
    trail = None if one.trail is None else one.trail._replace(excerpt=MARK, quoted=MARK)
    return one._replace(value=MARK, detail=MARK if one.detail else "", trail=trail)


def _take_last(path: str) -> str:
    """Take the local name of the field at the end of a path, without an index."""
    return path.rpartition(".")[2].partition("[")[0]


def _render_message(data: bytes, redaction: Redaction, removed: list[str]) -> str:
    """Render the message without covered content, which is added to ``removed``."""
    if not data or not redaction.fields:
        return data.decode("utf-8", "backslashreplace")
    read = envelope.read_envelope(data, _BOUNDS)
    if isinstance(read, envelope.Malformed):
        return _summarize(data)
    if EVERY in redaction.fields:
        removed += _iter_content(read.payload)
        return _summarize(data)
    covered = [each for each in read.payload.iter(etree.Element) if redaction.covers(local(str(each.tag)))]
    for element in read.payload.iter(etree.Element):
        for name, value in element.attrib.items():
            if redaction.covers(local(str(name))):
                removed.append(str(value))
                element.set(name, MARK)
    for element in covered:
        removed += _iter_content(element)
        tail = element.tail
        element.clear()
        element.text, element.tail = MARK, tail
    return etree.tostring(read.payload.getroottree(), encoding="unicode")


def _summarize(data: bytes) -> str:
    return f"[redacted: {len(data)} bytes, sha256 {sha256(data).hexdigest()}]"


def _iter_content(element: etree._Element) -> Iterator[str]:
    """Yield every text and attribute inside an element."""
    for each in element.iter(etree.Element):
        yield from map(str, each.attrib.values())
    yield from map(str, element.itertext())


def find_removed(records: Iterable[AuditRecord], redaction: Redaction) -> list[str]:
    """List the content that a redaction removes from messages."""
    removed: list[str] = []
    for record in records:
        _render_message(record.message, redaction, removed)
    return removed


def mask_quotations(texts: Iterable[str], removed: Iterable[str]) -> Callable[[str], str]:
    """Return a function that masks, in any of these texts, quotations of removed content."""
    quoted = _find_quotations(texts, removed)
    return lambda text: _mask(text, quoted)


# Quotations. Pieces of the details, which are few and bounded, are looked up in the payloads, so the work is one pass
# and the memory does not grow with them.


def _find_quotations(details: Iterable[str], removed: Iterable[str]) -> set[str]:
    """Find the pieces of the details that also occur in removed content."""
    pieces = {piece for detail in details for size in _SIZES for piece in _iter_pieces(_fold(detail), size)}
    return {piece for value in removed for piece in _iter_needles(_fold(value)) if piece in pieces}


_SIZES = range(SHORTEST, GRAM + 1)


def _iter_needles(value: str) -> Iterator[str]:
    if SHORTEST <= len(whole := value.strip()) < GRAM:
        yield whole
    yield from _iter_pieces(value, GRAM)


def _iter_pieces(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(len(text) - size + 1))


def _fold(text: str) -> str:
    """Lower the case without changing the length."""
    return "".join(small if len(small := each.lower()) == 1 else each for each in text)


def _mask(detail: str, quoted: set[str]) -> str:
    """Replace quotations in the detail by a mark."""
    if not quoted:
        return detail
    folded = _fold(detail)
    hidden = [False] * len(detail)
    for size in _SIZES:
        for start, piece in enumerate(_iter_pieces(folded, size)):
            if piece in quoted:
                hidden[start : start + size] = [True] * size
    return "".join(_mark(detail, hidden))


def _mark(detail: str, hidden: Sequence[bool]) -> Iterator[str]:
    before = False
    for character, hide in zip(detail, hidden, strict=True):
        if not hide:
            yield character
        elif not before:
            yield MARK
        before = hide
