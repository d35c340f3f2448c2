"""Limits that a request gives for an amount, such as *under 25 euros* or *40,000 or more*.

An amount within a limit is one that the principal had in mind. A number with two readings is a limit in both.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.provenance.evidence.lexicon import find_words
from agentserver.provenance.evidence.readings import (
    WORD,
    build_amount_key,
    find_days,
    find_free_amounts,
    list_number_values,
)
from agentserver.provenance.request.languages import WORD_LISTS, exclude_languages, is_common, split_phrases
from agentserver.provenance.request.trusted_words import split_sentences

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from decimal import Decimal

REACH: Final = 48
"""Maximum characters behind an amount in which a phrase is looked for."""


class Limits(NamedTuple):
    """Amounts of a request by their kind.

    Args:
        most: upper limits, in each reading.
        least: lower limits, in each reading.
        given: amounts with a currency that are no limit.
        bare: keys of all other amounts, such as counts.
    """

    most: set[Decimal]
    least: set[Decimal]
    given: set[Decimal]
    bare: set[str]

    @property
    def is_open(self) -> bool:
        """True if there is a limit, and each amount with a currency is one."""
        return bool(self.most or self.least) and not self.given

    def allow(self, amount: Decimal) -> bool:
        """Check whether an amount is within all limits, in each of their readings."""
        return all(amount <= most for most in self.most) and all(amount >= least for least in self.least)


class DayLimits(NamedTuple):
    """Keys of the days of a request that are limits.

    Args:
        latest: the last days, such as 30 June of *no later than 30 June*.
        earliest: the first days.
    """

    latest: set[str]
    earliest: set[str]


def _join(name: str) -> str:
    phrases = split_phrases(WORD_LISTS["limits"][name])
    return "|".join(
        sorted((re.escape(each).replace(r"\ ", r"\s+") for each in phrases), key=len, reverse=True)
    )


_UNIT: Final = r"(?:[^\W\d_]{1,12}|[^\w\s.,;:!?()])?"
"""Currency of an amount, as a word or a sign."""


_GAP: Final = r"\s{0,4}"
_BEFORE: Final = re.compile(
    rf"(?<!\w)(?:(?P<most>{_join('most before')})|(?P<least>{_join('least before')}))"
    rf"\.?\s{_GAP}{_UNIT}{_GAP}(?=\d)",
    re.IGNORECASE,
)
_BEHIND: Final = re.compile(
    rf"{_GAP}{_UNIT}{_GAP}[,(]?{_GAP}"
    rf"(?:(?P<most>{_join('most behind')})|(?P<least>{_join('least behind')}))(?!\w)",
    re.IGNORECASE,
)


def find_limits(texts: Iterable[str]) -> Limits | None:
    """Find the limits, and all other amounts, in the principal's words; None if the number of a limit is no amount."""
    found = Limits(set(), set(), set(), set())
    for text in texts:
        amounts = find_free_amounts(text)
        before = {match.end(): match for match in _BEFORE.finditer(text)}
        if not before.keys() <= {each.start for each in amounts}:
            return None
        for each in amounts:
            match = before.get(each.start) or _BEHIND.match(text, each.end, each.end + REACH)
            if match is not None:
                (found.most if match["most"] else found.least).add(each.value)
            elif each.money:
                found.given.add(each.value)
            else:
                found.bare.add(build_amount_key(each.value))
    return found


_UP_TO: Final = rf"(?:\s{{1,4}}{WORD}{{1,12}}\.?,?){{0,2}}\s{{0,4}}"
"""Article, preposition and weekday between a phrase and a day."""
_BEFORE_DAY: Final = re.compile(
    rf"(?<!\w)(?:(?P<latest>{_join('latest before')})|(?P<earliest>{_join('earliest before')})){_UP_TO}\Z",
    re.IGNORECASE,
)
_BEHIND_DAY: Final = re.compile(
    rf"{_GAP}[,(]?{_GAP}(?:(?P<latest>{_join('latest behind')})|(?P<earliest>{_join('earliest behind')}))(?!\w)",
    re.IGNORECASE,
)


def find_day_limits(texts: Iterable[str]) -> DayLimits:
    """Find the days in the words that are limits, and nothing else there.

    A phrase between two days belongs to the one behind it.
    """
    found, given = DayLimits(set(), set()), set[str]()
    for text in texts:
        days = find_days(text, find_words(text))
        before = {day: _BEFORE_DAY.search(text, max(0, day.start - REACH), day.start) for day in days}
        taken = {match.start() for match in before.values() if match is not None}
        for day in days:
            behind = _BEHIND_DAY.match(text, day.end, day.end + REACH)
            is_own = behind is not None and behind.start(behind.lastgroup or 0) not in taken
            match = before[day] or (behind if is_own else None)
            name = match.lastgroup if match is not None else None
            {"latest": found.latest, "earliest": found.earliest}.get(name or "", given).add(day.key)
    return DayLimits(found.latest - given, found.earliest - given)


def find_number_words(texts: Iterable[str]) -> frozenset[str]:
    """Find the numbers in single words, as keys of amounts: also one, and words of few letters.

    A word counts in the languages that its sentence may be in. An article is no number.
    """
    sentences = [sentence for text in texts for sentence in split_sentences(text)]
    return frozenset(key for sentence in sentences for key in _read_number_words(sentence))


def _read_number_words(sentence: str) -> Iterator[str]:
    excluded = exclude_languages(sentence)
    for word, _, _ in find_words(sentence):
        values = {} if is_common(word) else list_number_values(word)
        yield from (build_amount_key(value) for language, value in values.items() if language not in excluded)
