"""Places at which untrusted texts hold a value, in any spelling or encoding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.provenance.evidence.authority import build_mention_pattern, build_word_pattern
from agentserver.provenance.evidence.encodings import apply_involutions
from agentserver.provenance.evidence.folding import fold_bytes
from agentserver.provenance.evidence.index import SPAN
from agentserver.provenance.evidence.inventory import hash_whole
from agentserver.provenance.evidence.leaves import build_day_key, build_typed_key
from agentserver.provenance.evidence.readings import list_value_keys
from agentserver.provenance.evidence.words import count_lead, head_of, matches_at
from agentserver.provenance.observations.untrusted_texts import hash_kind
from agentserver.provenance.request.trusted_words import join_groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentserver.provenance.evidence.labels import Text
    from agentserver.provenance.evidence.words import WordIndex
    from agentserver.provenance.observations.untrusted_texts import UntrustedTexts, WrappedTexts

PLACES: Final = 64
"""Maximum places with the same beginning that are checked."""
SHORT: Final = 6
"""Letters and digits below which a value must match a whole word."""
LONG: Final = 6
"""Minimum digits of a number that is searched for in groups."""

_DAY: Final = 8
"""Digits of a day that is a number as well, as in ``20270512``."""


class TooManyValues(Exception):  # noqa: N818  a finding, not an error
    """Raised when an argument holds more values than are looked up."""


class Occurrence(NamedTuple):
    """Place of a value.

    Args:
        number: of the untrusted text, or of the text that was decoded from one.
        inner: whether it was decoded.
        offset: in the text; None if unknown.
        body: the value as it was looked for.
        via: how the value was decoded before; empty if it was not.
    """

    number: int
    inner: bool
    offset: int | None
    body: str
    via: str = ""


def find_occurrence(untrusted: UntrustedTexts, body: str) -> Occurrence | None:
    """Find one untrusted text that holds a value as a whole; see ``matching.find_origin``.

    Raises:
        TooManyValues: no text is known, and untrusted texts hold more than is tracked.
    """
    kinds, kind = list_value_keys(body), build_typed_key(body)
    if kind is not None:
        days = [key for key in kinds if key.startswith("date ")] if len(body) >= _DAY else []
        kinds = [kind, *days]
    found = next(filter(None, (find_number_occurrence(untrusted, body, each) for each in kinds)), None)
    if found is not None or kind is not None:
        return found
    readings = ((body, ""), *((decoded.body, decoded.via) for decoded in apply_involutions(body)))
    for inner in (False, True):
        for text, via in readings:
            place = _find_place(untrusted, text, exactly=not via, inner=inner)
            if place is not None:
                return Occurrence(place[0], inner, place[1], text if via else body, via)
    if untrusted.beyond:
        raise TooManyValues
    return None


def find_number_occurrence(untrusted: UntrustedTexts, body: str, kind: str) -> Occurrence | None:
    """Find one untrusted text that holds a number or a date.

    Raises:
        TooManyValues: no text is known, and untrusted texts hold more than is tracked.
    """
    keys = [hash_kind(kind), *([hash_kind(day)] if (day := build_day_key(kind)) else [])]
    for inner, source in ((False, untrusted.kinds), (True, untrusted.wrapped.kinds)):
        numbers = (source.table.find_first(key) for key in keys)
        number = next((number for number in numbers if number is not None), None)
        if number is not None:
            return Occurrence(number, inner, None, body)
    if (place := _find_grouped(untrusted, body)) is not None:
        return Occurrence(place[0], False, place[1], body)
    if untrusted.kinds.beyond or untrusted.wrapped.kinds.beyond:
        raise TooManyValues
    return None


def _find_grouped(untrusted: UntrustedTexts, body: str) -> tuple[int, int] | None:
    """Find an untrusted text that writes a long number in groups, like an account or telephone number."""
    digits = body.strip().lstrip("+")
    if len(digits) < LONG or not (digits.isascii() and digits.isdecimal()):
        return None
    for number, offset in untrusted.words.find_words(fold_bytes(digits), PLACES):
        if digits in join_groups(untrusted.texts[number].body[offset : offset + 2 * len(digits)]):
            return number, offset
    return None


def _find_place(
    untrusted: UntrustedTexts, body: str, *, exactly: bool, inner: bool
) -> tuple[int, int | None] | None:
    """Find the number of a text that holds a value, and the offset in it if known."""
    form = fold_bytes(body)
    source = untrusted.wrapped if inner else untrusted
    if not form or not (untrusted.wrapped.outer if inner else untrusted.texts):
        return None
    if len(form) >= SPAN and (
        hit := next((hit for hit in source.index.find_hits(form) if hit.text >= 0), None)
    ):
        return hit.text, None
    number = source.values.table.find_first(hash_whole(body))
    if number is not None:
        return number, None
    if exactly and len(form) < SHORT:
        return _find_word(source, body, form)
    return _find_beginning(source, form) if SHORT <= len(form) < SPAN else None


def _find_word(source: UntrustedTexts | WrappedTexts, body: str, form: bytes) -> tuple[int, int] | None:
    """Find a short value where it occurs as a whole word."""
    name = body.strip()
    places = source.words.find_words(form, PLACES)
    if not places:
        return None
    pattern, lead = build_word_pattern(name, any_case=True), count_lead(name)
    for number, offset in places:
        if matches_at(source.body(number), offset, pattern, lead, len(name)):
            return number, offset
    return None


def _find_beginning(source: UntrustedTexts | WrappedTexts, form: bytes) -> tuple[int, int] | None:
    """Find a value shorter than a span that starts at the beginning of a word. Too many candidates count as a match."""
    beginning = next(find_beginnings(source, form), None)
    if beginning is not None:
        return beginning
    places = source.words.find_words(form, PLACES)
    return places[0] if len(places) == PLACES else None


def find_beginnings(source: UntrustedTexts | WrappedTexts, form: bytes) -> Iterator[tuple[int, int]]:
    """Find the texts, and offsets in them, at which a value starts at the beginning of a word."""
    for number, offset in source.words.find_words(form, PLACES):
        if fold_bytes(source.body(number)[offset : offset + 8 * len(form) + 64]).startswith(form):
            yield number, offset


def find_mentions(words: WordIndex, texts: Sequence[Text], name: str) -> Iterator[Text]:
    """Find the texts that hold a name verbatim as a whole token, up to a bound of places that begin as it does.

    Args:
        words: the index of the texts.
        texts: as many as are indexed.
        name: the name, with at least one letter or digit.
    """
    body = name.strip()
    places = words.find_words(head_of(body), PLACES)
    if not places:
        return
    pattern, lead = build_mention_pattern(body), count_lead(body)
    for number, offset in places:
        if matches_at(texts[number].body, offset, pattern, lead, len(body)):
            yield texts[number]
