"""The sentence of a request that says only which day it is, such as *Today is Monday, 11 May 2026*.

It sets the clock of the request and is no moment of the task. But for those of the day, all its words are common
in one language.
"""

from __future__ import annotations

from datetime import date
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from agentserver.provenance.evidence.lexicon import find_words
from agentserver.provenance.evidence.readings import MOMENTS, find_days, find_said_days, read_keys
from agentserver.provenance.request.languages import are_common, is_common_in
from agentserver.provenance.request.trusted_words import split_sentences

if TYPE_CHECKING:
    from agentserver.provenance.request.trusted_words import TrustedWords

_TODAY: Final = "in 0"
SENTENCES: Final = 32
"""Maximum sentences of a request among which this one is looked for."""


def read_given_moments(request: TrustedWords, conventions: frozenset[str]) -> frozenset[str]:
    """Read the keys of the days and times that the words give, apart from saying which day it is."""
    keys = frozenset(key for key in request.read_values(conventions) if key.startswith(MOMENTS))
    keys -= request.derive_once(_find_common_weekdays)
    if _TODAY not in keys:
        return keys
    return frozenset(key for words in request.audible for key in _read_moments(words))


def _find_common_weekdays(texts: tuple[str, ...]) -> frozenset[str]:
    """Find the weekdays that only a common word of another language gives, such as *mon* in French."""
    found: dict[str, bool] = {}
    for sentence in (each for text in texts for each in split_sentences(text)):
        for day in find_days(sentence, find_words(sentence)):
            if day.key.startswith("weekday "):
                common = is_common_in(sentence, sentence[day.start : day.end])
                found[day.key] = common and found.get(day.key, True)
    return frozenset(key for key, common in found.items() if common)


def read_today(request: TrustedWords, conventions: frozenset[str]) -> date | None:
    """Read the day that the words say it is; None if they do not, or it may be another one."""
    if _TODAY not in request.read_values(conventions):
        return None
    statements = (each for words in request.audible for each in _list_statements(words))
    days = (day for each in statements for day in find_said_days(each, conventions).days)
    keys = {key for day in days for reading in day.readings for key in reading if key.startswith("date ")}
    return date.fromisoformat(keys.pop()[5:]) if len(keys) == 1 else None


def _read_moments(words: str) -> list[str]:
    for statement in _list_statements(words):
        words = words.replace(statement, " ")
    return [key for key in read_keys(words) if key.startswith(MOMENTS)]


def _list_statements(words: str) -> list[str]:
    """List the sentences that say which day it is. A point in a date may have split one into two."""
    parts = split_sentences(words)[:SENTENCES]
    pairs = [
        words[words.index(one) : words.index(two) + len(two)] for one, two in pairwise(parts) if one and two
    ]
    return [each for each in (*parts, *pairs) if _says_today(each)]


def _says_today(sentence: str) -> bool:
    days = find_days(sentence, find_words(sentence))
    dated = {(day.start, day.end) for day in days if day.key.startswith(("date ", "day "))}
    if not any(day.key == _TODAY for day in days) or len(dated) != 1:
        return False
    rest = list(sentence)
    for day in days:
        rest[day.start : day.end] = " " * (day.end - day.start)
    text = "".join(rest)
    return not any(map(str.isdigit, text)) and are_common({word for word, _, _ in find_words(text)})
