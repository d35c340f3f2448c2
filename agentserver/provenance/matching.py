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

from agentserver.characters.printing import CUT, truncate
from agentserver.provenance.evidence.commands import simple_commands
from agentserver.provenance.evidence.encodings import turned, unwrapped
from agentserver.provenance.evidence.folding import fold_bytes, unfold
from agentserver.provenance.evidence.index import SPAN
from agentserver.provenance.evidence.inventory import SCHEME, ValueKind, values
from agentserver.provenance.evidence.leaves import typed, yearless
from agentserver.provenance.evidence.words import HEAD, lead_of, standing
from agentserver.provenance.request.spellings import grouped
from agentserver.provenance.seen.untrusted import kind_key, whole_key
from agentserver.provenance.verdict import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.evidence.index import Hit
    from agentserver.provenance.evidence.inventory import Value
    from agentserver.provenance.evidence.labels import Hop, Text
    from agentserver.provenance.evidence.words import WordIndex
    from agentserver.provenance.ledger import Ledger
    from agentserver.provenance.seen.untrusted import Untrusted, Wrapped

VALUES: Final = 512
"""Values of one argument that are looked up. More of them count as evidence that cannot be checked."""

SEAM: Final = 512
"""Characters on each side of the boundary between two arguments that are read as one text."""

PLACES: Final = 64
"""Places with one beginning that are looked at."""

SHORT: Final = 6
"""Letters and digits below which a value counts only as a word of its own."""

LONG: Final = 6
"""Digits from which on a number is written in groups."""

LOOKED_UP: Final = 8
"""Words of an excerpt that are looked up to find where it stands."""

HOPS: Final = 64
"""Hops of one text that are told."""

_LETTERS: Final = 36
"""Characters of a value without a digit or a mark: a UUID of letters alone."""

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


@dataclass(frozen=True, slots=True)
class _Place:
    """The places of untrusted words: in a text itself, or in one that is wrapped in it."""

    text: Text
    number: int
    inner: bool
    words: WordIndex

    def starting(self, form: bytes) -> Iterator[int]:
        """The offsets in this text at which words begin like an evidence form."""
        return (offset for number, offset in self.words.starting(form, PLACES) if number == self.number)


def content(ledger: Ledger, body: str) -> Iterator[Match]:
    """Every stretch of ``body``, or wrapped in it, that untrusted texts hold and the query does not.

    Raises:
        Crowded: ``body`` holds more values than are looked up, or untrusted texts more than is tracked.
    """
    plain = ((body, ""), *((decoded.body, decoded.via) for decoded in unwrapped(body)))
    readings = (*plain, *((decoded.body, decoded.via) for decoded in turned(body)))
    forms = [fold_bytes(text) for text, _ in readings]
    for number, hit, inner in _hits(ledger, forms):
        text, via = readings[number]
        yield from _span(ledger, text, hit, via, inner=inner)
    yield from _values(ledger, plain)


def noticed(ledger: Ledger, body: str) -> Iterator[Match]:
    """The stretches and values of ``body`` that untrusted texts hold as they are written there: nothing is undone.

    There are none in what the principal said in one piece.
    """
    form = fold_bytes(body)
    if ledger.asked.says(form):
        return
    for hit in ledger.index.hits(form):
        yield from _span(ledger, body, hit, "", inner=False)
    found = [*islice(values(body), VALUES)]
    numbers = ledger.table.find([value.key for value in found]) if found else ()
    for value, number in zip(found, numbers, strict=True):
        yield from () if number is None else _value(ledger, value, _at(ledger, number, inner=False), "")


def crowded(body: str) -> bool:
    """True when a text holds more values than are looked up. Where that cannot be, they are not told apart."""
    digits = sum(map(body.count, "0123456789")) if body.isascii() else sum(map(str.isdigit, body))
    most = digits + sum(map(body.count, "@.:/")) + len(body) // _LETTERS
    return most > VALUES and next(islice(values(body), VALUES, None), None) is not None


def _hits(ledger: Ledger, forms: list[bytes]) -> Iterator[tuple[int, Hit, bool]]:
    """The hits in several texts, asked for at once. No text holds the byte that keeps them apart."""
    starts = list(accumulate((len(form) + 1 for form in forms), initial=0))
    asked = b"\xff".join(forms)
    known: list[Hit] = []
    for index, inner in ((ledger.index, False), (ledger.untrusted.wrapped.index, True)):
        for hit in index.hits(asked):
            if any(one.start <= hit.start and hit.end <= one.end for one in known):
                continue
            number = bisect_right(starts, hit.start) - 1
            begin = hit.start - starts[number]
            yield number, replace(hit, start=begin, end=begin + hit.end - hit.start), inner
            if not inner:
                known.append(hit)


def _values(ledger: Ledger, texts: tuple[tuple[str, str], ...]) -> Iterator[Match]:
    """The values of several texts that untrusted texts hold, looked up at once."""
    found = [(value, via) for text, via in texts for value in islice(values(text), VALUES + 1)]
    if len(found) > VALUES:
        raise Crowded
    if not found:
        return
    asked = [(value, key, how or via) for value, via in found for key, how in _keys(value)]
    keys = [key for _, key, _ in asked]
    numbers = zip(ledger.table.find(keys), ledger.untrusted.wrapped.values.table.find(keys), strict=True)
    for (value, _, via), (number, wrapped) in zip(asked, numbers, strict=True):
        held = number if number is not None else wrapped
        if held is not None:
            yield from _value(ledger, value, _at(ledger, held, inner=number is None), via)


def _value(ledger: Ledger, value: Value, place: _Place, via: str) -> Iterator[Match]:
    if ledger.asked.says(fold_bytes(SCHEME.sub("", value.text))):
        return
    quote, hops = _short(value.text), _hops(ledger, place, fold_bytes(value.text))
    evidence = Evidence(quote, place.text, quote, _via(via, place.text), hops)
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
    for _, hit, inner in _hits(ledger, [form + fold_bytes(right)]):
        if hit.start < len(form) < hit.end:
            found = _span(ledger, f"{left} {right}", hit, "", inner=inner)
            yield from (match.evidence for match in found)


def origin(ledger: Ledger, body: str) -> Evidence | None:
    """One untrusted text that holds the value ``body`` as a whole, in any spelling or wrapping.

    A number and a date are compared by value: ``10.0`` is not ``100``, and ``1,000`` is ``1000``.

    Raises:
        Crowded: none is known, and untrusted texts hold more than is tracked.
    """
    if (kind := typed(body)) is not None:
        return counted(ledger, body, kind)
    readings = ((body, ""), *((decoded.body, decoded.via) for decoded in turned(body)))
    for inner in (False, True):
        for text, via in readings:
            number, offset = _place(ledger, text, exactly=not via, inner=inner)
            if number is not None:
                return _whole(ledger, _at(ledger, number, inner=inner), offset, text if via else body, via)
    if ledger.untrusted.beyond:
        raise Crowded
    return None


def commanded(ledger: Ledger, body: str, listed: tuple[str, ...] = ()) -> Evidence | None:
    """One untrusted text that holds one of the commands in a composed text, however short it is.

    A command that the principal said, or that is in a list of values, is not looked for.

    Raises:
        Crowded: there are more commands than are looked up, or untrusted texts hold more than is tracked.
    """
    commands = simple_commands(body, VALUES + 1)
    if len(commands) > VALUES:
        raise Crowded
    unsaid = (each for each in commands if each not in listed and not ledger.asked.says(fold_bytes(each)))
    return next(filter(None, (origin(ledger, each) for each in unsaid)), None)


def counted(ledger: Ledger, body: str, kind: str) -> Evidence | None:
    """One untrusted text that says a number or a date, in any spelling of it."""
    keys = [kind_key(kind), *([kind_key(day)] if (day := yearless(kind)) else [])]
    for inner, held in ((False, ledger.untrusted.kinds), (True, ledger.untrusted.wrapped.kinds)):
        numbers = (held.table.first(key) for key in keys)
        number = next((number for number in numbers if number is not None), None)
        if number is not None:
            return _whole(ledger, _at(ledger, number, inner=inner), None, body)
    if (place := _grouped(ledger, body)) is not None:
        return _whole(ledger, _at(ledger, place[0], inner=False), place[1], body)
    if ledger.untrusted.kinds.beyond or ledger.untrusted.wrapped.kinds.beyond:
        raise Crowded
    return None


def _grouped(ledger: Ledger, body: str) -> tuple[int, int] | None:
    """An untrusted text that writes a long number in groups, as account and telephone numbers are, and where."""
    digits = body.strip().lstrip("+")
    if len(digits) < LONG or not (digits.isascii() and digits.isdecimal()):
        return None
    for number, offset in ledger.words.starting(fold_bytes(digits), PLACES):
        if digits in grouped(ledger.texts[number].body[offset : offset + 2 * len(digits)]):
            return number, offset
    return None


def found(ledger: Ledger, body: str) -> Evidence | None:
    """The same; ``None`` as well where untrusted texts hold more than is tracked."""
    try:
        return origin(ledger, body)
    except Crowded:
        return None


def absent(ledger: Ledger, body: str) -> bool:
    """True when no untrusted text holds a value, and no more values are held than are looked up."""
    try:
        return origin(ledger, body) is None
    except Crowded:
        return False


def elsewhere(ledger: Ledger, body: str) -> bool:
    """True when an untrusted text holds ``body``, or a piece of it, and is more than that."""
    form = fold_bytes(body)
    for held in (ledger.untrusted, ledger.untrusted.wrapped):
        numbers = (
            held.index.owners(form)
            if len(form) >= SPAN
            else {number for number, _ in _beginnings(held, form)}
        )
        if any(fold_bytes(held.body(number)) != form for number in numbers):
            return True
    return False


def _at(ledger: Ledger, number: int, *, inner: bool) -> _Place:
    untrusted = ledger.untrusted
    if not inner:
        return _Place(untrusted.texts[number], number, inner, untrusted.words)
    return _Place(untrusted.unwrapped(number), number, inner, untrusted.wrapped.words)


def _place(ledger: Ledger, body: str, *, exactly: bool, inner: bool) -> tuple[int | None, int | None]:
    """The number of a text that holds a value, and the offset in it where that is known."""
    form = fold_bytes(body)
    held = ledger.untrusted.wrapped if inner else ledger.untrusted
    if not form or not (ledger.untrusted.wrapped.outer if inner else ledger.texts):
        return None, None
    if len(form) >= SPAN and (hit := next((hit for hit in held.index.hits(form) if hit.text >= 0), None)):
        return hit.text, None
    number = held.values.table.first(whole_key(body))
    if number is not None:
        return number, None
    if exactly and len(form) < SHORT:
        return _word(held, body, form)
    return _beginning(held, form) if SHORT <= len(form) < SPAN else (None, None)


def _word(held: Untrusted | Wrapped, body: str, form: bytes) -> tuple[int | None, int | None]:
    """A short value, where it stands as a word of its own."""
    name = body.strip()
    places = held.words.starting(form, PLACES)
    if not places:
        return None, None
    pattern, lead = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE), lead_of(name)
    for number, offset in places:
        if standing(held.body(number), offset, pattern, lead, len(name)):
            return number, offset
    return None, None


def _beginning(held: Untrusted | Wrapped, form: bytes) -> tuple[int | None, int | None]:
    """A value shorter than a span, where it stands from the beginning of a word on. Too many places mean yes."""
    begun = next(_beginnings(held, form), None)
    if begun is not None:
        return begun
    places = held.words.starting(form, PLACES)
    return places[0] if len(places) == PLACES else (None, None)


def _beginnings(held: Untrusted | Wrapped, form: bytes) -> Iterator[tuple[int, int]]:
    """The numbers of the texts in which a value stands from the beginning of a word on, and where."""
    for number, offset in held.words.starting(form, PLACES):
        if fold_bytes(held.body(number)[offset : offset + 8 * len(form) + 64]).startswith(form):
            yield number, offset


def _span(ledger: Ledger, text: str, hit: Hit, via: str, *, inner: bool) -> Iterator[Match]:
    form = fold_bytes(text)[hit.start : hit.end]
    if hit.text < 0 or ledger.asked.says(form):
        return
    place = _at(ledger, hit.text, inner=inner)
    excerpt = unfold(text, hit.start, hit.end)
    hops = _hops(ledger, place, form)
    yield Match(
        Evidence(_short(excerpt), place.text, _quoted(place, excerpt), _via(via, place.text), hops),
        link=False,
    )


def _whole(ledger: Ledger, place: _Place, offset: int | None, body: str, via: str = "") -> Evidence:
    source = place.text
    quoted = _quoted(place, body) if offset is None else _around(source.body, offset, len(body))
    return Evidence(_short(body), source, quoted, _via(via, source), _hops(ledger, place, fold_bytes(body)))


def _quoted(place: _Place, excerpt: str) -> str:
    """The part of a text that holds an excerpt: found by the excerpt's words, never by reading the text."""
    body = place.text.body
    for word in islice(_WORD.finditer(excerpt[: 4 * EXCERPT]), LOOKED_UP):
        form = fold_bytes(excerpt[word.start() : word.start() + 8 * HEAD])[:HEAD]
        for offset in place.starting(form) if len(form) == HEAD else ():
            return _around(body, max(0, offset - word.start()), len(excerpt))
    return _short(body[: 2 * EXCERPT])


def _around(text: str, offset: int, length: int) -> str:
    """The words around a value in its text, so that a reader sees what it was part of."""
    start = max(0, offset - 40)
    return (CUT if start else "") + _short(text[start : offset + min(length, 2 * EXCERPT) + 40].strip())


def _hops(ledger: Ledger, place: _Place, piece: bytes) -> tuple[Hop, ...]:
    """The listeners that passed a piece of a text on."""
    number = ledger.untrusted.wrapped.outer[place.number] if place.inner else place.number
    return (*ledger.passed.get(number, ()), *ledger.relays.passing(piece, number))[:HOPS]


def _via(via: str, source: Text) -> str:
    return " then ".join(part for part in (source.origin.via, via) if part)


def _short(text: str) -> str:
    return truncate(" ".join(text.split()), EXCERPT)
