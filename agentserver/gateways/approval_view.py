"""A message that waits for an approval, shown whole and so that it can mean one thing only.

Owns the exact form of what a message says, and its pages. Pure: values in, lines out. A text stands in quotes, one
piece a line: the pieces, put together and unescaped, are the text. Bytes stand as the text that they are, or else as a
dump, under their length and digest. Refuses to know what was shown already.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from agentserver.characters.printing import CUT, format_amount
from agentserver.core.records.wording import WORDING
from agentserver.findings import answered_words, origin_words, redact_origins
from agentserver.gateways.console.view import ASKS, MARGIN, decoded
from agentserver.payload.names import local
from agentserver.trace.plain_values import entries
from agentserver.trace.terminal import Style, plain_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agentserver.core.state.approvals import Approval
    from agentserver.findings import Origins
    from agentserver.payload.codec import Codecs
    from agentserver.trace.plain_values import Entry
    from agentserver.trace.terminal import Line

PAGE = 40
"""Lines of a message that are shown at once."""

PIECE = 1_000
"""Characters of a text on one line; what is longer goes on in the next."""

VALUE = 120
"""Characters of a value that is named with its origin."""

ROW = 16
"""Bytes on one line of a dump."""


class Asking(NamedTuple):
    """A message that waits for an approval, as it is shown.

    Args:
        id: as much of the approval's id as names it.
        until: when it is refused, as a text.
    """

    id: str
    approval: Approval
    until: str


def head_line(one: Asking) -> Line:
    """Sender and receiver of a message."""
    return ((Style.WARN, f"approval {one.id}"), *_route(one))


def waiting_line(one: Asking) -> Line:
    """The same in a list."""
    return ((Style.WARN, one.id), *_route(one))


def _route(one: Asking) -> Line:
    delivery = one.approval.delivery
    return (
        (Style.NAME, f"  {delivery.sender} -> {delivery.to}"),
        (Style.PAYLOAD, f"  {local(delivery.root)}"),
        (Style.DIM, f"  in conversation {delivery.conversation}; refused at {one.until}"),
    )


def reasons(approval: Approval, more: str = "") -> Iterator[Line]:
    """The guard that asks, and its reason; briefly, where ``more`` says what to type for the rest."""
    for question in approval.questions:
        yield from (((Style.DIM, ASKS), (Style.PLAIN, line)) for line in WORDING.lines(question.why, more))


def said(approval: Approval, codecs: Codecs | None, redact: Callable[[str], str] = str) -> list[Line]:
    """All that the message says, and last its digest, to which an answer is bound.

    It stands in fields where ``codecs`` can read it, else as it is sent.
    """
    message = approval.delivery.message
    value = None if codecs is None else decoded(message, codecs)
    if value is None:
        lines = [_margined(each) for each in _quoted(redact(message.decode(errors="surrogateescape")))]
    else:
        lines = list(_fields(value, redact))
    return [*lines, ((Style.DIM, f"{MARGIN}sha-256 "), (Style.PLAIN, approval.digest))]


def traced(origins: Origins | None, redact: Callable[[str], str] = str) -> list[Line]:
    """The origins of what the message says, and the texts that it answers. A stranger's text is in quotes."""
    if origins is None:
        return []
    origins = redact_origins(origins, redact)
    lines: list[Line] = [_heading("where it comes from")]
    for one in origins.values:
        named = (Style.NAME, f"{one.argument or 'value'}: "), (Style.PLAIN, f'"{_one_line(one.value)}"')
        lines.append(_margined((*named, (Style.DIM, f" {origin_words(one)}")), "  "))
    if origins.more:
        lines.append(_margined(((Style.DIM, f"and {format_amount(origins.more, 'argument')} more"),), "  "))
    for text in origins.answered:
        lines.append(_heading(answered_words(text)))
        lines += [each for one in text.texts for each in _texts(one.field, one.text)]
    if origins.request:
        lines += [_heading("the request"), *_texts("", origins.request)]
    return lines


def _heading(words: str) -> Line:
    return ((Style.DIM, MARGIN), (Style.WARN, words))


def _texts(field: str, text: str) -> Iterator[Line]:
    if field:
        yield _margined(((Style.NAME, f"{field}:"),), "  ")
    yield from (_margined(part, "    ") for part in _quoted(text))


def _one_line(value: str) -> str:
    """A value between quotes on one line. Its own quotes are single ones, since words of ours follow it."""
    shown = " ".join(value.split()).replace('"', "'")
    return shown if len(shown) <= VALUE else f"{shown[:VALUE]}{CUT}"


def pages(lines: Sequence[Line]) -> list[Sequence[Line]]:
    """The lines by pages."""
    return [lines[start : start + PAGE] for start in range(0, len(lines), PAGE)]


def _fields(value: object, redact: Callable[[str], str]) -> Iterator[Line]:
    for entry in entries(value):
        indent = "  " * entry.depth
        first, *more = _told(entry, redact)
        yield (
            (Style.DIM, MARGIN),
            (Style.NAME, f"{indent}{redact(entry.name)}:"),
            *(((Style.PLAIN, " "), *first) if first else ()),
        )
        yield from (_margined(part, f"{indent}  ") for part in more)


def _told(entry: Entry, redact: Callable[[str], str]) -> Iterator[Line]:
    """The lines of one value."""
    if isinstance(entry.held, bytes):
        yield plain_line(f"{len(entry.held)} bytes, sha-256 {sha256(entry.held).hexdigest()}")
        yield from _bytes(entry.held, redact)
    elif isinstance(entry.held, str):
        yield from _quoted(redact(str(entry.text)))
    else:
        yield plain_line(redact(entry.text)) if entry.text else ()


def _bytes(held: bytes, redact: Callable[[str], str]) -> Iterator[Line]:
    try:
        yield from _quoted(redact(held.decode()))
    except UnicodeDecodeError:
        texts = (held.decode("latin-1"), held.decode("utf-8", "surrogateescape"))
        secret = any(redact(text) != text for text in texts)
        yield from [plain_line("not shown, for it holds a secret")] if secret else _dump(held)


def _dump(held: bytes) -> Iterator[Line]:
    for start in range(0, len(held), ROW):
        row = held[start : start + ROW]
        signs = "".join(chr(each) if chr(each).isascii() and chr(each).isprintable() else "." for each in row)
        yield plain_line(f"{start:08x}  {row.hex(' '):{3 * ROW}} |{signs}|")


def _quoted(text: str) -> Iterator[Line]:
    """A text in quotes, a piece for each of its lines, which ends with its break. The quotes are no part of it."""
    *lines, last = text.split("\n")
    for line in (*(f"{each}\n" for each in lines), last):
        for start in range(0, len(line), PIECE):
            yield ((Style.DIM, '"'), (Style.PLAIN, line[start : start + PIECE]), (Style.DIM, '"'))
    if not text:
        yield plain_line('""')


def _margined(line: Line, indent: str = "") -> Line:
    return ((Style.DIM, f"{MARGIN}{indent}"), *line)
