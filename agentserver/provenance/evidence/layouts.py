"""Parses texts in a declared layout: YAML, JSON lines, lines of ``key: value``, and tables.

A text must be in the layout as a whole. Work is bounded by ``LONGEST``; references are never resolved or expanded.
Whether the author of the layout escaped foreign content is the declaration's responsibility.
"""

from __future__ import annotations

import csv
import json
import re
from datetime import datetime
from enum import StrEnum
from io import StringIO
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST: Final = 1 << 18
"""Characters of a text that is parsed at most."""

PARTS: Final = 20_000
"""Scalars of one text at most."""

DEEP: Final = 20
"""Depth of one text's structure at most."""

Laid: TypeAlias = "dict[str, Any] | list[Any]"


class TextLayout(StrEnum):
    """Known layouts of texts.

    ``JSON`` is one value, or one on each line. ``LINES`` are lines of ``key: value`` or ``key = value``, with an
    empty line between records. ``TABLE`` has a header line, and cells between bars, tabs or commas.
    """

    JSON = "json"
    YAML = "yaml"
    LINES = "lines"
    TABLE = "table"


_NUMBER: Final = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?")
_MOMENT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?")
_WORDS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True"), True),
    **dict.fromkeys(("false", "False"), False),
}
_LINE: Final = re.compile(r"(?:[-*] )?([^\W\d][\w .()/-]{0,63}?)[ \t]*[:=](?:[ \t]+(.*))?")
_RULE: Final = re.compile(r"[|+ \t:=]*+-[|+ \t:=-]*+")
_BAR: Final = re.compile(r"(?<!\\)\|")


class _NoLayout(Exception):  # noqa: N818  a finding, not an error
    """Signal that a text is not in the layout or exceeds a limit."""


def parse_layout(text: str, layout: TextLayout) -> Laid | None:
    """Parse a text in a layout; ``None`` if the whole text is not in it."""
    if not text.strip() or len(text) > LONGEST:
        return None
    try:
        return _READERS[layout](text) or None
    except _NoLayout:
        return None


def _parse_json(text: str) -> Laid:
    body = text.strip()
    try:
        return _make_structure(json.loads(body))
    except (ValueError, RecursionError):
        pass
    lines = [line for line in _split(body) if line.strip()]
    try:
        return [_make_structure(json.loads(line)) for line in lines]
    except (ValueError, RecursionError):
        raise _NoLayout from None


def _make_structure(value: Any) -> Laid:
    if isinstance(value, dict | list):
        return value
    raise _NoLayout


def _parse_yaml(text: str) -> Laid:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    tree = _Tree()
    try:
        for event in yaml.parse(text, Loader=loader):
            tree.take(event)
    except (yaml.YAMLError, UnicodeError, ValueError):
        raise _NoLayout from None
    return _make_structure(tree.root)


class _Tree:
    """Builder of a YAML document's structure from events, which refuses anchors, tags and duplicate keys."""

    def __init__(self) -> None:
        self.root: Any = None
        self._open: list[tuple[Any, list[str]]] = []
        self._count = 0

    def take(self, event: Any) -> None:
        kind = type(event).__name__
        if getattr(event, "anchor", None) or getattr(event, "tag", None):
            raise _NoLayout
        if kind == "ScalarEvent":
            self._add(event.value, plain=event.implicit[0])
        elif kind in {"MappingStartEvent", "SequenceStartEvent"}:
            container: Any = {} if kind == "MappingStartEvent" else []
            self._put(container)
            self._open.append((container, []))
        elif kind in {"MappingEndEvent", "SequenceEndEvent"}:
            self._open.pop()
        elif kind == "DocumentStartEvent" and self.root is not None:
            raise _NoLayout

    def _add(self, body: str, *, plain: bool) -> None:
        holder, keys = self._open[-1] if self._open else (None, [])
        if isinstance(holder, dict) and not keys:
            if body in holder:
                raise _NoLayout
            keys.append(body)
        else:
            self._put(_parse_scalar(body) if plain else body)

    def _put(self, value: Any) -> None:
        self._count += 1
        if self._count > PARTS or len(self._open) > DEEP:
            raise _NoLayout
        if not self._open:
            self.root = value
            return
        holder, keys = self._open[-1]
        if isinstance(holder, list):
            holder.append(value)
        elif keys:
            holder[keys.pop()] = value
        else:
            raise _NoLayout  # a structured key


def _parse_scalar(body: str) -> Any:
    """Parse a plain word as a number, moment, boolean or null. Numbers are never rounded."""
    if body in _WORDS:
        return _WORDS[body]
    try:
        number = _NUMBER.fullmatch(body) and (float(body) if "." in body else int(body))
        moment = _MOMENT.fullmatch(body) and datetime.fromisoformat(body)
    except ValueError:
        return body
    return number if number is not None and str(number) == body else moment or body


def _parse_lines(text: str) -> Laid:
    records: list[dict[str, Any]] = [{}]
    for line in _split(text):
        if not line.strip():
            if records[-1]:
                records.append({})
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise _NoLayout
        _add_value(records[-1], match[1], _parse_scalar((match[2] or "").strip()))
    found = [record for record in records if record]
    if sum(map(len, found)) < 2:  # noqa: PLR2004  one line with a colon is a sentence
        raise _NoLayout
    return found if len(found) > 1 else found[0]


def _add_value(record: dict[str, Any], key: str, value: Any) -> None:
    """Add a value to a record; repeated keys collect a list."""
    if key in record:
        known = record[key]
        record[key] = [*known, value] if isinstance(known, list) else [known, value]
    else:
        record[key] = value


def _parse_table(text: str) -> Laid:
    rows = [*_iter_rows(text)]
    head, *body = rows or [[]]
    width = len(head)
    if width < 2 or len({*head}) < width or not all(head):  # noqa: PLR2004  one column is a list of lines
        raise _NoLayout
    if any(len(row) != width for row in body) or width * len(body) > PARTS:
        raise _NoLayout
    return [dict(zip(head, map(_parse_scalar, row), strict=True)) for row in body]


def _iter_rows(text: str) -> Iterator[list[str]]:
    lines = [line for line in _split(text) if line.strip()]
    if all("|" in line or _RULE.fullmatch(line) for line in lines):
        for line in lines:
            if not _RULE.fullmatch(line):
                cells = _BAR.split(line.strip().removeprefix("|").removesuffix("|"))
                yield [cell.strip().replace("\\|", "|") for cell in cells]
        return
    mark = "\t" if "\t" in lines[0] else ","
    try:
        for row in csv.reader(StringIO(text, newline=""), delimiter=mark, strict=True):
            if row:
                yield [cell.strip() for cell in row]
    except csv.Error:
        raise _NoLayout from None


def _split(text: str) -> list[str]:
    """Split a text into lines at line feeds only, because writers leave other line ends in values."""
    lines = text.replace("\r\n", "\n").split("\n")
    if len(lines) > PARTS or "\r" in text.replace("\r\n", ""):
        raise _NoLayout
    return lines


_READERS: Final = {
    TextLayout.JSON: _parse_json,
    TextLayout.YAML: _parse_yaml,
    TextLayout.LINES: _parse_lines,
    TextLayout.TABLE: _parse_table,
}
