"""The words of the trusted principal, indexed: what they name, and which words are theirs.

Owns every question that a decision puts to a request. Refuses to grow from anything but a principal's words. No answer
costs more for having been asked more: an index names the places, and only those are read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from unicodedata import normalize

from agentserver.provenance.evidence.authority import mention, named
from agentserver.provenance.evidence.destinations import MARKS, PlaceForm, destination, mailbox
from agentserver.provenance.evidence.folding import fold, fold_bytes
from agentserver.provenance.evidence.index import SPAN, Index
from agentserver.provenance.evidence.leaves import typed_in
from agentserver.provenance.evidence.words import WordIndex, head_of, lead_of, standing
from agentserver.provenance.request.speech import silences
from agentserver.provenance.request.spellings import joined_digits, parts, runs_of_digits, spellings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.request.speech import Silences

_JOINED: Final = frozenset("@/:+=&?#%_")
"""Characters that make a number beside them a part of something else."""
ANSWERS: Final = 512
"""Names, and evidence forms, of which it is kept whether the words hold them."""
LONGEST: Final = 256
"""Length of such a name or form."""
LOOKED_AT: Final = 1024
"""Places with one beginning that are looked at: a name that stands behind more of them is not found."""


@dataclass(frozen=True, slots=True)
class TrustedWords:
    """The words of a principal: ``kinds`` are its numbers and dates, ``shapes`` its tokens by their evidence form.

    ``silent`` are the parts of each of its texts that order nothing: they name no destination and choose nothing.
    """

    queries: tuple[str, ...] = ()
    words: WordIndex = field(default=WordIndex(), compare=False, repr=False)
    index: Index = field(default=Index(), compare=False, repr=False)
    places: frozenset[tuple[PlaceForm, str]] = field(default=frozenset(), compare=False, repr=False)
    shapes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), compare=False, repr=False)
    kinds: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    silent: tuple[Silences, ...] = field(default=(), compare=False, repr=False)
    parts: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    digits: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    _mentioned: dict[tuple[str, bool], bool] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    _said: dict[bytes, bool] = field(default_factory=dict, init=False, compare=False, repr=False)
    # A decision asks for one name several times, and the next one for the same.

    def add(self, *said: str) -> TrustedWords:
        """The same with more words."""
        said = tuple(normalize("NFC", words) for words in said)
        silent = tuple(map(silences, said))
        tokens = list(
            dict.fromkeys(token for pair in zip(said, silent, strict=True) for token in _heard(*pair))
        )
        audible = [_audible(*pair) for pair in zip(said, silent, strict=True)]
        parsed = (place for place in map(destination, tokens) if place.form is not PlaceForm.NONE)
        index = self.index
        for words in said:
            index = index.add((fold_bytes(words),))
        return TrustedWords(
            (*self.queries, *said),
            self.words.add(said),
            index,
            self.places.union((place.form, key) for place in parsed for key in _own(place)),
            MappingProxyType({**{fold(token): token for token in reversed(tokens)}, **self.shapes}),
            self.kinds.union(*map(_kinds, audible)),
            (*self.silent, *silent),
            self.parts.union(part.lower() for words in audible for part in parts(words)),
            self.digits.union(each for pair in zip(said, silent, strict=True) for each in _numbers(*pair)),
        )

    def names(self, place: Destination) -> bool:
        """True when the words name a destination as a whole token, compared after parsing.

        It is the principal's own word, so that the letter case of a mailbox, a mark before a name, the spaces in a
        number, and a scheme of the web that was not said or is the safer one, may differ.
        """
        if place.form is PlaceForm.NAME:
            name = place.key.lstrip("".join(MARKS))
            return name in self.digits or self.mentions(name, any_case=True)
        return (
            place.form,
            mailbox(place.key) if place.form is PlaceForm.ADDRESS else place.key,
        ) in self.places

    def mentions(self, name: str, *, any_case: bool = False) -> bool:
        """True when the words hold a name as a whole token, where it may be an order."""
        known = self._mentioned.get((name, any_case))
        if known is None:
            known = self._mentions(name, any_case=any_case)
            _keep(self._mentioned, (name, any_case), known)
        return known

    def _mentions(self, name: str, *, any_case: bool) -> bool:
        body = normalize("NFC", name.strip())
        places = self.words.starting(head_of(body), LOOKED_AT)
        if not places:
            return False
        pattern = mention(body, any_case=any_case, marked=True)
        lead, length = lead_of(body), len(body)
        return any(
            standing(self.queries[number], offset, pattern, lead, length)
            and self.silent[number].heard(offset - lead, offset - lead + length)
            for number, offset in places
        )

    def chooses(self, name: str) -> bool:
        """True when the words hold a choice, in any case of letters, in a spelling of its own, or as part of a path."""
        body = name.strip()
        known = any(self.mentions(spelling, any_case=True) for spelling in spellings(body))
        return known or body.lower() in self.parts

    def says(self, form: bytes) -> bool:
        """True when the words hold a text of this evidence form in one piece."""
        known = self._said.get(form)
        if known is None:
            known = self._says(form)
            _keep(self._said, form, known)
        return known

    def _says(self, form: bytes) -> bool:
        if len(form) >= SPAN:
            return any(hit.length == len(form) for hit in self.index.hits(form))
        reach = 8 * len(form) + 64
        found = self.words.starting(form, LOOKED_AT)
        pieces = (self.queries[number][offset : offset + reach] for number, offset in found)
        return any(fold_bytes(piece).startswith(form) for piece in pieces)


def _keep(known: dict[Any, bool], about: str | bytes | tuple[str, bool], answer: bool) -> None:  # noqa: FBT001 - a value
    """Keep an answer about what is short, and no more than so many."""
    if len(about[0] if isinstance(about, tuple) else about) <= LONGEST:
        if len(known) >= ANSWERS:
            known.clear()
        known[about] = answer


def _heard(words: str, silent: Silences) -> Iterator[str]:
    """The tokens that may be an order."""
    return (token for token, start in named(words) if silent.heard(start, start + len(token)))


def _numbers(words: str, silent: Silences) -> Iterator[str]:
    """The long numbers that may be an order, however their digits are grouped; none that is a part of a link."""
    for digits, start, end in runs_of_digits(words):
        alone = words[max(0, start - 1) : start] not in _JOINED and words[end : end + 1] not in _JOINED
        if alone and silent.heard(start, end):
            yield digits


def _audible(words: str, silent: Silences) -> str:
    """The words without those parts that order nothing. What a quotation is filled with may be a name, and stays."""
    kept, end = [], 0
    for part in silent.other:
        kept.append(words[end : part.start])
        end = part.end
    return " ".join((*kept, words[end:]))


def _kinds(words: str) -> Iterator[str]:
    """The numbers and dates of a text, and the long numbers in it however they are grouped."""
    yield from typed_in(words)
    yield from (f"number {digits.lstrip('0') or '0'}" for digits in joined_digits(words))


def _own(place: Destination) -> Iterator[str]:
    """The keys of a place that the principal named itself. A scheme that was said is never weakened."""
    if place.form is PlaceForm.ADDRESS:
        yield mailbox(place.key)
        return
    yield place.key
    if place.form is PlaceForm.LINK and place.scheme == "http" and not place.port:
        yield place.key.replace("http:", "https:", 1)
    elif place.form is PlaceForm.LINK and "://" not in place.written and place.scheme == "https":
        yield destination(f"http://{place.written}").key
