"""Detects requests that only ask a question, and so order nothing.

*Which messages came in today?* wants an answer, *could you cancel BK-9014?* a deed. A sentence counts as a question
only if it ends as one, has a word that opens a question in a known language, and none with which people ask a favour. A
sentence in another language, or one that begins as an order, is never one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from agentserver.provenance.request.languages import WORD_LISTS
from agentserver.provenance.request.trusted_words import ends_as_question, split_sentences

if TYPE_CHECKING:
    from collections.abc import Sequence

OPENING: Final = 4
"""Maximum words of a sentence of which one may open a question, after a conjunction, an address or a preposition."""
LENGTH: Final = 2_000
"""Maximum characters of a request that may be a question alone; a longer one says more."""

_QUESTIONS: Final = WORD_LISTS["questions"]
_OPENERS: Final = frozenset(_QUESTIONS["openers"].split())
_LEADS: Final = frozenset(_QUESTIONS["leads"].split())
_PARTICLES: Final = frozenset(_QUESTIONS["particles"].split())
_FAVOURS: Final = frozenset(_QUESTIONS["favours"].split())
_WITHIN: Final = tuple(_QUESTIONS["within"].split())
_FAVOURS_WITHIN: Final = tuple(_QUESTIONS["favours within"].split())
_PHRASES: Final = re.compile(
    "|".join(rf"\b{re.escape(each.strip())}\b" for each in _QUESTIONS["phrases"].split(","))
)
_WORD: Final = re.compile(r"[^\W\d_]+(?:\u0301)?")


def only_asks(audible: Sequence[str]) -> bool:
    """Check whether each sentence of the principal's words, at least one, is a question that asks no favour.

    Args:
        audible: the words that may order something, by message.
    """
    texts = [text.strip() for text in audible if text.strip()]
    if not texts or any(not ends_as_question(text) or len(text) > LENGTH for text in texts):
        return False
    return all(map(is_question, (one.strip() for text in texts for one in split_sentences(text))))


def is_question(sentence: str) -> bool:
    """Check whether a sentence is a question that asks no favour."""
    if not sentence:
        return True
    folded = sentence.casefold()
    words = _WORD.findall(folded)
    if not ends_as_question(sentence) or _PHRASES.search(folded):
        return False
    if not _FAVOURS.isdisjoint(words) or any(each in folded for each in _FAVOURS_WITHIN):
        return False
    return _opens_question(words) or not _PARTICLES.isdisjoint(words) or any(one in folded for one in _WITHIN)


def skip_favour(sentence: str) -> str:
    """Skip the words at the beginning of a sentence with which people ask a favour, such as *could you please*."""
    rest = sentence.lstrip()
    while (match := _PHRASES.match(rest.casefold()) or _match_favour(rest)) is not None:
        rest = rest[match.end() :].lstrip(" ,")
    return rest


def _match_favour(text: str) -> re.Match[str] | None:
    match = _WORD.match(text)
    return match if match is not None and match[0].casefold() in _FAVOURS else None


def _opens_question(words: Sequence[str]) -> bool:
    """Check whether one of the first words opens a question, and those before it order nothing."""
    for word in words[:OPENING]:
        if word in _OPENERS:
            return True
        if word not in _LEADS:
            return False
    return False
