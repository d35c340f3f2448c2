"""Redacts values from the environment and from files in logs and messages."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

from agentserver.characters.printing import CUTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MARK = "[redacted]"

MIN_LENGTH = 4
"""Characters. A shorter value is not redacted: it would occur by chance in most texts."""

MIN_BEGINNING = 8
"""Characters of the beginning of a value that are hidden where a text was cut."""

MIN_LINE = 8
"""Characters of one line of a value that has several; shorter lines are hidden with the whole value only."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """Set of texts to redact. Neither ``repr`` nor ``str`` shows them."""

    needles: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, values: Iterable[str]) -> Secrets:
        """Collect values, their single lines, and their forms in Python, JSON, URLs and XML.

        Includes the password of a value that is a URL. Values under 4 characters and single lines under 8 are ignored.
        """
        forms = {form for value in values for form in _iter_forms(value) if len(form) >= MIN_LENGTH}
        return cls(tuple(sorted(forms)))

    def also(self, other: Secrets) -> Secrets:
        """Return the union with further secrets."""
        return Secrets(tuple(sorted({*self.needles, *other.needles})))

    def redact(self, text: str) -> str:
        """Replace every occurrence by ``[redacted]``.

        Overlapping occurrences become one. The beginning of a value, of 8 characters or more, counts where the text was
        truncated: at the end of a line or before an ellipsis.
        """
        if not self.needles:
            return text
        parts: list[str] = []
        done = 0
        for start, end in _merge_spans(self._iter_spans(text)):
            parts += (text[done:start], MARK)
            done = end
        return "".join((*parts, text[done:]))

    def _iter_spans(self, text: str) -> Iterator[tuple[int, int]]:
        for needle in self.needles:
            head = needle[:MIN_BEGINNING]
            start = text.find(head)
            while start >= 0:
                length = _count_common(text, start, needle)
                if length == len(needle) or _cut_at(text, start + length):
                    yield start, start + length
                start = text.find(head, start + 1)


def _count_common(text: str, start: int, needle: str) -> int:
    """Count the leading characters of a value that a text has at a position."""
    if text.startswith(needle, start):
        return len(needle)
    stretch = text[start : start + len(needle)]
    pairs = zip(needle, stretch, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), len(stretch))


def _cut_at(text: str, place: int) -> bool:
    """Return True when a text ends or was truncated at a position."""
    return place == len(text) or text.startswith(CUTS, place)


def _merge_spans(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Merge overlapping spans, in order."""
    current: tuple[int, int] | None = None
    for start, end in sorted(spans):
        if current is not None and start < current[1]:
            current = (current[0], max(current[1], end))
            continue
        if current is not None:
            yield current
        current = (start, end)
    if current is not None:
        yield current


def _extract_passwords(value: str) -> Iterator[str]:
    """Extract the password of a URL, raw and decoded."""
    try:
        password = urlsplit(value.strip()).password
    except ValueError:
        return
    if password:
        yield from (password, unquote(password))


def _iter_forms(value: str) -> Iterator[str]:
    lines = [line for line in map(str.strip, value.splitlines()) if len(line) >= MIN_LINE]
    for text in {value, value.strip(), *lines, *_extract_passwords(value)}:
        yield text
        yield repr(text)[1:-1]
        yield json.dumps(text)[1:-1]
        yield json.dumps(text, ensure_ascii=False)[1:-1]
        yield quote(text, safe="", errors="surrogateescape")
        yield quote_plus(text, errors="surrogateescape")
        yield _escape_xml(text, {})
        yield _escape_xml(text, {'"': "&quot;", "'": "&apos;"})
        yield _escape_xml(text, {"\r": "&#13;"})
        yield _escape_xml(text, {'"': "&quot;", "\r": "&#13;", "\n": "&#10;", "\t": "&#9;"})
        yield _escape_xml(text, {"\r": "&#xD;"})
        yield _escape_xml(text, {'"': "&quot;", "\r": "&#xD;", "\n": "&#xA;", "\t": "&#x9;"})


def _escape_xml(text: str, extra: Mapping[str, str]) -> str:
    """Escape the text for XML; ``xml.sax`` would import an HTTP client at each start."""
    forms = {"&": "&amp;", "<": "&lt;", ">": "&gt;", **extra}
    return text.translate({ord(character): form for character, form in forms.items()})


_STANDARD = frozenset(vars(logging.makeLogRecord({})))


class RedactingFilter(logging.Filter):
    """Logging filter that redacts secrets in message, traceback, stack and extra attributes.

    Belongs on every handler, not on a logger: the filters of a logger do not see the records of its children.
    """

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets

    def hide(self, secrets: Secrets) -> None:
        """Redact further secrets."""
        self._secrets = self._secrets.also(secrets)

    def redact(self, text: str) -> str:
        """Redact the current secrets in a text."""
        return self._secrets.redact(text)

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact the record in place; never drops one."""
        redact = self.redact
        record.msg, record.args = redact(_format_message(record)), None
        if record.exc_info:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
            record.exc_info = None
        record.exc_text = redact(record.exc_text) if record.exc_text else None
        record.stack_info = redact(record.stack_info) if record.stack_info else None
        for key in vars(record).keys() - _STANDARD:
            vars(record)[key] = self._redact_attribute(vars(record)[key])
        return True

    def _redact_attribute(self, value: Any) -> Any:
        """Redact an extra attribute; an object whose text has a secret becomes that text."""
        if isinstance(value, dict):
            return {self._redact_attribute(key): self._redact_attribute(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._redact_attribute(item) for item in value]
        text = value if isinstance(value, str) else f"{value!r} {value}"
        hidden = self._secrets.redact(text)
        return value if hidden == text else hidden


def _format_message(record: logging.LogRecord) -> str:
    """Format the text of a record; if the arguments do not fit, append them."""
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):
        return f"{record.msg} {record.args!r}"
