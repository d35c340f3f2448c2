"""Requests that only ask for information, and so order no call that changes anything.

A sentence does if it is a question that asks no favour, or if it begins with a phrase such as *read*, *sag mir* or
*dime*, and so does each further clause of it. Everything else counts as an order: a language without a list, a
statement, a clause that begins with another word in small letters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from agentserver.provenance.request.languages import WORD_LISTS, exclude_languages, is_common, joins
from agentserver.provenance.request.questions import is_question, skip_favour
from agentserver.provenance.request.trusted_words import SENTENCES, split_sentences

if TYPE_CHECKING:
    from collections.abc import Iterable

LENGTH: Final = 2000
"""Maximum characters of a request that only asks; a longer one orders something."""

_WORD: Final = re.compile(r"[^\s,;:.!?¿¡？。！()\"“”„«»]+(?:[.:][^\s,;:.!?()]+)*")
_BREAK: Final = re.compile(r"\s*[,:–—]\s+|\s+-\s+|、|，")
_LINK: Final = re.compile(r"\s*https?://\S+\s*")
_APOSTROPHES: Final = str.maketrans("’ʼ", "''")


_Phrases = Mapping[str, frozenset[tuple[str, ...]]]
"""Phrases by language, each as its folded words."""


def _list_phrases(name: str) -> _Phrases:
    lists = WORD_LISTS[name].items()
    return MappingProxyType(
        {
            language: frozenset(tuple(each.casefold().split()) for each in words.split(","))
            for language, words in lists
        }
    )


_TELLING: Final = _list_phrases("telling")
_DOING: Final = _list_phrases("telling_not")
_TELLING_LAST: Final = _list_phrases("telling_last")
_STEPPING: Final = _list_phrases("stepping")
_UNCLEAR: Final = frozenset(WORD_LISTS["prepositions"].split())
_LONGEST: Final = 6
"""Maximum words of a phrase."""


def wants_only_information(texts: Iterable[str]) -> bool:
    """Check whether all sentences only ask for information; False for no sentence and for too many."""
    written = "\n".join(texts).translate(_APOSTROPHES)
    if len(written) > LENGTH:
        return False
    found = (each for each in split_sentences(written) if _WORD.search(each) and not _LINK.fullmatch(each))
    sentences = [*islice(found, SENTENCES + 1)]
    others = exclude_languages(written)
    return 0 < len(sentences) <= SENTENCES and all(_asks(each, others) for each in sentences)


def _asks(sentence: str, others: frozenset[str]) -> bool:
    """Check whether a sentence asks for information, in none of the ``others``, which are not its language."""
    if is_question(sentence.strip()):
        return True
    first, *more = _split_clauses(skip_favour(sentence))
    tells = _tells(_drop_phrases(first, _STEPPING, others), others)
    return tells and all(_adds_no_order(clause, others) for clause in more)


def _split_clauses(sentence: str) -> list[list[str]]:
    """Split a sentence into clauses at marks and conjunctions, each as its words."""
    clauses: list[list[str]] = []
    for part in _BREAK.split(sentence):
        clauses.append([])
        for word in _WORD.findall(part):
            if joins(word) and word.casefold() not in _UNCLEAR:
                clauses.append([])
            else:
                clauses[-1].append(word)
    return [clause for clause in clauses if clause] or [[]]


def _tells(clause: list[str], others: frozenset[str]) -> bool:
    if _count_phrase(clause, _DOING, others):
        return False
    ends = any((word.casefold(),) in own for word in clause[-1:] for own in _TELLING_LAST.values())
    return ends or _count_phrase(clause, _TELLING, others) > 0


def _adds_no_order(clause: list[str], others: frozenset[str]) -> bool:
    """Check whether a further clause asks as well, or only continues the one before: a name, a number, a pronoun."""
    from agentserver.provenance.evidence.lexicon import LEXICON

    rest = _drop_phrases(clause, _STEPPING, others)
    if _count_phrase(rest, _DOING, others):
        return False
    if len(rest) < len(clause) or _tells(rest, others):
        return _tells(rest, others)
    word = rest[0]
    continues = is_common(word) or not word[0].islower() or any(map(str.isdigit, word))
    return continues or word in LEXICON.numbers


def _drop_phrases(words: list[str], phrases: _Phrases, others: frozenset[str]) -> list[str]:
    while length := _count_phrase(words, phrases, others):
        words = words[length:]
    return words


def _count_phrase(words: list[str], phrases: _Phrases, others: frozenset[str]) -> int:
    """Count the words in the longest phrase at the beginning of a text; 0 without a phrase."""
    folded = tuple(word.casefold() for word in words[:_LONGEST])
    known = [own for language, own in phrases.items() if language not in others]
    sizes = range(len(folded), 0, -1)
    return next((size for size in sizes if any(folded[:size] in own for own in known)), 0)
