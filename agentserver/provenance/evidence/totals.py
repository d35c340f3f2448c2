"""The total of a list or sentence: an amount that all its other amounts make by sums and products, in order of reading.

*2 x 1,480.00, delivery 120.00, total 3,080.00* gives one amount, and so does *30 % of EUR 182,000 = EUR 54,600*. No
word of any language counts. Neither a blank line nor the end of a sentence is between the amounts, so that what
somebody writes below adds nothing.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.provenance.evidence.readings import build_amount_key, find_free_amounts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from decimal import Decimal

AMOUNTS: Final = 12
"""Maximum amounts of a paragraph with a total."""
STATES: Final = 64
"""Maximum ways to read the amounts so far."""
CENTS: Final = 2
"""Decimals to which a product is rounded."""

_PARAGRAPHS: Final = re.compile(r"\n[ \t]*\n")
_END: Final = re.compile(r"[.!?;]\s|[。！？]")
_TIMES: Final = re.compile(r"[ \u00a0]?[xX×*·][ \u00a0]?[^\w\s]?[ \u00a0]?")


class Amount(NamedTuple):
    """Amount in one place of a text.

    Args:
        start: its place.
        end: the place behind it.
        values: its readings.
        money: True if a currency is next to it.
    """

    start: int
    end: int
    values: frozenset[Decimal]
    money: bool

    @property
    def keys(self) -> frozenset[str]:
        """The keys of its readings."""
        return frozenset(map(build_amount_key, self.values))

    @property
    def has_cents(self) -> bool:
        """True if it is written with two decimals, as money is."""
        return all(value.as_tuple().exponent == -CENTS for value in self.values)


class _State(NamedTuple):
    """Amounts that make no other one so far, and the keys of the percentages that were used."""

    open: tuple[Decimal, ...] = ()
    shares: frozenset[str] = frozenset()


def split_paragraphs(text: str) -> list[str]:
    """Split a text at its blank lines."""
    return _PARAGRAPHS.split(text)


def list_amounts(text: str) -> list[Amount]:
    """List the amounts of a text in order of place, each with all its readings."""
    places: dict[int, Amount] = {}
    for each in find_free_amounts(text):
        known = places.get(each.start, Amount(each.start, each.end, frozenset(), each.money))
        places[each.start] = known._replace(values=known.values | {each.value})
    return [places[start] for start in sorted(places)]


def find_total(
    text: str, amounts: Sequence[Amount], *, money: bool
) -> tuple[frozenset[str], frozenset[str]] | None:
    """Find the amount that all other ones of a paragraph make; None if there is none.

    Args:
        text: the paragraph.
        amounts: all its amounts.
        money: True if only those with a currency count. The others are factors then.

    Returns:
        The key of the amount, and the keys of the percentages that it was made with.
    """
    counted = [each for each in amounts if each.money or not money]
    factors = [each for each in amounts if money and not each.money]
    if not 1 < len(counted) <= AMOUNTS or len(factors) > AMOUNTS:
        return None
    if _END.search(text, counted[0].end, counted[-1].start):
        return None
    before = {
        after.start: one for one, after in pairwise(amounts) if _TIMES.fullmatch(text, one.end, after.start)
    }
    states = {_State()}
    for each in counted:
        count = before.get(each.start)
        found = {new for state in states for new in _add(state, each, factors)}
        if count is not None:
            found |= {new for state in states for new in _multiply(state, each, count)}
        states = {*sorted(found, key=_sort_key)[:STATES]}
    totals = filter(None, map(_read_total, sorted(states, key=_sort_key)))
    said = {key for each in counted for key in each.keys}
    return next((total for total in totals if total[0] <= said), None)


def _sort_key(state: _State) -> tuple[int, str]:
    return len(state.open), f"{state.open} {sorted(state.shares)}"


def _read_total(state: _State) -> tuple[frozenset[str], frozenset[str]] | None:
    """Read the total of a paragraph: the last amount that is left, or the first one if all others make it."""
    first, *others = state.open
    if others and (len(others) == 1 or first != sum(others)):
        return None
    return frozenset({build_amount_key(first)}), state.shares


def _add(state: _State, amount: Amount, factors: Collection[Amount]) -> Iterator[_State]:
    """Add an amount as one more, or as the sum or the product of the last ones."""
    for value in amount.values:
        yield _State((*state.open, value), state.shares)
        for size in range(2, len(state.open) + 1):
            if sum(state.open[-size:]) == value:
                yield _State((*state.open[:-size], value), state.shares)
        if not state.open:
            continue
        *others, last = state.open
        if others and 1 not in {last, others[-1]} and round(others[-1] * last, CENTS) == value:
            yield _State((*others[:-1], value), state.shares)
        for factor in factors:
            if any(round(each * last, CENTS) == value for each in factor.values if each != 1):
                shares = factor.keys if len(factor.values) > 1 else frozenset[str]()
                yield _State((*others, value), state.shares | shares)


def _multiply(state: _State, amount: Amount, count: Amount) -> Iterator[_State]:
    """Add an amount as a price for each of a number of things that is before it."""
    is_open = bool(state.open) and state.open[-1] in count.values
    rest = state.open[:-1] if is_open else state.open
    for value in amount.values:
        yield from (_State((*rest, each * value), state.shares) for each in count.values)
