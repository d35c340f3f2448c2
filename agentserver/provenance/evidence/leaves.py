"""Flattens structured values into typed scalars with field paths, and compares scalars by value.

``1,000.00`` is ``1000`` and ``January 2nd 2025`` is ``2025-01-02``. Parts beyond ``DEPTH`` or ``COUNT`` become one
text and are never dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from agentserver.provenance.evidence.labels import Leaf, Scalar, Standing
from agentserver.provenance.evidence.objects import ObjectData, simplify_object
from agentserver.provenance.evidence.shapes import draw_shape, may_have_date

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPTH: Final = 24
"""Depth to which a structure is flattened."""

COUNT: Final = 50_000
"""Scalars of one value that stay separate."""

ATTRIBUTES: Final = 1000
"""Scalars of an object that is no container; one with more counts as unread."""

_ADJUSTED: Final = 10_000
"""Decimal places on either side of the point up to which numbers are written out for comparison."""

_DIGITS: Final = re.compile(r"\d(?:\d{0,2}(?:[, _]\d{3}){1,9}|\d{0,29})(?:\.\d{1,30})?")
"""Pattern of a number without its sign. Patterns that begin with a digit are searched for fast."""
_NUMBER: Final = re.compile(rf"[+-]?{_DIGITS.pattern}")
_DIGIT: Final = re.compile(r"\d")
_ISO: Final = re.compile(r"(\d\d{3})-(\d{1,2})-(\d{1,2})")
WRITTEN: Final = re.compile(
    r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})"
    r"(?:(?:[T,\s]|\s+at)\s?\d{1,2}(?:[:.]?\d{2}){0,2}(?:[.,]\d{1,9})?\s?(?:[ap]\.?m\.?)?"
    r"\s?(?:Z|UTC|GMT)?\s?(?:[+-]\d{2}(?::?\d{2})?)?(?:\[[\w/+-]{1,40}\])?)?",
    re.IGNORECASE,
)
"""Day in digits that begins with its year, with or without a time, and with nothing else behind it."""
_PARTED: Final = re.compile(r"\d([-/.])\d{1,2}\1\d")
"""Pattern within each date in digits."""
_MONTHS: Final = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_MONTH: Final = "|".join(f"{name}|{name[:3]}" for name in _MONTHS)
_SPOKEN: Final = re.compile(
    rf"\b(?:({_MONTH})\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?|(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?({_MONTH})\.?)"
    r"(?:,?\s+(\d{4}))?\b",
    re.IGNORECASE,
)
_MONTH_WORDS: Final = frozenset(word.encode() for name in _MONTHS for word in (name, name[:3]))
_WORD_BYTES: Final = bytes(
    byte if bytes((byte,)).isalnum() or byte == ord("_") else ord(" ") for byte in range(256)
)
_LIKE_ASCII: Final = frozenset("\u0130\u0131\u017f")
"""Letters that a pattern takes for ``i`` and ``s`` where letter case does not count."""
_ORDINALS: Final = ("st", "nd", "rd", "th")
_LOCAL: Final = re.compile(r"(\d(?<![\w.,/-]\d)\d?)([./-])(\d{1,2})\2(\d{4})(?![\w/-]|\.\d)")
_WEEKDAY: Final = re.compile(
    r"^(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|mon|tue|wed|thu|fri|sat|sun)\.?,?\s+", re.IGNORECASE
)
_CLOCK: Final = re.compile(
    r"(?:,|\s+at|T)?\s*(?<!\d)\d{1,2}[:.]\d{2}(?::\d{2})?(?:\s?[ap]\.?m\.?)?$", re.IGNORECASE
)
_YEAR: Final = re.compile(r"\d{4}")
_NO_NUMBERS: Final = (bool, time)
_PLAIN_NUMBER: Final = 30
"""Maximum digits of a number without marks."""
_MOMENT: Final = 48
"""Characters of a text that may be a moment as a whole."""
_MONTHS_A_YEAR: Final = 12
_SCALARS: Final = frozenset({int, float, bool, type(None), Decimal, datetime, date, time, dict, list})
"""Types of most values, which need no simplification."""
_PLAIN: Final = _SCALARS - {dict, list}
"""Those that are scalars already."""
_FLAT: Final = _SCALARS - {dict, list} | {str}
"""Those that have no parts."""


def leaves(value: Any, path: str = "") -> tuple[Leaf, ...]:
    """Flatten a value into scalars. Texts that contain JSON objects or arrays are flattened as well.

    An object that does not hold data alone, such as an iterator or a client, is one text that counts as unread.
    """
    found: list[Leaf] = []
    for leaf in _walk(value, path, 0):
        found.append(leaf)
        if len(found) > COUNT:
            unread = any(each.unread for each in found)
            return (*found[:COUNT], Leaf(f"{path}…", _flatten(value), unread=unread))
    return tuple(found)


def is_plain(value: Any) -> bool:
    """Check whether a value is one scalar, and no text that may contain JSON."""
    return type(value) in _PLAIN or (type(value) is str and value.strip()[:1] not in _BEGINS_JSON)


_BEGINS_JSON: Final = frozenset("{[")


def simplify(value: Any) -> Any:
    """Convert models, dataclasses and enumerations to mappings, sequences and scalars; return others unchanged."""
    plain = value if isinstance(value, str) else _simplify_plain(value)
    return value if type(plain) is ObjectData else plain


def _walk(value: Any, path: str, depth: int) -> Iterator[Leaf]:
    plain = (
        value
        if type(value) in _SCALARS
        else _parse_json(value)
        if type(value) is str
        else _simplify_plain(value)
    )
    if depth and isinstance(value, str) and not isinstance(plain, str):
        # The author of a text also wrote the structure within it.
        for leaf in _walk(plain, path, depth + 1):
            yield replace(leaf, standing=Standing.PROSE, inside=leaf.inside or path)
    elif depth > DEPTH:
        yield Leaf(path, _flatten(value), unread=type(plain) is ObjectData)
    elif type(plain) in _FLAT:
        yield Leaf(path, plain)
    elif type(plain) is ObjectData:
        yield from _walk_object(plain, path, depth + 1)
    elif isinstance(plain, Mapping):
        yield from _walk_fields(plain, path, depth + 1)
    elif isinstance(plain, Sequence | AbstractSet) and not isinstance(plain, str):
        for number, inner in enumerate(plain):
            yield from _walk(inner, f"{path}[{number}]", depth + 1)
    else:
        yield Leaf(path, plain)


def _walk_object(value: ObjectData, path: str, depth: int) -> Iterator[Leaf]:
    """Walk through an object that holds data alone; any other is one text that counts as unread."""
    held = tuple(islice(_walk_fields(value.held, path, depth), ATTRIBUTES + 1))
    read = len(held) <= ATTRIBUTES and not any(leaf.unread for leaf in held)
    if not read or value.worded or not held:
        yield Leaf(path, value.text, unread=not read or not (value.worded or held))
    if read:
        yield from held


def _walk_fields(value: Mapping[Any, Any], path: str, depth: int) -> Iterator[Leaf]:
    for key, inner in value.items():
        name = format_text(key) if isinstance(key, int) else str(key)
        if not name.isidentifier():
            yield Leaf(f"{path}{{}}", name)
        within = f"{path}.{name}" if path else name
        if type(inner) in _PLAIN and depth <= DEPTH:
            yield Leaf(within, inner)
        else:
            yield from _walk(inner, within, depth)


def _simplify_plain(value: Any) -> Any:
    """Simplify a value by one step."""
    if isinstance(value, Enum):
        return _simplify_plain(value.value)
    return _parse_json(value) if isinstance(value, str) else simplify_object(value)


def _parse_json(text: str) -> Any:
    """Parse a text that contains a JSON object or array; return other texts unchanged."""
    body = text.strip()
    if body[:1] + body[-1:] in {"{}", "[]"}:
        try:
            read = json.loads(body)
        except (ValueError, RecursionError):
            return text
        return read or text
    return text


def _flatten(value: Any) -> str:
    """Convert a structure to one text."""
    if isinstance(value, str):
        return value
    try:
        return repr(value)
    except (ValueError, RecursionError):
        return " ".join(_iter_scalars(value))


def _iter_scalars(value: Any) -> Iterator[str]:
    """Yield the keys and scalars of a structure that Python cannot print, because of its depth or a long number."""
    stack, known = [value], dict[int, Any]()  # holding the values keeps their ids unique
    while stack:
        one = stack.pop()
        inner = _simplify_plain(one)
        if isinstance(inner, str) or not isinstance(inner, Mapping | Sequence | AbstractSet):
            yield format_text(inner)
        elif id(one) not in known:
            known[id(one)] = one
            parts = chain.from_iterable(inner.items()) if isinstance(inner, Mapping) else inner
            stack += reversed([*parts])


def format_text(value: Scalar) -> str:
    """Format a scalar as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="minutes")
    return "" if value is None else _format_digits(value)


def _format_digits(value: Scalar) -> str:
    """Format a number, also beyond Python's limit of digits."""
    try:
        return str(value)
    except ValueError:
        assert isinstance(value, int)
        return str(Decimal(value))


def build_typed_key(value: Scalar) -> str | None:
    """Build a key that two spellings of a number, date or moment share; ``None`` for words."""
    if value is None or isinstance(value, _NO_NUMBERS):
        return None
    if isinstance(value, date):
        return f"date {value.isoformat()[:10]}"
    body = format_text(value).strip()
    if len(body) <= _PLAIN_NUMBER and body.isdecimal() and body.isascii():
        return _build_number_key(body)  # no day is written so
    if (iso := _ISO.match(body)) and WRITTEN.fullmatch(body):
        return _parse_date(*map(int, iso.groups()))
    if (
        isinstance(value, str)
        and len(body) <= _MOMENT
        and _YEAR.search(body)
        and (day := _build_day_key(body))
    ):
        return day
    return _build_number_key(body) if _NUMBER.fullmatch(body) or not isinstance(value, str) else None


def _build_day_key(body: str) -> str | None:
    """Build the key of a date with a month name or in national digits, with or without weekday and time."""
    plain = _CLOCK.sub("", _WEEKDAY.sub("", body))
    if (spoken := parse_spoken_date(plain)) is not None:
        return f"date {spoken.isoformat()}"
    local = _LOCAL.fullmatch(plain)
    return _build_local_date_key(local) if local else None


def _build_local_date_key(match: re.Match[str]) -> str | None:
    """Build the key of day, month and year in digits; None if day and month are ambiguous."""
    first, mark, second, year = int(match[1]), match[2], int(match[3]), int(match[4])
    if mark == "." or first > _MONTHS_A_YEAR or first == second:
        return _parse_date(year, second, first)
    return _parse_date(year, first, second) if second > _MONTHS_A_YEAR else None


def build_amount_keys(value: Scalar) -> tuple[str, ...]:
    """Build the keys of a number without its sign, of a hundredth of it, and of a share in per cent.

    Empty for other values.
    """
    kind = build_typed_key(value) or ""
    if not kind.startswith("number "):
        return ()
    number = abs(Decimal(kind.removeprefix("number ")))
    shares = (number.scaleb(2),) if number < 1 else ()
    keys = (build_typed_key(f"{each:f}") for each in (number, number.scaleb(-2), *shares) if number)
    return tuple(dict.fromkeys(key for key in keys if key and key != kind))


def build_day_key(kind: str) -> str:
    """Build the key of a date without its year; empty for numbers."""
    return f"day {kind[-5:]}" if kind.startswith("date ") else ""


def find_typed_keys(text: str) -> Iterator[str]:
    """Find the typed keys of the numbers and dates in a text. A date without a year yields its day key."""
    if _DIGIT.search(text) is None:
        return
    parted = may_have_date(draw_shape(text)) if text.isascii() else _PARTED.search(text)
    for iso in _ISO.finditer(text) if parted else ():
        if key := _parse_date(*map(int, iso.groups())):
            yield key
    for spoken in _find_spoken(text):
        number, day = _parse_month_and_day(spoken)
        key = _parse_date(int(spoken[5]), number, day) if spoken[5] else f"day {number:02}-{day:02}"
        if key:
            yield key
    for local in _LOCAL.finditer(text) if parted else ():
        if key := _build_local_date_key(local):
            yield key
    for number_text in dict.fromkeys(map(_with_sign, _DIGITS.finditer(text))):
        if key := _build_number_key(number_text):
            yield key


def _with_sign(number: re.Match[str]) -> str:
    start = number.start()
    return number.string[start - 1] + number[0] if start and number.string[start - 1] in "+-" else number[0]


def _find_spoken(text: str) -> Iterator[re.Match[str]]:
    """Find what the pattern of a spoken date finds. It is tried only beside the names of months that occur."""
    plain = text.lower()
    if not text.isascii() and (len(plain) != len(text) or not _LIKE_ASCII.isdisjoint(text)):
        yield from _SPOKEN.finditer(text)
        return
    names = _MONTH_WORDS.intersection(plain.encode("utf-8", "replace").translate(_WORD_BYTES).split())
    end = 0
    for start in sorted({start for name in names for start in _list_starts(plain, name.decode())}):
        if start >= end and (spoken := _SPOKEN.match(text, start)):
            end = spoken.end()
            yield spoken


def _list_starts(plain: str, name: str) -> Iterator[int]:
    """List where a spoken date may start with the name of its month, or with the day before it."""
    at = plain.find(name)
    while at >= 0:
        yield at
        before = _skip_space(plain, at)
        if 2 <= before < at and plain.startswith("of", before - 2):  # noqa: PLR2004
            before = _skip_space(plain, before - 2)
        if before < at:
            before -= 2 if plain[max(0, before - 2) : before] in _ORDINALS else 0
            yield from (
                start for start in (before - 1, before - 2) if start >= 0 and plain[start].isdecimal()
            )
        at = plain.find(name, at + 1)


def _skip_space(text: str, end: int) -> int:
    while end and text[end - 1].isspace():
        end -= 1
    return end


def parse_spoken_date(text: str) -> date | None:
    """Parse a date with its month's name and its year, such as ``2 January 2025``."""
    spoken = _SPOKEN.fullmatch(text.strip())
    if spoken is None or not spoken[5]:
        return None
    number, day = _parse_month_and_day(spoken)
    try:
        return date(int(spoken[5]), number, day)
    except ValueError:
        return None


def _parse_month_and_day(spoken: re.Match[str]) -> tuple[int, int]:
    month = (spoken[1] or spoken[4])[:3].casefold()  # a case-insensitive pattern also matches a long s
    number = next(place for place, name in enumerate(_MONTHS, 1) if name.startswith(month))
    return number, int(spoken[2] or spoken[3])


def _build_number_key(body: str) -> str | None:
    """Build the key of a number with all its digits, since ``normalize`` would round long account numbers."""
    whole, mark, part = body.partition(".")
    if whole.isdigit() and body.isascii() and (not mark or (part.isdigit() and len(body) < _ADJUSTED)):
        part = part.rstrip("0")
        return f"number {whole.lstrip('0') or '0'}{'.' if part else ''}{part}"
    number = Decimal(re.sub(r"[, _]", "", body))
    if not number.is_finite():
        return None
    if abs(number.adjusted()) > _ADJUSTED:
        return f"number {number}"
    digits = f"{number:f}"
    plain_ = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return f"number {plain_.removeprefix('+')}"


def _parse_date(year: int, month: int, day: int) -> str | None:
    try:
        return f"date {date(year, month, day).isoformat()}"
    except ValueError:
        return None
