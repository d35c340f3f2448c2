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

from agentserver.provenance.encodings import turned, unwrapped
from agentserver.provenance.folding import fold, fold_bytes, unfold
from agentserver.provenance.inventory import SCHEME, Kind, values
from agentserver.provenance.ledger import whole_key
from agentserver.provenance.verdict import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.index import Hit
    from agentserver.provenance.inventory import Value
    from agentserver.provenance.labels import Hop, Text
    from agentserver.provenance.ledger import Ledger

VALUES: Final = 512
"""How many values of one argument are looked up. More of them count as evidence that cannot be checked."""

SEAM: Final = 512
"""How many characters on each side of the boundary between two arguments are read as one text."""

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
    trusted = fold_bytes(ledger.query)
    plain = ((body, ""), *((decoded.body, decoded.via) for decoded in unwrapped(body)))
    readings = (*plain, *((decoded.body, decoded.via) for decoded in turned(body)))
    forms = [fold_bytes(text) for text, _ in readings]
    for number, hit in _hits(ledger, forms):
        text, via = readings[number]
        yield from _span(ledger, text, hit, trusted, via)
    yield from _values(ledger, plain, trusted)


def _hits(ledger: Ledger, forms: list[bytes]) -> Iterator[tuple[int, Hit]]:
    """The hits in several texts, asked for at once. No text holds the byte that keeps them apart."""
    starts = list(accumulate((len(form) + 1 for form in forms), initial=0))
    for hit in ledger.index.hits(b"\xff".join(forms)):
        number = bisect_right(starts, hit.start) - 1
        begin = hit.start - starts[number]
        yield number, replace(hit, start=begin, end=begin + hit.end - hit.start)


def _values(ledger: Ledger, texts: tuple[tuple[str, str], ...], trusted: bytes) -> Iterator[Match]:
    """The values of several texts that untrusted texts hold, looked up at once."""
    found = [(value, via) for text, via in texts for value in islice(values(text), VALUES + 1)]
    if len(found) > VALUES:
        raise Crowded
    asked = [(value, key, how or via) for value, via in found for key, how in _keys(value)]
    numbers = ledger.table.find([key for _, key, _ in asked])
    for (value, _, via), number in zip(asked, numbers, strict=True):
        if number is not None and fold_bytes(SCHEME.sub("", value.text)) not in trusted:
            quote, source = _short(value.text), ledger.texts[number]
            evidence = Evidence(quote, source, quote, _via(via, source), _hops(ledger, number))
            yield Match(evidence, value.kind is Kind.LINK)


def _keys(value: Value) -> Iterator[tuple[int, str]]:
    """The hashes to look a value up by: as it is, and turned, with and without a link's scheme."""
    yield value.key, ""
    for text in dict.fromkeys((value.text, SCHEME.sub("", value.text))):
        yield from ((whole_key(decoded.body), decoded.via) for decoded in turned(text))


def across(ledger: Ledger, left: str, right: str) -> Iterator[Evidence]:
    """Untrusted spans that begin in one argument and end in the next."""
    left, right = left[-SEAM:], right[:SEAM]
    form = fold_bytes(left)
    trusted = fold_bytes(ledger.query)
    for hit in ledger.index.hits(form + fold_bytes(right)):
        if hit.start < len(form) < hit.end:
            yield from (match.evidence for match in _span(ledger, f"{left} {right}", hit, trusted, ""))


def origin(ledger: Ledger, body: str) -> Evidence | None:
    """One untrusted text that holds the value ``body`` as a whole, in whatever spelling or wrapping."""
    number = ledger.table.first(whole_key(body))
    if number is None:
        number = next((hit.text for hit in ledger.index.hits(fold_bytes(body)) if hit.text >= 0), None)
    if number is not None:
        return _whole(ledger, number, body)
    return _searched(ledger, body)


def _searched(ledger: Ledger, body: str) -> Evidence | None:
    """Looks through the texts themselves: only on the way to a refusal, for its explanation."""
    word = re.compile(rf"(?<!\w){re.escape(body.strip())}(?!\w)", re.IGNORECASE)
    shape = fold(body)
    for number, text in enumerate(ledger.texts):
        if word.search(text.body) or (len(shape) >= 6 and shape in fold(text.body)):  # noqa: PLR2004
            return _whole(ledger, number, body)
    for decoded in turned(body):
        shape = fold(decoded.body)
        for number, text in enumerate(ledger.texts if len(shape) >= 6 else ()):  # noqa: PLR2004
            if shape in fold(text.body):
                return _whole(ledger, number, body, decoded.via)
    return None


def _span(ledger: Ledger, text: str, hit: Hit, trusted: bytes, via: str) -> Iterator[Match]:
    if hit.text < 0 or fold_bytes(text)[hit.start : hit.end] in trusted:
        return
    source = ledger.texts[hit.text]
    excerpt = unfold(text, hit.start, hit.end)
    quoted = unfold(source.body, hit.offset, hit.offset + hit.length)
    evidence = Evidence(_short(excerpt), source, _short(quoted), _via(via, source), _hops(ledger, hit.text))
    yield Match(evidence, link=False)


def _whole(ledger: Ledger, number: int, body: str, via: str = "") -> Evidence:
    source = ledger.texts[number]
    return Evidence(
        _short(body), source, _around(source.body, body), _via(via, source), _hops(ledger, number)
    )


def _around(text: str, body: str) -> str:
    """The words around a value in its text, so that a reader sees what it was part of."""
    at = text.lower().find(body.strip().lower())
    if at < 0:
        return _short(text)
    start = max(0, at - 40)
    return ("…" if start else "") + _short(text[start : at + len(body) + 40].strip())


def _hops(ledger: Ledger, number: int) -> tuple[Hop, ...]:
    return tuple(hop for text, hop in ledger.hops if text == number)


def _via(via: str, source: Text) -> str:
    return " then ".join(part for part in (source.origin.via, via) if part)


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= EXCERPT else flat[: EXCERPT - 1] + "…"
