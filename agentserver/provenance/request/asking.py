"""Detects requests that order nothing: those that only ask questions, and those that only ask for information.

*Which messages came in today?* wants an answer, *could you cancel BK-9014?* a deed. A sentence is a question if it ends
as one, has a word that opens a question in a known language, and none with which people ask a favour. It asks for
information if it is a question, or begins with a phrase such as *read*, *sag mir* or *dime*, and so does each further
clause of it. Everything else counts as an order: a language without a list, a statement, a clause that begins with
another word in small letters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from agentserver.provenance.request.languages import (
    WORD_LISTS,
    exclude_languages,
    is_common,
    joins,
    split_phrases,
)
from agentserver.provenance.request.trusted_words import ends_as_question, split_sentences

if TYPE_CHECKING:
    from collections.abc import Sequence

OPENING: Final = 4
"""Maximum words of a sentence of which one may open a question, after a conjunction, an address or a preposition."""
LENGTH: Final = 2_000
"""Maximum characters of a message that only asks; a longer one orders something."""

_ASKING: Final = WORD_LISTS["asking"]
_OPENERS, _LEADS, _PARTICLES, _WITHIN = (
    frozenset(_ASKING["questions"][name].casefold().split())
    for name in ("openers", "leads", "particles", "within")
)
_FAVOURS, _FAVOURS_WITHIN = (
    frozenset(_ASKING["favours"][name].casefold().split()) for name in ("words", "within")
)


def _build_pattern(phrases: str) -> re.Pattern[str]:
    """Build the pattern of phrases, separated by commas, each of whole words."""
    return re.compile("|".join(rf"\b{re.escape(each)}\b" for each in split_phrases(phrases)))


_FAVOUR_PHRASES: Final = _build_pattern(_ASKING["favours"]["phrases"])
_SENT: Final = _build_pattern(_ASKING["sent"])
"""Phrases with a form in which information is sent to somebody."""

_LETTERS: Final = re.compile(r"[^\W\d_]+(?:\u0301)?")
_WORD: Final = re.compile(r"[^\s,;:.!?¿¡？。！()\"“”„«»]+(?:[.:][^\s,;:.!?()]+)*")
_BREAK: Final = re.compile(r"[,:–—]\s+|(?<=\s)-\s+|[、，]")
_LINK: Final = re.compile(r"\s*https?://\S+\s*")
_APOSTROPHES: Final = str.maketrans("’ʼ", "''")


_Phrases = Mapping[str, frozenset[tuple[str, ...]]]
"""Phrases by language, each as its folded words."""


def _list_phrases(name: str) -> _Phrases:
    lists = _ASKING[name].items()
    return MappingProxyType(
        {
            language: frozenset(tuple(each.casefold().split()) for each in split_phrases(words))
            for language, words in lists
        }
    )


_INFORMING: Final = _list_phrases("information")
_INFORMING_LAST: Final = _list_phrases("information last")
_ORDERING: Final = _list_phrases("orders")
_SHOWING: Final = _list_phrases("showing")
_DETERMINERS: Final = _list_phrases("determiners")
_RECEIVERS: Final = _list_phrases("receivers")
_STEPS: Final = _list_phrases("steps")
_PRINCIPALS: Final = frozenset(_ASKING["principals"].split())
_THEN: Final = frozenset(_ASKING["then"].split())
_PREPOSITIONS: Final = frozenset(WORD_LISTS["prepositions"].split())
_LONGEST: Final = 6
"""Maximum words of a phrase."""


def only_asks_questions(messages: Sequence[str]) -> bool:
    """Check whether all sentences of the principal's messages, at least one, are questions that ask no favour."""
    sentences = _list_sentences(messages)
    return bool(sentences) and all(map(_is_question, sentences))


def only_asks_for_information(messages: Sequence[str]) -> bool:
    """Check whether all sentences of the principal's messages, at least one, only ask for information."""
    sentences = _list_sentences(messages)
    others = exclude_languages("\n".join(messages)) if sentences else frozenset[str]()
    return bool(sentences) and all(_asks_for_information(each, others) for each in sentences)


def _list_sentences(messages: Sequence[str]) -> list[str]:
    """List the sentences of messages, without those that are only a link; empty if a message is too long."""
    if any(len(each) > LENGTH for each in messages):
        return []
    parts = (part for each in messages for part in split_sentences(each.translate(_APOSTROPHES)))
    return [part.strip() for part in parts if _WORD.search(part) and not _LINK.fullmatch(part)]


def _is_question(sentence: str) -> bool:
    """Check whether a sentence is a question that asks no favour."""
    folded = sentence.casefold()
    words = _LETTERS.findall(folded)
    if not ends_as_question(sentence) or _asks_favour(folded):
        return False
    return _opens_question(words) or not _PARTICLES.isdisjoint(words) or any(one in folded for one in _WITHIN)


def _asks_favour(folded: str) -> bool:
    """Check whether a folded text has a word or a phrase with which people ask a favour."""
    words = _LETTERS.findall(folded)
    return (
        _FAVOUR_PHRASES.search(folded) is not None
        or not _FAVOURS.isdisjoint(words)
        or any(each in folded for each in _FAVOURS_WITHIN)
    )


def _opens_question(words: Sequence[str]) -> bool:
    """Check whether one of the first words opens a question, and those before it order nothing."""
    for word in words[:OPENING]:
        if word in _OPENERS:
            return True
        if word not in _LEADS:
            return False
    return False


def _asks_for_information(sentence: str, others: frozenset[str]) -> bool:
    """Check whether a sentence asks for information, in none of the ``others``, which are not its language."""
    if _is_question(sentence):
        return True
    rest = _skip_favour(sentence)
    folded = rest.casefold()
    if _SENT.search(folded) or (ends_as_question(rest) and _asks_favour(folded)):
        return False
    first, *more = _split_clauses(rest, others)
    informs = _informs(_drop_phrases(first, _STEPS, others), others)
    return informs and all(_adds_no_order(clause, others) for clause in more)


def _skip_favour(sentence: str) -> str:
    """Skip the words at the beginning of a sentence with which people ask a favour, such as *could you please*."""
    rest = sentence
    while (match := _FAVOUR_PHRASES.match(rest.casefold()) or _match_favour(rest)) is not None:
        rest = rest[match.end() :].lstrip(" ,")
    return rest


def _match_favour(text: str) -> re.Match[str] | None:
    match = _LETTERS.match(text)
    return match if match is not None and match[0].casefold() in _FAVOURS else None


def _split_clauses(sentence: str, others: frozenset[str]) -> list[list[str]]:
    """Split a sentence into clauses at marks, at conjunctions and before words such as *then*, each as its words."""
    clauses: list[list[str]] = []
    for part in _BREAK.split(sentence):
        clauses.append([])
        for word in _WORD.findall(part):
            folded = word.casefold()
            if joins(word, others) and folded not in _PREPOSITIONS:
                clauses.append([])
            elif folded in _THEN:
                clauses.append([word])
            else:
                clauses[-1].append(word)
    return [clause for clause in clauses if clause] or [[]]


def _informs(clause: list[str], others: frozenset[str]) -> bool:
    """Check whether a clause begins, or ends, with a phrase that asks for information, which nobody else receives."""
    if _count_phrase(clause, _ORDERING, others) or _shows_somebody(clause, others):
        return False
    if any((word.casefold(),) in own for word in clause[-1:] for own in _INFORMING_LAST.values()):
        return True
    length = _count_phrase(clause, _INFORMING, others)
    return length > 0 and not _begins_with_receiver(clause[length:], others)


def _begins_with_receiver(words: list[str], others: frozenset[str]) -> bool:
    """Check whether words begin with a name and then an object of its own, as in *(show) Bob the report*."""
    name = [*takewhile(lambda word: word.isalpha() and not word.islower() and not is_common(word), words)]
    behind = words[len(name) : len(name) + 1]
    return bool(name and behind) and behind[0].islower() and _count_phrase(behind, _DETERMINERS, others) > 0


def _shows_somebody(clause: list[str], others: frozenset[str]) -> bool:
    """Check whether a clause shows something to somebody else, as in *explain the delay to Ann*, up to a question."""
    for language in _SHOWING.keys() - others:
        length = _count_phrase(clause, {language: _SHOWING[language]}, others)
        rest = clause[length:] if length else []
        shown = takewhile(lambda word: not _count_phrase([word], _INFORMING, others), rest)
        receives = any((word.casefold(),) in _RECEIVERS[language] for word in shown)
        if receives and rest[0].casefold() not in _PRINCIPALS:
            return True
    return False


def _adds_no_order(clause: list[str], others: frozenset[str]) -> bool:
    """Check whether a further clause asks as well, or only continues the one before: a name, a number, a pronoun."""
    from agentserver.provenance.evidence.lexicon import LEXICON

    rest = _drop_phrases(clause, _STEPS, others)
    if _count_phrase(rest, _ORDERING, others):
        return False
    if len(rest) < len(clause) or _informs(rest, others):
        return not rest or _informs(rest, others)
    word = rest[0]
    continues = is_common(word, others) or not word[0].islower() or any(map(str.isdigit, word))
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
