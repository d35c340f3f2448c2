"""The text of a message that waits for an approval, complete and unambiguous.

A text is quoted, one piece a line: the pieces, joined and unescaped, are the text. Bytes are shown as text if they are
text, or else as a dump, after their length and digest. Pure.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from agentserver.characters.printing import CUT, format_amount
from agentserver.core.records.wording import WORDING
from agentserver.findings import describe_origin_words, redact_origins, write_answered_words
from agentserver.gateways.console.view import ASKS, MARGIN, decode_payload
from agentserver.payload.names import local
from agentserver.trace.terminal import Style, make_plain_line
from agentserver.trace.text import iter_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agentserver.core.state.approvals import Approval
    from agentserver.findings import Origins
    from agentserver.payload.codec import Codecs
    from agentserver.trace.terminal import Line
    from agentserver.trace.text import Entry

PAGE = 40
"""Lines of a message that are shown at once."""

PIECE = 1_000
"""Characters of a text on one line; a longer one continues on the next."""

VALUE = 120
"""Characters of a value that is named with its origin."""

ROW = 16
"""Bytes on one line of a dump."""


class ShownMessage(NamedTuple):
    """A message that waits for an approval, as it is shown.

    Args:
        id: as much of the approval's id as names it.
        until: when it is refused, as a text.
    """

    id: str
    approval: Approval
    until: str


def head_line(one: ShownMessage) -> Line:
    """Format the sender and receiver of a message."""
    return ((Style.WARN, f"approval {one.id}"), *_route(one))


def format_waiting_line(one: ShownMessage) -> Line:
    """Format an approval as one line of a list."""
    return ((Style.WARN, one.id), *_route(one))


def _route(one: ShownMessage) -> Line:
    delivery = one.approval.delivery
    return (
        (Style.NAME, f"  {delivery.sender} -> {delivery.to}"),
        (Style.PAYLOAD, f"  {local(delivery.root)}"),
        (Style.DIM, f"  in conversation {delivery.conversation}; refused at {one.until}"),
    )


def format_reasons(approval: Approval, command: str = "") -> Iterator[Line]:
    """Format the guards that ask, with their reasons; in brief, where ``command`` is the command for the rest."""
    for question in approval.questions:
        yield from (
            ((Style.DIM, ASKS), (Style.PLAIN, line))
            for line in WORDING.describe_lines(question.reason, command)
        )


def format_message_lines(
    approval: Approval, codecs: Codecs | None, redact: Callable[[str], str] = str
) -> list[Line]:
    """Format the whole message, then its digest, to which an answer is bound.

    Fields are shown where ``codecs`` can read the message, else its markup.
    """
    message = approval.delivery.message
    value = None if codecs is None else decode_payload(message, codecs)
    if value is None:
        lines = [_with_margin(each) for each in _quote(redact(message.decode(errors="surrogateescape")))]
    else:
        lines = list(_iter_fields(value, redact))
    return [*lines, ((Style.DIM, f"{MARGIN}sha-256 "), (Style.PLAIN, approval.digest))]


def format_origin_lines(origins: Origins | None, redact: Callable[[str], str] = str) -> list[Line]:
    """Format the origins of the message's values, and the texts that it answers. Untrusted text is quoted."""
    if origins is None:
        return []
    origins = redact_origins(origins, redact)
    lines: list[Line] = [_format_head("where it comes from")]
    for one in origins.values:
        named = (Style.NAME, f"{one.argument or 'value'}: "), (Style.PLAIN, f'"{_quote_one_line(one.value)}"')
        lines.append(_with_margin((*named, (Style.DIM, f" {describe_origin_words(one)}")), "  "))
    if origins.more:
        lines.append(
            _with_margin(((Style.DIM, f"and {format_amount(origins.more, 'argument')} more"),), "  ")
        )
    for text in origins.answered:
        lines.append(_format_head(write_answered_words(text)))
        lines += [each for one in text.texts for each in _iter_texts(one.field, one.text)]
    if origins.request:
        lines += [_format_head("the request"), *_iter_texts("", origins.request)]
    return lines


def _format_head(words: str) -> Line:
    return ((Style.DIM, MARGIN), (Style.WARN, words))


def _iter_texts(field: str, text: str) -> Iterator[Line]:
    if field:
        yield _with_margin(((Style.NAME, f"{field}:"),), "  ")
    yield from (_with_margin(part, "    ") for part in _quote(text))


def _quote_one_line(value: str) -> str:
    """Quote a value on one line. Inner quotes become single ones, since our own text follows."""
    line = " ".join(value.split()).replace('"', "'")
    return line if len(line) <= VALUE else f"{line[:VALUE]}{CUT}"


def split_pages(lines: Sequence[Line]) -> list[Sequence[Line]]:
    """Split lines into pages."""
    return [lines[start : start + PAGE] for start in range(0, len(lines), PAGE)]


def _iter_fields(value: object, redact: Callable[[str], str]) -> Iterator[Line]:
    for entry in iter_entries(value):
        indent = "  " * entry.depth
        first, *rest = _format_value_lines(entry, redact)
        yield (
            (Style.DIM, MARGIN),
            (Style.NAME, f"{indent}{redact(entry.name)}:"),
            *(((Style.PLAIN, " "), *first) if first else ()),
        )
        yield from (_with_margin(part, f"{indent}  ") for part in rest)


def _format_value_lines(entry: Entry, redact: Callable[[str], str]) -> Iterator[Line]:
    """Format the lines of one value."""
    if isinstance(entry.held, bytes):
        yield make_plain_line(f"{len(entry.held)} bytes, sha-256 {sha256(entry.held).hexdigest()}")
        yield from _iter_bytes(entry.held, redact)
    elif isinstance(entry.held, str):
        yield from _quote(redact(str(entry.text)))
    else:
        yield make_plain_line(redact(entry.text)) if entry.text else ()


def _iter_bytes(held: bytes, redact: Callable[[str], str]) -> Iterator[Line]:
    try:
        yield from _quote(redact(held.decode()))
    except UnicodeDecodeError:
        texts = (held.decode("latin-1"), held.decode("utf-8", "surrogateescape"))
        secret = any(redact(text) != text for text in texts)
        yield from [make_plain_line("not shown, for it holds a secret")] if secret else _dump(held)


def _dump(held: bytes) -> Iterator[Line]:
    for start in range(0, len(held), ROW):
        row = held[start : start + ROW]
        signs = "".join(chr(each) if chr(each).isascii() and chr(each).isprintable() else "." for each in row)
        yield make_plain_line(f"{start:08x}  {row.hex(' '):{3 * ROW}} |{signs}|")


def _quote(text: str) -> Iterator[Line]:
    """Quote a text, one piece for each of its lines with its line break. The quotes are not part of it."""
    *lines, last = text.split("\n")
    for line in (*(f"{each}\n" for each in lines), last):
        for start in range(0, len(line), PIECE):
            yield ((Style.DIM, '"'), (Style.PLAIN, line[start : start + PIECE]), (Style.DIM, '"'))
    if not text:
        yield make_plain_line('""')


def _with_margin(line: Line, indent: str = "") -> Line:
    return ((Style.DIM, f"{MARGIN}{indent}"), *line)
