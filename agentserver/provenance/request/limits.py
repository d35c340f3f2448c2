"""Limits that a request gives for an amount, such as *under 25 euros* or *40,000 or more*.

An amount within a limit is one that the principal had in mind. A number with two readings is a limit in both.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.provenance.evidence.readings import build_amount_key, find_free_amounts
from agentserver.provenance.request.languages import WORD_LISTS, split_phrases

if TYPE_CHECKING:
    from collections.abc import Iterable
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
