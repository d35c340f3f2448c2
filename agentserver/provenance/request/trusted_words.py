"""Words of the trusted principal, indexed for every question that a decision asks about a request.

They grow only by a principal's words. Queries use indexes, so their cost does not grow with the conversation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from unicodedata import normalize

from agentserver.provenance.evidence.authority import find_tokens, mention_pattern
from agentserver.provenance.evidence.destinations import MARKS, PlaceForm, fold_mailbox, parse_destination
from agentserver.provenance.evidence.folding import fold, fold_bytes
from agentserver.provenance.evidence.index import SPAN, Index
from agentserver.provenance.evidence.leaves import find_typed_keys
from agentserver.provenance.evidence.words import WordIndex, head_of, lead_of, matches_at
from agentserver.provenance.request.speech import find_ignored_spans
from agentserver.provenance.request.spellings import find_digit_runs, join_digits, list_spellings, split_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.request.speech import IgnoredSpans

_JOINED: Final = frozenset("@/:+=&?#%_")
"""Characters that make an adjacent number part of something else."""
ANSWERS: Final = 512
"""Maximum names, and evidence forms, with a cached answer."""
LONGEST: Final = 256
"""Maximum length of such a name or form."""
LOOKED_AT: Final = 1024
"""Maximum places with the same beginning that are checked. A name after more of them is not found."""


@dataclass(frozen=True, slots=True)
class TrustedWords:
    """Words of a principal: ``kinds`` are its numbers and dates, ``shapes`` its tokens by their evidence form.

    ``ignored`` are the parts of each text that order nothing: they name no destination and choose nothing.
    """

    queries: tuple[str, ...] = ()
    words: WordIndex = field(default=WordIndex(), compare=False, repr=False)
    index: Index = field(default=Index(), compare=False, repr=False)
    places: frozenset[tuple[PlaceForm, str]] = field(default=frozenset(), compare=False, repr=False)
    shapes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), compare=False, repr=False)
    kinds: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    ignored: tuple[IgnoredSpans, ...] = field(default=(), compare=False, repr=False)
    parts: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    digits: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    _mentioned: dict[tuple[str, bool], bool] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    _said: dict[bytes, bool] = field(default_factory=dict, init=False, compare=False, repr=False)
    # A decision asks for one name several times, and the next one for the same.

    def add(self, *said: str) -> TrustedWords:
        """Add words."""
        said = tuple(normalize("NFC", words) for words in said)
        silent = tuple(map(find_ignored_spans, said))
        tokens = list(
            dict.fromkeys(token for pair in zip(said, silent, strict=True) for token in _list_tokens(*pair))
        )
        audible = [_strip_ignored(*pair) for pair in zip(said, silent, strict=True)]
        parsed = (place for place in map(parse_destination, tokens) if place.form is not PlaceForm.NONE)
        index = self.index
        for words in said:
            index = index.add((fold_bytes(words),))
        return TrustedWords(
            (*self.queries, *said),
            self.words.add(said),
            index,
            self.places.union((place.form, key) for place in parsed for key in _list_own_keys(place)),
            MappingProxyType({**{fold(token): token for token in reversed(tokens)}, **self.shapes}),
            self.kinds.union(*map(_list_kinds, audible)),
            (*self.ignored, *silent),
            self.parts.union(part.lower() for words in audible for part in split_path(words)),
            self.digits.union(
                each for pair in zip(said, silent, strict=True) for each in _list_numbers(*pair)
            ),
        )

    def names(self, place: Destination) -> bool:
        """Check whether the words name a destination as a whole token, compared after parsing.

        The principal may vary the letter case of a mailbox, a mark before a name, the spaces in a number, and a web
        scheme that is missing or the safer one.
        """
        if place.form is PlaceForm.NAME:
            name = place.key.lstrip("".join(MARKS))
            return name in self.digits or self.mentions(name, any_case=True)
        return (
            place.form,
            fold_mailbox(place.key) if place.form is PlaceForm.ADDRESS else place.key,
        ) in self.places

    def mentions(self, name: str, *, any_case: bool = False) -> bool:
        """Check whether the words hold a name as a whole token in a part that may be an order."""
        known = self._mentioned.get((name, any_case))
        if known is None:
            known = self._mentions(name, any_case=any_case)
            _cache(self._mentioned, (name, any_case), known)
        return known

    def _mentions(self, name: str, *, any_case: bool) -> bool:
        body = normalize("NFC", name.strip())
        places = self.words.find_words(head_of(body), LOOKED_AT)
        if not places:
            return False
        pattern = mention_pattern(body, any_case=any_case, marked=True)
        lead, length = lead_of(body), len(body)
        return any(
            matches_at(self.queries[number], offset, pattern, lead, length)
            and self.ignored[number].may_order(offset - lead, offset - lead + length)
            for number, offset in places
        )

    def chooses(self, name: str) -> bool:
        """Check whether the words hold a choice, in any letter case or alternative spelling, or as part of a path."""
        body = name.strip()
        known = any(self.mentions(spelling, any_case=True) for spelling in list_spellings(body))
        return known or body.lower() in self.parts

    def says(self, form: bytes) -> bool:
        """Check whether the words hold a text of this evidence form in one piece."""
        known = self._said.get(form)
        if known is None:
            known = self._says(form)
            _cache(self._said, form, known)
        return known

    def _says(self, form: bytes) -> bool:
        if len(form) >= SPAN:
            return any(hit.length == len(form) for hit in self.index.hits(form))
        reach = 8 * len(form) + 64
        found = self.words.find_words(form, LOOKED_AT)
        pieces = (self.queries[number][offset : offset + reach] for number, offset in found)
        return any(fold_bytes(piece).startswith(form) for piece in pieces)


def _cache(known: dict[Any, bool], about: str | bytes | tuple[str, bool], answer: bool) -> None:  # noqa: FBT001 - a value
    """Cache the answer about a short name, up to a bound."""
    if len(about[0] if isinstance(about, tuple) else about) <= LONGEST:
        if len(known) >= ANSWERS:
            known.clear()
        known[about] = answer


def _list_tokens(words: str, silent: IgnoredSpans) -> Iterator[str]:
    """List the tokens that may be an order."""
    return (token for token, start in find_tokens(words) if silent.may_order(start, start + len(token)))


def _list_numbers(words: str, silent: IgnoredSpans) -> Iterator[str]:
    """List the long numbers that may be an order, in any grouping, except parts of a link."""
    for digits, start, end in find_digit_runs(words):
        alone = words[max(0, start - 1) : start] not in _JOINED and words[end : end + 1] not in _JOINED
        if alone and silent.may_order(start, end):
            yield digits


def _strip_ignored(words: str, silent: IgnoredSpans) -> str:
    """Strip the parts of a text that order nothing, except quotations, which may be names."""
    kept, end = [], 0
    for part in silent.other:
        kept.append(words[end : part.start])
        end = part.end
    return " ".join((*kept, words[end:]))


def _list_kinds(words: str) -> Iterator[str]:
    """List the numbers and dates of a text, and its long numbers in any grouping."""
    yield from find_typed_keys(words)
    yield from (f"number {digits.lstrip('0') or '0'}" for digits in join_digits(words))


def _list_own_keys(place: Destination) -> Iterator[str]:
    """List the keys of a place that the principal named. A given scheme is never weakened."""
    if place.form is PlaceForm.ADDRESS:
        yield fold_mailbox(place.key)
        return
    yield place.key
    if place.form is PlaceForm.LINK and place.scheme == "http" and not place.port:
        yield place.key.replace("http:", "https:", 1)
    elif place.form is PlaceForm.LINK and "://" not in place.written and place.scheme == "https":
        yield parse_destination(f"http://{place.written}").key
