"""Finds the parts of a request that its own negations exclude.

Splits a text into sentences and their pieces between commas; further negating words are in ``languages``.
It knows no further grammar, and when in doubt excludes more.

Negations only take authority away. In a language that is missing here, a negation has no effect and the destination
counts as named.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cached_property
from itertools import chain, groupby, pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.provenance.request.languages import (
    WORD_LISTS,
    find_common_words,
    is_common,
    is_foreign,
    joins,
    may_join,
    split_phrases,
    starts_condition,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def _split_words(name: str) -> frozenset[str]:
    return frozenset(word for words in WORD_LISTS[name].values() for word in split_phrases(words))


def _index_languages(*names: str) -> Mapping[str, frozenset[str]]:
    found = defaultdict[str, set[str]](set)
    for language, words in chain.from_iterable(WORD_LISTS[name].items() for name in names):
        for word in split_phrases(words):
            found[word].add(language)
    return MappingProxyType({word: frozenset(languages) for word, languages in found.items()})


LANGUAGES: Final = _index_languages("negations", "negations_around")
"""Negating words that are separate words, with their languages."""
AROUND: Final = _split_words("negations_around")
UNSPACED: Final = _split_words("negations_unspaced")
ANSWERS: Final = _split_words("answers")
AFFIRMATIONS: Final = _split_words("affirmations")


_APOSTROPHES: Final = str.maketrans(dict.fromkeys("\u2018\u2019\u02bc\u02b9\u2032\uff07\u00b4`", "'"))
_FILLER: Final = "#"
"""Replacement for a quotation's text, which may be a name."""
_END: Final = re.compile(
    r"[.!?](?=\s|$)|(?<!\s)(?:(?<=[:,;])\n)?+[^\S\n]*+\n\s*+(?!(?:[-*•–]|\d{1,3}[.)])\s)|[。！？]"
)
"""End of a sentence, with the white space after it. A list below a colon, or of lines with marks, does not end one."""
_BREAK: Final = re.compile(r"[;:,](?=\s|$)|[\n，、；：]")
_SAYS: Final = re.compile(rf"[\w{_FILLER}@]")
_TOKEN: Final = re.compile(r"\S+")
_EDGES: Final = "\"'()[]{}<>.!?-*•–"
_PLAIN: Final = re.compile(r"[^\W\d_A-Z]+(?:['’-][^\W\d_]+)*")
_WITHOUT_SPACES: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
)
_NAME: Final = 6
"""Maximum characters of a name in a script without spaces. A longer text is a clause."""


def _join_alternatives(words: Iterable[str]) -> str:
    return "|".join(
        re.escape(word).replace(r"\ ", r"\s+") for word in sorted(words, key=lambda word: (-len(word), word))
    )


_ELIDED: Final = {word for word in LANGUAGES if word.endswith("'")}
_WORD: Final = re.compile(
    rf"(?<!\w)(?:(?:{_join_alternatives(LANGUAGES.keys() - _ELIDED)}|[^\W\d_]{{2,9}}n't)(?!\w)"
    rf"|(?:{_join_alternatives(_ELIDED)})(?=\w))",
    re.IGNORECASE,
)
_AFFIRMING: Final = re.compile(rf"(?<!\w)(?:{_join_alternatives(AFFIRMATIONS)})(?!\w)", re.IGNORECASE)
_CONTRACTED: Final = frozenset({"en"})
_PLACE_MARKS: Final = frozenset("./@")
_PLACE: Final = re.compile(
    r"[(<\[]?(?:https?://|[\w.+-]{1,64}@|(?=[a-z0-9.-]{3,64}(?:$|/))[a-z0-9-]{1,63}\.)", re.ASCII
)
"""Beginning of a link, an address, or a host in lower case. A full stop without a space ends a sentence elsewhere."""
_NUMBER: Final = re.compile(r"[-/]\d")
_DAY: Final = re.compile(r"\d\.?[ \u00a0]\Z")
_YEAR: Final = re.compile(r"[ \u00a0]\d{4}(?!\d)")
_INSIDE: Final = re.compile("|".join(sorted(UNSPACED)))


class IgnoredSpan(NamedTuple):
    """Part of a text that orders nothing, from ``start`` to ``end``.

    A quotation filled by one name is a name in quotation marks, and still orders.
    """

    start: int
    end: int


def find_exclusions(text: str, quoted: Iterable[IgnoredSpan]) -> Iterator[IgnoredSpan]:
    """Find the excluded parts of a text, in order. A quotation excludes nothing, unless one negating word fills it."""
    audible = _mask_quotations(text.translate(_APOSTROPHES), quoted)
    audible = _AFFIRMING.sub(lambda phrase: _FILLER * len(phrase[0]), audible)
    if not (_WORD.search(audible) or _INSIDE.search(audible)):
        return
    begin = 0
    for end in (*(match.end() for match in _END.finditer(audible)), len(audible)):
        yield from _find_in_sentence(_Sentence(audible, begin, end))
        begin = end


def _mask_quotations(text: str, quoted: Iterable[IgnoredSpan]) -> str:
    """Replace quotations with fillers, keeping all offsets."""
    parts, end = [], 0
    for part in quoted:
        body = text[part.start : part.end]
        is_kept = _WORD.fullmatch(body) or not _is_enclosed(text, part)
        parts += [text[end : part.start], body if is_kept else _FILLER * len(body)]
        end = part.end
    return "".join((*parts, text[end:]))


def _is_enclosed(text: str, part: IgnoredSpan) -> bool:
    """Check whether quotation marks touch the words inside and not those outside, unlike inch marks."""
    before, behind = text[max(0, part.start - 2) : part.start], text[part.end : part.end + 2]
    return not (
        before[-1:].isspace() or before[:-1].isalnum() or behind[:1].isspace() or behind[1:].isalnum()
    )


class _Sentence:
    """Sentence of a text, split into pieces between commas."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self.text = text
        breaks = [match.end() for match in _BREAK.finditer(text, start, end)]
        edges = [start, *breaks, end]
        self.pieces = [IgnoredSpan(*edge) for edge in pairwise(edges) if edge[0] < edge[1]]
        self._foreign: dict[str, bool] = {}

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        return find_common_words(self.text[self.pieces[0].start : self.pieces[-1].end])

    def find_excluding_word(self, piece: IgnoredSpan) -> re.Match[str] | None:
        """Find the first negating word of a piece, as far as the language of the sentence is known."""
        found = (each for each in _WORD.finditer(self.text, *piece) if not self._is_in_place(each))
        return next((each for each in found if not self._is_foreign(each)), None)

    def _is_in_place(self, found: re.Match[str]) -> bool:
        """Check whether a word is a part of a link, an address, a host, an id or a date.

        As in ``shop.no``, ``NO-5512`` and ``11. Mai 2026``: in some languages the month is *never*.
        """
        if _YEAR.match(self.text, found.end()) and _DAY.search(
            self.text, max(0, found.start() - 4), found.start()
        ):
            return True
        if found.group().isupper() and _NUMBER.match(self.text, found.end()):
            return True
        if self.text[found.start() - 1 : found.start()] not in _PLACE_MARKS or not found.group().islower():
            return False
        start = max(self.text.rfind(space, 0, found.start()) for space in " \n\t") + 1
        return _PLACE.match(self.text, start, found.end()) is not None

    def _is_foreign(self, found: re.Match[str]) -> bool:
        word = " ".join(found.group().casefold().split())
        if word not in self._foreign:
            languages = LANGUAGES.get(word, _CONTRACTED)
            self._foreign[word] = is_foreign(word, languages, self._vocabulary)
        return self._foreign[word]

    def has_words(self, start: int, end: int) -> bool:
        """Check whether there are words between two offsets."""
        return _SAYS.search(self.text, start, end) is not None

    def split_words(self, start: int, end: int) -> list[str]:
        """Split the text between two offsets into words without punctuation."""
        found = (
            match.group().strip(_EDGES).rstrip(",;:，、；：")
            for match in _TOKEN.finditer(self.text, start, end)
        )
        return [token.strip(_EDGES) for token in found if token.strip(_EDGES)]

    def may_be_list(self, start: int, end: int) -> bool:
        """Check whether the text between two offsets may be members of a list: names, and no clause."""
        first = start == self.pieces[0].start
        words = self.split_words(start, end)
        if first and words and not joins(words[0]):
            words[0] = words[0][0].lower() + words[0][1:]
        return all(joined or _may_be_name([*run]) for joined, run in groupby(words, joins))


def _may_be_name(words: list[str]) -> bool:
    """Check whether words between two conjunctions may be one name: a single word, or no plain words."""
    while words and is_common(words[0]):
        words = words[1:]
    words = [word for word in words if not may_join(word)]
    if len(words) == 1:
        return len(words[0]) <= _NAME or not _WITHOUT_SPACES.search(words[0])
    return not any(_PLAIN.fullmatch(word) and word == word.lower() for word in words)


def _find_in_sentence(sentence: _Sentence) -> Iterator[IgnoredSpan]:
    pieces, text = sentence.pieces, sentence.text
    listed = False
    """True when the members of a list that follow are excepted as well."""
    looked = 0
    for number, piece in enumerate(pieces):
        if _INSIDE.search(text, *piece):
            yield IgnoredSpan(_find_list_start(sentence, looked, number), piece.end)
            listed, looked = False, number + 1
            continue
        word = sentence.find_excluding_word(piece)
        if word is None:
            listed = listed and sentence.may_be_list(*piece)
            if listed:
                yield piece
            continue
        leads, ends = (
            not sentence.has_words(piece.start, word.start()),
            not sentence.has_words(word.end(), piece.end),
        )
        start = word.end()
        if _excludes_before(sentence, piece, word) or (ends and not leads):
            start = piece.start if leads else _find_list_start(sentence, looked, number)
        looked = number + 1
        if ends and looked < len(pieces) and not _is_condition(sentence, piece):
            if not (leads and _is_answer(sentence, number, word)):
                yield IgnoredSpan(start, pieces[-1].end)
                return
        elif start < piece.end:
            yield IgnoredSpan(start, piece.end)
        listed = not (
            leads and number and sentence.may_be_list(word.end(), piece.end)
        ) or not _continues_list(sentence, looked)


def _find_list_start(sentence: _Sentence, looked: int, number: int) -> int:
    """Find where a piece begins, including preceding list members. Each piece is visited once."""
    while number > looked and sentence.may_be_list(*sentence.pieces[number - 1]):
        number -= 1
    return sentence.pieces[number].start


def _excludes_before(sentence: _Sentence, piece: IgnoredSpan, word: re.Match[str]) -> bool:
    """Check whether a word also negates the text before it, unless a conjunction separates them."""
    before = sentence.split_words(piece.start, word.start())
    return word.group().casefold() in AROUND and not (before and joins(before[-1]))


def _is_condition(sentence: _Sentence, piece: IgnoredSpan) -> bool:
    words = sentence.split_words(*piece)
    return bool(words) and starts_condition(words[0])


def _is_answer(sentence: _Sentence, number: int, word: re.Match[str]) -> bool:
    """Check for an answer before the sentence, as in ``No, mail Bob``. More commas may be an insertion."""
    is_complete = len(sentence.pieces) == 2  # noqa: PLR2004  the answer and the sentence
    return is_complete and number == 0 and word.group().casefold() in ANSWERS


def _continues_list(sentence: _Sentence, number: int) -> bool:
    """Check whether a piece continues the list that held a negation: ``Ann, not Eve, and Bob``."""
    words = sentence.split_words(*sentence.pieces[number]) if number < len(sentence.pieces) else []
    return bool(words) and joins(words[0])
