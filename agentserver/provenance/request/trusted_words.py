"""Words of the trusted principal, indexed for every question that a decision asks about a request.

They grow only by a principal's words. Queries use indexes, so their cost does not grow with the conversation.

Parts of the words that order nothing (quotations, pasted lines and exclusions) only take authority away: a missed part
counts as an order, one found by mistake leads to a refusal or a question. Lossless spellings in which an agent may
repeat the words for a program (paths with the home or own directory expanded, parts of a path, digits without spaces)
are used only for the principal's own words, never for lists.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import accumulate, chain, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from unicodedata import normalize

from agentserver.provenance.evidence.authority import (
    build_beginning_pattern,
    build_mention_pattern,
    find_tokens,
)
from agentserver.provenance.evidence.destinations import (
    MARKS,
    PlaceForm,
    fold_mailbox,
    parse_destination,
    strip_mark,
)
from agentserver.provenance.evidence.folding import fold, fold_bytes
from agentserver.provenance.evidence.index import SPAN, Index
from agentserver.provenance.evidence.leaves import find_typed_keys
from agentserver.provenance.evidence.lexicon import find_words, fold_word
from agentserver.provenance.evidence.readings import CUT, read_keys
from agentserver.provenance.evidence.words import WordIndex, count_lead, head_of, matches_at
from agentserver.provenance.request.exclusions import IgnoredSpan, find_exclusions
from agentserver.provenance.request.languages import is_common

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from agentserver.provenance.evidence.destinations import Destination

_T = TypeVar("_T")

LONGEST_SPEECH: Final = 100_000
"""Maximum characters of one quotation."""

_QUOTED: Final = re.compile(
    rf"""“([^“”]{{1,{LONGEST_SPEECH}}})”|„([^„“”]{{1,{LONGEST_SPEECH}}})[“”]|«([^«»]{{1,{LONGEST_SPEECH}}})»|»([^«»]{{1,{LONGEST_SPEECH}}})«|「([^「」]{{1,{LONGEST_SPEECH}}})」"""
    rf"""|『([^『』]{{1,{LONGEST_SPEECH}}})』|(?<!\w)‘([^‘’\n]{{1,{LONGEST_SPEECH}}})’(?!\w)|"([^"\n]{{1,{LONGEST_SPEECH}}})\""""
    rf"""|(?<!\w)'([^'\n]{{1,{LONGEST_SPEECH}}})'(?!\w)|```([^`]{{1,{LONGEST_SPEECH}}})```|`([^`\n]{{1,{LONGEST_SPEECH}}})`"""
)
_PASTED: Final = re.compile(r"^[ \t]*>.*$|^[ \t]*([-=_*#~])\1{4,}+(?:[^\n]*\1{5})?+[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class IgnoredSpans:
    """Parts of one text that order nothing: ``quoted`` are the quotations, ``other`` all others.

    Both are sorted and free of overlaps, so that one bisection finds the span that covers an offset.
    """

    quoted: tuple[IgnoredSpan, ...] = ()
    other: tuple[IgnoredSpan, ...] = ()

    def overlap(self, start: int, end: int) -> bool:
        """Check whether any part overlaps the text from ``start`` to ``end``."""
        return any(_find_covering(parts, start, end) is not None for parts in (self.quoted, self.other))

    def may_order(self, start: int, end: int) -> bool:
        """Check whether the text from ``start`` to ``end`` may be an order."""
        if _find_covering(self.other, start, end) is not None:
            return False
        quotation = _find_covering(self.quoted, start, end)
        return quotation is None or (quotation.start, quotation.end) == (start, end)


def find_ignored_spans(text: str) -> IgnoredSpans:
    """Find the parts of a text that order nothing."""
    other: list[IgnoredSpan] = []
    quoted = tuple(_find_quotations(text))
    for part in sorted([*_find_pasted(text), *find_exclusions(text, quoted)], key=_start_of):
        if other and part.start <= other[-1].end:
            other[-1] = IgnoredSpan(other[-1].start, max(other[-1].end, part.end))
        else:
            other.append(part)
    return IgnoredSpans(quoted, tuple(other))


def _find_covering(parts: tuple[IgnoredSpan, ...], start: int, end: int) -> IgnoredSpan | None:
    """Find a span that overlaps an interval. Only the last span before its end can."""
    before = bisect_left(parts, end, key=_start_of)
    return parts[before - 1] if before and parts[before - 1].end > start else None


def _start_of(part: IgnoredSpan) -> int:
    return part.start


def _find_quotations(text: str) -> list[IgnoredSpan]:
    found = []
    for match in _QUOTED.finditer(text):
        number = match.lastindex or 0
        body = match[number]
        begin = match.start(number) + len(body) - len(body.lstrip())
        found.append(IgnoredSpan(begin, begin + len(body.strip())))
    return found


def _find_pasted(text: str) -> list[IgnoredSpan]:
    """Find lines marked as quoted from another author, and text after a ruled line up to the next one."""
    found, ruled = [], None
    for match in _PASTED.finditer(text):
        if match[1] is None:
            found.append(IgnoredSpan(*match.span()))
        elif ruled is None:
            ruled = match.end()
        else:
            found.append(IgnoredSpan(ruled, match.start()))
            ruled = None
    if ruled is not None:
        found.append(IgnoredSpan(ruled, len(text)))
    return found


LONGEST_SPELLING: Final = 256
"""Maximum characters of a path that is split into parts."""

_HOME: Final = re.compile(r"/(?:home|Users)/[^/\\s]+/|/root/|[A-Za-z]:[\\/]Users[\\/][^\\/]+[\\/]")
_DIGITS: Final = re.compile(r"(?<![\w.,-])\d(?:[ \u00a0-]?\d){5,39}+(?![\w-]|[ \u00a0.,]\d)")
_GROUP: Final = re.compile(r"\d+")
_GROUPS: Final = re.compile(r"\d+(?:[ \u00a0-]\d+)*")
_SLUG: Final = re.compile(r"(?<![\w@./:?#=&-])[\w.-]+(?:/[\w.-]+){1,7}(?![\w@/?#=&-]|:(?!\s|$))")
_MARKED: Final = re.compile(r"([a-z])[\u0300-\u036f]+", re.IGNORECASE)
"""Latin letter with marks, decomposed. In other scripts a mark is a letter or a vowel of its own."""
_SCHEME: Final = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def list_spellings(body: str) -> Iterator[str]:
    """List the spellings in which a principal may have written a value, first the value without leading marks."""
    yield strip_mark(body)
    relative = body.removeprefix("./")
    if relative != body and relative[:1].isalnum():
        yield relative
    for short in list_home_paths(body):
        yield short
        yield short.removeprefix("~/")


def list_home_paths(body: str) -> tuple[str, ...]:
    """List the spelling of a path in a home directory that begins with ``~``; empty for other texts."""
    home = _HOME.match(body)
    return () if home is None or home.end() == len(body) else (f"~/{body[home.end() :]}",)


def strip_marks(name: str) -> str:
    """Strip the marks of Latin letters from a name: ``Tomás`` is ``Tomas``."""
    return name if name.isascii() else normalize("NFC", _MARKED.sub(r"\1", normalize("NFD", name)))


def split_path(text: str) -> Iterator[str]:
    """Split paths such as ``owner/name`` into parts, except links and texts that begin with a host."""
    for match in _SLUG.finditer(text):
        steps = match.group().split("/")
        if len(match.group()) <= LONGEST_SPELLING and "." not in steps[0].rstrip("."):
            yield from (step.strip(".") for step in steps if step.strip("."))


def join_groups(text: str) -> tuple[str, ...]:
    """List the numbers that a text begins with: of one group of digits, of two, and so on."""
    return tuple(accumulate(_GROUP.findall(run.group()))) if (run := _GROUPS.match(text)) else ()


def join_digits(text: str) -> Iterator[str]:
    """Find the long numbers of a text, without spaces and hyphens: ``4417 0092 6651`` is ``441700926651``."""
    return (digits for digits, _, _ in find_digit_runs(text))


def find_digit_runs(text: str) -> Iterator[tuple[str, int, int]]:
    """Find the long numbers of a text, each with its start and end."""
    for match in _DIGITS.finditer(text):
        yield re.sub(r"\D", "", match.group()), *match.span()


_JOINED: Final = frozenset("@/:+=&?#%_")
"""Characters that make an adjacent number part of something else."""
ANSWERS: Final = 512
"""Maximum names, and evidence forms, with a cached answer."""
LONGEST: Final = 256
"""Maximum length of such a name or form."""
LONG_ANSWERS: Final = 4
"""Maximum longer names with a cached answer, such as the text of a message that repeats the request."""
LONGEST_KEPT: Final = 1 << 16
"""Maximum length of a longer name with a cached answer."""
BEGINNING: Final = 64
"""Characters of a longer name that are looked for first, since a pattern of all of it takes long to make."""
SEARCHED: Final = 1024
"""Maximum bytes of a request's evidence form that are searched for the beginning of a name before the index is."""
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
    audible: tuple[str, ...] = field(default=(), compare=False, repr=False)
    _readings: dict[str, frozenset[str]] = field(default_factory=dict, compare=False, repr=False)
    _mentioned: dict[tuple[str, bool], bool] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    _long: dict[tuple[str, bool], bool] = field(default_factory=dict, init=False, compare=False, repr=False)
    _answers: dict[bytes, bool] = field(default_factory=dict, init=False, compare=False, repr=False)
    _once: dict[object, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    _read: dict[object, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    # A decision asks for one name several times, and the next one for the same.

    def add(self, *texts: str) -> TrustedWords:
        """Add words."""
        texts = tuple(normalize("NFC", words) for words in texts)
        silent = tuple(map(find_ignored_spans, texts))
        tokens = list(
            dict.fromkeys(token for pair in zip(texts, silent, strict=True) for token in _list_tokens(*pair))
        )
        audible = [_strip_ignored(*pair) for pair in zip(texts, silent, strict=True)]
        parsed = (place for place in map(parse_destination, tokens) if place.form is not PlaceForm.NONE)
        index = self.index
        for words in texts:
            index = index.add((fold_bytes(words),))
        return TrustedWords(
            (*self.queries, *texts),
            self.words.add(texts),
            index,
            self.places.union((place.form, key) for place in parsed for key in _list_own_keys(place)),
            MappingProxyType({**{fold(token): token for token in reversed(tokens)}, **self.shapes}),
            self.kinds.union(*map(_list_kinds, audible)),
            (*self.ignored, *silent),
            self.parts.union(part.lower() for words in audible for part in split_path(words)),
            self.digits.union(
                each for pair in zip(texts, silent, strict=True) for each in _list_numbers(*pair)
            ),
            (*self.audible, *(_strip_ignored(*pair, CUT) for pair in zip(texts, silent, strict=True))),
            self._readings,
        )

    def read_values(self, conventions: frozenset[str]) -> frozenset[str]:
        """Read the days, times and amounts of the words under some conventions, which are read when first asked for."""
        known = self._read.get(conventions)
        if known is None:
            known = frozenset(_list_read_keys(self.audible, self._readings, conventions))
            _cache(self._read, conventions, known, ANSWERS)
        return known

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
        short = len(name) <= LONGEST
        answers = self._mentioned if short else self._long
        known = answers.get((name, any_case))
        if known is None:
            known = self._mentions(name, any_case=any_case)
            if len(name) <= LONGEST_KEPT:
                _cache(answers, (name, any_case), known, ANSWERS if short else LONG_ANSWERS)
        return known

    def _mentions(self, name: str, *, any_case: bool) -> bool:
        body = normalize("NFC", name.strip())
        head = head_of(body)
        places = self.words.find_words(head, LOOKED_AT) if self._may_hold(head) else ()
        if not places:
            return False
        lead, length = count_lead(body), len(body)
        if length > LONGEST:
            begin = build_beginning_pattern(body[:BEGINNING], any_case=any_case)
            places = tuple(
                [
                    (number, offset)
                    for number, offset in places
                    if offset >= lead and begin.match(self.queries[number], offset - lead)
                ]
            )
        if not places:
            return False
        pattern = build_mention_pattern(body, any_case=any_case, marked=True)
        return any(
            matches_at(self.queries[number], offset, pattern, lead, length)
            and self.ignored[number].may_order(offset - lead, offset - lead + length)
            for number, offset in places
        )

    def _may_hold(self, head: bytes) -> bool:
        """Check whether a short request may hold a word that begins so. Most names are in no request."""
        segments = self.index.segments
        return len(segments) != 1 or len(segments[0].blob) > SEARCHED or head in segments[0].blob

    def mentions_plainly(self, name: str) -> bool:
        """Check whether the words hold a name in any letter case, or its letters without their marks.

        This chooses among things that exist, such as the entries of a directory. It names no receiver by itself.
        """
        plain = strip_marks(name)
        return self.mentions(name, any_case=True) or (plain != name and self.mentions(plain, any_case=True))

    def mentions_form(self, word: str) -> bool:
        """Check whether the words hold a form of a word, which ends otherwise, such as ``Mareks`` for ``Marek``.

        Another name may look like a form, so that it counts only for a sender that no untrusted text could mislead.
        """
        wanted = fold_word(word)
        return self.mentions(word, any_case=True) or any(
            are_forms(wanted, other) for words in self.audible for other, _, _ in find_words(words)
        )

    def chooses(self, name: str) -> bool:
        """Check whether the words hold a choice, in any letter case or alternative spelling, or as part of a path."""
        body = name.strip()
        known = any(self.mentions(spelling, any_case=True) for spelling in list_spellings(body))
        return known or body.lower() in self.parts

    def says(self, form: bytes) -> bool:
        """Check whether the words hold a text of this evidence form in one piece."""
        known = self._answers.get(form)
        if known is None:
            known = self._says(form)
            if len(form) <= LONGEST:
                _cache(self._answers, form, known, ANSWERS)
        return known

    def says_any(self, wanted: frozenset[str]) -> bool:
        """Check whether the words hold one of several single words, which are folded. It is computed once."""
        return self._compute_once(
            wanted,
            lambda audible: any(word in wanted for words in audible for word, _, _ in find_words(words)),
        )

    def derive_once(self, derive: Callable[[tuple[str, ...]], _T]) -> _T:
        """Derive a value from the audible words, once. It depends on nothing else."""
        return self._compute_once(derive, derive)

    def _compute_once(self, about: object, derive: Callable[[tuple[str, ...]], _T]) -> _T:
        if about not in self._once:
            _cache(self._once, about, derive(self.audible), ANSWERS)
        return cast("_T", self._once[about])

    def read_once(self, body: str, read: Callable[[TrustedWords, str], _T]) -> _T:
        """Read a text together with these words, once. The result depends on nothing else."""
        known: _T | None = self._read.get((read, body))
        if known is None:
            known = read(self, body)
            if len(body) <= LONGEST:
                _cache(self._read, (read, body), known, ANSWERS)
        return known

    def list_orders(self) -> Iterator[TrustedWords]:
        """List the sentences of the words that are no question, each alone, up to a bound."""
        sentences = (each.strip() for words in self.audible for each in split_sentences(words))
        orders = (each for each in sentences if each and not ends_as_question(each))
        return (TrustedWords().add(each) for each in islice(orders, SENTENCES))

    def _says(self, form: bytes) -> bool:
        if len(form) >= SPAN:
            return self.index.holds_whole(form)
        reach = 8 * len(form) + 64
        found = self.words.find_words(form, LOOKED_AT)
        pieces = (self.queries[number][offset : offset + reach] for number, offset in found)
        return any(fold_bytes(piece).startswith(form) for piece in pieces)


SENTENCES: Final = 16
"""Maximum sentences of a request that are looked at one by one."""
_ASKING: Final = frozenset("?\uff1f\u061f\u2047\u2048")
_GREEK: Final = re.compile("[\u0370-\u03ff]")
_SENTENCE: Final = re.compile(r"(?<=[.!?;؟])\s+|(?<=[。！？])|\n+")


def ends_as_question(sentence: str) -> bool:
    """Check whether a sentence ends as a question. In Greek that is a semicolon, which elsewhere ends any sentence."""
    mark = sentence.rstrip()[-1:]
    return mark in _ASKING or (mark == ";" and _GREEK.search(sentence) is not None)


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences; the point of an abbreviation ends one too."""
    return _SENTENCE.split(text)


def cut_last_questions(texts: Iterable[str]) -> TrustedWords | None:
    """Cut off the questions at the end of the words; None without such questions, or without an order before them."""
    sentences = [each.strip() for text in texts for each in split_sentences(text) if each.strip()][:SENTENCES]
    orders = [number for number, each in enumerate(sentences) if not ends_as_question(each)]
    if not orders or orders[-1] == len(sentences) - 1:
        return None
    return TrustedWords().add("\n".join(sentences[: orders[-1] + 1]))


STEM: Final = 4
"""Minimum letters that two forms of a word have in common."""
ENDING: Final = 3
"""Maximum letters after them."""


def list_telling_words(text: str) -> frozenset[str]:
    """List the folded words in a text that may name something, without short, common and mixed ones."""
    words = (word for word, _, _ in find_words(text))
    return frozenset(word for word in words if len(word) >= STEM and word.isalpha() and not is_common(word))


def are_forms(one: str, other: str) -> bool:
    """Check whether two words are the same but for their ends."""
    pairs = enumerate(zip(one, other, strict=False))
    stem = next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))
    return stem >= STEM and max(len(one), len(other)) - stem <= ENDING


def has_form_of(text: str, words: frozenset[str]) -> bool:
    """Check whether a text has one of the words, which may end otherwise, such as in the plural."""
    return any(are_forms(one, other) for one in list_telling_words(text) for other in words)


def _list_read_keys(
    audible: Iterable[str], known: dict[str, frozenset[str]], conventions: frozenset[str]
) -> Iterator[str]:
    """List the keys of the days, times and amounts of texts that hold under some conventions."""
    for key in chain.from_iterable(_read_cached(known, words) for words in audible):
        plain, _, convention = key.partition("@")
        if not convention or convention in conventions:
            yield plain


def _read_cached(known: dict[str, frozenset[str]], words: str) -> frozenset[str]:
    """Read each request once."""
    if words not in known:
        known[words] = frozenset(read_keys(words))
    return known[words]


def _cache(known: dict[Any, _T], about: object, answer: _T, most: int) -> None:
    """Cache an answer, up to a number of them."""
    if len(known) >= most:
        known.clear()
    known[about] = answer


def _list_tokens(words: str, silent: IgnoredSpans) -> Iterator[str]:
    """List the tokens that may be an order."""
    return (token for token, start in find_tokens(words) if silent.may_order(start, start + len(token)))


def _list_numbers(words: str, silent: IgnoredSpans) -> Iterator[str]:
    """List the long numbers that may be an order, in any grouping, except parts of a link."""
    for digits, start, end in find_digit_runs(words):
        separate = words[max(0, start - 1) : start] not in _JOINED and words[end : end + 1] not in _JOINED
        if separate and silent.may_order(start, end):
            yield digits


def _strip_ignored(words: str, silent: IgnoredSpans, mark: str = " ") -> str:
    """Strip the parts of a text that order nothing, except quotations, which may be names."""
    parts, end = [], 0
    for part in silent.other:
        parts.append(words[end : part.start])
        end = part.end
    return mark.join((*parts, words[end:]))


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
