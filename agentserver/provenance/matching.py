"""Evidence: which untrusted texts an argument carries, and where a value came from.

Owns the questions put to a ledger's indexes, the encodings undone on the argument's side, and the mapping of
a match back to what was written. Refuses to say whether evidence matters: roles and policies do.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Final

from agentserver.characters.printing import CUT, shortened
from agentserver.provenance.evidence.encodings import turned, unwrapped
from agentserver.provenance.evidence.folding import fold_bytes, unfold
from agentserver.provenance.evidence.index import SPAN
from agentserver.provenance.evidence.inventory import SCHEME, ValueKind, values
from agentserver.provenance.evidence.words import HEAD, lead_of, standing
from agentserver.provenance.ledger import whole_key
from agentserver.provenance.verdict import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.evidence.index import Hit
    from agentserver.provenance.evidence.inventory import Value
    from agentserver.provenance.evidence.labels import Hop, Text
    from agentserver.provenance.ledger import Ledger

VALUES: Final = 512
"""Values of one argument that are looked up. More of them count as evidence that cannot be checked."""

SEAM: Final = 512
"""Characters on each side of the boundary between two arguments that are read as one text."""

PLACES: Final = 64
"""Places with one beginning that are looked at."""

SHORT: Final = 6
"""Letters and digits below which a value counts only as a word of its own."""

LOOKED_UP: Final = 8
"""Words of an excerpt that are looked up to find where it stands."""

HOPS: Final = 64
"""Hops of one text that are told."""

_WORD: Final = re.compile(r"[^\W_]+")

EXCERPT: Final = 160
"""Longest quotation in a piece of evidence, in characters."""


class Crowded(Exception):  # noqa: N818  a finding, not an error
    """An argument holds more values than are looked up."""


@dataclass(frozen=True, slots=True)
class Match:
    """A piece of evidence, and whether it is a link."""

    evidence: Evidence
    link: bool


def content(ledger: Ledger, body: str) -> Iterator[Match]:
    """Every stretch of ``body``, or wrapped in it, that untrusted texts hold and the query does not.

    Raises:
        Crowded: ``body`` holds more values than are looked up.
    """
    plain = ((body, ""), *((decoded.body, decoded.via) for decoded in unwrapped(body)))
    readings = (*plain, *((decoded.body, decoded.via) for decoded in turned(body)))
    forms = [fold_bytes(text) for text, _ in readings]
    for number, hit in _hits(ledger, forms):
        text, via = readings[number]
        yield from _span(ledger, text, hit, via)
    yield from _values(ledger, plain)


def _hits(ledger: Ledger, forms: list[bytes]) -> Iterator[tuple[int, Hit]]:
    """The hits in several texts, asked for at once. No text holds the byte that keeps them apart."""
    starts = list(accumulate((len(form) + 1 for form in forms), initial=0))
    for hit in ledger.index.hits(b"\xff".join(forms)):
        number = bisect_right(starts, hit.start) - 1
        begin = hit.start - starts[number]
        yield number, replace(hit, start=begin, end=begin + hit.end - hit.start)


def _values(ledger: Ledger, texts: tuple[tuple[str, str], ...]) -> Iterator[Match]:
    """The values of several texts that untrusted texts hold, looked up at once."""
    found = [(value, via) for text, via in texts for value in islice(values(text), VALUES + 1)]
    if len(found) > VALUES:
        raise Crowded
    asked = [(value, key, how or via) for value, via in found for key, how in _keys(value)]
    numbers = ledger.table.find([key for _, key, _ in asked])
    for (value, _, via), number in zip(asked, numbers, strict=True):
        if number is not None and not ledger.asked.says(fold_bytes(SCHEME.sub("", value.text))):
            quote, source = _short(value.text), ledger.texts[number]
            evidence = Evidence(quote, source, quote, _via(via, source), _hops(ledger, number))
            yield Match(evidence, value.kind is ValueKind.LINK)


def _keys(value: Value) -> Iterator[tuple[int, str]]:
    """The hashes to look a value up by: as it is, and turned, with and without a link's scheme."""
    yield value.key, ""
    for text in dict.fromkeys((value.text, SCHEME.sub("", value.text))):
        yield from ((whole_key(decoded.body), decoded.via) for decoded in turned(text))


def across(ledger: Ledger, left: str, right: str) -> Iterator[Evidence]:
    """Untrusted spans that begin in one argument and end in the next."""
    left, right = left[-SEAM:], right[:SEAM]
    form = fold_bytes(left)
    for hit in ledger.index.hits(form + fold_bytes(right)):
        if hit.start < len(form) < hit.end:
            yield from (match.evidence for match in _span(ledger, f"{left} {right}", hit, ""))


def origin(ledger: Ledger, body: str) -> Evidence | None:
    """One untrusted text that holds the value ``body`` as a whole, in any spelling or wrapping."""
    for text, via in ((body, ""), *((decoded.body, decoded.via) for decoded in turned(body))):
        number, offset = _place(ledger, text, exactly=not via)
        if number is not None:
            return _whole(ledger, number, offset, text if via else body, via)
    return None


def _place(ledger: Ledger, body: str, *, exactly: bool) -> tuple[int | None, int | None]:
    """The number of a text that holds a value, and the offset in it where that is known."""
    form = fold_bytes(body)
    number = ledger.table.first(whole_key(body)) if form else None
    if number is None:
        number = next((hit.text for hit in ledger.index.hits(form) if hit.text >= 0), None)
    if number is not None:
        return number, None
    if exactly and len(form) < SHORT:
        return _word(ledger, body, form)
    return _beginning(ledger, form) if SHORT <= len(form) < SPAN else (None, None)


def _word(ledger: Ledger, body: str, form: bytes) -> tuple[int | None, int | None]:
    """A short value, where it stands as a word of its own."""
    name = body.strip()
    pattern, lead = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE), lead_of(name)
    for number, offset in ledger.words.starting(form, PLACES):
        if standing(ledger.texts[number].body, offset, pattern, lead, len(name)):
            return number, offset
    return None, None


def _beginning(ledger: Ledger, form: bytes) -> tuple[int | None, int | None]:
    """A value shorter than a span, where it stands from the beginning of a word on. Too many places mean yes."""
    places = ledger.words.starting(form, PLACES)
    for number, offset in places:
        if fold_bytes(ledger.texts[number].body[offset : offset + 8 * len(form) + 64]).startswith(form):
            return number, offset
    return places[0] if len(places) == PLACES else (None, None)


def _span(ledger: Ledger, text: str, hit: Hit, via: str) -> Iterator[Match]:
    if hit.text < 0 or ledger.asked.says(fold_bytes(text)[hit.start : hit.end]):
        return
    source = ledger.texts[hit.text]
    excerpt = unfold(text, hit.start, hit.end)
    quoted = _quoted(ledger, hit.text, excerpt)
    evidence = Evidence(_short(excerpt), source, quoted, _via(via, source), _hops(ledger, hit.text))
    yield Match(evidence, link=False)


def _whole(ledger: Ledger, number: int, offset: int | None, body: str, via: str = "") -> Evidence:
    source = ledger.texts[number]
    quoted = _quoted(ledger, number, body) if offset is None else _around(source.body, offset, len(body))
    return Evidence(_short(body), source, quoted, _via(via, source), _hops(ledger, number))


def _quoted(ledger: Ledger, number: int, excerpt: str) -> str:
    """The part of a text that holds an excerpt: found by the excerpt's words, never by reading the text."""
    body = ledger.texts[number].body
    for word in islice(_WORD.finditer(excerpt[: 4 * EXCERPT]), LOOKED_UP):
        form = fold_bytes(excerpt[word.start() : word.start() + 8 * HEAD])[:HEAD]
        for text, offset in ledger.words.starting(form, PLACES):
            if text == number and len(form) == HEAD:
                return _around(body, max(0, offset - word.start()), len(excerpt))
    return _short(body[: 2 * EXCERPT])


def _around(text: str, offset: int, length: int) -> str:
    """The words around a value in its text, so that a reader sees what it was part of."""
    start = max(0, offset - 40)
    return (CUT if start else "") + _short(text[start : offset + min(length, 2 * EXCERPT) + 40].strip())


def _hops(ledger: Ledger, number: int) -> tuple[Hop, ...]:
    return ledger.passed.get(number, ())[:HOPS]


def _via(via: str, source: Text) -> str:
    return " then ".join(part for part in (source.origin.via, via) if part)


def _short(text: str) -> str:
    return shortened(" ".join(text.split()), EXCERPT)
