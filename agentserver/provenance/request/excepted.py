"""The parts of a text that its own words except: how far a negation reaches.

Owns sentences, their pieces between commas, and which of them a word that excepts silences. The words are data of
``negations`` and ``languages``. Refuses to know grammar beyond that: where it is in doubt, more is excepted.
"""

from __future__ import annotations

import re
from functools import cached_property
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.provenance.request.languages import common, conditions, foreign, joins, unclear, vocabulary
from agentserver.provenance.request.negations import ANSWERS, AROUND, LANGUAGES, UNSPACED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_APOSTROPHES: Final = str.maketrans(dict.fromkeys("\u2018\u2019\u02bc\u02b9\u2032\uff07\u00b4`", "'"))
_FILLER: Final = "#"
"""It stands for what a quotation says: something that may be a name."""
_END: Final = re.compile(
    r"[.!?](?=\s|$)|(?<!\s)(?:(?<=[:,;])\n)?+[^\S\n]*+\n\s*+(?!(?:[-*•–]|\d{1,3}[.)])\s)|[。！？]"
)
"""The end of a sentence, with the white space behind it. A list below a colon, or of lines with marks, goes on."""
_BREAK: Final = re.compile(r"[;:,](?=\s|$)|[\n，、；：]")
_SAYS: Final = re.compile(rf"[\w{_FILLER}@]")
_TOKEN: Final = re.compile(r"\S+")
_EDGES: Final = "\"'()[]{}<>.!?-*•–"
_PLAIN: Final = re.compile(r"[^\W\d_A-Z]+(?:['’-][^\W\d_]+)*")
_WITHOUT_SPACES: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
)
_NAME: Final = 6
"""Characters of a name in a script that parts no words; more of them are a clause."""


def _any(words: Iterable[str]) -> str:
    return "|".join(
        re.escape(word).replace(r"\ ", r"\s+") for word in sorted(words, key=lambda word: (-len(word), word))
    )


_ELIDED: Final = {word for word in LANGUAGES if word.endswith("'")}
_WORD: Final = re.compile(
    rf"(?<!\w)(?:(?:{_any(LANGUAGES.keys() - _ELIDED)}|[^\W\d_]{{2,9}}n't)(?!\w)|(?:{_any(_ELIDED)})(?=\w))",
    re.IGNORECASE,
)
_CONTRACTED: Final = frozenset({"en"})
_INSIDE: Final = re.compile("|".join(sorted(UNSPACED)))


class Silence(NamedTuple):
    """A part of a text that orders nothing, from ``start`` to ``end``.

    What fills a quotation as a whole is a name in quotation marks, and orders as it would without them.
    """

    start: int
    end: int


def excepted(text: str, quoted: Iterable[Silence]) -> Iterator[Silence]:
    """The parts of a text that are excepted, in order. A quotation excepts nothing, unless one such word fills it."""
    heard = _without(text.translate(_APOSTROPHES), quoted)
    if not (_WORD.search(heard) or _INSIDE.search(heard)):
        return
    begin = 0
    for end in (*(match.end() for match in _END.finditer(heard)), len(heard)):
        yield from _of_sentence(_Sentence(heard, begin, end))
        begin = end


def _without(text: str, quoted: Iterable[Silence]) -> str:
    """A text with fillers for what it quotes. Its places stay what they are."""
    parts, end = [], 0
    for part in quoted:
        body = text[part.start : part.end]
        kept = _WORD.fullmatch(body) or not _enclosed(text, part)
        parts += [text[end : part.start], body if kept else _FILLER * len(body)]
        end = part.end
    return "".join((*parts, text[end:]))


def _enclosed(text: str, part: Silence) -> bool:
    """True for words between marks that stand close to them and apart from others, as those of inches do not."""
    before, behind = text[max(0, part.start - 2) : part.start], text[part.end : part.end + 2]
    return not (
        before[-1:].isspace() or before[:-1].isalnum() or behind[:1].isspace() or behind[1:].isalnum()
    )


class _Sentence:
    """A sentence of a text: its pieces between commas, and what stands in them."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self.text = text
        breaks = [match.end() for match in _BREAK.finditer(text, start, end)]
        edges = [start, *breaks, end]
        self.pieces = [Silence(*edge) for edge in pairwise(edges) if edge[0] < edge[1]]
        self._foreign: dict[str, bool] = {}

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        return vocabulary(self.text[self.pieces[0].start : self.pieces[-1].end])

    def word(self, piece: Silence) -> re.Match[str] | None:
        """The first word of a piece that excepts in the language of the sentence, as far as that is known."""
        return next(
            (found for found in _WORD.finditer(self.text, *piece) if not self._means_nothing(found)), None
        )

    def _means_nothing(self, found: re.Match[str]) -> bool:
        word = " ".join(found.group().casefold().split())
        if word not in self._foreign:
            languages = LANGUAGES.get(word, _CONTRACTED)
            self._foreign[word] = foreign(word, languages, self._vocabulary)
        return self._foreign[word]

    def says(self, start: int, end: int) -> bool:
        """True when there are words between two places."""
        return _SAYS.search(self.text, start, end) is not None

    def tokens(self, start: int, end: int) -> list[str]:
        """The words between two places, without punctuation; none for a mark alone."""
        found = (
            match.group().strip(_EDGES).rstrip(",;:，、；：")
            for match in _TOKEN.finditer(self.text, start, end)
        )
        return [token.strip(_EDGES) for token in found if token.strip(_EDGES)]

    def lists(self, start: int, end: int) -> bool:
        """True when what stands between two places may be members of a list: names, and no clause of its own."""
        first = start == self.pieces[0].start
        words = self.tokens(start, end)
        if first and words and not joins(words[0]):
            words[0] = words[0][0].lower() + words[0][1:]
        return all(joined or _member([*run]) for joined, run in groupby(words, joins))


def _member(words: list[str]) -> bool:
    """True when words between two joining ones may be one name: a single one, or none of them a plain word."""
    while words and common(words[0]):
        words = words[1:]
    words = [word for word in words if not unclear(word)]
    if len(words) == 1:
        return len(words[0]) <= _NAME or not _WITHOUT_SPACES.search(words[0])
    return not any(_PLAIN.fullmatch(word) and word == word.lower() for word in words)


def _of_sentence(sentence: _Sentence) -> Iterator[Silence]:
    pieces, text = sentence.pieces, sentence.text
    listed = False
    """True when the members of a list that follow are excepted as well."""
    looked = 0
    for number, piece in enumerate(pieces):
        if _INSIDE.search(text, *piece):
            yield Silence(_back(sentence, looked, number), piece.end)
            listed, looked = False, number + 1
            continue
        word = sentence.word(piece)
        if word is None:
            listed = listed and sentence.lists(*piece)
            if listed:
                yield piece
            continue
        leads, ends = not sentence.says(piece.start, word.start()), not sentence.says(word.end(), piece.end)
        start = word.end()
        if _around(sentence, piece, word) or (ends and not leads):
            start = piece.start if leads else _back(sentence, looked, number)
        looked = number + 1
        if ends and looked < len(pieces) and not _is_condition(sentence, piece):
            if not (leads and _answers(sentence, number, word)):
                yield Silence(start, pieces[-1].end)
                return
        elif start < piece.end:
            yield Silence(start, piece.end)
        listed = not (leads and number and sentence.lists(word.end(), piece.end)) or not _goes_back(
            sentence, looked
        )


def _back(sentence: _Sentence, looked: int, number: int) -> int:
    """The place where a piece begins, with the members of a list before it. Each piece is looked at once."""
    while number > looked and sentence.lists(*sentence.pieces[number - 1]):
        number -= 1
    return sentence.pieces[number].start


def _around(sentence: _Sentence, piece: Silence, word: re.Match[str]) -> bool:
    """True for a word that excepts what stands before it, unless one that joins parts them."""
    before = sentence.tokens(piece.start, word.start())
    return word.group().casefold() in AROUND and not (before and joins(before[-1]))


def _is_condition(sentence: _Sentence, piece: Silence) -> bool:
    words = sentence.tokens(*piece)
    return bool(words) and conditions(words[0])


def _answers(sentence: _Sentence, number: int, word: re.Match[str]) -> bool:
    """True for an answer before the sentence, as in ``No, mail Bob``: with more commas something may be inserted."""
    whole = len(sentence.pieces) == 2  # noqa: PLR2004  the answer and the sentence
    return whole and number == 0 and word.group().casefold() in ANSWERS


def _goes_back(sentence: _Sentence, number: int) -> bool:
    """True when a piece goes on with the list in which something was excepted: ``Ann, not Eve, and Bob``."""
    words = sentence.tokens(*sentence.pieces[number]) if number < len(sentence.pieces) else []
    return bool(words) and joins(words[0])
