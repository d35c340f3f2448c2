"""Detects the language of a sentence by its common words, and lists the conjunctions that split clauses.

A language is detected only by at least two words that the other candidate does not have.
"""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pkgutil import get_data
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_FILE: Final = get_data("agentserver.provenance.request", "words.toml") or b""
WORD_LISTS: Final[Mapping[str, Any]] = MappingProxyType(tomllib.loads(_FILE.decode()))
"""The lists of ``words.toml``, which describes them."""

_WORDS: Final = {language: frozenset(words.split()) for language, words in WORD_LISTS["common"].items()}
_ALL: Final = frozenset(chain.from_iterable(_WORDS.values()))
_JOINING: Final = frozenset(WORD_LISTS["joining"].split())
_UNCLEAR: Final = {word: frozenset(names.split()) for word, names in WORD_LISTS["unclear"].items()}
_IF: Final = frozenset(WORD_LISTS["conditions"].split())

_AROUND: Final = "\"'()[]{}<>.,;:!?¿¡…"
_ELIDED: Final = re.compile(r"(?<![^\W\d_])[^\W\d_]++'")
"""Article or pronoun before an apostrophe."""
_SHOWN: Final = 2
"""Minimum words that identify a language, each missing in every other candidate."""


def split_phrases(phrases: str) -> list[str]:
    """Split a list of phrases at its commas; a space is between the words of each."""
    return [" ".join(each.split()) for each in phrases.split(",")]


def find_common_words(text: str) -> frozenset[str]:
    """Find the common words of a text, except those between two parts of a name, as in ``Ana da Silva``."""
    words = [_ELIDED.sub("", token.strip(_AROUND).removesuffix("'s")) for token in text.split()]
    around = zip(("", *words), words, (*words[1:], ""), strict=False)
    return frozenset(
        word.casefold()
        for before, word, behind in around
        if word.casefold() in _ALL and not (word.islower() and before[:1].isupper() and behind[:1].isupper())
    )


def exclude_languages(text: str) -> frozenset[str]:
    """List the languages that share fewer common words with a text than another one; empty if no word is common."""
    words = find_common_words(text)
    shared = {language: len(words & own) for language, own in _WORDS.items()}
    most = max(shared.values())
    return frozenset(language for language, count in shared.items() if count < most)


def is_foreign(word: str, languages: frozenset[str], sentence_words: frozenset[str]) -> bool:
    """Check whether a sentence is in a language in which a word is common and means something else.

    Args:
        word: the word in question, which itself identifies no language.
        languages: the languages in which it has the meaning in question. A language without common words here may be
            that of any sentence.
        sentence_words: the common words of the sentence.
    """
    if not languages <= _WORDS.keys():
        return False
    words = sentence_words - {word}
    own = [_WORDS[language] for language in languages]
    foreign = (other for language, other in _WORDS.items() if language not in languages and word in other)
    return any(
        all(words & one <= other for one in own) and _shows_language(words & other, own) for other in foreign
    )


def _shows_language(words: frozenset[str], own: list[frozenset[str]]) -> bool:
    """Check whether several words together distinguish their language from each of the others."""
    telling = [words - other for other in own]
    return all(telling) and len(frozenset[str]().union(*telling)) >= _SHOWN


def joins(word: str, others: frozenset[str] | None = None) -> bool:
    """Check whether a word is a conjunction, in any language but the ``others`` if these are known."""
    folded = word.casefold()
    joining = folded in _JOINING
    return joining or (others is not None and _WORDS.keys() - others <= _UNCLEAR.get(folded, frozenset()))


def is_common(word: str, others: frozenset[str] = frozenset()) -> bool:
    """Check whether a word is common in a known language, but in none of the ``others`` alone, and thus no name."""
    folded = word.casefold()
    return folded in _ALL and any(folded in own for language, own in _WORDS.items() if language not in others)


def is_common_in(sentence: str, word: str) -> bool:
    """Check whether a word is common in a language that the common words of a sentence show."""
    others = exclude_languages(sentence)
    return bool(others) and is_common(word, others)


def are_common(words: Collection[str]) -> bool:
    """Check whether words are all common in one known language."""
    return any(own.issuperset(words) for own in _WORDS.values())


def may_join(word: str) -> bool:
    """Check whether a word may be a conjunction, and may also precede a name."""
    return word.casefold() in _UNCLEAR


def starts_condition(word: str) -> bool:
    """Check whether a word starts a condition, so that a negation in it ends with its clause."""
    return word.casefold() in _IF
