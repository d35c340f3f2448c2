"""Extracts the values that are tracked at any length: addresses, links, keys, accounts, phone and other long numbers.

Every pattern has bounded repetition.
"""

from __future__ import annotations

import re
from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.provenance.evidence.destinations import fold_mailbox, parse_key
from agentserver.provenance.evidence.folding import fold_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class ValueKind(StrEnum):
    """Kinds of values."""

    ADDRESS = "mail address"
    LINK = "link"
    ACCOUNT = "account number"
    UUID = "uuid"
    KEY = "key or token"
    PHONE = "phone number"
    NUMBER = "long number"
    FILE = "file name"


class Value(NamedTuple):
    """Value as written, with its offset in the text."""

    kind: ValueKind
    text: str
    start: int

    @property
    def key(self) -> int:
        """64-bit hash of the evidence form, equal for two spellings of one value."""
        body = SCHEME.sub("", self.text).rstrip("/") if self.kind is ValueKind.LINK else self.text
        return hash_whole(body)


def hash_whole(text: str) -> int:
    """Hash a whole text by its evidence form, as the value of a text that is nothing else."""
    return int.from_bytes(blake2b(fold_bytes(text), digest_size=8).digest(), "little")


SCHEME: Final = re.compile(r"^(?:[a-z][a-z0-9+.-]{0,20}:/{0,2})?(?:www\.)?", re.IGNORECASE)
_TLD: Final = r"(?:[^\W\d_]{2,24}|xn--[a-z0-9-]{2,59})"
_HOST: Final = rf"(?:[^\W_](?:[\w-]{{0,62}})\.){{1,8}}{_TLD}"
_LINK: Final = rf"[a-z][a-z0-9+.-]{{1,20}}://\S{{1,2048}}|{_HOST}(?::\d{{1,5}})?(?:/[^\s<>\"']{{0,2048}})?"
_PATTERNS: Final = (
    (ValueKind.ADDRESS, rf"(?<![\w.+-])[\w.!#$%&*+/=?^{{|}}~-]{{1,64}}@{_HOST}"),
    (ValueKind.LINK, rf"(?<![\w@.-])(?:{_LINK})"),
    (ValueKind.UUID, r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"),
    (ValueKind.ACCOUNT, r"\b(?-i:[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?)\b"),
    (ValueKind.KEY, r"\b(?=[a-z0-9_-]{0,63}\d)(?=[a-z0-9_-]{0,63}[a-z])[a-z0-9_-]{10,128}\b"),
    (
        ValueKind.PHONE,
        r"(?<![\w.,:/-])(?:\+\d{1,3}[ .-]?|\(\d{2,5}\)[ .-]?|0)\d{1,5}(?:[ ./-]?\d{2,5}){1,5}(?!\w)",
    ),
    (ValueKind.NUMBER, r"(?<![\w.,:/-])\d{6,40}(?![\w:/-]|[.,]\d)"),
)
_ALL: Final = re.compile(
    "|".join(f"(?P<{kind.name}>{pattern})" for kind, pattern in _PATTERNS), re.IGNORECASE
)
_PLAIN: Final = re.compile(
    "|".join(f"(?P<{kind.name}>{dict(_PATTERNS)[kind]})" for kind in (ValueKind.LINK, ValueKind.UUID)),
    re.IGNORECASE,
)
"""Pattern of the values without a digit or ``@``."""
_DIGIT: Final = re.compile(r"\d")
_KINDS: Final = {kind.name: kind for kind in ValueKind}
_MARKED: Final = frozenset({ValueKind.LINK, ValueKind.ADDRESS})
_LOOSE: Final = frozenset({ValueKind.PHONE, ValueKind.KEY})
_SHORTEST: Final = 7
"""Characters of a telephone number at least; fewer are an extension, a year or a room."""
_LIKELY: Final = re.compile(
    r"(?<!\S)[^\s@\d.:/]*+(?:[.:/](?!\w)[^\s@\d.:/]*+)*+[@\d.:/]\S*+(?:[ \t]{1,2}[^\s\d]*+\d\S*+)*+"
)
"""Words with ``@``, a digit, or a point, colon or slash before a letter: all others are part of no value."""

_QUOTE: Final = re.compile(r"[\"'<>]")
_DATE: Final = re.compile(r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}")
_FILE: Final = re.compile(
    r"txt|md|pdf|docx?|xlsx?|pptx?|csv|json|xml|ya?ml|html?|png|jpe?g|gif|zip|py|js|log"
)


_MARKS: Final = b"0123456789@.:/"
_HYPHENS: Final = 4
"""Hyphens of a value without a digit or another mark: a UUID of letters alone."""


def estimate_values(text: str) -> int:
    """Return an upper bound on the values of a text, without reading them."""
    if text.isascii():
        marked = len(text) - len(text.encode("ascii").translate(None, _MARKS))
    else:
        marked = sum(map(str.isdigit, text)) + sum(map(text.count, "@.:/"))
    return marked + text.count("-") // _HYPHENS


def find_values(text: str) -> Iterator[Value]:
    """Find every value in a text except file names, in order and without overlaps."""
    return (value for value in scan_values(text) if value.kind is not ValueKind.FILE)


def scan_values(text: str) -> Iterator[Value]:
    """Find every value in a text, file names included, since a reader may look them up as hosts."""
    for region in _LIKELY.finditer(text):
        start, end = region.span()
        words = region[0]
        if end - start >= _LONG or _may_have_value(words):
            plain = "@" not in words and _DIGIT.search(words) is None
            yield from _iter_values((_PLAIN if plain else _ALL).finditer(text, start, end))


_LONG: Final = 10
"""Characters of words that may have a value of any kind."""
SHORTEST_NUMBER: Final = 6
"""Digits of the shortest number that is a value."""


def _may_have_value(short: str) -> bool:
    """Check whether a few characters may have a value: a point or a scheme as links do, or the digits of a number."""
    return "." in short or "://" in short or sum(map(str.isdigit, short)) >= SHORTEST_NUMBER


def is_file(text: str) -> bool:
    """Return whether a text without a path looks like a file name and not like a host."""
    if "." not in text or "/" in text or ":" in text:
        return False
    return _FILE.fullmatch(text.rstrip().rpartition(".")[2].lower()) is not None


def hash_place(text: str) -> int:
    """Hash a destination as a place: only spellings of the same place are equal."""
    digest = blake2b(parse_key(text).encode("utf-8", "surrogatepass"), digest_size=8, person=b"place")
    return int.from_bytes(digest.digest(), "little")


def hash_spelling(text: str) -> int:
    """Hash a destination by spelling: letter case, fragment and last slash count."""
    digest = blake2b(text.strip(" ").encode("utf-8", "surrogatepass"), digest_size=8, person=b"spelled")
    return int.from_bytes(digest.digest(), "little")


def hash_places(text: str, value: Value) -> frozenset[int]:
    """Hash the places that a value may denote, with or without brackets and quotes that follow it.

    A link's spelling is one of them.
    """
    if value.kind is ValueKind.ADDRESS:
        return frozenset({hash_place(value.text), hash_place(fold_mailbox(value.text))})
    if value.kind is ValueKind.ACCOUNT:
        return frozenset({hash_place(value.text)})
    if value.kind not in {ValueKind.LINK, ValueKind.FILE}:
        return frozenset()
    behind = trailing_brackets(text, value)
    if not behind and _QUOTE.search(value.text) is None:
        return frozenset({hash_place(value.text), hash_spelling(value.text)})
    found = [value.text + behind[:number] for number in range(len(behind) + 1)]
    links = dict.fromkeys((*found, _QUOTE.split(value.text, maxsplit=1)[0]))
    return frozenset(key for link in links for key in (hash_place(link), hash_spelling(link)))


def trailing_brackets(text: str, value: Value) -> str:
    """Return the brackets after a value that may be part of it."""
    end = value.start + len(value.text)
    behind = text[end : end + 8]
    if behind[:1] not in {")", "]", "}"}:
        return ""
    return behind[: len(behind) - len(behind.lstrip(")]}"))]


def _iter_values(matches: Iterable[re.Match[str]]) -> Iterator[Value]:
    for match in matches:
        kind, body = _KINDS[match.lastgroup or ""], match.group()
        if kind in _MARKED:
            body = body.rstrip(".,;:!?)]}>'\"")
            if kind is ValueKind.LINK and is_file(body):
                kind = ValueKind.FILE
        elif kind in _LOOSE and (_DATE.match(body) or sum(map(str.isalnum, body)) < _SHORTEST):
            continue
        if len(body) > 3:  # noqa: PLR2004  a@b.c is the shortest value
            yield Value(kind, body, match.start())
