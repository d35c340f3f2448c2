"""Payloads as fields for the live view, and the origin of each value. Pure."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agentserver.characters.printing import escape_unseen
from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.core.messages import SYSTEM
from agentserver.core.records.audit import Event
from agentserver.findings import Origins, describe_origin_words, redact_origins
from agentserver.history.replay import Deviation, decide_again
from agentserver.trace import text
from agentserver.trace.comparison import list_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentserver.core.encoding.history import RecordedConversation
    from agentserver.core.guard import Rules
    from agentserver.core.records.audit import AuditRecord
    from agentserver.findings import ValueOrigin
    from agentserver.trace.comparison import Field
    from agentserver.trace.redact import Redaction

FIELDS: Final = 500
"""Fields of a message that are shown."""

NAME: Final = 128
"""Characters of a field's name that are shown."""

STEPS: Final = 1000
"""Steps of a conversation that are decided again to find the origins of a message's values."""

AROUND: Final = 120
"""Characters of a source before and after a value that are shown."""

MARKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "request": "request",
        "operator": "operator",
        "directory": "directory",
        "record": "record",
        "stranger": "source",
        "nothing": "computed",
        "unknown": "unknown",
    }
)
"""The short word for each kind of origin."""


class Author(NamedTuple):
    """Author of a message, as far as the origins of its values depend on it.

    Args:
        name: of the listener; empty for the principal or the server.
        tool: whether it addresses no other listener, so that it brings in what nothing else holds.
        asks: whether it is the principal.
    """

    name: str
    tool: bool
    asks: bool


def find_author(record: AuditRecord, rules: Rules) -> Author:
    """Find the author of a message."""
    known = rules.blueprint.listeners.get(record.sender)
    if known is None:
        return Author("", tool=False, asks=record.sender != SYSTEM)
    return Author(known.name, tool=not known.peers, asks=False)


def find_trace_origins(recorded: RecordedConversation, rules: Rules, delivery: str) -> Origins | None:
    """Find the origins of a sent message's values, as known when it was sent.

    The steps up to it are decided again. Returns None if no guard traces values, if the present rules decide
    otherwise, if there are more than ``STEPS`` of them, or if no message was sent by this id.
    """
    conversation = recorded.beginning.conversation()
    for step in recorded.steps[:STEPS]:
        try:
            decided = decide_again(recorded, step, conversation, rules)
        except UnreadableError:
            return None
        if isinstance(decided, Deviation):
            return None
        conversation = decided.conversation
        if any(one.delivery == delivery and one.message for one in recorded.records_of(step)):
            message = recorded.deliveries.get(delivery)
            return None if message is None else rules.origins(conversation, message)
    return None


class Tracing(NamedTuple):
    """Origins of a message's values, and its author."""

    origins: Origins
    author: Author


def find_trace_message(recorded: RecordedConversation, rules: Rules, record: AuditRecord) -> Tracing | None:
    """Find the origins of a message's values; None for a message of the server, or if they are not known."""
    author = find_author(record, rules)
    if author.asks:
        return Tracing(Origins("", (), ()), author)
    if not author.name or record.event is not Event.SENT:
        return None
    origins = find_trace_origins(recorded, rules, record.delivery)
    return None if origins is None else Tracing(origins, author)


def describe_message(
    records: Sequence[AuditRecord], number: int, traced: Tracing | None, redaction: Redaction
) -> dict[str, Any]:
    """Describe a message as fields, each with the origins of its value.

    Args:
        records: of its conversation, redacted.
        number: of its record among them.
        traced: origins of its values; None if they are not known, or not for this reader.
        redaction: removes secrets.
    """
    message = records[number].message
    fields = list_fields(message)
    if fields is None:
        return {"said": split_lines(text.format_payload(message)), "fields": [], "more": 0}
    if traced is not None:
        traced = traced._replace(origins=redact_origins(traced.origins, redaction.secrets))
    sources = {one.delivery: at for at, one in reversed(list(enumerate(records))) if one.message}
    shown = [
        {
            "depth": one.depth,
            "name": escape_unseen(one.name[:NAME]),
            "value": None if one.value is None else split_lines(one.value),
            "origins": [] if traced is None else _describe_origins(one, traced, records, sources),
        }
        for one in fields[:FIELDS]
    ]
    return {"said": [], "fields": shown, "more": max(0, len(fields) - FIELDS)}


def split_lines(text: str) -> list[str]:
    """Split a text at line breaks, with unseen characters escaped."""
    return [escape_unseen(each) for each in text.replace("\t", "    ").split("\n")]


def _describe_origins(
    field: Field, traced: Tracing, records: Sequence[AuditRecord], sources: Mapping[str, int]
) -> list[dict[str, Any]]:
    if not field.value or not field.value.strip():
        return []
    if traced.author.asks:
        return [_mark("request", "request", "the principal says it")]
    at = [one for one in traced.origins.values if one.argument == field.path]
    found = [one for one in at if one.value.strip() and one.value in field.value]
    return [_describe_origin(one, traced, records, sources) for one in found]


def _mark(
    mark: str, kind: str, text: str, number: int | None = None, quote: dict[str, str] | None = None
) -> dict[str, Any]:
    return {"mark": mark, "kind": kind, "words": escape_unseen(text), "from": number, "quote": quote}


def _describe_origin(
    one: ValueOrigin, traced: Tracing, records: Sequence[AuditRecord], sources: Mapping[str, int]
) -> dict[str, Any]:
    author, text = traced.author, describe_origin_words(one)
    if one.kind == "nothing":
        mark = f"from {author.name}" if author.tool else MARKS[one.kind]
        return _mark(mark, one.kind, f"{author.name} wrote it: {text}")
    number = sources.get(one.trace) if one.trace else None
    quote = None
    if one.kind == "request":
        quote = find_quotation(one.value, [traced.origins.request])
    elif number is not None:
        fields = list_fields(records[number].message) or ()
        values = [each.value or "" for each in fields if not one.field or each.path == one.field]
        quote = find_quotation(one.value, values)
    return _mark(MARKS[one.kind], one.kind, text, number, quote)


def find_quotation(value: str, texts: Iterable[str]) -> dict[str, str] | None:
    """Find a value in the first text that holds it, regardless of case and spaces; None without one."""
    words = value.split()
    if not words:
        return None
    pattern = re.compile(r"\s+".join(map(re.escape, words)), re.IGNORECASE)
    for each in texts:
        found = pattern.search(each)
        if found is not None:
            begin, end = max(0, found.start() - AROUND), found.end() + AROUND
            return {
                "before": _show(("…" if begin else "") + each[begin : found.start()]),
                "match": _show(found[0]),
                "after": _show(each[found.end() : end] + ("…" if end < len(each) else "")),
            }
    return None


def _show(text: str) -> str:
    return "\n".join(split_lines(text))
